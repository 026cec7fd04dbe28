"""Data sets: files on disk, or drawn images, as images by index with their label paths.

Every loader returns an :class:`ImageDataset`; what is particular to one benchmark is an option of its own loader.

>>> from hiertree import datasets
>>> train = datasets.load("synthetic", split="train")
>>> train.tree.level_names, train.paths.shape
(('family', 'kind', 'instance'), (2304, 3))
"""

from __future__ import annotations

import os

from hiertree.datasets._dataset import ImageDataset, ImageSource
from hiertree.datasets._omniglot import load_omniglot
from hiertree.datasets._synthetic import load_synthetic
from hiertree.datasets._table import load_table
from hiertree.errors import OptionError

__all__ = ["ImageDataset", "ImageSource", "load", "load_omniglot", "load_synthetic", "load_table"]

_FROM_FILES = {"omniglot": load_omniglot}
_DRAWN = {"synthetic": load_synthetic}


def load(name: str, root: str | os.PathLike[str] | None = None, split: str = "train") -> ImageDataset:
    """Load one split of a named benchmark with its loader's defaults.

    Args:
        name: "omniglot" or "synthetic".
        root: where the benchmark's files are; None for what is drawn.
        split: "train" or "test".

    Raises:
        OptionError: an unknown name, a root missing, or one where no files are read.
        HiertreeError: what the benchmark's own loader raises.
    """
    if name == "table":
        raise OptionError("name='table'", expected="a benchmark", remedy="call load_table, which asks for the columns")
    if name in _DRAWN and root is None:
        return _DRAWN[name](split)
    if name in _FROM_FILES and root is not None:
        return _FROM_FILES[name](root, split)
    if name in _DRAWN:
        raise OptionError(f"root={str(root)!r} for {name!r}", expected="no root, as its images are drawn")
    if name in _FROM_FILES:
        raise OptionError(f"no root for {name!r}", expected="the file or folder that holds it")
    known = ", ".join(map(repr, sorted([*_FROM_FILES, *_DRAWN])))
    raise OptionError(f"name={name!r}", expected=f"one of {known}, or load_table for your own table")
