"""Benchmarks whose labels are in lists: ``sop``, ``cub``, ``aircraft``, ``inshop``, ``vehicleid`` and ``cars``.

* Oh Song, Xiang, Jegelka and Savarese, *Deep Metric Learning via Lifted Structured Feature Embedding* (CVPR 2016):
  120,053 photographs of 22,634 products; and the retrieval splits of CUB, its first and last 100 classes.
* Wah, Branson, Welinder, Perona and Belongie, *The Caltech-UCSD Birds-200-2011 Dataset* (2011): 11,788 photographs of
  200 kinds of birds. ``train_test_split.txt``, which is for classification, is not used.
* Maji, Rahtu, Kannala, Blaschko and Vedaldi, *Fine-Grained Visual Classification of Aircraft* (2013): 10,000
  photographs of 100 variants.
* Liu, Luo, Qiu, Wang and Tang, *DeepFashion: Powering Robust Clothes Recognition and Retrieval with Rich Annotations*
  (CVPR 2016): 52,712 photographs of 7,982 clothes.
* Liu, Tian, Wang, Pang and Huang, *Deep Relative Distance Learning: Tell the Difference Between Similar Vehicles* (CVPR
  2016): 221,763 photographs of 26,267 vehicles.
* Krause, Stark, Deng and Fei-Fei, *3D Object Representations for Fine-Grained Categorization* (3dRR 2013): 16,185
  photographs of 196 models of cars, of which the first 98 train and the last 98 test.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ...errors import TableError
from ...io.files import AnyPath
from ...io.reading import reading_file
from ...io.tables import integer_column, line_names
from ...options import check_choice
from ..description import BENCHMARKS, Benchmark, Verify
from ..image_dataset import ImageDataset
from ..readers.images import FileImages
from ..readers.text_lists import (
    divide_rows,
    join_lists,
    read_matlab,
    read_words,
    refuse_contradictions,
    refuse_first,
    table_of_words,
    text_lines,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from PIL import Image

BANNER = 20  # pixels
AIRCRAFT_LEVELS = BENCHMARKS["aircraft"].levels
CUB_TRAINING_CLASSES = 100
INSHOP_LISTS = tuple(f"{folder}list_eval_partition.txt" for folder in ("Anno/", "Eval/", ""))
INSHOP_IMAGES = ("img", "Img/img", "img_highres", "Img/img_highres")  # where the archives of images are unpacked to
INSHOP_STATUS = {"queries": "query", "gallery": "gallery"}
TestClasses = Literal[800, 1600, 2400]
TestGallery = Literal["list", "one-image"]
VEHICLEID_SIZES = get_args(TestClasses)
CARS_TRAINING_CLASSES = 98
CARS_DEVKIT = (  # the second release: images by the split of a classifier, which retrieval does not use
    "devkit/cars_train_annos.mat",
    ("devkit/cars_test_annos_withlabels.mat", "cars_test_annos_withlabels.mat"),
)


def load_sop(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of Stanford Online Products from ``Ebay_train.txt``, ``Ebay_test.txt`` or ``Ebay_info.txt``.

    Args:
        root: the folder ``Stanford_Online_Products`` or its parent.
        split: "train", "test", or "info" for both.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["sop"].checked(split, verify)
    data_folder, file = benchmark.files(root, f"Ebay_{split}.txt")
    splits = list(benchmark.splits)
    lists = join_lists([file.with_name(f"Ebay_{name}.txt") for name in splits[: splits.index(split) + 1]], _sop_list)
    table = lists.table
    for key, value in permutations(("super_class_id", "folder")):
        refuse_contradictions(table[key], table[value], lists.where, key)
    columns = [table["folder"].str.removesuffix("_final").tolist(), table["class_id"].to_numpy()]
    return benchmark.listed_dataset(split, lists, columns, data_folder, table["path"])


def _sop_list(file: Path) -> pd.DataFrame:
    table = read_words(file, ("image_id", "class_id", "super_class_id", "path"), header=True)
    for name in ("class_id", "super_class_id"):
        table[name] = integer_column(table, name, path=file)
    table["folder"] = table["path"].str.partition("/")[0]
    return table


def load_cub(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a retrieval split of CUB-200-2011 from ``images.txt``, ``image_class_labels.txt`` and ``classes.txt``.

    Args:
        root: the folder ``CUB_200_2011`` or its parent.
        split: "train", classes 1 to 100, or "test", classes 101 to 200.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["cub"].checked(split, verify)
    data_folder, *files = benchmark.files(root, "images.txt", "image_class_labels.txt", "classes.txt")
    images = read_words(files[0], ("image_id", "path"))
    labels = read_words(files[1], ("image_id", "class_id"))
    classes = read_words(files[2], ("class_id", "name"))
    if images["image_id"].tolist() != labels["image_id"].tolist():
        raise TableError(f"{files[1]}: image ids differ from {files[0].name}", expected="the same, in the same order")
    for key, value in permutations(("class_id", "name")):
        refuse_contradictions(classes[key], classes[value], line_names(classes, files[2]), key)
    names = labels["class_id"].map(dict(zip(classes["class_id"], classes["name"], strict=True)))
    refuse_first(names.isna(), line_names(labels, files[1]), labels["class_id"], f"a class of {files[2].name}")
    row_name = line_names(images, files[0])
    refuse_contradictions(images["path"].str.partition("/")[0], names, row_name, "the folder")
    class_ids = integer_column(labels, "class_id", path=files[1])
    rows = divide_rows(images.assign(name=names.tolist()), row_name, class_ids > CUB_TRAINING_CLASSES, split)
    class_names, paths = rows.table["name"].tolist(), "images/" + rows.table["path"]
    return benchmark.listed_dataset(split, rows, [class_names], data_folder, paths)


def load_aircraft(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of FGVC-Aircraft: manufacturer → family → variant, from its lists of either level.

    As the authors ask, the lowest 20 pixels of each image, a banner with the photographer's name, are cut off.

    Args:
        root: the folder ``fgvc-aircraft-2013b``, its ``data``, or its parent.
        split: "train" (the authors' ``trainval``) or "test", of the same variants.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["aircraft"].checked(split, verify)
    names = ["trainval"] if split == "train" else ["trainval", "test"]
    lists = [(f"data/images_{level}_{names[-1]}.txt", f"images_{level}_{names[-1]}.txt") for level in AIRCRAFT_LEVELS]
    *_, file = benchmark.files(root, *lists)
    rows = join_lists([file.with_name(f"images_variant_{name}.txt") for name in names], _aircraft)
    paths = rows.own["path"].tolist()
    images = benchmark.image_files(file.parent, paths, lambda row: rows.where(rows.earlier_rows + row))
    labels = [rows.table[level].tolist() for level in AIRCRAFT_LEVELS]
    return benchmark.dataset(split, labels, WithoutBanner(images.root, paths), rows.where, rows.earlier_rows)


def _aircraft(variants: Path) -> pd.DataFrame:
    """The path of each image and its labels, which may have spaces in them, from a list of each level."""
    table = table_of_words(variants, ("image", "variant"), _named_images(variants), 1)
    table["path"] = "images/" + table["image"] + ".jpg"
    for level in AIRCRAFT_LEVELS[:-1]:
        file = variants.with_name(variants.name.replace("variant", level))
        lines = table_of_words(file, ("image", level), _named_images(file), 1)
        if lines["image"].tolist() != table["image"].tolist():
            raise TableError(f"{file}: images differ from {variants.name}", expected="the same, in the same order")
        table[level] = lines[level]
    return table


def _named_images(file: Path) -> list[list[str]]:
    return [line.split(maxsplit=1) for line in text_lines(file)]


class WithoutBanner(FileImages):
    """Image files without their lowest pixels."""

    def __getitem__(self, index: int) -> Image.Image:
        image = super().__getitem__(index)
        return image.crop((0, 0, image.width, max(1, image.height - BANNER)))


def load_inshop(
    root: AnyPath, split: str = "train", *, hierarchy: bool = True, verify: Verify = "published"
) -> ImageDataset:
    """Read a split of In-shop clothes from ``list_eval_partition.txt``.

    Gender and category are the folders of an image, ``img/WOMEN/Dresses/id_00000002/02_1_front.jpg``.

    Args:
        root: the folder that holds ``img`` and the list, or ``Eval`` and ``Img``, as published; or the parent of such a
            folder. Images of high resolution, ``img_highres``, are read where there are no others.
        split: "train", "test" (queries and gallery, which the data set's ``queries`` and ``gallery`` index),
            "query" or "gallery".
        hierarchy: True reads three levels; False the item alone, as in published numbers.
        verify: as in :func:`hiertree.datasets.load`.
    """
    benchmark = BENCHMARKS["inshop"].checked(split, verify)
    data_folder, file = benchmark.files(root, INSHOP_LISTS)
    table = read_words(file, ("image_name", "item_id", "evaluation_status"), header=True, count=True)
    status = table["evaluation_status"]
    is_valid = status.isin(("train", "query", "gallery"))
    refuse_first(~is_valid, line_names(table, file), status, "train, query or gallery")
    rows = divide_rows(table, line_names(table, file), (status != "train").to_numpy(), split)
    table, row_name = rows.table, rows.where
    names, columns = table["image_name"], [table["item_id"].tolist()]
    folders = names.str.extract("^[^/]*/([^/]*)/([^/]*)/(?:(id_[0-9]+)/)?")  # gender, category and item
    if hierarchy:
        refuse_first(folders[0].isna(), row_name, names, "img/<gender>/<category>/<item>/<image>")
        columns = [folders[0].tolist(), folders[1].tolist(), *columns]
    is_misfiled = folders[2].notna() & (folders[2] != table["item_id"])
    refuse_first(is_misfiled, row_name, names, "the folder of its item_id")
    folder = next((folder for folder in INSHOP_IMAGES if (data_folder / folder).is_dir()), INSHOP_IMAGES[0])
    names, levels = names.str.replace("^img/", f"{folder}/", regex=True), benchmark.levels[-len(columns) :]
    status = rows.own["evaluation_status"]
    fields = (
        {} if split == "train" else {field: np.flatnonzero(status == name) for field, name in INSHOP_STATUS.items()}
    )
    return benchmark.listed_dataset(split, rows, columns, data_folder, names, level_names=levels, fields=fields)


def load_vehicleid(
    root: AnyPath,
    split: str = "train",
    *,
    test_classes: TestClasses | Literal["all"] = 800,
    gallery: TestGallery = "list",
    seed: int = 0,
    verify: Verify = "published",
) -> ImageDataset:
    """Read a split of VehicleID from ``train_test_split/train_list.txt`` or ``test_list_{800,1600,2400}.txt``.

    Every test image is a query and its gallery are all others of its list, as Smooth-AP measures (protocol
    "vehicleid"). Others in the literature draw one image of each vehicle as the gallery and query with the rest
    (``gallery="one-image"``, protocol "vehicleid-one-image"); their numbers are means over several draws and cannot be
    compared with the first protocol's.

    Args:
        root: the folder ``VehicleID_V1.0`` or its parent.
        split: "train" or "test"; "query" or "gallery" are the parts of a one-image gallery.
        test_classes: 800, 1600 or 2400, the size of the test list; "all": the smallest, with the others in ``beside``.
        gallery: what a test image is searched in: the rest of its "list", or a gallery of "one-image" of each vehicle.
        seed: of the draw of that gallery.
        verify: as in :func:`hiertree.datasets.load`.
    """
    if test_classes == "all" and split == "test":
        check_choice("gallery", gallery, Literal["list"])
        first, *larger_splits = (
            replace(load_vehicleid(root, split, test_classes=size, verify=verify), split=f"test_{size}")
            for size in VEHICLEID_SIZES
        )
        return replace(first, beside=tuple(larger_splits))
    test_classes = 800 if test_classes == "all" else test_classes
    check_choice("test_classes", test_classes, TestClasses)
    check_choice("gallery", gallery, TestGallery)
    benchmark = BENCHMARKS[f"vehicleid-{test_classes}"].checked(split, verify)
    names = ["train_list", *(f"test_list_{size}" for size in VEHICLEID_SIZES if size <= test_classes)]
    names = names[:1] if split == "train" else names
    data_folder, file = benchmark.files(root, f"train_test_split/{names[-1]}.txt")
    lists = join_lists([file.with_name(f"{name}.txt") for name in names], _vehicles)
    vehicles = lists.table["vehicle"].to_numpy()
    paths, fields = [f"image/{image.zfill(7)}.jpg" for image in lists.table["image"]], {}
    if split != "train" and not (split == "test" and gallery == "list"):
        benchmark = replace(benchmark, protocol="vehicleid-one-image")
        own_vehicles = vehicles[lists.earlier_rows :]
        order = np.random.default_rng(seed).permutation(len(own_vehicles))
        one_each = np.sort(order[np.unique(own_vehicles[order], return_index=True)[1]])
        fields = {"queries": np.setdiff1d(order, one_each), "gallery": one_each}
    return benchmark.listed_dataset(split, lists, [vehicles], data_folder, paths, fields=fields)


def _vehicles(file: Path) -> pd.DataFrame:
    table = read_words(file, ("image", "vehicle"))
    table["vehicle"] = integer_column(table, "vehicle", path=file)
    return table


def load_cars(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a retrieval split of Cars196 from ``cars_annos.mat``, or from the devkit of its second release.

    The first names files ``car_ims/000001.jpg``; the second ``cars_train/00001.jpg`` and ``cars_test/00001.jpg``, the
    same images, whose annotations are in ``devkit`` (``cars_test_annos_withlabels.mat`` also beside it).

    Args:
        root: the folder that holds ``car_ims`` and ``cars_annos.mat``, or ``cars_train``, ``cars_test`` and ``devkit``;
            or its parent, if it is called ``cars196`` or ``stanford_cars``.
        split: "train", classes 1 to 98, or "test", classes 99 to 196.
        verify: as in :func:`hiertree.datasets.load`.
    """
    import pandas as pd

    benchmark = BENCHMARKS["cars"].checked(split, verify)
    data_folder, paths, class_ids, class_names = _cars(benchmark, root)
    refuse_contradictions(class_names, range(len(class_names)), lambda row: f"class {row + 1}", "the name")
    table = pd.DataFrame({"path": paths, "name": [class_names[class_id - 1] for class_id in class_ids]})
    is_test = class_ids > CARS_TRAINING_CLASSES
    rows = divide_rows(table, lambda row: f"the annotation of {paths[row]}", is_test, split)
    names = [rows.table["name"].tolist()]
    return benchmark.listed_dataset(split, rows, names, data_folder, rows.table["path"].tolist())


def _cars(benchmark: Benchmark, root: AnyPath) -> tuple[Path, list[str], NDArray[np.int64], list[str]]:
    """The folder; paths, class numbers from 1, and the names of the classes."""
    second_release = Path(root, "stanford_cars")
    data_folder, meta = benchmark.files(
        second_release if second_release.is_dir() else root, ("cars_annos.mat", "devkit/cars_meta.mat")
    )
    names = [str(name) for name in read_matlab(meta, "class_names")[0]]
    if meta.name == "cars_annos.mat":
        return data_folder, *_annotated(meta, "", "relative_im_path", len(names)), names
    _, train, test = benchmark.files(data_folder, *CARS_DEVKIT)
    (paths, class_ids), (more_paths, more_ids) = (
        _annotated(file, f"{folder}/", "fname", len(names))
        for file, folder in ((train, "cars_train"), (test, "cars_test"))
    )
    return data_folder, paths + more_paths, np.concatenate([class_ids, more_ids]), names


def _annotated(file: Path, folder: str, path: str, classes: int) -> tuple[list[str], NDArray[np.int64]]:
    """Paths of images and their classes, from 1."""
    (annotations,) = read_matlab(file, "annotations")
    with reading_file(file, expected=f"annotations of {path} and class, class_names"):
        class_ids = annotations["class"].astype(np.int64)
        paths = [f"{folder}{name}" for name in annotations[path]]
    if not 1 <= class_ids.min() <= class_ids.max() <= classes:
        raise TableError(f"{file}: classes up to {class_ids.max()}", expected=f"1 to {classes}, as in class_names")
    return paths, class_ids
