"""Labels for landmarks that have none, from their images: each image votes, the landmark takes what most say.

The probability of a label c for an image x is the softmax over labels of t·cos(x, text of c) in CLIP's space, with the
temperature t (100, as in the paper's code). An image votes for its most probable label. A landmark takes the label of
most votes (of several, the one that is more probable on average), whatever split its images are in; its *confidence*
is the mean probability of that label over all of its images.

The folder of ``hiertree labels fill`` holds what ``labels clean`` writes, and ``filled.csv``: every landmark without a
label that has images, the label that the images vote for, and whether it was taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import OptionError, ShapeError, TableError
from hiertree.io.files import AnyPath
from hiertree.io.tables import write_table

from .cleaning import COMMAND as CLEAN_COMMAND
from .cleaning import Cleaned, describe_cleaning, landmark_counts, read_report, write_cleaned
from .encode import clip_encoder
from .landmark_images import EncodedImages, StoredVectors, image_folder
from .landmarks import DROPPED, LANDMARKS, DroppedLandmark, KeptLandmark, label_counts, read_dropped, read_kept
from .settings import TEMPERATURE, FillSettings
from .steps import REPORT, LabelStep, StepRecord, hypernyms_of

Images = Iterable[tuple[str, "NDArray[np.float32]"]]
COMMAND = "hiertree labels fill"
FILLED = "filled.csv"
FILLABLE = ("no label", "not scraped")


class Filled(NamedTuple):
    """The label that a landmark's images give."""

    landmark_id: str
    images: int  # how many there are
    label: str  # of most votes
    votes: float  # the share of images that voted for it
    confidence: float  # its mean probability


def fill_by_texts(
    images: Images, texts: NDArray[np.float32], labels: Sequence[str], *, temperature: float = TEMPERATURE
) -> Iterator[Filled]:
    """Label landmarks by the texts that their images are most similar to."""
    for landmark, vectors in images:
        if vectors.shape[1] != texts.shape[1]:
            problem = f"images of {vectors.shape[1]} dimensions"
            raise ShapeError(problem, expected=f"{texts.shape[1]}, as the texts have")
        yield _vote(landmark, _softmax(vectors @ texts.T, temperature), labels)


def _vote(landmark: str, probabilities: NDArray[np.float64], labels: Sequence[str]) -> Filled:
    votes = np.bincount(probabilities.argmax(axis=1), minlength=len(labels)) / len(probabilities)
    mean = probabilities.mean(axis=0)
    winner = int(np.lexsort((-mean, -votes))[0])
    return Filled(landmark, len(probabilities), labels[winner], float(votes[winner]), float(mean[winner]))


def _softmax(cosines: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    from scipy.special import softmax

    return np.asarray(softmax(temperature * cosines.astype(np.float64), axis=1))


def fill_step(cleaned: AnyPath, *, out: AnyPath, settings: FillSettings) -> dict[str, Any]:
    """Label landmarks by their images, write the folder and return its report.

    Args:
        cleaned: a folder made by ``labels clean``.
        out: the folder to make.
        settings: where images come from and how they give labels.
    """
    return FillStep(cleaned, settings).run(out).report


class Votes(NamedTuple):
    """Cleaned landmarks with the labels from images, what the images of each landmark say, and the counts."""

    cleaned: Cleaned
    votes: list[Filled]
    accepted: dict[str, Filled]
    report: dict[str, Any]


@dataclass(frozen=True)
class FillStep(LabelStep[Votes]):
    """The step for the runner."""

    source: AnyPath
    settings: FillSettings
    made_by = CLEAN_COMMAND
    reads = (LANDMARKS, DROPPED, REPORT)

    @cached_property
    def vectors(self) -> EncodedImages | StoredVectors:
        """The image vectors, read or encoded once.

        Raises:
            OptionError: neither or both of images and embeddings, or no such folder.
            TableError: the table or the file cannot be read.
        """
        folder, embeddings = image_folder(self.settings, follow_links=True), self.settings.embeddings
        if folder is not None and embeddings is None:
            return EncodedImages(folder, clip_encoder(self.settings))
        if folder is None and embeddings is not None:
            return StoredVectors(embeddings)
        problem = "neither images nor embeddings" if folder is None else "images and embeddings"
        raise OptionError(problem, expected="one of the two", remedy="pass --images or --embeddings")

    def record(self) -> StepRecord:
        """The cleaned landmarks, and the images that are looked at."""
        settings = self.settings
        parameters = {
            **{name: getattr(settings, name) for name in ("threshold", "temperature")},
            **clip_encoder(settings).settings(),
            **self.vectors.identity(_unlabeled(read_dropped(self.source))),
        }
        files = [path for path in (settings.image_table, settings.embeddings) if path is not None]
        return StepRecord(COMMAND, parameters, (*self.read_files, *hypernyms_of(self.source), *files))

    def _compute(self) -> Votes:
        kept_landmarks, dropped = read_kept(self.source), read_dropped(self.source)
        if not kept_landmarks:
            raise TableError(f"{Path(self.source) / LANDMARKS} holds no landmark", expected="labeled landmarks")
        self.vectors.note_unmatched(
            [*(row.landmark_id for row in kept_landmarks), *(row.landmark_id for row in dropped)]
        )
        labels, images = sorted(label_counts(kept_landmarks)), self.vectors.of(_unlabeled(dropped))
        texts = clip_encoder(self.settings).encode(labels)
        votes = list(fill_by_texts(images, texts, labels, temperature=self.settings.temperature))
        accepted_votes = {vote.landmark_id: vote for vote in votes if vote.confidence >= self.settings.threshold}
        cleaning = _label_landmarks(kept_landmarks, dropped, accepted_votes)
        counts = {"unlabeled_with_images": len(votes), "labeled_from_images": len(accepted_votes)}
        counts["images"] = sum(vote.images for vote in votes)
        return Votes(cleaning, votes, accepted_votes, read_report(self.source) | landmark_counts(cleaning) | counts)

    def _write(self, result: Votes, folder: Path) -> None:
        write_cleaned(folder, result.cleaned, result.report)
        votes = (
            vote._replace(votes=round(vote.votes, 4), confidence=round(vote.confidence, 4)) for vote in result.votes
        )
        rows = ((*vote, "yes" if vote.landmark_id in result.accepted else "no") for vote in votes)
        write_table(folder / FILLED, (*Filled._fields, "taken"), rows)


def describe_filling(report: Mapping[str, Any]) -> str:
    """The counts, and the number of labels from images."""
    counts = f"{report['labeled_from_images']} of {report['unlabeled_with_images']} landmarks without a label"
    return f"{describe_cleaning(report)}\n{counts} got one from their {report['images']} images"


def _unlabeled(dropped: Iterable[DroppedLandmark]) -> list[str]:
    return [drop.landmark_id for drop in dropped if drop.reason in FILLABLE]


def _label_landmarks(
    kept_landmarks: Sequence[KeptLandmark], dropped: Sequence[DroppedLandmark], accepted_votes: dict[str, Filled]
) -> Cleaned:
    """The kept landmarks, followed by newly labeled ones in the order of their ids."""
    id_of: dict[str, str] = {}
    for landmark in kept_landmarks:
        id_of |= zip(landmark.labels, landmark.item_ids, strict=True)
    new = []
    for drop in dropped:
        if vote := accepted_votes.get(drop.landmark_id):
            confidence = round(min(vote.confidence, 1.0), 4)
            fields = (drop.landmark_id, drop.category, (vote.label,), (id_of[vote.label],))
            new.append(KeptLandmark(*fields, confidence, drop.origin))
    return Cleaned([*kept_landmarks, *new], [drop for drop in dropped if drop.landmark_id not in accepted_votes], {})
