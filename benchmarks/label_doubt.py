"""Whether proposals know what they do not know: ``python benchmarks/label_doubt.py data``.

For each list of labels whose classes others decided, with Wikidata's "subclass of" (P279): *certain* is the fraction of
labels that are not in doubt, *of these wrong* how many of those stand in a cluster most of whose labels have another
class, *of wrong marked* how many of the wrong ones are in doubt. ``region_labels.csv`` is a list of types of the Andes
with groups and chains written down for this purpose, and not used to choose anything; *second* is a group in which a
label is no mistake either.

Then a reviewer who knows the classes answers the queue of the page, over 20 draws of the sample: *keys* until nothing
is left (a label that is right, proposed rightly or left out takes one, any other five: e, three letters, Enter),
*keys to 3 %* until at most 3 % of the labels are wrong, *wrong after*, and in how many of the draws the stated bound
held. Means, but for the last.

``--kinds`` prints how many kinds are wrong, and how many of these are marked. ``--fit`` prints the coefficients that
:data:`hiertree.pipelines.labels.review.sampling.SHIPPED` has, fitted to Google's types, and the fractions of wrong
labels in each list's quarters by them, from the most certain quarter on.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from label_references import HYPERNYMS, RELEASED, in_part, references, released_labels, true_kinds

from hiertree.pipelines.labels import PlaceNounEncoder, Proposal, propose
from hiertree.pipelines.labels.cluster.embedding import LIKELY, embed
from hiertree.pipelines.labels.encode.hypernyms import Hypernyms, read_hypernyms
from hiertree.pipelines.labels.encode.place_nouns import words_of
from hiertree.pipelines.labels.review import sampling
from hiertree.pipelines.labels.review.actions import Check, MarkLabels, Move, Sample
from hiertree.pipelines.labels.review.results import doubt_of
from hiertree.pipelines.labels.review.state import ReviewCluster, State, initial_state

REGION = Path(__file__).with_name("region_labels.csv")
SEEDS, ELSEWHERE, ENOUGH = 20, 5, 0.03
COLUMNS = (
    "list",
    "labels",
    "certain",
    "of these wrong",
    "of wrong marked",
    "keys",
    "keys to 3 %",
    "wrong after",
    "held",
)
UNFIT = "no landmark"


class Truth(NamedTuple):
    """Labels with their classes, the second class of some, and what stands above them."""

    classes: dict[str, str]
    second: dict[str, str]
    hypernyms: Hypernyms


def region() -> Truth:
    """The labels of ``region_labels.csv``; a class that the shipped graph lacks has an id of its own."""
    shipped, ids = read_hypernyms(), dict[str, str]()
    id_of_name = {words_of(name): item for item, name in reversed(shipped.names.items())}
    with REGION.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    def item(name: str) -> str:
        return id_of_name.get(words_of(name)) or ids.setdefault(name, f"Q9{len(ids):07d}")

    chains = [[row["label"], *map(str.strip, row["chain"].split(">"))] for row in rows]
    edges = [(item(a), a, item(b), b, "") for chain in chains for a, b in pairwise(chain)]
    items = {row["label"]: (item(row["label"]),) for row in rows}
    classes = {row["label"]: row["group"] for row in rows}
    hypernyms = read_hypernyms([edge for edge in edges if edge[0] != edge[2]], items=items)
    return Truth(classes, {row["label"]: row["second"] for row in rows if row["second"]}, hypernyms)


def truths(data: Path) -> dict[str, Truth]:
    """Every list, by its name."""
    hypernyms = read_hypernyms(data / "wikidata_p279" / "edges.csv")
    google = released_labels(data / RELEASED)
    halves = {part: {label: own for label, own in google.items() if in_part(label, part)} for part in PARTS}
    lists = {f"Google, {part}": Truth(classes, {}, hypernyms) for part, classes in halves.items()}
    others = {name.split(":")[0]: classes for name, classes in references(data, "all", None).items()}
    return lists | {"GeoNames": Truth(others["GeoNames"], {}, hypernyms), "the Andes": region()}


PARTS, FITTED = ("tuning", "held-out", "all"), "Google, all"


def wrong_labels(clusters: Mapping[str, frozenset[str]], truth: Truth) -> set[str]:
    """The labels in clusters most of whose labels have another class, and that is not their second one."""
    wrong = set()
    for labels in clusters.values():
        commonest = _commonest(labels, truth)
        wrong |= {label for label in labels if commonest not in (truth.classes[label], truth.second.get(label))}
    return wrong


def _commonest(labels: frozenset[str], truth: Truth) -> str:
    counts = Counter(truth.classes[label] for label in labels)
    return min(counts, key=lambda name: (-counts[name], name))


class Reviewer:
    """One who knows the classes and answers the queue."""

    def __init__(self, proposal: Proposal, truth: Truth, seed: int) -> None:
        self.proposal, self.truth, self.seed, self.keys = proposal, truth, seed, 0
        self.members = {member.label: member for cluster in proposal.clusters for member in cluster.labels}
        self.state, self.held, self.keys_to_enough = initial_state(proposal), True, None
        self._sample(sampling.draw(proposal, self.state, seed=seed))

    def review(self) -> Reviewer:
        """Answer until nothing is left."""
        while queue := self._queue():
            if self.keys_to_enough is None and self.keys % 5 == 0 and self.wrong() <= ENOUGH:
                self.keys_to_enough = self.keys
            self._answer(queue[0])
            result = sampling.sample_result(self.proposal, self.state)
            if result.is_complete and queue[0] in self.state.marked("sampled"):
                self._check_bound(result.bound)
                if more := sampling.next_sample(self.proposal, self.state, seed=self.seed + self.keys):
                    self._sample(more.labels, more.doubted)
        return self

    def wrong(self) -> float:
        """The fraction of labels that are left in a wrong cluster."""
        clusters = {
            str(number): cluster.relevant for number, cluster in self.state.clusters.items() if cluster.relevant
        }
        return len(wrong_labels(clusters, self.truth)) / len(self.truth.classes)

    def _queue(self) -> list[str]:
        state = self.state
        sample = sorted(state.marked("sampled") - sampling.seen_labels(state))
        clusters = state.clusters.values()
        doubtful = [
            label for each in clusters for label in sorted(each.relevant) if doubt_of(self.members[label], each)
        ]
        return [*sample, *doubtful]

    def _answer(self, label: str) -> None:
        home = next(cluster for cluster in self.state.clusters.values() if label in cluster.labels)
        classes = {
            number: _commonest(self._placed(cluster), self.truth) for number, cluster in self.state.clusters.items()
        }
        right = (self.truth.classes[label], self.truth.second.get(label))
        target = self.members[label].target
        self.keys += 1
        if self.truth.classes[label] == UNFIT:
            self._do(MarkLabels(labels=(label,), irrelevant=True))
        elif classes[home.number] in right:
            self._do(Check(labels=(label,)))
        else:
            known = {
                number: cluster.name for number, cluster in self.state.clusters.items() if classes[number] == right[0]
            }
            self.keys += 0 if target in known.values() else ELSEWHERE - 1
            to = {"to": next(iter(known))} if known else {"name": f"{right[0]} {label}", "kind": home.kind}
            self._do(Move(labels=(label,), **to))

    def _placed(self, cluster: ReviewCluster) -> frozenset[str]:
        return frozenset(cluster.relevant or cluster.labels)

    def _sample(self, labels: tuple[str, ...], doubted: tuple[str, ...] = ()) -> None:
        self._do(Sample(labels=labels, doubted=doubted))

    def _check_bound(self, bound: float) -> None:
        start = {
            cluster.name: frozenset(member.label for member in cluster.labels) for cluster in self.proposal.clusters
        }
        certain = sampling.certain_labels(self.proposal, self.state)
        self.held &= len(wrong_labels(start, self.truth) & certain) <= bound * len(certain) + 1e-9

    def _do(self, action: Check | Move | MarkLabels | Sample) -> None:
        self.state: State = self.state.changed(action.change(self.state))


def proposed(truth: Truth) -> Proposal:
    return propose(dict.fromkeys(truth.classes, 1), PlaceNounEncoder(), hypernyms=truth.hypernyms)


def write_members(lists: dict[str, Truth]) -> None:
    """A row for each list."""
    write_row(*COLUMNS)
    for name, truth in lists.items():
        proposal = proposed(truth)
        clusters = {cluster.name: frozenset(m.label for m in cluster.labels) for cluster in proposal.clusters}
        wrong = wrong_labels(clusters, truth)
        certain = sampling.certain_labels(proposal, initial_state(proposal))
        reviews = [Reviewer(proposal, truth, seed).review() for seed in range(SEEDS)]
        fractions = (len(certain) / len(truth.classes), len(wrong & certain) / max(len(certain), 1))
        marked = len(wrong - certain) / len(wrong) if wrong else np.nan
        means = (np.mean([review.keys for review in reviews]), np.mean([_enough(review) for review in reviews]))
        after, held = np.mean([review.wrong() for review in reviews]), sum(review.held for review in reviews)
        measures = [f"{fraction:.3f}" for fraction in (*fractions, marked)]
        write_row(
            name,
            len(truth.classes),
            *measures,
            *(f"{mean:.0f}" for mean in means),
            f"{after:.3f}",
            f"{held} of {SEEDS}",
        )


def _enough(review: Reviewer) -> float:
    return review.keys if review.keys_to_enough is None else review.keys_to_enough


def write_kinds(data: Path) -> None:
    """How many kinds are wrong, without and with P279."""
    write_row("list", "labels", "P279", "wrong", "of wrong marked")
    for name, kinds in true_kinds(data, "held-out", None).items():
        for above, hypernyms in HYPERNYMS.items():
            embedding = embed(kinds, PlaceNounEncoder(), hypernyms=hypernyms)
            natural = np.array([kinds[label] == "natural" for label in embedding.labels])
            wrong = ((embedding.margins >= LIKELY) != natural) & ~embedding.either
            marked = (np.abs(embedding.margins) < 1)[wrong].mean() if wrong.any() else np.nan
            write_row(name, len(kinds), "yes" if above else "no", f"{wrong.mean():.3f}", f"{marked:.3f}")


def write_fit(lists: dict[str, Truth]) -> None:
    """The coefficients fitted to one list, and the fractions of wrong labels in each list's quarters by them."""
    from sklearn.linear_model import LogisticRegression

    rows, wrong = {}, {}
    for name, truth in lists.items():
        proposal = proposed(truth)
        clusters = {cluster.name: frozenset(m.label for m in cluster.labels) for cluster in proposal.clusters}
        misplaced = wrong_labels(clusters, truth)
        own = sampling.features(proposal)
        rows[name] = np.array(list(own.values()))
        wrong[name] = np.array([label in misplaced for label in own])
    model = LogisticRegression().fit(rows[FITTED][:, 1:], wrong[FITTED])
    coefficients = np.array([*model.intercept_, *model.coef_[0]])
    write_row(FITTED, *(f"{value:.2f}" for value in coefficients))
    for name, own in rows.items():
        quarters = np.array_split(wrong[name][np.argsort(own @ coefficients, kind="stable")], 4)
        write_row(name, *(f"{quarter.mean():.3f}" for quarter in quarters))


def write_row(*cells: object) -> None:
    csv.writer(sys.stdout, lineterminator="\n").writerow(cells)
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of place_labels, gldv2_hierarchical and wikidata_p279")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--fit", action="store_true")
    arguments = parser.parse_args()
    if arguments.kinds:
        write_kinds(arguments.data)
        return
    lists = truths(arguments.data)
    (write_fit if arguments.fit else write_members)(lists)


if __name__ == "__main__":
    main()
