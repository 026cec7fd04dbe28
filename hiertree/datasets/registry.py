"""All benchmarks by name, and their loaders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from ..errors import OptionError, nearest_name
from . import benchmarks
from .archives import load_archives
from .description import BENCHMARKS, Benchmark
from .huggingface import load_huggingface
from .image_dataset import ImageDataset
from .synthetic import load_synthetic
from .user_images import load_folder, load_table

Loader = Callable[..., ImageDataset]


def _function_of(card: Benchmark) -> Loader:
    function: Loader = getattr(benchmarks, f"load_{card.loader}")
    return function


# What a recipe's data.name may be: a benchmark, a loader with all of its options, or one's own images.
CARDS: Mapping[str, Benchmark] = MappingProxyType({name: card for name, card in BENCHMARKS.items() if card.loader})
LOADERS: Mapping[str, Loader] = MappingProxyType(
    {
        **{name: partial(_function_of(card), **card.options) for name, card in CARDS.items()},
        **{str(card.loader): _function_of(card) for card in CARDS.values()},
        "archives": load_archives,
        "folder": load_folder,
        "huggingface": load_huggingface,
        "synthetic": load_synthetic,
        "table": load_table,
    }
)


def card_of(name: str) -> Benchmark:
    """The benchmark of that name; an OptionError names a similar one."""
    if not any(name == card_name for card_name in CARDS):
        suggestion = nearest_name(name, CARDS)
        raise OptionError(
            f"name={name!r}",
            expected=f"one of {', '.join(map(repr, CARDS))}, 'synthetic', 'folder', or load_table for your own table",
            remedy=f"did you mean {suggestion!r}?" if suggestion else None,
        )
    return CARDS[name]


def load_benchmark(card: Benchmark, root: Any, split: str, *, verify: str) -> ImageDataset:
    """Read one split of a benchmark."""
    return _function_of(card)(root, split, **card.options, **({"verify": verify} if card.verifiable else {}))
