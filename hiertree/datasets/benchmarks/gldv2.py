"""``gldv2``: Google Landmarks v2 with H-GLDv2's labels; natural or human-made → hierarchical label → landmark.

Weyand, Araujo, Cao and Sim, *Google Landmarks Dataset v2* (CVPR 2020); Ramzi et al., *Optimization of Rank Losses for
Image Retrieval* (TPAMI 2025) for the hierarchy. Landmark ids of ``train`` and ``index`` are unrelated. Images are read
from folders, ``train/0/1/2/0123456789abcdef.jpg``, or from the published archives, ``train/images_000.tar``.

With the hierarchy, the clean list has 970,981 images of 46,593 landmarks according to SupRank's public code,
``suprank/config/dataset/gldv2_hier.yaml``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import TableError, raised_as, require_package
from ...io.files import AnyPath
from ...io.tables import integer_column, line_names, read_columns, read_table
from ...tree import H_GLDV2_LEVELS
from ..archives import TarImages, tar_index
from ..description import BENCHMARKS, Benchmark, Verify, query_and_gallery
from ..image_dataset import ImageDataset
from ..readers.images import JoinedImages
from ..readers.text_lists import refuse_contradictions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..readers.images import ImageSource

_log = logging.getLogger(__name__)

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
    root: AnyPath, split: str = "train", *, hierarchy: bool = False, verify: Verify = "published"
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
    benchmark = BENCHMARKS["h-gldv2" if hierarchy else "gldv2"].checked(split, verify)
    folder = "train" if split.startswith("train") else "index"
    tables = [f"{folder}_label_to_hierarchical.csv"] if hierarchy else []
    data_folder, *files = benchmark.files(root, *LISTS[split], *tables)
    list_images = (_clean if split == "train" else _one_a_row)(files[0])
    benchmark.verify(
        split if folder == "train" else folder, len(list_images.ids), len(np.unique(list_images.landmarks))
    )
    images_in, earlier_images = {folder: list_images}, [list_images] if folder == "index" and split != "index" else []
    if earlier_images:
        images_in = {"test": _queries(files[1], list_images), folder: list_images}
        benchmark.verify("query", len(images_in["test"].ids), 0)
    elif split == "train_all" and (clean := files[0].with_name(*LISTS["train"])).is_file():
        earlier_images = [_clean(clean)]
    ancestors = _labels_above(files[-1]) if hierarchy else None
    if ancestors is not None:
        images_in = {name: _keep_labeled(images, ancestors) for name, images in images_in.items()}
        earlier_images = [_keep_labeled(images, ancestors) for images in earlier_images]
    num_queries = len(next(iter(images_in.values())).ids)
    if split == "query":
        del images_in[folder]
    columns = zip(*earlier_images, *images_in.values(), strict=True)
    all_images = LandmarkImages(*map(np.concatenate, columns))
    images = reduce(JoinedImages, (_images(benchmark, data_folder, *item) for item in images_in.items()))
    fields = query_and_gallery(num_queries, len(images)) if split == "test" else {}
    labels, earlier_rows = [all_images.landmarks], len(all_images.ids) - len(images)
    return benchmark.dataset(
        split, labels, images, all_images.where, earlier_rows, ancestors=ancestors, fields=fields, compare_sizes=False
    )


def _clean(path: Path) -> LandmarkImages:
    """Read a list with one row per landmark and its images separated by spaces."""
    require_package("pyarrow", extra="arrow")
    import pyarrow.compute as pc

    table = read_columns(path, {"landmark_id": "integer", "images": "text"})
    images = pc.split_pattern(pc.utf8_trim_whitespace(table["images"]), " ").combine_chunks()
    landmarks = table["landmark_id"].to_numpy()[pc.list_parent_indices(images).to_numpy()]
    return _check_landmarks(LandmarkImages(_ids(pc.list_flatten(images), path), landmarks))


def _one_a_row(path: Path) -> LandmarkImages:
    table = read_columns(path, {"id": "text", "landmark_id": "integer"})
    return _check_landmarks(LandmarkImages(_ids(table["id"], path), table["landmark_id"].to_numpy()))


def _check_landmarks(images: LandmarkImages) -> LandmarkImages:
    refuse_contradictions(images.ids, images.landmarks, images.where, "id")
    return images


def _queries(path: Path, index: LandmarkImages) -> LandmarkImages:
    """The queries that are not ignored, each with the landmark of the first index image listed for it."""
    table = read_columns(path, {"id": "text", "images": "text"})
    texts = table["images"].to_pylist()
    rows = [row for row, text in enumerate(texts) if text.strip() not in ("None", "")]
    if not rows:
        raise TableError(f"{path}: every query is marked as ignored", expected="queries with images of the index")
    landmark_of = dict(zip(index.ids.tolist(), index.landmarks.tolist(), strict=True))
    with raised_as(TableError, f"{path}: an image of a query", expected="an image of the index", on=KeyError):
        landmark_lists = [[landmark_of[image] for image in texts[row].split()] for row in rows]
    num_ambiguous = sum(len(set(landmarks)) > 1 for landmarks in landmark_lists)
    if num_ambiguous:
        _log.info("%d of %d queries list images of several landmarks; the first is used", num_ambiguous, len(rows))
    return LandmarkImages(_ids(table["id"], path)[rows], np.array([landmarks[0] for landmarks in landmark_lists]))


def _ids(column: Any, path: Path) -> NDArray[Any]:
    """Ids of images, of equal length; their first characters name folders."""
    ids = np.asarray(column.to_numpy(zero_copy_only=False)).astype(str)
    if not np.char.isalnum(ids).all() or np.char.str_len(ids).min() < 3:
        problem = f"{path}: ids such as {ids[~np.char.isalnum(ids)][:1].tolist()}"
        raise TableError(problem, expected="letters and digits")
    return ids


def _labels_above(path: Path) -> dict[int, tuple[str, str]]:
    """H-GLDv2's labels above each landmark, without the landmarks that have no hierarchical label."""
    table = read_table(path, required=H_GLDV2_LEVELS)
    kind, hierarchical, leaf = H_GLDV2_LEVELS
    refuse_contradictions(
        table[leaf].str.strip(), table[kind] + ", " + table[hierarchical], line_names(table, path), leaf
    )
    table = table[(table[kind].str.strip() != "") & (table[hierarchical].str.strip() != "")]
    if table.empty:
        raise TableError(f"{path}: no row has a hierarchical label", expected=f"{kind} and {hierarchical}")
    landmarks = integer_column(table, leaf, path=path).tolist()
    return dict(zip(landmarks, zip(table[kind], table[hierarchical], strict=True), strict=True))


def _keep_labeled(images: LandmarkImages, ancestors: Mapping[int, Any]) -> LandmarkImages:
    mask = np.isin(images.landmarks, list(ancestors))
    if not mask.all():
        _log.info("%d of %d images have no hierarchical label and are left out", (~mask).sum(), len(mask))
    if not mask.any():
        raise TableError(f"none of {len(mask)} images has a hierarchical label", expected="labels of the same list")
    return LandmarkImages(images.ids[mask], images.landmarks[mask])


def _images(benchmark: Benchmark, data_folder: Path, name: str, landmark_images: LandmarkImages) -> ImageSource:
    """Images in archives if there are any, else in folders."""
    _, folder = benchmark.files(data_folder, (name, f"images/{name}"))
    names = [f"{name[0]}/{name[1]}/{name[2]}/{name}.jpg" for name in landmark_images.ids.tolist()]
    if archives := sorted(folder.glob("images_*.tar")):
        return TarImages(folder, tar_index(folder, archives), names)
    return benchmark.image_files(folder, names, landmark_images.where)
