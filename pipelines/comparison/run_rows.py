"""The table of runs: columns ``recipe``, one for each key of the grid, ``seed``, and one for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .grid import Settings, row_name, setting_text

if TYPE_CHECKING:
    import pandas as pd


def runs_table(rows: Sequence[tuple[str, Settings, int, Mapping[str, float]]]) -> pd.DataFrame:
    """The table of recipe names, settings, seeds and metrics; a key whose values are not all numbers holds texts.

    >>> runs_table([("a", {"loss.tau": 0.1}, 0, {"H-AP": 0.5})]).to_dict("records")
    [{'recipe': 'a', 'loss.tau': 0.1, 'seed': 0, 'H-AP': 0.5}]
    """
    import pandas as pd

    keys = list(rows[0][1])
    numeric = {key: all(_is_number(settings[key]) for _, settings, _, _ in rows) for key in keys}
    listed: list[dict[str, Any]] = []
    for recipe, settings, seed, metrics in rows:
        cells = {key: value if numeric[key] else setting_text(value) for key, value in settings.items()}
        listed.append({"recipe": recipe, **cells, "seed": seed, **metrics})
    table: pd.DataFrame = pd.DataFrame(listed)
    return table


def grid_keys(runs: pd.DataFrame) -> list[str]:
    """The keys of the grid: the columns between ``recipe`` and ``seed``."""
    columns = list(runs.columns)
    return columns[columns.index("recipe") + 1 : columns.index("seed")]


def metric_names(runs: pd.DataFrame) -> list[str]:
    """The metrics: the columns after ``seed``."""
    columns = list(runs.columns)
    return columns[columns.index("seed") + 1 :]


def row_names(runs: pd.DataFrame, *, without: str | None = None) -> list[str]:
    """The name of each run's row: its recipe, and its settings except the key left out.

    >>> import pandas as pd
    >>> row_names(pd.DataFrame({"recipe": ["a", "a"], "loss.tau": [0.1, 1.0], "seed": [0, 0], "H-AP": [0.5, 0.6]}))
    ['a, loss.tau=0.1', 'a, loss.tau=1']
    """
    keys = [key for key in grid_keys(runs) if key != without]
    columns = [runs[key].tolist() for key in ("recipe", *keys)]
    return [row_name(str(name), dict(zip(keys, own, strict=True))) for name, *own in zip(*columns, strict=True)]


def varied_number(runs: pd.DataFrame) -> str | None:
    """The one key of the grid that takes three or more numbers; None where none does, or several do."""
    from pandas.api.types import is_numeric_dtype

    found = [key for key in grid_keys(runs) if is_numeric_dtype(runs[key]) and runs[key].nunique() >= 3]
    return found[0] if len(found) == 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
