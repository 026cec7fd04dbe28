"""``gldv2``: Google Landmarks v2 with H-GLDv2's labels; natural or human-made → hierarchical label → landmark.

Weyand, Araujo, Cao and Sim, *Google Landmarks Dataset v2* (CVPR 2020); Ramzi et al., *Optimization of Rank Losses for
Image Retrieval* (TPAMI 2025) for the hierarchy. Landmark ids of ``train`` and ``index`` are unrelated. Images are read
from folders, ``train/0/1/2/0123456789abcdef.jpg``, or from the published archives, ``train/images_000.tar``.

With the hierarchy, the clean list has 970,981 images of 46,593 landmarks according to SupRank's public code,
``suprank/config/dataset/gldv2_hier.yaml``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import TableError, require_package
from ...io.tables import integer_column, read_columns, read_table
from ...tree import H_GLDV2_LEVELS
from ..description import BENCHMARKS, Benchmark, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import Labeled, label_leaves
from ..readers.images import JoinedImages
from ..readers.tar_images import TarImages, tar_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..readers.images import ImageSource

_log = logging.getLogger(__name__)


GLDV2 = {False: BENCHMARKS["gldv2"], True: BENCHMARKS["h-gldv2"]}
INDEX, SOLUTION = "index_image_to_landmark.csv", "retrieval_solution_v2.1.csv"
LISTS = {
    "train": ("train_clean.csv",),
    "train_all": ("train.csv",),
    "index": (INDEX,),
    "query": (INDEX, SOLUTION),
    "test": (INDEX, SOLUTION),
}


class LandmarkImages(NamedTuple):
    """The images of a list and their landmarks."""

    ids: NDArray[Any]
    landmarks: NDArray[np.int64]

    def where(self, row: int) -> str:
        """The name of an image in error messages."""
        return f"image {self.ids[row]}"


def load_gldv2(
    root: str | os.PathLike[str], split: str = "train", *, hierarchy: bool = False, verify: Verify = "published"
) -> ImageDataset:
    """Read a split of Google Landmarks v2.

    With the hierarchy, images whose landmark has no hierarchical label are left out, as the authors do, and a log line
    gives their number. A query's landmark is that of the first index image listed for it; queries marked as ignored are
    left out.

    Args:
        root: the folder of the CSV files and of ``train``, ``index`` and ``test`` (or ``images/train`` …).
        split: "train" (the clean list), "train_all", "index", "query" (the test images that are not ignored), or
            "test": queries and index, which the data set's ``queries`` and ``gallery`` index.
        hierarchy: H-GLDv2's three levels, as ``load("h-gldv2")`` reads them; without it landmarks alone, as
            ``load("gldv2")`` does.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = GLDV2[hierarchy]
    benchmark.check_options(split, verify)
    part = "train" if split.startswith("train") else "index"
    labels = [f"{part}_label_to_hierarchical.csv"] if hierarchy else []
    home, *files = benchmark.files(root, *LISTS[split], *labels)
    listed = (_clean if split == "train" else _one_a_row)(files[0])
    benchmark.verify(split if part == "train" else part, len(listed.ids), len(np.unique(listed.landmarks)), verify)
    queries = _queries(files[1], listed) if split in ("query", "test") else None
    if queries is not None:
        benchmark.verify("query", len(queries.ids), 0, verify)
    ranks = _ranks(files[-1]) if hierarchy else None
    if ranks is not None:
        listed = _with_labels(listed, ranks)
        queries = None if queries is None else _with_labels(queries, ranks)
    if queries is None:
        images = _images(benchmark, home, part, listed)
        return benchmark.dataset(split, _labeled(listed, ranks, benchmark), images, verify="structure")
    return _with_queries(benchmark, home, split, queries, listed, ranks)


def _with_queries(
    benchmark: Benchmark, home: Path, split: str, queries: LandmarkImages, index: LandmarkImages, ranks: _Ranks | None
) -> ImageDataset:
    """The queries, alone or followed by the index; one tree for both."""
    both = LandmarkImages(*(np.concatenate(pair) for pair in zip(queries, index, strict=True)))
    labeled, count = _labeled(both, ranks, benchmark), len(queries.ids)
    images = _images(benchmark, home, "test", queries)
    if split == "query":
        own = Labeled(labeled.tree, labeled.paths[:count])
        return benchmark.dataset(split, own, images, verify="structure")
    return benchmark.dataset(
        split,
        labeled,
        JoinedImages(images, _images(benchmark, home, "index", index)),
        verify="structure",
        queries=np.arange(count),
        gallery=np.arange(count, len(both.ids)),
    )


def _clean(path: Path) -> LandmarkImages:
    """A list with one row per landmark, whose images are separated by spaces."""
    require_package("pyarrow", extra="arrow")
    import pyarrow.compute as pc

    table = read_columns(path, {"landmark_id": "integer", "images": "text"})
    images = pc.split_pattern(pc.utf8_trim_whitespace(table["images"]), " ").combine_chunks()
    landmarks = table["landmark_id"].to_numpy()[pc.list_parent_indices(images).to_numpy()]
    return LandmarkImages(_ids(pc.list_flatten(images), path), landmarks)


def _one_a_row(path: Path) -> LandmarkImages:
    table = read_columns(path, {"id": "text", "landmark_id": "integer"})
    return LandmarkImages(_ids(table["id"], path), table["landmark_id"].to_numpy())


def _queries(path: Path, index: LandmarkImages) -> LandmarkImages:
    """The queries that are not ignored, each with the landmark of the first index image listed for it."""
    table = read_columns(path, {"id": "text", "images": "text"})
    texts = table["images"].to_pylist()
    kept = [row for row, text in enumerate(texts) if text != "None"]
    if not kept:
        raise TableError(f"{path}: every query is marked as ignored", expected="queries with images of the index")
    listed = [texts[row].split() for row in kept]
    landmarks = _landmarks_of(np.array([image for images in listed for image in images]), index, path)
    starts = np.cumsum([0, *map(len, listed)])[:-1]
    several = sum(len(set(found.tolist())) > 1 for found in np.split(landmarks, starts[1:]))
    if several:
        _log.info("%d of %d queries list images of several landmarks; the first is used", several, len(kept))
    return LandmarkImages(_ids(table["id"], path)[kept], landmarks[starts])


def _landmarks_of(images: NDArray[Any], index: LandmarkImages, path: Path) -> NDArray[np.int64]:
    order = np.argsort(index.ids)
    places = np.minimum(np.searchsorted(index.ids, images, sorter=order), len(order) - 1)
    unknown = np.flatnonzero(index.ids[order[places]] != images)
    if len(unknown):
        raise TableError(f"{path}: image {images[unknown[0]]} of a query", expected="an image of the index")
    found: NDArray[np.int64] = index.landmarks[order[places]]
    return found


def _ids(column: Any, path: Path) -> NDArray[Any]:
    """Ids of images, of equal length; their first characters name folders."""
    ids = np.asarray(column.to_numpy(zero_copy_only=False)).astype(str)
    if not np.char.isalnum(ids).all() or np.char.str_len(ids).min() < 3:
        raise TableError(
            f"{path}: ids such as {ids[~np.char.isalnum(ids)][:1].tolist()}", expected="letters and digits"
        )
    return ids


class _Ranks(NamedTuple):
    """Sorted landmarks and the labels above each."""

    landmarks: NDArray[np.int64]
    kinds: NDArray[Any]
    supers: NDArray[Any]

    def rows(self, landmarks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each landmark; −1 if it has no labels."""
        places = np.minimum(np.searchsorted(self.landmarks, landmarks), len(self.landmarks) - 1)
        return np.where(self.landmarks[places] == landmarks, places, -1)


def _ranks(path: Path) -> _Ranks:
    """H-GLDv2's labels, without the landmarks that have no hierarchical label."""
    table = read_table(path, required=H_GLDV2_LEVELS)
    kind, hierarchical, leaf = H_GLDV2_LEVELS
    table = table[(table[kind].str.strip() != "") & (table[hierarchical].str.strip() != "")]
    if table.empty:
        raise TableError(f"{path}: no row has a hierarchical label", expected=f"{kind} and {hierarchical}")
    landmarks = integer_column(table, leaf, path=path)
    order = np.argsort(landmarks)
    kinds, supers = (table[name].to_numpy(dtype=object)[order] for name in (kind, hierarchical))
    return _Ranks(landmarks[order], kinds, supers)


def _with_labels(listed: LandmarkImages, ranks: _Ranks) -> LandmarkImages:
    kept = ranks.rows(listed.landmarks) >= 0
    if not kept.all():
        _log.info("%d of %d images have no hierarchical label and are left out", (~kept).sum(), len(kept))
    if not kept.any():
        raise TableError(f"none of {len(kept)} images has a hierarchical label", expected="labels of the same part")
    return LandmarkImages(listed.ids[kept], listed.landmarks[kept])


def _labeled(listed: LandmarkImages, ranks: _Ranks | None, benchmark: Benchmark) -> Labeled:
    def above(landmarks: Sequence[int]) -> Iterable[Sequence[Hashable]]:
        if ranks is None:
            return [()] * len(landmarks)
        rows = ranks.rows(np.array(landmarks, dtype=np.int64))
        return zip(ranks.kinds[rows].tolist(), ranks.supers[rows].tolist(), strict=True)

    return label_leaves(listed.landmarks, above, level_names=benchmark.levels, where=listed.where)


def _images(benchmark: Benchmark, home: Path, part: str, listed: LandmarkImages) -> ImageSource:
    """Images in archives if there are any, else in folders."""
    folders = [home / part, home / "images" / part]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise benchmark.missing(f"no folder {part} in {home}", expected=f"{part} or images/{part}")
    names = [f"{name[0]}/{name[1]}/{name[2]}/{name}.jpg" for name in listed.ids.tolist()]
    if next(folder.glob("images_*.tar"), None) is not None:
        return TarImages(folder, tar_index(folder, "images_*.tar"), names)
    return benchmark.image_files(folder, names, listed.where)
