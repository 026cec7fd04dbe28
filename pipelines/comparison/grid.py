"""A grid of settings: keys of a recipe with the values to try, and the name of each combination.

>>> grid = read_grid(["loss.lambda_=0.1,0.5", "data.root=a"])
>>> [row_name("happier", settings) for settings in combinations_of(grid)]
['happier, loss.lambda_=0.1, data.root=a', 'happier, loss.lambda_=0.5, data.root=a']
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from hiertree.errors import OptionError

from ..yaml_files import parse_yaml

Grid: TypeAlias = Mapping[str, Sequence[Any]]
Settings: TypeAlias = Mapping[str, Any]

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|.', flags=re.DOTALL)  # quoted text is one
_UNSAFE = re.compile(r"[^A-Za-z0-9_.,=+-]")
_LONGEST_FOLDER = 120
_NOT_VARIED = {"seed": "give --seeds", "name": "a recipe keeps its name"}


def read_grid(options: Iterable[str]) -> dict[str, list[Any]]:
    """Parse ``KEY=V1,V2,…`` texts; values are YAML, and commas inside brackets or quotes belong to them.

    Raises:
        OptionError: no ``=``, a key given twice, or values that are not distinct.
        RecipeError: a value that is no YAML.

    >>> read_grid(["loss.margins=[0.4, 0.2],[0.5, 0.3]", "optimizer.clip_norm=null,1e-1"])
    {'loss.margins': [[0.4, 0.2], [0.5, 0.3]], 'optimizer.clip_norm': [None, 0.1]}
    """
    grid: dict[str, list[Any]] = {}
    for option in options:
        key, equals, text = option.partition("=")
        key = key.strip()
        if not equals or not key or not text.strip() or key in grid:
            raise OptionError(f"--grid {option}", expected="KEY=V1,V2,… , each key once")
        grid[key] = [parse_yaml(part, source=f"--grid {option}") for part in _parts(text)]
    check_grid(grid)
    return grid


def check_grid(grid: Grid) -> None:
    """Check that every key has distinct values that a recipe can hold.

    Raises:
        OptionError: no value, a value given twice, a date, or a key that a grid cannot vary.
    """
    for key, values in grid.items():
        if key in _NOT_VARIED:
            raise OptionError(f"grid key {key!r}", expected="a setting of the recipe", remedy=_NOT_VARIED[key])
        texts = [setting_text(value) for value in values]
        if not texts or len(set(texts)) < len(texts):
            raise OptionError(f"grid {key}={','.join(texts) or 'nothing'}", expected="at least one value, each once")


def combinations_of(grid: Grid) -> list[dict[str, Any]]:
    """Every combination of the grid's values, the last key's changing fastest; without keys, one of no settings."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def overrides_of(settings: Settings) -> list[str]:
    """The settings as ``--set`` takes them."""
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]


def setting_text(value: Any) -> str:
    """A value as rows and folders show it: equal numbers have equal texts.

    >>> [setting_text(value) for value in (1.0, 1, 1e-05, "adam", None, [0.5, 1])]
    ['1', '1', '1e-05', 'adam', 'null', '[0.5, 1]']

    Raises:
        OptionError: a value that is no text, number, truth value or list or mapping of these.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.12g}"
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError as error:
        raise OptionError(
            f"grid value {value!r}", expected="a text, number, true, false, null, list or mapping"
        ) from error


def row_name(recipe: str, settings: Settings) -> str:
    """The name of a row in tables."""
    return ", ".join([recipe, *(f"{key}={setting_text(value)}" for key, value in settings.items())])


def settings_folder(settings: Settings) -> str:
    """A folder name for the settings, the same in whatever order they are given.

    Where characters had to be replaced, a hash of the settings follows.

    >>> settings_folder({"loss.lambda_": 0.1, "loss.alpha": 1.0})
    'loss.alpha=1,loss.lambda_=0.1'
    >>> settings_folder({"model.pretrained": "../weights.pt"})
    'model.pretrained=.._weights.pt,bb1a83c2'
    """
    text = ",".join(f"{key}={setting_text(value)}" for key, value in sorted(settings.items()))
    safe = _UNSAFE.sub("_", text)[:_LONGEST_FOLDER]
    return safe if safe == text else f"{safe},{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _parts(text: str) -> list[str]:
    """What the commas outside brackets and quotes separate."""
    parts, depth = [""], 0
    for piece in _PIECE.findall(text):
        depth += (piece in "[{(") - (piece in ")}]")
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts
