"""``hiertree audit``: the same embeddings through our metrics and other libraries', with the reason of each difference.

Where no known convention gives a library's number, the table says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import levels
from hiertree.arrays import as_embeddings, as_paths
from hiertree.errors import InputError, OptionError, require_package
from hiertree.io import files
from hiertree.io.provenance import manifest

from .difference_reasons import DifferenceReasons
from .embeddings_files import naming_files, read_embeddings
from .label_columns import PathLike
from .labeled_embeddings import LabeledEmbeddings
from .other_libraries import LIBRARIES, ScoredQueries, values_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

MOST_PAIRS = 1 << 21  # scores; some libraries hold each as a Python object


def audit(
    embeddings: PathLike,
    *,
    labels: PathLike | None = None,
    levels: Sequence[str] = (),
    queries: int = 200,
    seed: int = 0,
    out: PathLike | None = None,
) -> pd.DataFrame:
    """Compare libraries on embeddings on disk.

    Args:
        embeddings: a file, as :func:`hiertree.pipelines.evaluation.embeddings_files.read_embeddings` takes it.
        labels: its table of labels.
        levels: columns of labels, coarse → fine.
        queries: how many queries are drawn, at most, fewer where the gallery is large; the gallery stays whole.
        seed: of the draw.
        out: a ``.json`` file for the table and its provenance.

    Returns:
        A row a metric and library, with columns ``metric``, ``library``, ``ours``, ``theirs`` and ``reason``: empty
        where they agree, ``"not explained"`` where no known convention gives their number.

    Raises:
        MissingPackageError: none of the libraries is installed.
        OptionError: no query asked for, or ids, junk or distractors, which few of the libraries know.
        HiertreeError: as :func:`hiertree.pipelines.evaluation.embeddings_files.read_embeddings`.
    """
    if queries < 1:
        raise OptionError(f"queries={queries}", expected="at least 1")
    if len(not_installed()) == len(LIBRARIES):
        require_package(*LIBRARIES, extra="interop")
    labeled = read_embeddings(embeddings, labels=labels, levels=levels)
    if labeled.gallery_embeddings is None and labeled.ids is not None and len(set(labeled.ids)) == len(labeled.ids):
        labeled = labeled._replace(ids=None)  # each query leaves out itself anyway
    if labeled.masked:
        raise OptionError(
            f"{Path(embeddings).name} with ids, junk or distractors", expected="embeddings and paths alone"
        )
    if len(labeled.embeddings) < 2 and labeled.gallery_embeddings is None:
        raise InputError(f"{embeddings} with one embedding", expected="others to retrieve")
    with naming_files(embeddings, None):
        drawn = draw_queries(labeled, queries=queries, seed=seed)
    table = compare_libraries(drawn)
    if table["ours"].isna().all():
        raise InputError(f"{embeddings} gives no metric a value", expected="items that share labels")
    if out is not None:
        inputs = [Path(file) for file in (embeddings, labels) if file is not None]
        parameters = {"levels": list(levels), "queries": len(drawn.scores)}
        made = manifest(command="hiertree audit", parameters=parameters, inputs=inputs, seed=seed)
        files.write_json(out, {"table": audit_rows(table), "manifest": made})
    return table


def audit_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of an audit for JSON, which has no NaN: None where no query has a value."""
    return [
        {str(name): None if isinstance(value, float) and np.isnan(value) else value for name, value in row.items()}
        for row in table.to_dict(orient="records")
    ]


def draw_queries(labeled: LabeledEmbeddings, *, queries: int, seed: int) -> ScoredQueries:
    """Draw queries and score them against the whole gallery."""
    alone = labeled.gallery_embeddings is None
    query = _normalized(as_embeddings(labeled.embeddings))
    paths = as_paths(labeled.paths, num_items=len(query))
    gallery = query if alone else _normalized(as_embeddings(labeled.gallery_embeddings))
    gallery_paths = paths if alone else as_paths(labeled.gallery_paths, num_items=len(gallery))
    number = max(min(queries, len(query), MOST_PAIRS // len(gallery)), 1)
    drawn = np.sort(np.random.default_rng(seed).choice(len(query), number, replace=False))
    classes = np.unique(np.concatenate([paths, gallery_paths]), axis=0, return_inverse=True)[1].reshape(-1)
    valid = np.ones((number, len(gallery)), np.bool_)
    if alone:
        valid[np.arange(number), drawn] = False
    scores, depths = query[drawn] @ gallery.T, levels(paths[drawn], gallery_paths)
    return ScoredQueries(
        scores,
        depths,
        valid,
        paths.shape[1],
        query[drawn],
        classes[: len(paths)][drawn],
        gallery,
        classes[len(paths) :],
        alone,
    )


def compare_libraries(queries: ScoredQueries, libraries: Iterable[str] | None = None) -> pd.DataFrame:
    """The table of :func:`audit`, for the libraries that are installed."""
    import pandas as pd

    missing = not_installed()
    installed = [name for name in LIBRARIES if name not in missing] if libraries is None else list(libraries)
    reasons = DifferenceReasons(queries)
    rows = [
        (metric, library, reasons.ours(metric), theirs, reasons.reason(library, metric, theirs))
        for library in installed
        for metric, theirs in values_of(library, queries).items()
    ]
    order = {metric: place for place, metric in enumerate(dict.fromkeys(row[0] for row in rows))}
    rows.sort(key=lambda row: order[row[0]])
    table: pd.DataFrame = pd.DataFrame(rows, columns=["metric", "library", "ours", "theirs", "reason"])
    return table


def print_audit(table: pd.DataFrame) -> None:
    """Show the table, and what is not installed, on standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(show_lines=False)
    for column in ("metric", "library"):
        shown.add_column(column)
    for column in ("ours", "theirs"):
        shown.add_column(column, justify="right")
    shown.add_column("reason")
    for row in table.itertuples():
        numbers = f"{row.ours:.4f}", f"{row.theirs:.4f}"
        shown.add_row(Text(str(row.metric)), str(row.library), *numbers, str(row.reason) or "agree")
    console = Console()
    console.print(shown)
    if missing := not_installed():
        console.print(Text(f'not installed: {", ".join(missing)} (pip install "hiertree[interop]")'))


def not_installed() -> list[str]:
    """The libraries that an audit leaves out."""
    needed = {"pytorch_metric_learning": ("faiss",)}
    return [name for name in LIBRARIES if not all(map(find_spec, (name, *needed.get(name, ()))))]


def _normalized(embeddings: NDArray[Any]) -> NDArray[Any]:
    largest = embeddings / np.abs(embeddings).max(axis=1, keepdims=True)
    unit: NDArray[Any] = largest / np.linalg.norm(largest, axis=1, keepdims=True)
    return unit
