"""Images of landmarks and their vectors, from CLIP's image tower or from a file."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiertree.datasets.readers.images import IMAGE_SUFFIXES, decode
from hiertree.errors import OptionError, ShapeError, TableError, require_package
from hiertree.io.array_files import reading_arrays
from hiertree.io.files import AnyPath
from hiertree.io.progress import track
from hiertree.io.tables import read_table_parts

from ..networks.clip import load_clip
from .encode.text_encoders import ClipEncoder, unit_rows
from .steps import Settings, option

_FOLDERS = 64  # whose lists of images are kept
_SIMPLE = re.compile(r"[\w.-]+")
_CHUNK = 2048  # images that are held as vectors at a time


class ImageFolderSettings(Settings):
    """Where images of landmarks are, if there are any."""

    images: Path | None = option(None, "Images of landmarks: <landmark id>.jpg, or a folder for each landmark.")
    image_table: Path | None = option(
        None, "Table of image ids and landmark_id, where files are named by image id: train.csv or train_clean.csv."
    )

    def folder(self) -> ImageFolder | None:
        """The folder, if one is named."""
        if self.images is not None:
            return ImageFolder(self.images, self.image_table)
        if self.image_table is not None:
            raise OptionError("a table of images without a folder", expected="images, the folder of these images")
        return None


class ImageFolder:
    """Images of landmarks.

    They lie in the folder as ``<landmark id>.jpg`` or in a folder ``<landmark id>``; with a table of images, as
    ``<image id>.jpg``, beside each other or in folders of the id's first three characters, as GLDv2's do (``a/b/c``).
    Any ending of images will do, in either case. Nothing outside the folder is ever read, whatever links lead there.
    """

    def __init__(self, folder: AnyPath, table: AnyPath | None = None) -> None:
        if not Path(folder).is_dir():
            raise OptionError(f"no folder {folder}", expected="a folder of landmarks' images")
        self._root = Path(folder).resolve()
        self._images_of = None if table is None else _image_ids(table)
        self._by_stem = lru_cache(_FOLDERS)(partial(_images_by_stem, self._root))

    def find(self, landmark: str) -> Path | None:
        """The first image of a landmark, or None."""
        return next(self.find_all(landmark), None)

    def find_all(self, landmark: str) -> Iterator[Path]:
        """The existing images of a landmark; never one outside the folder."""
        if "\0" in landmark:
            return
        for path in self._candidates(landmark):
            resolved = path.resolve()
            if resolved.is_file() and resolved.is_relative_to(self._root):
                yield resolved

    def _candidates(self, landmark: str) -> Iterable[Path]:
        if self._images_of is None:
            place = self._root / landmark
            yield from self._by_stem(place.parent.resolve()).get(place.name, ())
            image_folder = place.resolve()
            if self._root in image_folder.parents and os.path.isdir(image_folder):  # noqa: PTH112
                yield from sorted(path for path in image_folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
            return
        for image in self._images_of.get(landmark, ()):
            for folder in (self._root, self._root.joinpath(*image[:3])):
                yield from self._files_of(folder / image)

    def _files_of(self, place: Path) -> Sequence[Path]:
        """The file of an image id with or without its ending, which may be another's."""
        has_ending = place.suffix.lower() in IMAGE_SUFFIXES
        usual = place if has_ending else place.with_name(f"{place.name}.jpg")
        if os.path.isfile(usual):  # noqa: PTH113  (False for a name too long); it saves reading the folder
            return [usual]
        return self._by_stem(place.parent.resolve()).get(place.stem if has_ending else place.name, ())


def _images_by_stem(root: Path, folder: Path) -> Mapping[str, Sequence[Path]]:
    """The images right in a folder inside the root, by their names without the ending."""
    files: defaultdict[str, list[Path]] = defaultdict(list)
    if folder.is_relative_to(root) and os.path.isdir(folder):  # noqa: PTH112  (False for a name too long)
        for path in sorted(folder.iterdir()):
            if path.suffix.lower() in IMAGE_SUFFIXES:
                files[path.stem].append(path)
    return files


def image_column(names: Iterable[str], path: AnyPath) -> str:
    """The column of image ids: ``image_id`` or ``id``, or ``images``, with several in a cell, as in train_clean.csv."""
    column = next((name for name in ("image_id", "id", "images") if name in names), None)
    if column is None:
        raise TableError(f"{path}: no column of images", expected="image_id, id or images")
    return column


def _image_ids(path: AnyPath) -> Mapping[str, list[str]]:
    images: defaultdict[str, list[str]] = defaultdict(list)
    for table in read_table_parts(path, required=["landmark_id"]):
        column = image_column(table.columns, path)
        for line, landmark, cell in zip(table.index, table["landmark_id"], table[column], strict=True):
            for image in cell.split() if column == "images" else [cell.strip()]:
                if not _SIMPLE.fullmatch(image) or ".." in image:
                    problem = f"{path}, line {line}: {column} {image[:80]!r}"
                    raise TableError(problem, expected="a plain file name, with or without its ending")
                images[landmark.strip()].append(image)
    return images


@dataclass(frozen=True)
class EncodedImages:
    """Images in a folder, through CLIP's image tower."""

    folder: ImageFolder  # where the images are
    encoder: ClipEncoder  # whose model, weights, batch size and device are taken

    def of(self, landmarks: Iterable[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Landmarks that have images, each with (m, d) float32 rows of unit norm, in the order given."""
        image_paths = [(landmark, paths) for landmark in landmarks if (paths := list(self.folder.find_all(landmark)))]
        if not image_paths:
            return
        encode = _tower(self.encoder)
        for chunk in track(list(_chunks(image_paths)), description="images through CLIP, in chunks"):
            vectors = encode([path for _, paths in chunk for path in paths])
            ends = np.cumsum([len(paths) for _, paths in chunk])
            yield from zip((landmark for landmark, _ in chunk), np.split(vectors, ends[:-1]), strict=True)

    def identity(self, landmarks: Iterable[str]) -> dict[str, Any]:
        """The model, and names and sizes of the images."""
        files = [path for landmark in landmarks for path in self.folder.find_all(landmark)]
        digest = hashlib.sha256("\n".join(f"{path.name} {path.stat().st_size}" for path in files).encode()).hexdigest()
        return {**self.encoder.settings(), "images": len(files), "names_and_sizes": digest}


class StoredVectors:
    """Vectors in an ``.npz`` file: ``embeddings`` (n, d), any float, and ``landmark_ids`` (n,), integers or text."""

    def __init__(self, path: AnyPath) -> None:
        with reading_arrays(path, expected="an .npz of embeddings and landmark_ids") as archive:
            shape, ids = archive.headers["embeddings"].shape, archive.headers["landmark_ids"]
            if len(shape) != 2 or ids.shape != shape[:1] or ids.dtype.kind not in "iuU":
                problem = f"{path}: embeddings {shape}, landmark_ids {ids.shape} {ids.dtype}"
                raise ShapeError(problem, expected="(n, d) and n integers or texts")
            rows = [f"row {row}" for row in range(len(archive["landmark_ids"]))]
            self._vectors = unit_rows(archive["embeddings"].astype(np.float64), rows)
            owners = archive["landmark_ids"]
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, owner in enumerate(map(str, owners.tolist())):
            self._rows[owner].append(row)

    def of(self, landmarks: Iterable[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Landmarks that have images, each with (m, d) float32 rows of unit norm, in the order given."""
        for landmark in landmarks:
            if landmark in self._rows:
                yield landmark, self._vectors[self._rows[landmark]]

    def identity(self, landmarks: Iterable[str]) -> dict[str, Any]:
        """The number of vectors; the file itself is hashed as an input."""
        return {"images": sum(len(self._rows.get(landmark, ())) for landmark in landmarks)}


def _chunks(image_paths: Sequence[tuple[str, list[Path]]]) -> Iterator[list[tuple[str, list[Path]]]]:
    """Groups of whole landmarks with about ``_CHUNK`` images each."""
    chunk: list[tuple[str, list[Path]]] = []
    images = 0
    for landmark, paths in image_paths:
        chunk.append((landmark, paths))
        images += len(paths)
        if images >= _CHUNK:
            yield chunk
            chunk, images = [], 0
    if chunk:
        yield chunk


def _tower(encoder: ClipEncoder) -> Callable[[Sequence[Path]], NDArray[np.float32]]:
    """A function from paths of images to (n, d) float32 unit rows."""
    require_package("open_clip", "torch", extra="clip")
    import torch
    from open_clip.transform import PreprocessCfg, image_transform_v2

    model = load_clip(encoder.model, encoder.weights, encoder.device)
    prepare = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)

    def prepared(path: Path) -> torch.Tensor:
        image: torch.Tensor = prepare(decode(path, name=str(path)).convert("RGB"))
        return image

    def encode(paths: Sequence[Path]) -> NDArray[np.float32]:
        batches = []
        with torch.inference_mode(), ThreadPoolExecutor() as pool:
            for start in range(0, len(paths), encoder.batch_size):
                images = torch.stack(list(pool.map(prepared, paths[start : start + encoder.batch_size])))
                batches.append(model.encode_image(images.to(encoder.device), normalize=True).float().cpu())
        return unit_rows(torch.cat(batches).double().numpy(), [str(path) for path in paths])

    return encode
