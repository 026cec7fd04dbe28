"""A result by level, by class, and as a page shows it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hiertree.errors import OptionError
from hiertree.options import check_integer

from .conventions.card import Convention
from .conventions.names import parse_metrics

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

ClassNames: TypeAlias = "Sequence[Sequence[Hashable]]"


def table_by_level(
    means: Mapping[str, float], metrics: Sequence[str], level_names: Sequence[str] | None, num_levels: int
) -> pd.DataFrame:
    """Rows are levels, coarse → fine, columns the metrics of a level, without it."""
    import pandas as pd

    parsed = [metric for metric in parse_metrics(metrics, num_levels=num_levels, of_codes=True) if metric.has_level]
    first = min([metric.level for metric in parsed], default=1)  # 0 of first-error: items that share no level
    names = list(range(1, num_levels + 1)) if level_names is None else list(level_names)
    index = pd.Index([0, *names] if first == 0 else names, name="level")
    columns = list(dict.fromkeys(metric.name_without_level for metric in parsed))
    table: pd.DataFrame = pd.DataFrame(np.nan, index, columns)
    for metric in parsed:
        place = (metric.level - min(first, 1), columns.index(metric.name_without_level))
        table.iloc[place] = means.get(metric.name, np.nan)
    return table


def table_by_class(
    values: pd.DataFrame,
    query_paths: NDArray[np.int64] | None,
    level: int | str | None,
    level_names: Sequence[str] | None,
    class_names: ClassNames | None,
) -> pd.DataFrame:
    """The number of queries of each class, and the mean of each metric over those that have a value."""
    import pandas as pd

    if query_paths is None:
        raise OptionError(
            "by_class of a result that does not know its queries' labels",
            expected="a result of evaluate, evaluate_codes or evaluate_ranking of indices",
            remedy="group per_query() by labels of your own",
        )
    depth = _depth(level, query_paths.shape[1], level_names)
    keys = [pd.Series(_names(query_paths[:, column], column, class_names)) for column in range(depth)]
    titles = [f"level {number}" for number in range(1, depth + 1)] if level_names is None else level_names[:depth]
    classes = values.reset_index(drop=True).groupby(
        [key.rename(title) for key, title in zip(keys, titles, strict=True)], sort=class_names is None
    )
    table: pd.DataFrame = classes.mean()
    table.insert(0, "queries", classes.size())
    return table


def page_of(means: Mapping[str, float], skipped: Mapping[str, int], num_queries: int, convention: Convention) -> str:
    """HTML: a table of means, and the convention card folded below it."""
    import pandas as pd

    known = {name: f"{means[name]:.4f}" if name in means else "—" for name in skipped}
    table = pd.DataFrame({"mean": known, f"without positives, of {num_queries}": dict(skipped)}, index=list(skipped))
    card = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in convention.rows().items()
    )
    return f"{table.to_html()}\n<details><summary>Conventions</summary><table>{card}</table></details>"


def _depth(level: int | str | None, num_levels: int, level_names: Sequence[str] | None) -> int:
    """The number of a level, 1 … L, given by number or name; the finest unless given."""
    if isinstance(level, str):
        if level not in (level_names or ()):
            known = "its number" if level_names is None else f"{', '.join(level_names)}, or its number"
            raise OptionError(f"level={level!r}", expected=known)
        return list(level_names or ()).index(level) + 1
    check_integer("level", level, or_none=True)
    if level is not None and level > num_levels:
        raise OptionError(f"level={level}", expected=f"a level between 1 (coarsest) and {num_levels} (finest)")
    return num_levels if level is None else int(level)


def _names(ids: NDArray[np.int64], column: int, class_names: ClassNames | None) -> Any:
    """The label of each id; the ids themselves where these are the labels."""
    return ids if class_names is None else [class_names[column][node] for node in ids.tolist()]
