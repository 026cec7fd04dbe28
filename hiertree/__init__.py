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
    from hiertree import losses as losses
    from hiertree import metrics as metrics
    from hiertree.losses import CSL, HAPPIER, ROADMAP, CrossBatchMemory, SupAP, SupHAP, SupNDCG, SupRecall
    from hiertree.metrics import evaluate, evaluate_codes, evaluate_ranking, evaluate_scores
    from hiertree.pipelines.inference import load_model

    from . import datasets, errors, relevance, samplers, tree
    from .tree import LabelTree, level_counts, levels

__version__ = "0.1.0"
__all__ = ["LabelTree", "datasets", "errors", "evaluate", "evaluate_codes", "evaluate_ranking", "evaluate_scores"]
__all__ += ["level_counts", "levels", "metrics", "relevance", "samplers", "tree"]
if find_spec("torch") is not None:  # of extras; "import *" loads every name
    __all__ += ["CSL", "HAPPIER", "ROADMAP", "CrossBatchMemory", "SupAP", "SupHAP", "SupNDCG", "SupRecall", "losses"]
if find_spec("timm") is not None:
    __all__ += ["load_model"]

if not Path(__path__[0], "metrics").exists():  # a checkout: metrics, losses and pipelines lie beside this folder
    __path__.append(str(Path(__path__[0]).parent))

_MODULES = {
    "tree": ("LabelTree", "level_counts", "levels"),
    "metrics": ("evaluate", "evaluate_codes", "evaluate_ranking", "evaluate_scores"),
    "losses": ("CSL", "HAPPIER", "ROADMAP", "CrossBatchMemory", "SupAP", "SupHAP", "SupNDCG", "SupRecall"),
    "pipelines.inference": ("load_model",),
}


def __getattr__(name: str) -> Any:
    if name in (*_MODULES, "datasets", "errors", "relevance", "samplers"):
        return import_module(f"hiertree.{name}")
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'hiertree' has no attribute {name!r}")
    return getattr(import_module(f"hiertree.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
