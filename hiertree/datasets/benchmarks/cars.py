"""``cars``: Cars196, 16,185 photographs of 196 models of cars.

Krause, Stark, Deng and Fei-Fei, *3D Object Representations for Fine-Grained Categorization* (3dRR 2013). For retrieval
the first 98 classes train and the last 98 test, after Oh Song et al. (CVPR 2016); their sizes are those that
pytorch-metric-learning's tests find (``tests/datasets/test_cars196.py``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import TableError, require_package
from ..description import Benchmark, Counts, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths

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
        "unpack the images beside cars_annos.mat and pass the folder that holds car_ims and cars_annos.mat",
    ),
    folder="cars196",
)
TRAINING_CLASSES = 98


def load_cars(root: str | os.PathLike[str], split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a retrieval split of Cars196 from ``cars_annos.mat``, whose annotations name files ``car_ims/000001.jpg``.

    Args:
        root: the folder that holds ``car_ims`` and ``cars_annos.mat``, or its parent if it is called ``cars196``.
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
    home, file = CARS.files(root, "cars_annos.mat")
    paths, class_ids, class_names = _annotations(file)
    rows = np.flatnonzero((class_ids > TRAINING_CLASSES) == (split == "test")).tolist()

    def where(row: int) -> str:
        return f"{file.name}, annotation {rows[row] + 1}"

    labeled = label_paths([[class_names[class_ids[row] - 1] for row in rows]], level_names=CARS.levels, where=where)
    images = CARS.image_files(home, [paths[row] for row in rows], where)
    return CARS.dataset(split, labeled, images, verify=verify)


def _annotations(file: Path) -> tuple[list[str], Any, list[str]]:
    """Paths, class numbers from 1, and the names of the classes. A MATLAB file holds data only, no code."""
    require_package("scipy", extra="train")
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(file, squeeze_me=True, variable_names=["annotations", "class_names"])
        annotations, names = np.atleast_1d(content["annotations"]), np.atleast_1d(content["class_names"])
        class_ids = annotations["class"].astype(np.int64)
        paths = [str(path) for path in annotations["relative_im_path"]]
    except (MatReadError, ValueError, KeyError, TypeError, IndexError, OSError, NotImplementedError) as error:
        raise TableError(
            f"{file} ({error})", expected="annotations of relative_im_path and class, class_names"
        ) from error
    if not 1 <= class_ids.min() <= class_ids.max() <= len(names):
        raise TableError(f"{file}: classes up to {class_ids.max()}", expected=f"1 to {len(names)}, as class_names has")
    return paths, class_ids, [str(name) for name in names]
