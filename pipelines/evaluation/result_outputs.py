"""What ``hiertree evaluate`` prints and writes of a result, and the relevances that it knows by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hiertree import relevance as relevances
from hiertree.errors import OptionError, require_package
from hiertree.io import files
from hiertree.io.provenance import manifest

from .label_columns import PathLike

if TYPE_CHECKING:
    from hiertree.metrics import Evaluation
    from hiertree.metrics.conventions.request import Relevance

RelevanceName = Literal["hap", "linear", "gain"]


class ResultOutputs:
    """Where a result goes; the names of files are checked before anything is computed.

    Args:
        as_json: print JSON instead of a table.
        per_query: a ``.parquet`` or ``.csv`` file for the values of each query.
        out: a ``.json`` file for means, convention card and provenance.

    Raises:
        OptionError: another suffix.
        MissingPackageError: Parquet without pyarrow.
    """

    def __init__(self, as_json: bool, per_query: PathLike | None, out: PathLike | None) -> None:
        self.as_json, self.out = as_json, out
        self.table = None if per_query is None else Path(per_query)
        if self.table is not None and self.table.suffix not in (".parquet", ".csv"):
            raise OptionError(f"a per-query file {self.table.name!r}", expected="a name that ends in .parquet or .csv")
        if self.table is not None and self.table.suffix == ".parquet":
            require_package("pyarrow", extra="arrow")

    def deliver(self, result: Evaluation, *, parameters: Mapping[str, Any], inputs: Sequence[Path]) -> None:
        """Write the files that are asked for, and print the result."""
        if self.table is not None:
            _write_per_query(result, self.table)
        if self.out is not None:
            made = manifest(command="hiertree evaluate", parameters=dict(parameters), inputs=list(inputs))
            files.write_json(self.out, {**result.as_dict(), "manifest": made})
        if self.as_json:
            print(result.to_json())
        else:
            print_result(result)


def relevance_of(given: str | Sequence[float]) -> Relevance | None:
    """The relevance of that name, or of those weights; None for H-AP's own, which alpha belongs to."""
    if not isinstance(given, str):
        return partial(relevances.weighted_ap, weights=tuple(given))
    known: dict[str, Relevance | None] = {"hap": None, "linear": relevances.linear, "gain": relevances.gain}
    if given not in known:
        raise OptionError(f"relevance={given!r}", expected=f"one of {', '.join(known)}, or a weight a level")
    return known[given]


def print_result(result: Evaluation) -> None:
    """Show means and bootstrap intervals in percent, skipped queries and the convention card on standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    means, bounds = result.summary(), result.confidence_interval()
    table = Table(title=f"{len(result)} queries", title_justify="left")
    drawn = "classes" if bounds["clusters"].max() < len(result) else "queries"
    table.add_column("metric")
    for column in ("mean, %", f"95 % interval over {drawn}", "skipped"):
        table.add_column(column, justify="right")
    for name, skipped in result.skipped.items():
        shown = ("—", "")
        if name in means.index:
            low, high = bounds.loc[name, ["low", "high"]]
            interval = "—" if np.isnan(low) else f"{100 * low:.2f} … {100 * high:.2f}"  # of one class there is none
            shown = (f"{100 * means[name]:.2f}", interval)
        table.add_row(Text(name), *shown, str(skipped) if skipped else "")
    card = Table.grid(padding=(0, 2))
    for name, text in result.convention.rows().items():
        card.add_row(Text(name), Text(text))
    console = Console()
    console.print(table)
    console.print(card)


def _write_per_query(result: Evaluation, file: Path) -> None:
    with files.replacing(file) as temporary:
        if file.suffix == ".parquet":
            result.per_query().to_parquet(temporary)
        else:
            result.per_query().to_csv(temporary, lineterminator="\n")
