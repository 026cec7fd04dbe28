"""Images of landmarks and their vectors, from CLIP's image tower or from a file."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiertree.datasets.readers.images import decode
from hiertree.errors import OptionError, ShapeError, TableError, require_package
from hiertree.io.array_files import reading_arrays
from hiertree.io.files import IMAGE_SUFFIXES, AnyPath
from hiertree.io.progress import track
from hiertree.io.tables import read_table_parts

from ..networks.clip import load_clip
from .encode.text_encoders import ClipEncoder, unit_rows
from .landmarks import note_unmatched
from .settings import ImageFolderSettings

_FOLDERS = 64  # whose lists of images are kept
_SIMPLE = re.compile(r"[\w.-]+")
_CHUNK = 256  # landmarks whose images are held as vectors at a time


def image_folder(settings: ImageFolderSettings, *, follow_links: bool = False) -> ImageFolder | None:
    """The folder that settings name, if they name one."""
    if settings.images is not None:
        return ImageFolder(settings.images, settings.image_table, follow_links=follow_links)
    if settings.image_table is not None:
        raise OptionError("a table of images without a folder", expected="images, the folder of these images")
    return None


class ImageFolder:
    """Images of landmarks.

    They lie in the folder as ``<landmark id>.jpg`` or in a folder ``<landmark id>``; with a table of images, as
    ``<image id>.jpg``, beside each other or in folders of the id's first three characters, as GLDv2's do (``a/b/c``).
    Any ending of images will do, in either case; hidden files are none. No id leads out of the folder, and links that
    do are passed over unless they are to be followed.
    """

    def __init__(self, folder: AnyPath, table: AnyPath | None = None, *, follow_links: bool = False) -> None:
        if not Path(folder).is_dir():
            raise OptionError(f"no folder {folder}", expected="a folder of landmarks' images")
        self._root, self._follow_links, self._table = Path(folder).resolve(), follow_links, table
        self._images_of = None if table is None else _image_ids(table)
        self._by_stem = lru_cache(_FOLDERS)(_images_by_stem)

    def find(self, landmark: str) -> Path | None:
        """The first image of a landmark, or None."""
        return next(self.find_all(landmark), None)

    def find_all(self, landmark: str) -> Iterator[Path]:
        """The existing images of a landmark, each once, by their paths in the folder."""
        if "\0" in landmark:
            return
        for path in dict.fromkeys(self._candidates(landmark)):
            if path.is_file() and (self._follow_links or path.resolve().is_relative_to(self._root)):
                yield path

    def name(self, path: Path) -> str:
        """The path of an image from the folder on."""
        return path.relative_to(self._root).as_posix()

    def note_unmatched(self, landmarks: Iterable[str]) -> str:
        """Say and log which landmarks have no image, and which ids here are no landmark's, where there are both."""
        ids: Iterable[str] | None = self._images_of
        if ids is None:
            with os.scandir(self._root) as entries:
                folders = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
            ids, landmarks = [*self._by_stem(self._root), *folders], (key for key in landmarks if "/" not in key)
        return note_unmatched(ids, landmarks, source=str(self._table or self._root), target="the landmarks")

    def _candidates(self, landmark: str) -> Iterable[Path]:
        if self._images_of is None:
            path = Path(os.path.normpath(self._root / landmark))
            if self._root in path.parents:
                yield from self._by_stem(path.parent).get(path.name, ())
                yield from chain.from_iterable(self._by_stem(path).values())
            return
        for image in self._images_of.get(landmark, ()):
            folders = (self._root, self._root.joinpath(*image[:3]))
            yield from next(filter(None, (self._files_of(folder / image) for folder in folders)), ())

    def _files_of(self, path: Path) -> Sequence[Path]:
        """The file of an image id with or without its ending, which may be another's."""
        has_ending = path.suffix.lower() in IMAGE_SUFFIXES
        usual = path if has_ending else path.with_name(f"{path.name}.jpg")
        if os.path.isfile(usual):  # noqa: PTH113  (False for a name too long); it saves reading the folder
            return [usual]
        return self._by_stem(path.parent).get(path.stem if has_ending else path.name, ())


def _images_by_stem(folder: Path) -> Mapping[str, Sequence[Path]]:
    """The images right in a folder, but for hidden ones, by their names without the ending."""
    files: defaultdict[str, list[Path]] = defaultdict(list)
    if os.path.isdir(folder):  # noqa: PTH112  (False for a name too long)
        for path in sorted(folder.iterdir()):
            if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith("."):
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
        starts = range(0, len(image_paths), _CHUNK)
        for start in track(starts, description=f"images through CLIP, of {_CHUNK} landmarks each"):
            landmark_chunk, path_lists = zip(*image_paths[start : start + _CHUNK], strict=True)
            vectors = encode([*chain.from_iterable(path_lists)])
            yield from zip(landmark_chunk, np.split(vectors, np.cumsum([*map(len, path_lists)])[:-1]), strict=True)

    def note_unmatched(self, landmarks: Iterable[str]) -> None:
        """Log landmarks without an image, and ids of images that are no landmark's, where there are both."""
        self.folder.note_unmatched(landmarks)

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
            landmark_ids = list(map(str, archive["landmark_ids"].tolist()))
            row_names = [f"row {row}" for row in range(len(landmark_ids))]
            self._vectors = unit_rows(archive["embeddings"].astype(np.float64), row_names)
        self._path, self._rows = path, defaultdict[str, list[int]](list)
        for row, landmark in enumerate(landmark_ids):
            self._rows[landmark].append(row)

    def of(self, landmarks: Iterable[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Landmarks that have images, each with (m, d) float32 rows of unit norm, in the order given."""
        for landmark in landmarks:
            if landmark in self._rows:
                yield landmark, self._vectors[self._rows[landmark]]

    def note_unmatched(self, landmarks: Iterable[str]) -> None:
        """Log landmarks without a vector, and ids of vectors that are no landmark's, where there are both."""
        note_unmatched(self._rows, landmarks, source=str(self._path), target="the landmarks")

    def identity(self, landmarks: Iterable[str]) -> dict[str, Any]:
        """The number of vectors; the file itself is hashed as an input."""
        return {"images": sum(len(self._rows.get(landmark, ())) for landmark in landmarks)}


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
