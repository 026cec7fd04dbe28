"""Benchmarks of hashing: ``imagenet100`` by class, ``nus-wide`` by labels that images share.

* Cao, Long, Wang and Yu, *HashNet: Deep Learning to Hash by Continuation* (ICCV 2017): lists of 100 of ImageNet's
  classes.
* Chua, Tang, Hong, Li, Luo and Zheng, *NUS-WIDE: A Real-World Web Image Database from National University of Singapore*
  (CIVR 2009): 269,648 photographs of Flickr with 81 labels, of which hashing takes the 21 most frequent.

Splits and grades are those of He et al., *Hashing as Tie-Aware Learning to Rank* (CVPR 2018), Sec. 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from ...errors import TableError
from ...io.files import AnyPath
from ...options import check_integer
from ..description import BENCHMARKS, Verify, query_and_gallery
from ..image_dataset import ImageDataset
from ..readers.images import SelectedImages
from ..readers.text_lists import flag_matrix, read_words, text_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray


NUS_WIDE_LISTS = ("Imagelist.txt", "ImageList/Imagelist.txt")
NUS_WIDE_LABELS = ("AllLabels81.txt", "Groundtruth/AllLabels", "AllLabels")
FREQUENT = 21  # labels of NUS-WIDE
_AT_ONCE = 256  # queries


@dataclass(frozen=True, kw_only=True)
class GradedDataset(ImageDataset):
    """Images whose relevance to each other is a grade that no place in a tree says.

    The tree has one level: images are of one leaf if all their labels are the same.

    Attributes:
        vectors: (n, d) booleans, the labels of each image; the grade is how many two images share.

    Example:
        A step of training by grades, with ``rows`` of a batch and the outputs of a network for them::

            loss = hiertree.losses.TieAwareNDCG().compare_rows(train.grades, train.highest)
            loss(outputs, rows).backward()
    """

    vectors: NDArray[np.bool_]

    @property
    def highest(self) -> int:
        """The highest grade that two images can have."""
        return int(self.vectors.shape[1])

    @override
    def select(self, rows: Any, *, split: str) -> GradedDataset:
        selection = super().select(rows, split=split)
        return GradedDataset(**{**vars(selection), "vectors": self.vectors[np.asarray(rows, dtype=np.int64)]})

    def grades(self, queries: Any = None, gallery: Any = None) -> NDArray[np.uint8]:
        """(Q, N) grades of pairs, what :func:`hiertree.metrics.evaluate_scores` and functional losses take as levels.

        Args:
            queries: (Q,) rows; None: the data set's queries, or all images.
            gallery: (N,) rows; None: its gallery, or all images.
        """
        every = np.arange(len(self))
        rows, columns = (
            np.asarray(next(indices for indices in choices if indices is not None), dtype=np.int64)
            for choices in ((queries, self.queries, every), (gallery, self.gallery, every))
        )
        gallery_vectors = self.vectors[columns].T.astype(np.float32)
        grades = np.empty((len(rows), len(columns)), np.uint8)
        for start in range(0, len(rows), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            grades[block] = self.vectors[rows[block]].astype(np.float32) @ gallery_vectors
        return grades


def load_imagenet100(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of ImageNet100 from HashNet's lists, whose lines are a path and 100 zeros and ones.

    Args:
        root: the folder of the lists and of ``image`` and ``val_image``, or its parent, if it is called ``imagenet``.
            A list is one file, ``test.txt``, or several, ``test0.txt`` …, here or in ``test``.
        split: "train", "test" (queries and gallery, which the data set's ``queries`` and ``gallery`` index), "query" or
            "gallery". HashNet calls the last two test and database; the training images are in the gallery too.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["imagenet100"].checked(split, verify)
    names = ("train",) if split == "train" else ("test", "database")
    data_folder, *first_files = benchmark.files(root, *map(_list_names, names))
    lists = [_one_hot(first) for first in first_files]
    images, classes = (np.concatenate(columns) for columns in zip(*lists, strict=True))
    training_list = next(filter(Path.is_file, (data_folder / name for name in _list_names("train"))), None)
    earlier_rows = classes[:0] if split == "train" or training_list is None else _one_hot(training_list)[1]

    def row_name(row: int) -> str:
        return f"{' and '.join(names)}, image {images[row]}"

    labels = [np.concatenate([earlier_rows, classes])]
    fields = {} if split == "train" else query_and_gallery(len(lists[0][0]), len(images))
    files = benchmark.image_files(data_folder, images.tolist(), row_name)
    return benchmark.dataset(split, labels, files, str, len(earlier_rows), fields=fields)


def _list_names(name: str) -> tuple[str, ...]:
    """Where a list may stand, or the first file of it."""
    return f"{name}.txt", f"{name}0.txt", f"test/{name}0.txt"


def _one_hot(first: Path) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Images and classes of a list, which may continue in files of the next numbers."""
    numbered = first.stem.endswith("0")
    files = sorted(first.parent.glob(f"{first.stem[:-1]}[0-9].txt")) if numbered else [first]
    images, classes = [], []
    for file in files:
        pairs = [line.partition(" ")[::2] for line in text_lines(file)]
        flags = flag_matrix(file, [problem for _, problem in pairs])
        bad = np.flatnonzero(flags.sum(axis=1) != 1)
        if len(bad) or not pairs:
            problem = f"{file.name}, line {bad[0] + 1}: {flags[bad[0]].sum()} classes" if pairs else f"{file} is empty"
            raise TableError(problem, expected="one class for each image")
        images.append(np.array(["/".join(path.split("/")[-2:]) for path, _ in pairs]))
        classes.append(flags.argmax(axis=1))
    return np.concatenate(images), np.concatenate(classes)


def load_nus_wide(
    root: AnyPath,
    split: str = "train",
    *,
    queries_per_label: int = 100,
    training_per_label: int | None = 500,
    seed: int = 0,
    verify: Verify = "published",
) -> GradedDataset:
    """Read a split of NUS-WIDE, the images of its 21 most frequent labels; the grade of two is how many they share.

    The lists are ``Imagelist.txt`` and the labels ``AllLabels81.txt``, a row of 81 zeros and ones an image, or the
    published ``AllLabels/Labels_<label>.txt``. As in He et al.'s public code, ``split_nus.m``, each label in turn,
    frequent ones first, draws queries and training images among those that no label has drawn; all others, and the
    training images, are the gallery.

    Args:
        root: the folder of the lists and of ``Flickr``, with its folders of images; or its parent,
            if it is called ``NUSWIDE``.
        split: "train", "test" (queries and gallery, which the data set's ``queries`` and ``gallery`` index), "query" or
            "gallery".
        queries_per_label: queries that each label draws.
        training_per_label: training images that each label draws; None: the gallery trains.
        seed: of these draws.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["nus-wide"].checked(split, verify)
    check_integer("queries_per_label", queries_per_label)
    check_integer("training_per_label", training_per_label, or_none=True)
    data_folder, file, labeled_by = benchmark.files(root, NUS_WIDE_LISTS, NUS_WIDE_LABELS)
    image_names = read_words(file, ("image",))["image"]
    names, flags = _labels(labeled_by)
    if len(image_names) != len(flags):
        problem, expected = f"{labeled_by}: labels of {len(flags)} images", f"the {len(image_names)} of {file.name}"
        raise TableError(problem, expected=expected)
    frequent = np.argsort(-flags.sum(axis=0), kind="stable")[:FREQUENT]
    image_rows = np.flatnonzero(flags[:, frequent].any(axis=1))
    labels = flags[np.ix_(image_rows, frequent)]
    paths = ["Flickr/" + "/".join(path.replace("\\", "/").split("/")[-2:]) for path in image_names.iloc[image_rows]]

    def row_name(row: int) -> str:
        return f"{file.name}, line {image_rows[row] + 1}"

    images = benchmark.image_files(data_folder, paths, row_name)
    rows = _drawn_by_label(labels, queries_per_label, training_per_label, seed)
    leaves = [" + ".join(names[label] for label in frequent[image_labels]) for image_labels in labels]
    training_leaves = [leaves[row] for row in rows["train"]]
    if split == "train":
        dataset = benchmark.dataset(split, [training_leaves], SelectedImages(images, rows[split]))
    else:
        fields, count = {"queries": rows["query"], "gallery": rows["gallery"]}, len(training_leaves)
        dataset = benchmark.dataset(split, [[*training_leaves, *leaves]], images, str, count, fields=fields)
    return GradedDataset(**vars(dataset), vectors=labels[rows.get(split, slice(None))])


def _labels(source: Path) -> tuple[list[str], NDArray[np.bool_]]:
    """Names of the labels and (n, 81) booleans, from a table of all or a file for each."""
    if source.is_file():
        flags = flag_matrix(source, text_lines(source))
        return [str(label) for label in range(1, flags.shape[1] + 1)], flags
    files = sorted(source.glob("Labels_*.txt"))
    columns = [flag_matrix(file, text_lines(file))[:, :1] for file in files]
    if len({len(column) for column in columns}) != 1:
        raise TableError(f"{source}: {len(files)} files of labels", expected="Labels_*.txt with a line for each image")
    return [file.stem.removeprefix("Labels_") for file in files], np.concatenate(columns, axis=1)


def _drawn_by_label(
    labels: NDArray[np.bool_], num_queries: int, num_training: int | None, seed: int
) -> dict[str, NDArray[np.int64]]:
    """The rows of queries, gallery and training."""
    random, is_drawn = np.random.default_rng(seed), np.zeros(len(labels), dtype=np.bool_)
    draws: dict[str, list[NDArray[np.int64]]] = {"query": [], "train": []}
    for label in range(labels.shape[1]):
        rows = random.permutation(np.flatnonzero(labels[:, label] & ~is_drawn))
        num_drawn = num_queries + (num_training or 0)
        if len(rows) < num_drawn:
            problem = f"NUS-WIDE: {len(rows)} images left for label {label + 1} of {labels.shape[1]}"
            raise TableError(problem, expected=f"{num_drawn}", remedy="lower queries_per_label and training_per_label")
        draws["query"].append(rows[:num_queries])
        draws["train"].append(rows[num_queries:num_drawn])
        is_drawn[rows[:num_drawn]] = True
    query, train = (np.sort(np.concatenate(rows)) for rows in draws.values())
    gallery = np.setdiff1d(np.arange(len(labels)), query)
    return {"query": query, "gallery": gallery, "train": gallery if num_training is None else train}
