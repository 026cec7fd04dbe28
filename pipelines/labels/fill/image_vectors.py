"""Images of landmarks as vectors: through CLIP's image tower, or read from a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hiertree.errors import EmbeddingError, ShapeError, TableError, require_package
from hiertree.io.progress import track

from ...clip_model import load_clip
from ..encode.clip_encoder import ClipEncoder
from ..encode.text_encoders import unit_rows
from .image_folder import ImageFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 2048  # images that are held as vectors at a time


class ImageVectors(Protocol):
    """Where the vectors of a landmark's images come from."""

    def of(self, landmarks: Iterable[int]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Landmarks that have images, each with (m, d) float32 rows of unit norm, in the order given."""

    def identity(self, landmarks: Iterable[int]) -> dict[str, Any]:
        """What the vectors depend on, JSON-able."""


@dataclass(frozen=True)
class EncodedImages:
    """Images in a folder, through CLIP's image tower.

    Args:
        folder: where the images are.
        encoder: whose model, weights, batch size and device are taken.
    """

    folder: ImageFolder
    encoder: ClipEncoder

    def of(self, landmarks: Iterable[int]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """See :class:`ImageVectors`.

        Raises:
            ImageError: an image does not decode; the message names it.
        """
        found = [(landmark, paths) for landmark in landmarks if (paths := list(self.folder.all_of(landmark)))]
        encode = _tower(self.encoder) if found else None
        for chunk in track(list(_chunks(found)), description="images through CLIP, in chunks"):
            vectors = encode([path for _, paths in chunk for path in paths]) if encode else np.empty((0, 0), np.float32)
            ends = np.cumsum([len(paths) for _, paths in chunk])
            yield from zip((landmark for landmark, _ in chunk), np.split(vectors, ends[:-1]), strict=True)

    def identity(self, landmarks: Iterable[int]) -> dict[str, Any]:
        """The model, and names and sizes of the images."""
        files = [path for landmark in landmarks for path in self.folder.all_of(landmark)]
        digest = hashlib.sha256("\n".join(f"{path.name} {path.stat().st_size}" for path in files).encode()).hexdigest()
        return {**self.encoder.settings(), "images": len(files), "names_and_sizes": digest}


class StoredVectors:
    """Vectors in an ``.npz`` file: ``embeddings`` (n, d), any float, and ``landmark_ids`` (n,), integers.

    Args:
        path: the file.

    Raises:
        TableError: no such file, or it cannot be read.
        ShapeError: arrays that do not fit together.
        EmbeddingError: a row that is zero or not finite.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                embeddings, owners = stored["embeddings"], stored["landmark_ids"]
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise TableError(f"{path}: {error}", expected="an .npz of embeddings and landmark_ids") from None
        if embeddings.ndim != 2 or owners.shape != embeddings.shape[:1] or owners.dtype.kind not in "iu":
            raise ShapeError(
                f"{path}: embeddings {embeddings.shape}, landmark_ids {owners.shape} {owners.dtype}",
                expected="(n, d) and n integers",
            )
        try:
            self._vectors = unit_rows(embeddings.astype(np.float64), [f"row {row}" for row in range(len(owners))])
        except EmbeddingError as error:
            raise EmbeddingError(f"{path}: {error.given}", expected="finite rows that are not zero") from None
        self._rows: dict[int, list[int]] = {}
        for row, owner in enumerate(owners.tolist()):
            self._rows.setdefault(owner, []).append(row)

    def of(self, landmarks: Iterable[int]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """See :class:`ImageVectors`."""
        for landmark in landmarks:
            if landmark in self._rows:
                yield landmark, self._vectors[self._rows[landmark]]

    def identity(self, landmarks: Iterable[int]) -> dict[str, Any]:
        """How many there are; the file is hashed as an input."""
        return {"images": sum(len(self._rows.get(landmark, ())) for landmark in landmarks)}


def _chunks(found: Sequence[tuple[int, list[Path]]]) -> Iterator[list[tuple[int, list[Path]]]]:
    """Groups of whole landmarks with about ``_CHUNK`` images each."""
    chunk: list[tuple[int, list[Path]]] = []
    images = 0
    for landmark, paths in found:
        chunk.append((landmark, paths))
        images += len(paths)
        if images >= _CHUNK:
            yield chunk
            chunk, images = [], 0
    if chunk:
        yield chunk


def _tower(encoder: ClipEncoder) -> Any:
    """A function from paths of images to (n, d) float32 unit rows."""
    require_package("open_clip", "torch", extra="clip")
    import torch
    from open_clip.transform import PreprocessCfg, image_transform_v2

    model = load_clip(encoder.model, encoder.weights, encoder.device)
    prepare = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)

    def encode(paths: Sequence[Path]) -> NDArray[np.float32]:
        batches = []
        with torch.inference_mode(), ThreadPoolExecutor() as pool:
            for start in range(0, len(paths), encoder.batch_size):
                some = paths[start : start + encoder.batch_size]
                images = torch.stack(list(pool.map(lambda path: _prepared(path, prepare), some)))
                batches.append(model.encode_image(images.to(encoder.device), normalize=True).float().cpu())
        return unit_rows(torch.cat(batches).double().numpy(), [str(path) for path in paths])

    return encode


def _prepared(path: Path, prepare: Any) -> Any:
    from hiertree.datasets.readers.images import decode

    return prepare(decode(path, name=str(path)).convert("RGB"))
