"""``hiertree labels fill``: cleaned landmarks → the same with labels, from images, for those that had none.

The folder holds what ``labels clean`` writes, and ``filled.csv``: every landmark without a label that has images, what
they say, and whether that was taken. Landmarks that were dropped for another reason stay dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from hiertree.errors import OptionError, TableError
from hiertree.io.files import write_json
from hiertree.io.tables import write_table

from ..clean import step as cleaning
from ..clean.counting import label_counts
from ..clean.landmark_file import DROPPED, LANDMARKS, read_dropped, read_kept
from ..clean.rules import Cleaned, DroppedLandmark, KeptLandmark
from ..clean.step import read_report, write_cleaned
from ..encode.clip_encoder import ClipEncoder
from ..export.tables import REPORT
from ..folders import HISTORY, AnyPath, Making, history_of, made_by
from .filling import NEIGHBOURS, TEMPERATURE, THRESHOLD, Filled, fill_by_neighbours, fill_by_texts
from .image_folder import ImageFolder
from .image_vectors import EncodedImages, ImageVectors, StoredVectors

COMMAND = "hiertree labels fill"
FILLED = "filled.csv"
READ = (LANDMARKS, DROPPED, REPORT)
FILLABLE = ("no label", "not scraped")


@dataclass(frozen=True)
class FillSettings:
    """How images give labels.

    Attributes:
        method: ``"clip"``, by the label texts, or ``"knn"``, by the images of labelled landmarks.
        threshold: the confidence from which a label is taken, in 0 … 1.
        neighbours: k of ``"knn"``.
        temperature: of the softmax.
    """

    method: Literal["clip", "knn"] = "clip"
    threshold: float = THRESHOLD
    neighbours: int = NEIGHBOURS
    temperature: float = TEMPERATURE

    def __post_init__(self) -> None:
        if self.method not in ("clip", "knn"):
            raise OptionError(f"method={self.method!r}", expected="'clip' or 'knn'")
        if not 0 <= self.threshold <= 1:
            raise OptionError(f"threshold={self.threshold}", expected="0 to 1")


@dataclass(frozen=True)
class ImageSource:
    """Where images, or their vectors, come from.

    Attributes:
        images: a folder of images (:class:`ImageFolder`).
        table: which image shows which landmark.
        embeddings: an ``.npz`` of ``embeddings`` and ``landmark_ids`` instead of images.
        encoder: CLIP, for the images and for the label texts.
    """

    images: AnyPath | None = None
    table: AnyPath | None = None
    embeddings: AnyPath | None = None
    encoder: ClipEncoder = ClipEncoder()  # noqa: RUF009  (frozen)

    def vectors(self) -> ImageVectors:
        """The vectors.

        Raises:
            OptionError: neither or both of images and embeddings, or no such folder.
            TableError: the table or the file cannot be read.
        """
        if (self.images is None) == (self.embeddings is None):
            raise OptionError("images and embeddings", expected="one of the two")
        if self.embeddings is not None:
            return StoredVectors(self.embeddings)
        return EncodedImages(ImageFolder(str(self.images), self.table), self.encoder)


def fill_step(
    cleaned: AnyPath, *, out: AnyPath, source: ImageSource, settings: FillSettings = FillSettings()
) -> dict[str, Any]:
    """Label landmarks by their images, write the folder and return its report.

    Args:
        cleaned: a folder made by ``labels clean``.
        out: the folder to make.
        source: where images come from.
        settings: how they give labels.

    Raises:
        TableError: ``cleaned`` is no such folder or holds no label; a table that cannot be read.
        OptionError: an option outside its range, or ``out`` holds other files.
        ImageError: an image does not decode.
        MissingResourceError: CLIP's weights are out of reach.
    """
    folder, vectors = made_by(cleaned, command=cleaning.COMMAND, files=READ), source.vectors()
    kept, dropped = read_kept(folder), read_dropped(folder)
    making = fill_making(folder, source=source, vectors=vectors, settings=settings)
    making.check(out)
    if not kept:
        raise TableError(f"{folder / LANDMARKS} holds no landmark", expected="labels to give")
    found = list(_filled(kept, dropped, vectors, source.encoder, settings))
    taken = {one.landmark_id: one for one in found if one.confidence >= settings.threshold}
    report = _report(folder, kept, dropped, found, taken)
    with making.into(out) as temporary:
        write_cleaned(temporary, _with_labels(kept, dropped, taken), report)
        rows = ((*one[:3], round(one.votes, 4), round(one.confidence, 4), _yes(one, taken)) for one in found)
        write_table(temporary / FILLED, (*Filled._fields, "taken"), rows)
        write_json(temporary / HISTORY, history_of(folder))
    return report


def fill_making(cleaned: AnyPath, *, source: ImageSource, vectors: ImageVectors, settings: FillSettings) -> Making:
    """What the folder of :func:`fill_step` is made of."""
    folder = Path(cleaned)
    looked_at = _unlabelled(read_dropped(folder))
    by_texts = settings.method == "clip"
    looked_at += [] if by_texts else list(_label_of(read_kept(folder)))
    parameters = {
        **asdict(settings),
        **(source.encoder.settings() if by_texts else {}),
        **vectors.identity(looked_at),
    }
    files = [path for path in (source.table, source.embeddings) if path is not None]
    return Making(COMMAND, parameters, (*(folder / name for name in READ), *files))


def _unlabelled(dropped: Sequence[DroppedLandmark]) -> list[int]:
    return [drop.landmark_id for drop in dropped if drop.reason in FILLABLE]


def _label_of(kept: Sequence[KeptLandmark]) -> dict[int, str]:
    """The landmarks whose images can be neighbours: those with one label."""
    return {landmark.landmark_id: landmark.labels[0] for landmark in kept if len(landmark.labels) == 1}


def _filled(
    kept: Sequence[KeptLandmark],
    dropped: Sequence[DroppedLandmark],
    vectors: ImageVectors,
    encoder: ClipEncoder,
    settings: FillSettings,
) -> Iterator[Filled]:
    images = vectors.of(_unlabelled(dropped))
    if settings.method == "clip":
        labels = sorted(label_counts(kept))
        return fill_by_texts(images, encoder.encode(labels), labels, temperature=settings.temperature)
    label_of = _label_of(kept)
    return fill_by_neighbours(
        images,
        vectors.of(label_of),
        label_of,
        neighbours=settings.neighbours,
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
        "kept": len(kept) + len(taken),
        "unlabelled_with_images": len(found),
        "labelled_from_images": len(taken),
        "images": sum(one.images for one in found),
    }


def _yes(one: Filled, taken: dict[int, Filled]) -> str:
    return "yes" if one.landmark_id in taken else "no"
