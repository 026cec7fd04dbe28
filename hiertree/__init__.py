"""hiertree: build label hierarchies, measure hierarchical retrieval, train HAPPIER models.

>>> import hiertree as ht
>>> tree = ht.LabelTree.from_paths([("natural", "lake", 17), ("human-made", "church", 4)])
>>> tree.paths([4, 17, 4])
array([[1, 1, 1],
       [0, 0, 0],
       [1, 1, 1]], dtype=int32)

Names are loaded when first used, so that ``import hiertree`` costs milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hiertree.pipelines.inference import load_model as load_model

    from . import datasets, errors, relevance, samplers, tree
    from .tree import LabelTree, level_counts, levels

__version__ = "0.1.0"
__all__ = ["LabelTree", "datasets", "errors", "level_counts", "levels", "load_model", "relevance", "samplers", "tree"]

if find_spec("timm") is None:
    __all__.remove("load_model")  # it needs the extra "train", and "import *" loads every name

if not Path(__path__[0], "metrics").exists():  # a checkout: metrics, losses and pipelines lie beside this folder
    __path__.append(str(Path(__path__[0]).parent))

_IN_TREE = ("LabelTree", "level_counts", "levels")


def __getattr__(name: str) -> Any:
    if name == "load_model":
        return import_module("hiertree.pipelines.inference").load_model
    if name not in __all__:
        raise AttributeError(f"module 'hiertree' has no attribute {name!r}")
    if name in _IN_TREE:
        return getattr(import_module("hiertree.tree"), name)
    return import_module(f"hiertree.{name}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
