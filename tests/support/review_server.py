"""A review on a real server in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from local_server import LocalServer

from hiertree.pipelines.labels.cluster.proposing import Cluster, LabelPlace, Proposal
from hiertree.pipelines.labels.landmarks import KeptLandmark
from hiertree.pipelines.labels.review.serving import ImageFolder, Review, Session, group_by_label, served

CLUSTERS = {
    ("bridge", "human-made"): {"road bridge": 12, "railway bridge": 3, "footbridge": 2},
    ("lake", "natural"): {"lake": 20, "reservoir": 5, "pond": 2},
    ("museum", "human-made"): {"museum": 9, "art museum": 4, "castle": 3},
    ("mountain", "natural"): {"mountain": 7, "summit": 2, "volcano": 1},
    ("church", "human-made"): {"church building": 8, "cathedral": 2, "temple": 1},
}


def proposal_of(
    clusters: dict[tuple[str, str], dict[str, int]],
    doubtful: frozenset[str] = frozenset(),
    targets: Mapping[str, str] = MappingProxyType({}),
) -> Proposal:
    """A proposal with made-up margins; doubtful labels are in doubt about their kind, targets proposed for some."""
    clusters_of_kinds = []
    for (name, kind), labels in clusters.items():
        margin = 0.5 if kind == "natural" else -0.5
        landmarks = (
            LabelPlace(label, n, 0.9, 0.3, margin, "kind" * (label in doubtful), target=targets.get(label, ""))
            for label, n in labels.items()
        )
        clusters_of_kinds.append(Cluster(name, kind, margin, tuple(landmarks), ""))
    return Proposal(tuple(clusters_of_kinds), {})


SMALL = proposal_of(CLUSTERS, frozenset({"reservoir"}))


@dataclass(frozen=True)
class Running(LocalServer):
    """A review under way, and what it serves."""

    session: Session

    def act(self, request: dict[str, Any], seq: int | None = None) -> tuple[int, Any]:
        """Do something as the page does."""
        known_seq = self.session.news(0).history.seq if seq is None else seq
        status, body, _ = self.ask("POST", "/api/act", json.dumps({"seq": known_seq, "action": request}).encode())
        return status, body

    @property
    def clusters(self) -> dict[str, Any]:
        """The clusters by name."""
        return {cluster.name: cluster for cluster in self.session.news(0).history.state.clusters.values()}


@contextmanager
def running(
    log: Path,
    proposal: Proposal = SMALL,
    *,
    annotator: str = "anna",
    landmarks: Sequence[KeptLandmark] = (),
    images: ImageFolder | None = None,
) -> Iterator[Running]:
    """A review served on a free port until the block ends."""
    session = Session(proposal, log, annotator)
    with served(Review(session, group_by_label(landmarks), images)) as url:
        yield Running(url, session)
