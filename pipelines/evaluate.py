"""``hiertree evaluate``: embeddings and labels on disk → every metric on the terminal, as JSON, and by query."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zipfile import BadZipFile

import numpy as np

from hiertree import files
from hiertree.errors import InputError, OptionError
from hiertree.metrics import Evaluation, evaluate
from hiertree.provenance import manifest

if TYPE_CHECKING:
    from numpy.typing import NDArray

PathLike = str | os.PathLike[str]
_NPZ_ARRAYS = ("embeddings", "paths", "gallery_embeddings", "gallery_paths")


class Retrieval(NamedTuple):
    """What a file says: queries and, unless they retrieve each other, a gallery."""

    embeddings: NDArray[Any]
    paths: NDArray[Any]
    gallery_embeddings: NDArray[Any] | None = None
    gallery_paths: NDArray[Any] | None = None


def evaluate_file(
    embeddings: PathLike,
    *,
    labels: PathLike | None = None,
    levels: Sequence[str] = (),
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    counts: Literal["strict", "official"] = "strict",
    ties: Literal["average", "worst", "best", "paper", "index"] = "average",
    block_size: int | None = None,
    as_json: bool = False,
    per_query: PathLike | None = None,
    out: PathLike | None = None,
) -> Evaluation:
    """Evaluate embeddings on disk, print the result, and write what is asked for.

    Args:
        embeddings: an ``.npz`` with arrays ``embeddings`` (n, d) and ``paths`` (n, L), as ``hiertree train`` writes it,
            and for a separate gallery ``gallery_embeddings`` and ``gallery_paths``; or an ``.npy`` of (n, d).
        labels: for an ``.npy``, a CSV or Parquet table with one row an embedding, in the same order.
        levels: its columns, coarse → fine; all of its columns unless given.
        metrics: names as :func:`hiertree.metrics.evaluate` takes them.
        alpha: of H-AP's relevance.
        counts: ``"strict"`` or ``"official"``.
        ties: the policy for equal scores.
        block_size: queries at once.
        as_json: print JSON instead of a table.
        per_query: a ``.parquet`` or ``.csv`` file for the values of each query.
        out: a ``.json`` file for means, convention card and provenance.

    Raises:
        InputError: the file is no such archive, or does not hold these arrays.
        OptionError: an ``.npy`` without labels, labels beside an ``.npz``, or a suffix that is not known.
        HiertreeError: as :func:`hiertree.metrics.evaluate` and :func:`hiertree.tables.read_table`.
    """
    source, table = Path(embeddings), None if per_query is None else Path(per_query)
    if table is not None and table.suffix not in (".parquet", ".csv"):
        raise OptionError(f"a per-query file {table.name!r}", expected="a name that ends in .parquet or .csv")
    retrieval = read_retrieval(source, labels=labels, levels=levels)
    options = {"alpha": alpha, "counts": counts, "ties": ties}
    result = evaluate(
        *retrieval, metrics=metrics, alpha=alpha, counts=counts, ties=ties, block_size=block_size, progress=True
    )
    inputs = [source] if labels is None else [source, Path(labels)]
    if table is not None:
        _write_per_query(result, table)
    if out is not None:
        parameters = {"metrics": list(result.names), "levels": list(levels), **options}
        made = manifest(command="hiertree evaluate", parameters=parameters, inputs=inputs)
        files.write_json(out, {**result.as_dict(), "manifest": made})
    if as_json:
        print(result.to_json())
    else:
        print_result(result)
    return result


def read_retrieval(source: PathLike, *, labels: PathLike | None = None, levels: Sequence[str] = ()) -> Retrieval:
    """The arrays of an ``.npz``, or of an ``.npy`` with its table of labels; nothing is unpickled."""
    file = Path(source)
    if file.suffix == ".npz":
        if labels is not None:
            raise OptionError(f"labels beside {file.name}", expected="its own paths", remedy="leave the labels out")
        return _read_npz(file)
    if file.suffix != ".npy":
        raise OptionError(f"embeddings in {file.name!r}", expected="a file that ends in .npz or .npy")
    if labels is None:
        raise OptionError(
            f"{file.name} without labels", expected="a table of labels", remedy="name a CSV or Parquet file"
        )
    array = _load(file)
    return Retrieval(array, _paths_of_table(Path(labels), levels, num_items=len(array)))


def print_result(result: Evaluation) -> None:
    """Show means, bootstrap intervals, skipped queries and the convention card on standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    means, bounds = result.summary(), result.confidence_interval()
    table = Table(title=f"{len(result)} queries", title_justify="left")
    table.add_column("metric")
    for column in ("mean", "95 % interval", "skipped"):
        table.add_column(column, justify="right")
    for name, skipped in result.skipped.items():
        shown = ("—", "")
        if name in means.index:
            low, high = bounds.loc[name, ["low", "high"]]
            shown = (f"{means[name]:.4f}", f"{low:.4f} … {high:.4f}")
        table.add_row(Text(name), *shown, str(skipped) if skipped else "")
    console = Console()
    console.print(table)
    console.print(Text(str(result.convention)))


def _read_npz(file: Path) -> Retrieval:
    with _load(file) as archive:
        unknown = sorted(set(archive.files) - set(_NPZ_ARRAYS))
        missing = [name for name in _NPZ_ARRAYS[:2] if name not in archive.files]
        if unknown or missing:
            raise InputError(
                f"{file.name} with arrays {', '.join(archive.files) or 'none'}",
                expected=f"{_NPZ_ARRAYS[0]} and {_NPZ_ARRAYS[1]}, and perhaps {_NPZ_ARRAYS[2]} and {_NPZ_ARRAYS[3]}",
            )
        try:
            return Retrieval(**{name: archive[name] for name in archive.files})
        except (ValueError, BadZipFile) as error:
            raise InputError(f"{file.name}: {error}", expected="arrays of plain numbers") from error


def _load(file: Path) -> Any:
    if not file.is_file():
        raise InputError(f"{file}", expected="an existing .npz or .npy file")
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{file.name}: {error}", expected="plain numbers saved by numpy") from error


def _paths_of_table(file: Path, levels: Sequence[str], *, num_items: int) -> NDArray[np.int32]:
    """Paths of the rows of a table of labels; the same text under two parents is two labels."""
    from hiertree import LabelTree
    from hiertree.labels import read_label_rows
    from hiertree.tables import read_table

    rows, where = read_label_rows(file, levels or list(read_table(file).columns))
    if len(rows) != num_items:
        raise InputError(f"{file.name} with {len(rows)} rows", expected=f"{num_items}, one an embedding")
    return LabelTree.from_paths(rows, leaf="path", repeats="merge", where=where).paths(rows)


def _write_per_query(result: Evaluation, file: Path) -> None:
    with files.replacing(file) as temporary:
        if file.suffix == ".parquet":
            result.per_query().to_parquet(temporary)
        else:
            result.per_query().to_csv(temporary, lineterminator="\n")
