"""``hiertree labels fill``: cleaned landmarks → the same with labels, from images, for those that had none.

The folder holds what ``labels clean`` writes, and ``filled.csv``: every landmark without a label that has images, the
label that the images vote for, and whether it was taken. Landmarks that were dropped for another reason stay dropped.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from hiertree.errors import OptionError, TableError
from hiertree.io.files import write_json
from hiertree.io.tables import write_table

from ..clean.landmark_file import DROPPED, LANDMARKS, read_dropped, read_kept
from ..clean.rules import Cleaned, DroppedLandmark, KeptLandmark, label_counts
from ..clean.step import COMMAND as CLEAN_COMMAND
from ..clean.step import causes, describe_cleaning, read_report, write_cleaned
from ..encode.encoders import ClipSettings
from ..folders import HISTORY, REPORT, AnyPath, StepRecord, history_of, hypernyms_of, made_by
from ..settings import Count
from .filling import NEIGHBORS, TEMPERATURE, THRESHOLD, Filled, fill_by_neighbors, fill_by_texts
from .image_folder import ImageFolderSettings
from .image_vectors import EncodedImages, ImageVectors, StoredVectors

COMMAND = "hiertree labels fill"
FILLED = "filled.csv"
READ = (LANDMARKS, DROPPED, REPORT)
FILLABLE = ("no label", "not scraped")


class FillSettings(ImageFolderSettings, ClipSettings):
    """Where images, or their vectors, come from, and how they give labels."""

    embeddings: Annotated[
        Path | None, Field(description="An .npz of embeddings and landmark_ids instead of images.")
    ] = None
    method: Annotated[
        Literal["clip", "knn"], Field(description="By the label texts, or by the images of labeled landmarks.")
    ] = "clip"
    threshold: Annotated[float, Field(ge=0, le=1, description="Confidence from which a label is taken.")] = THRESHOLD
    neighbors: Annotated[Count, Field(description="Nearest images that vote, for knn.")] = NEIGHBORS
    temperature: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="Temperature of the softmax over cosines.")
    ] = TEMPERATURE

    def vectors(self) -> ImageVectors:
        """Where the vectors of images come from.

        Raises:
            OptionError: neither or both of images and embeddings, or no such folder.
            TableError: the table or the file cannot be read.
        """
        folder = self.folder()
        if folder is not None and self.embeddings is None:
            return EncodedImages(folder, self.clip())
        if folder is None and self.embeddings is not None:
            return StoredVectors(self.embeddings)
        given = "neither images nor embeddings" if folder is None else "images and embeddings"
        raise OptionError(given, expected="one of the two", remedy="pass --images or --embeddings")


def fill_step(cleaned: AnyPath, *, out: AnyPath, settings: FillSettings) -> dict[str, Any]:
    """Label landmarks by their images, write the folder and return its report.

    Args:
        cleaned: a folder made by ``labels clean``.
        out: the folder to make.
        settings: where images come from and how they give labels.

    Raises:
        TableError: ``cleaned`` is no such folder or holds no label; a table that cannot be read.
        OptionError: neither or both of images and embeddings, or ``out`` holds other files.
        ImageError: an image does not decode.
        MissingResourceError: CLIP's weights are out of reach.
    """
    folder, vectors = made_by(cleaned, command=CLEAN_COMMAND, files=READ), settings.vectors()
    kept, dropped = read_kept(folder), read_dropped(folder)
    record = fill_record(folder, settings=settings, vectors=vectors)
    record.check(out)
    if not kept:
        raise TableError(f"{folder / LANDMARKS} holds no landmark", expected="labels to give")
    found = list(_filled(kept, dropped, vectors, settings))
    taken = {one.landmark_id: one for one in found if one.confidence >= settings.threshold}
    report = _report(folder, kept, dropped, found, taken)
    with record.writing(out) as temporary:
        write_cleaned(temporary, _with_labels(kept, dropped, taken), report)
        rows = ((*one[:3], round(one.votes, 4), round(one.confidence, 4), _yes(one, taken)) for one in found)
        write_table(temporary / FILLED, (*Filled._fields, "taken"), rows)
        write_json(temporary / HISTORY, history_of(folder))
        for file in hypernyms_of(folder):
            shutil.copy(file, temporary)
    return report


def fill_record(cleaned: AnyPath, *, settings: FillSettings, vectors: ImageVectors) -> StepRecord:
    """What :func:`fill_step` makes its folder from."""
    folder = Path(cleaned)
    looked_at = _unlabeled(read_dropped(folder))
    by_texts = settings.method == "clip"
    looked_at += [] if by_texts else list(_label_of(read_kept(folder)))
    parameters = {
        **{name: getattr(settings, name) for name in ("method", "threshold", "neighbors", "temperature")},
        **(settings.clip().settings() if by_texts else {}),
        **vectors.identity(looked_at),
    }
    files = [path for path in (settings.image_table, settings.embeddings) if path is not None]
    return StepRecord(COMMAND, parameters, (*(folder / name for name in READ), *hypernyms_of(folder), *files))


def describe_filling(report: Mapping[str, Any]) -> str:
    """The counts, and how many labels images gave."""
    given = f"{report['labeled_from_images']} of {report['unlabeled_with_images']} landmarks without a label"
    return f"{describe_cleaning(report)}\n{given} got one from their {report['images']} images"


def _unlabeled(dropped: Sequence[DroppedLandmark]) -> list[int]:
    return [drop.landmark_id for drop in dropped if drop.reason in FILLABLE]


def _label_of(kept: Sequence[KeptLandmark]) -> dict[int, str]:
    """The landmarks whose images can be neighbors: those with one label."""
    return {landmark.landmark_id: landmark.labels[0] for landmark in kept if len(landmark.labels) == 1}


def _filled(
    kept: Sequence[KeptLandmark],
    dropped: Sequence[DroppedLandmark],
    vectors: ImageVectors,
    settings: FillSettings,
) -> Iterator[Filled]:
    images = vectors.of(_unlabeled(dropped))
    if settings.method == "clip":
        labels = sorted(label_counts(kept))
        return fill_by_texts(images, settings.clip().encode(labels), labels, temperature=settings.temperature)
    label_of = _label_of(kept)
    return fill_by_neighbors(
        images,
        vectors.of(label_of),
        label_of,
        neighbors=settings.neighbors,
        temperature=settings.temperature,
    )


def _with_labels(kept: Sequence[KeptLandmark], dropped: Sequence[DroppedLandmark], taken: dict[int, Filled]) -> Cleaned:
    """Those that got a label among the others, in order of their ids after these."""
    id_of = {label: item for landmark in kept for label, item in zip(landmark.labels, landmark.item_ids, strict=True)}
    new = [
        KeptLandmark(
            drop.landmark_id,
            drop.category,
            (taken[drop.landmark_id].label,),
            (id_of[taken[drop.landmark_id].label],),
            round(min(taken[drop.landmark_id].confidence, 1.0), 4),
            drop.origin,
        )
        for drop in dropped
        if drop.landmark_id in taken
    ]
    return Cleaned([*kept, *new], [drop for drop in dropped if drop.landmark_id not in taken], {})


def _report(
    folder: Path,
    kept: Sequence[KeptLandmark],
    dropped: Sequence[DroppedLandmark],
    found: Sequence[Filled],
    taken: dict[int, Filled],
) -> dict[str, Any]:
    left = [drop for drop in dropped if drop.landmark_id not in taken]
    return read_report(folder) | {
        "dropped": dict(sorted(Counter(drop.reason for drop in left).items())),
        "because": causes(left),
        "kept": len(kept) + len(taken),
        "unlabeled_with_images": len(found),
        "labeled_from_images": len(taken),
        "images": sum(one.images for one in found),
    }


def _yes(one: Filled, taken: dict[int, Filled]) -> str:
    return "yes" if one.landmark_id in taken else "no"
