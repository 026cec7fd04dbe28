"""Benchmarks published as pickles, of which no code is run: CIFAR, ``roxford5k``, ``rparis6k`` and ``sfm120k``.

* Krizhevsky, *Learning Multiple Layers of Features from Tiny Images* (2009): 60,000 images of 32 × 32 pixels; CIFAR-10
  has 10 classes, CIFAR-100 20 coarse → 100 fine.
* Radenović, Iscen, Tolias, Avrithis and Chum, *Revisiting Oxford and Paris: Large-Scale Image Retrieval Benchmarking*
  (CVPR 2018): 70 queries of either city, each with its lists of easy, hard and junk images. A million distractors, R1M,
  may follow the gallery.
* Radenović, Tolias and Chum, *Fine-Tuning CNN Image Retrieval with No Human Annotation* (TPAMI 2018): photographs of
  Flickr by the models that structure-from-motion makes of them, clusters.

Python's own unpickler resolves only the names that numeric arrays need, each to a stand-in below.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ...errors import TableError
from ...io.files import AnyPath
from ...io.reading import reading_file
from ...io.tables import line_names
from ...options import check_choice
from ..description import BENCHMARKS, Benchmark, Verify, query_and_gallery
from ..image_dataset import ImageDataset
from ..readers.images import ArrayImages, FileImages, JoinedImages
from ..readers.text_lists import read_matlab, read_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..readers.images import ImageSource

_PLAIN = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f[248])")


class _PlainType:
    """Stand-in for ``numpy.dtype``: a type of numbers."""

    def __init__(self, code: str, _align: bool = False, _copy: bool = False) -> None:
        if not _PLAIN.fullmatch(code):
            raise pickle.UnpicklingError(f"an array of type {code!r:.40}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _PlainArray(np.ndarray[Any, Any]):
    """An array that numpy fills from bytes, whose number it compares with the shape."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, plain_type, by_columns, values = state
        super().__setstate__((1, shape, plain_type.dtype, by_columns, values))


_STAND_INS: Mapping[str, Any] = MappingProxyType(
    {
        "numpy.dtype": _PlainType,
        "numpy.ndarray": object,  # named, but never called
        "numpy.multiarray._reconstruct": lambda *_: _PlainArray.__new__(_PlainArray, 0),
        "numpy.multiarray.scalar": lambda plain_type, value: np.frombuffer(
            value.encode("latin1") if isinstance(value, str) else value, plain_type.dtype
        )[0].item(),
        "numpy.numeric._frombuffer": lambda values, plain_type, shape, order: np.frombuffer(
            values, plain_type.dtype
        ).reshape(shape, order=order),
        "_codecs.encode": lambda text, _latin1: text.encode("latin1"),
        "__builtin__.bytes": lambda: b"",  # protocol 2 writes empty arrays so
    }
)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        qualified_name = re.sub(r"^numpy\._?core\.", "numpy.", module) + f".{name}"  # before and since numpy 2
        if qualified_name not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _STAND_INS[qualified_name]


def read_plain_pickle(path: Path) -> Any:
    """Read dictionaries, lists, text, numbers and numeric arrays; bytes of Python 2 become text, decoded as Latin-1.

    A TableError says what else a file is, or names. No code runs, but a crafted file may take much memory or time.
    """
    with reading_file(path, expected="a pickle of numbers, text and numeric arrays"), path.open("rb") as file:
        return _PlainUnpickler(file, encoding="latin1").load()


def as_texts(values: Any) -> list[str]:
    """A list or array of texts; a ValueError says what else it is."""
    texts: Any = values.ravel().tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError("a value that is not a list of texts")
    return list(texts)


def as_integers(values: Any) -> NDArray[np.int64]:
    """A list or array of whole numbers, flat; a ValueError says what else it is."""
    array = np.asarray(values).ravel()
    integral = array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool((array == np.floor(array)).all()))
    if not integral:
        raise ValueError(f"{array[:3].tolist()!r:.80} instead of integers")
    return array.astype(np.int64)


Classes = Literal[10, 100]
Setting = Literal["published", "s1", "s2"]
S1_QUERIES, S1_TRAINING = 100, 500  # images of a class
_BATCHES: dict[tuple[int, str], tuple[str, ...]] = {
    (10, "train"): tuple(f"data_batch_{index}" for index in range(1, 6)),
    (10, "test"): ("test_batch",),
    (100, "train"): ("train",),
    (100, "test"): ("test",),
}
_NAMES = {10: ("batches.meta", ("label_names",)), 100: ("meta", ("coarse_label_names", "fine_label_names"))}
_LABELS = {10: ("labels",), 100: ("coarse_labels", "fine_labels")}


def load_cifar(
    root: AnyPath,
    split: str = "train",
    *,
    classes: Classes = 100,
    setting: Setting = "published",
    seed: int = 0,
    verify: Verify = "published",
) -> ImageDataset:
    """Read CIFAR-10 or CIFAR-100 in its Python format into memory.

    The published files are pickles; no code in them is run.

    Args:
        root: the folder ``cifar-10-batches-py`` or ``cifar-100-python``, or its parent.
        split: "train" or "test".
        classes: 10, with one level, or 100, with coarse → fine.
        setting: the ``"published"`` splits of 50,000 and 10,000 images, or those of papers on hashing. ``"s1"``: 100
            images of each class, drawn by the seed, are queries, all others are the gallery, and 500 of those per class
            train. ``"s2"``: the published test images are queries, and the training images are the gallery.
        seed: of the draw in ``"s1"``.
        verify: as in :func:`hiertree.datasets.load`.
    """
    check_choice("classes", classes, Classes)
    check_choice("setting", setting, Setting)
    benchmark = BENCHMARKS[f"cifar{classes}"].checked(split, verify)
    is_joint = setting == "s1" or (setting == "s2" and split == "test")
    split_names = ("train", "test") if is_joint else (split,)
    batches = [_published(benchmark, root, name, classes) for name in split_names]
    images = Batch(*map(np.concatenate, zip(*batches, strict=True)))
    earlier_labels, fields = images.labels[:0], {}
    if setting == "s1":
        rank = _rank_in_class(images.labels[:, -1], seed)
        trains = (rank >= S1_QUERIES) & (rank < S1_QUERIES + S1_TRAINING)
        if split == "train":
            images = Batch(*(column[trains] for column in images))
        else:
            earlier_labels = images.labels[trains]
            fields = {"queries": np.flatnonzero(rank < S1_QUERIES), "gallery": np.flatnonzero(rank >= S1_QUERIES)}
    elif is_joint:
        gallery, queries = np.split(np.arange(len(images.names)), [len(batches[0].names)])
        fields = {"queries": queries, "gallery": gallery}
    elif split == "test":
        earlier_labels = _training_labels(benchmark, root, classes)
    labels, count = np.concatenate([earlier_labels, images.labels]).T, len(earlier_labels)
    names = images.names.tolist()

    def row_name(row: int) -> str:
        return f"training row {row}" if row < count else f"image {names[row - count]}"

    source = ArrayImages(images.pixels, names=names)
    return benchmark.dataset(split, labels, source, row_name, count, fields=fields, compare_sizes=False)


class Batch(NamedTuple):
    """Pixels (n, 32, 32, 3) uint8, file names (n,), and labels (n, L): ids in a file, names where files are joined."""

    pixels: NDArray[Any]
    names: NDArray[Any]
    labels: NDArray[Any]


def _training_labels(benchmark: Benchmark, root: AnyPath, classes: Classes) -> NDArray[Any]:
    """(n, L) names of labels of the published training images, as far as they are there."""
    data_folder, meta_file = benchmark.files(root, _NAMES[classes][0])
    files = [data_folder / name for name in _BATCHES[classes, "train"] if (data_folder / name).is_file()]
    ids = [_batch(file, classes).labels for file in files] or [np.zeros((0, len(_LABELS[classes])), np.int64)]
    return _named_labels(meta_file, np.concatenate(ids), classes)


def _named_labels(file: Path, ids: NDArray[np.int64], classes: Classes) -> NDArray[Any]:
    """The names of labels (n, L)."""
    texts, keys = read_plain_pickle(file), _NAMES[classes][1]
    with reading_file(file, expected=f"{' and '.join(keys)} for every label, each name once"):
        if not all(len(set(as_texts(texts[key]))) == len(texts[key]) for key in keys):
            raise ValueError("a name listed twice")
        return np.stack([np.array(texts[key])[column] for key, column in zip(keys, ids.T, strict=True)], axis=1)


def _published(benchmark: Benchmark, root: AnyPath, split: str, classes: Classes) -> Batch:
    """The published training or test images."""
    _, meta_file, *files = benchmark.files(root, _NAMES[classes][0], *_BATCHES[classes, split])
    pixels, names, ids = map(np.concatenate, zip(*(_batch(file, classes) for file in files), strict=True))
    labels = _named_labels(meta_file, ids, classes)
    benchmark.verify(split, len(names), len(np.unique(labels[:, -1])))
    return Batch(pixels, names, labels)


def _batch(file: Path, classes: Classes) -> Batch:
    """One file of a split; its labels are still ids."""
    batch = read_plain_pickle(file)
    with reading_file(file, expected=f"a batch of CIFAR-{classes}"):
        pixels = np.ascontiguousarray(batch["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        ids = np.stack([as_integers(batch[key]) for key in _LABELS[classes]], axis=1)
        names = np.array(as_texts(batch["filenames"]), dtype=np.str_)
        if pixels.dtype != np.uint8 or not len(pixels) == len(names) == len(ids) or (ids < 0).any():
            raise ValueError("pixels, names and labels differ in number")
    return Batch(pixels, names, ids)


def _rank_in_class(labels: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """The rank of each image among those of its class, in an order drawn by the seed."""
    import pandas as pd

    order = np.random.default_rng(seed).permutation(len(labels))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = pd.Series(labels[order]).groupby(labels[order]).cumcount()
    return rank


City = Literal["roxford5k", "rparis6k"]
LISTS = ("easy", "hard", "junk")
DISTRACTOR = "distractor"  # tag of every image of R1M


@dataclass(frozen=True, kw_only=True)
class RevisitedDataset(ImageDataset):
    """Queries, cropped to their boxes, and the gallery.

    The labels are the search tags of the images, taken from their names. Relevance is defined by the ground truth,
    which :func:`hiertree.metrics.revisitop_levels` turns into levels and a mask.

    Attributes:
        ground_truth: for each query, gallery indices under "easy", "hard" and "junk"; empty for the split "gallery".
    """

    ground_truth: tuple[Mapping[str, NDArray[np.int64]], ...] = ()


def load_revisited(
    root: AnyPath,
    split: str = "test",
    *,
    city: City = "roxford5k",
    distractors: AnyPath | None = None,
    verify: Verify = "published",
) -> RevisitedDataset:
    """Read ROxford5k or RParis6k from ``gnd_roxford5k.pkl`` or ``gnd_rparis6k.pkl`` and the folder ``jpg``.

    The ground truth is published as a pickle; no code in it is run.

    Args:
        root: the folder ``roxford5k`` or ``rparis6k``, or its parent.
        split: "test" (queries and gallery, which the data set's ``queries`` and ``gallery`` index), "query" or
            "gallery". There is no training split.
        city: "roxford5k" or "rparis6k".
        distractors: the folder ``revisitop1m`` of R1M, or its parent. The images of ``revisitop1m.txt`` follow the
            gallery's own, so that the indices in the ground truth stay valid. None adds none.
        verify: as in :func:`hiertree.datasets.load`.
    """
    check_choice("city", city, City)
    benchmark = BENCHMARKS[city].checked(split, verify)
    data_folder, file = benchmark.files(root, f"gnd_{city}.pkl")
    queries, gallery, boxes, truth = read_ground_truth(file)

    def row_name(row: int) -> str:
        return f"{file.name}, image {row}"

    sources: list[ImageSource] = []
    names: list[str] = []
    for selection, own_names, own_boxes in (("query", queries, boxes), ("gallery", gallery, None)):
        if split in (selection, "test"):
            files = [f"jpg/{name}.jpg" for name in own_names]
            sources.append(benchmark.image_files(data_folder, files, row_name, own_boxes))
            names += own_names
    benchmark.verify(split, len(names), 0)
    earlier_names = queries if split == "gallery" else []
    tags = [name.rpartition("_")[0] or name for name in (*earlier_names, *names)]
    if split != "query" and distractors is not None:
        sources.append(_distractors(distractors))
        tags += [DISTRACTOR] * len(sources[-1])
    fields, images = (
        query_and_gallery(len(queries), len(tags)) if split == "test" else {},
        reduce(JoinedImages, sources),
    )
    dataset = benchmark.dataset(split, [tags], images, row_name, len(earlier_names), fields=fields, compare_sizes=False)
    return RevisitedDataset(**vars(dataset), ground_truth=() if split == "gallery" else truth)


def _distractors(folder: AnyPath) -> FileImages:
    """The images of R1M in the order of its list, whose lines name files below ``jpg``."""
    benchmark = BENCHMARKS["revisitop1m"]
    data_folder, file = benchmark.files(folder, "revisitop1m.txt")
    table = read_words(file, ("image",))
    return benchmark.image_files(data_folder, "jpg/" + table["image"], line_names(table, file))


def read_ground_truth(file: Path) -> tuple[list[str], list[str], NDArray[np.float64], tuple[Any, ...]]:
    """Names of queries and gallery, boxes (Q, 4), and each query's lists."""
    ground_truth = read_plain_pickle(file)
    with reading_file(file, expected="imlist, qimlist, and gnd with bbx, easy, hard, junk"):
        queries, gallery = as_texts(ground_truth["qimlist"]), as_texts(ground_truth["imlist"])
        entries = ground_truth["gnd"]
        boxes = np.array([np.asarray(entry["bbx"], dtype=np.float64).ravel() for entry in entries])
        truth = tuple({name: as_integers(entry[name]) for name in LISTS} for entry in entries)
        for query, entry in zip(queries, truth, strict=False):
            images, uses = np.unique(np.concatenate(list(entry.values())), return_counts=True)
            if (uses > 1).any():
                raise ValueError(f"the lists of {query!r:.80} name image {images[uses > 1][0]} twice")
    indices = np.concatenate([entry[name] for entry in truth for name in LISTS]) if truth else np.zeros(0, np.int64)
    if boxes.shape != (len(queries), 4) or (indices.size and not 0 <= indices.min() <= indices.max() < len(gallery)):
        problem = f"{file}: boxes {boxes.shape}, indices up to {indices.max(initial=-1)}"
        raise TableError(problem, expected=f"{len(queries)} boxes of 4, indices below {len(gallery)}")
    return queries, gallery, boxes, truth


SFM120K_KEYS = {"train": "train", "test": "val"}  # our name of a split → the file's


def load_sfm120k(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of SfM-120k from ``retrieval-SfM-120k.pkl``, whose label is the cluster of an image.

    Clusters are large: two images of one need not show the same part of a scene. The published pairs of queries and
    positives, ``qidxs`` and ``pidxs``, are not read.

    Args:
        root: the folder ``retrieval-SfM-120k``, which holds the pickle and ``ims``, or its parent.
        split: "train"; "test", the images on which published networks are validated, ``val`` of the file; or "all", the
            images of ``retrieval-SfM-120k-imagenames-clusterids.mat``, with which ROADMAP's public code trains.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["sfm120k"].checked(split, verify)
    name = "retrieval-SfM-120k"
    data_folder, file = benchmark.files(root, f"{name}-imagenames-clusterids.mat" if split == "all" else f"{name}.pkl")
    if split == "all":
        columns = dict(zip(("cids", "cluster"), read_matlab(file, "cids", "cluster"), strict=True))
    with reading_file(file, expected="cids and cluster, of train and val in the pickle"):
        if split != "all":
            columns = read_plain_pickle(file)[SFM120K_KEYS[split]]
        images, clusters = as_texts(columns["cids"]), as_integers(columns["cluster"])
        if len(images) != len(clusters):
            raise ValueError(f"{len(images)} images, {len(clusters)} clusters")

    def row_name(row: int) -> str:
        return f"{file.name}, image {images[row]}"

    paths = [f"ims/{image[-2:]}/{image[-4:-2]}/{image[-6:-4]}/{image}" for image in images]
    files = benchmark.image_files(data_folder, paths, row_name)
    return benchmark.dataset(split, [clusters], files, row_name)
