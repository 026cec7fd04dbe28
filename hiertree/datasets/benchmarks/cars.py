"""``cars``: Cars196, 16,185 photographs of 196 models of cars.

Krause, Stark, Deng and Fei-Fei, *3D Object Representations for Fine-Grained Categorization* (3dRR 2013). For retrieval
the first 98 classes train and the last 98 test, after Oh Song et al. (CVPR 2016); their sizes are those that
pytorch-metric-learning's tests find (``tests/datasets/test_cars196.py``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import TableError, require_package
from ..description import Benchmark, Counts, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

CARS = Benchmark(
    name="cars",
    title="Cars196",
    levels=("model",),
    splits={"train": Counts(images=8_054, classes=98), "test": Counts(images=8_131, classes=98)},
    protocol="cub",
    license="non-commercial research",
    url="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
    steps=(
        (
            "get car_ims.tgz (1.9 GB) and cars_annos.mat; the address of the authors, "
            "http://ai.stanford.edu/~jkrause/car196/, no longer answers, so ask for a copy or a mirror you trust"
        ),
        (
            "unpack the images beside cars_annos.mat and pass the folder that holds car_ims and cars_annos.mat; or "
            "that of cars_train, cars_test and devkit with cars_test_annos_withlabels.mat, as torchvision has them"
        ),
    ),
    folder="cars196",
)
TRAINING_CLASSES = 98
DEVKIT = {  # the second release: images by the split of a classifier, which retrieval does not use
    "cars_train": ("devkit/cars_train_annos.mat",),
    "cars_test": ("devkit/cars_test_annos_withlabels.mat", "cars_test_annos_withlabels.mat"),
}


def load_cars(root: str | os.PathLike[str], split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a retrieval split of Cars196 from ``cars_annos.mat``, or from the devkit of its second release.

    The first names files ``car_ims/000001.jpg``; the second ``cars_train/00001.jpg`` and ``cars_test/00001.jpg``, the
    same images, whose annotations are in ``devkit`` (``cars_test_annos_withlabels.mat`` also beside it).

    Args:
        root: the folder that holds ``car_ims`` and ``cars_annos.mat``, or ``cars_train``, ``cars_test`` and ``devkit``;
            or its parent, if it is called ``cars196`` or ``stanford_cars``.
        split: "train", classes 1 to 98, or "test", classes 99 to 196.
        verify: "published" compares the numbers of images and classes with the published ones; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: the annotations cannot be read.
        OptionError: an unknown split.

    Example:
        ``load_cars("data/cars196", "test")``
    """
    CARS.check_options(split, verify)
    home, paths, class_ids, class_names = _all_annotations(root)
    rows = np.flatnonzero((class_ids > TRAINING_CLASSES) == (split == "test")).tolist()

    def where(row: int) -> str:
        return f"the annotation of {paths[rows[row]]}"

    labeled = label_paths([[class_names[class_ids[row] - 1] for row in rows]], level_names=CARS.levels, where=where)
    images = CARS.image_files(home, [paths[row] for row in rows], where)
    return CARS.dataset(split, labeled, images, verify=verify)


def _all_annotations(root: str | os.PathLike[str]) -> tuple[Path, list[str], NDArray[np.int64], list[str]]:
    """The folder; paths, class numbers from 1, and the names of the classes."""
    homes = [Path(root), Path(root, CARS.folder), Path(root, "stanford_cars")]
    home = next((home for home in homes if (home / "devkit" / "cars_meta.mat").is_file()), None)
    if home is None or any((folder / "cars_annos.mat").is_file() for folder in homes):
        home, file = CARS.files(root, "cars_annos.mat")
        content = _content(file, "annotations", "class_names")
        names = [str(name) for name in content["class_names"]]
        return home, *_annotated(file, content["annotations"], "relative_im_path", names), names
    meta = home / "devkit" / "cars_meta.mat"
    names = [str(name) for name in _content(meta, "class_names")["class_names"]]
    paths, class_ids = [], []
    for folder, files in DEVKIT.items():
        present = [home / name for name in files if (home / name).is_file()]
        if not present:
            raise CARS.missing(f"{files[0]} not in {home}", expected=" or ".join(files))
        listed, classes = _annotated(present[0], _content(present[0], "annotations")["annotations"], "fname", names)
        paths += [f"{folder}/{name}" for name in listed]
        class_ids.append(classes)
    return home, paths, np.concatenate(class_ids), names


def _content(file: Path, *variables: str) -> dict[str, Any]:
    """Variables of a MATLAB file, which holds data only, no code."""
    require_package("scipy", extra="train")
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(file, squeeze_me=True, variable_names=list(variables))
        return {name: np.atleast_1d(content[name]) for name in variables}
    except (MatReadError, ValueError, KeyError, TypeError, IndexError, OSError, NotImplementedError) as error:
        raise TableError(f"{file} ({error})", expected=f"a MATLAB file of {', '.join(variables)}") from error


def _annotated(file: Path, annotations: Any, path: str, names: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Paths of images and their classes, from 1."""
    try:
        class_ids = annotations["class"].astype(np.int64)
        paths = [str(name) for name in annotations[path]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise TableError(f"{file} ({error})", expected=f"annotations of {path} and class, class_names") from error
    if not 1 <= class_ids.min() <= class_ids.max() <= len(names):
        raise TableError(f"{file}: classes up to {class_ids.max()}", expected=f"1 to {len(names)}, as class_names has")
    return paths, class_ids
