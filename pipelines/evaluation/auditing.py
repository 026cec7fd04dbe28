"""``hiertree audit``: the same embeddings through our metrics and other libraries', with the reason of each difference.

A reason is not looked up but shown: our metric is computed again under the conventions by which a library is known to
differ, and the fewest under which it gives the library's number are the reason. Where none do, the table says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, combinations
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import levels
from hiertree.arrays import as_embeddings, as_paths
from hiertree.errors import OptionError
from hiertree.io import files
from hiertree.io.provenance import manifest
from hiertree.metrics import evaluate_scores

from .other_libraries import LIBRARIES, K, Problem, values_of
from .retrieval_files import Retrieval, read_retrieval
from .retrieval_tables import PathLike

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

MOST_PAIRS = 1 << 21  # scores; some libraries hold each as a Python object
TOLERANCE = 2e-6  # theirs are means of float32 numbers
_MOST_REASONS = 4

DIFFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "empty": "a query without positives counts as 0",
        "linear": "the gain is l, not 2^l − 1",
        "positive": "positives of score ≤ 0 are ignored",
        "own": "equal scores stand in an order of its own, worth between the worst and the best",
        "reversed": "of equal scores the later name comes first",
        "grouped": "equal scores are one threshold: all of them count as ahead",
        "all": "the divisor is all positives, not min(k, positives)",
        "found": "the divisor is the positives found in the top k",
    }
)
_KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "torchmetrics": ("empty", "linear", "positive", "all", "found", "own"),
        "sklearn": ("empty", "linear", "grouped"),
        "ir_measures": ("empty", "linear", "reversed", "all"),
        "ranx": ("empty", "linear", "all", "own"),
        "pytorch_metric_learning": ("all", "own"),
    }
)


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
        embeddings: as :func:`hiertree.pipelines.evaluation.evaluating.evaluate_file` takes them, as are the next two.
        labels: table of labels.
        levels: columns of labels.
        queries: how many queries are drawn, at most, fewer where the gallery is large; the gallery stays whole.
        seed: of the draw.
        out: a ``.json`` file for the table and its provenance.

    Returns:
        A row a metric and library, with columns ``metric``, ``library``, ``ours``, ``theirs`` and ``reason``: empty
        where they agree, ``"not explained"`` where no known convention gives their number.

    Raises:
        OptionError: no query asked for, or ids, junk or distractors, which few of the libraries know.
        HiertreeError: as :func:`hiertree.pipelines.evaluation.retrieval_files.read_retrieval`.
    """
    if queries < 1:
        raise OptionError(f"queries={queries}", expected="at least 1")
    retrieval = read_retrieval(embeddings, labels=labels, levels=levels)
    if retrieval.masked:
        raise OptionError(
            f"{Path(embeddings).name} with ids, junk or distractors", expected="embeddings and paths alone"
        )
    problem = make_problem(retrieval, queries=queries, seed=seed)
    table = compare_libraries(problem)
    if out is not None:
        inputs = [Path(file) for file in (embeddings, labels) if file is not None]
        parameters = {"levels": list(levels), "queries": len(problem.scores)}
        made = manifest(command="hiertree audit", parameters=parameters, inputs=inputs, seed=seed)
        files.write_json(out, {"table": table.to_dict(orient="records"), "manifest": made})
    return table


def make_problem(retrieval: Retrieval, *, queries: int, seed: int) -> Problem:
    """Draw queries and score them against the whole gallery."""
    alone = retrieval.gallery_embeddings is None
    query = _normalised(as_embeddings(retrieval.embeddings))
    paths = as_paths(retrieval.paths, num_items=len(query))
    gallery = query if alone else _normalised(as_embeddings(retrieval.gallery_embeddings))
    gallery_paths = paths if alone else as_paths(retrieval.gallery_paths, num_items=len(gallery))
    number = max(min(queries, len(query), MOST_PAIRS // len(gallery)), 1)
    drawn = np.sort(np.random.default_rng(seed).choice(len(query), number, replace=False))
    classes = np.unique(np.concatenate([paths, gallery_paths]), axis=0, return_inverse=True)[1].reshape(-1)
    valid = np.ones((number, len(gallery)), np.bool_)
    if alone:
        valid[np.arange(number), drawn] = False
    scores, depths = query[drawn] @ gallery.T, levels(paths[drawn], gallery_paths)
    return Problem(
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


def compare_libraries(problem: Problem, libraries: Iterable[str] | None = None) -> pd.DataFrame:
    """The table of :func:`audit`, for the libraries that are installed."""
    import pandas as pd

    installed = [name for name in LIBRARIES if find_spec(name)] if libraries is None else list(libraries)
    readings: dict[frozenset[str], dict[str, float]] = {}
    rows = []
    for library in installed:
        for metric, theirs in values_of(library, problem).items():
            reason = _reason(problem, metric, theirs, _KNOWN[library], readings)
            ours = _read(problem, frozenset(), readings)[metric]
            rows.append((metric, library, ours, theirs, reason))
    table: pd.DataFrame = pd.DataFrame(rows, columns=["metric", "library", "ours", "theirs", "reason"])
    order = {metric: place for place, metric in enumerate(dict.fromkeys(table["metric"]))}
    table["place"] = table["metric"].map(order)
    ordered: pd.DataFrame = table.sort_values("place", kind="stable", ignore_index=True).drop(columns="place")
    return ordered


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
        console.print(Text(f"not installed: {', '.join(missing)} (pip install 'hiertree[interop]')"))


def not_installed() -> list[str]:
    """The libraries that an audit leaves out."""
    return [name for name in LIBRARIES if not find_spec(name)]


def _reason(
    problem: Problem,
    metric: str,
    theirs: float,
    known: Sequence[str],
    readings: dict[frozenset[str], dict[str, float]],
) -> str:
    """The fewest differences under which our metric is their number, or at least bounds it."""
    subsets = chain.from_iterable(combinations(known, size) for size in range(_MOST_REASONS + 1))
    for chosen in sorted(subsets, key=lambda subset: "own" in subset):
        bounds = [frozenset(chosen)]
        if "own" in chosen:
            bounds = [frozenset(chosen) - {"own"} | {order} for order in ("worst", "best")]
        low, high = (_read(problem, reading, readings)[metric] for reading in (bounds[0], bounds[-1]))
        if low - TOLERANCE <= theirs <= high + TOLERANCE:
            return "; ".join(DIFFERENCES[name] for name in chosen)
    return "not explained"


def _read(
    problem: Problem, reading: frozenset[str], readings: dict[frozenset[str], dict[str, float]]
) -> dict[str, float]:
    """Our means under a reading of the conventions, computed once."""
    if reading not in readings:
        readings[reading] = _means(problem, reading)
    return readings[reading]


def _means(problem: Problem, reading: frozenset[str]) -> dict[str, float]:
    scores, depths, valid = problem.scores, problem.levels, problem.valid
    if "positive" in reading:
        depths = np.where(scores > 0, depths, 0).astype(np.uint8)
    if "reversed" in reading:
        scores, depths, valid = scores[:, ::-1], depths[:, ::-1], valid[:, ::-1]
    policies = {"reversed": "index", "grouped": "paper", "worst": "worst", "best": "best"}
    ties: Any = next((policy for name, policy in policies.items() if name in reading), "average")
    names = [f"AP[{level}]" for level in range(1, problem.num_levels + 1)]
    names += [f"mAP@{K}", f"P@{K}", f"R@{K}", f"TR@{K}", "NDCG", f"NDCG@{K}", "P@1", "mAP@R"]
    table = evaluate_scores(
        scores, depths, valid=valid, num_levels=problem.num_levels, metrics=names, ties=ties
    ).per_query()
    if "linear" in reading:
        for name in ("NDCG", f"NDCG@{K}"):
            table[name] = _linear_ndcg(scores, depths, valid, problem.num_levels, name, ties)
    positives = ((depths == problem.num_levels) & valid).sum(axis=1)
    if "all" in reading:
        for name in (f"mAP@{K}", f"TR@{K}"):
            table[name] *= np.minimum(K, positives) / np.maximum(positives, 1)
    if "found" in reading:
        found = table[f"P@{K}"] * K
        table[f"mAP@{K}"] = (table[f"mAP@{K}"] * np.minimum(K, positives) / found.where(found > 0)).where(found > 0, 0)
    means = (table.fillna(0.0) if "empty" in reading else table).mean()
    return {str(name): float(mean) for name, mean in means.items()}


def _linear_ndcg(
    scores: NDArray[Any], depths: NDArray[np.uint8], valid: NDArray[np.bool_], num_levels: int, name: str, ties: Any
) -> NDArray[np.float64]:
    """NDCG with gain l: the level is the number of thresholds it reaches, so its DCG is a sum of binary ones."""
    total, ideal = np.zeros(len(scores)), np.zeros(len(scores))
    discount = 1.0 / np.log2(np.arange(2.0, scores.shape[1] + 2))
    if name != "NDCG":
        discount[K:] = 0.0
    best = np.concatenate([[0.0], np.cumsum(discount)])
    for level in range(1, num_levels + 1):
        reached = (depths >= level).astype(np.uint8)
        found = evaluate_scores(scores, reached, valid=valid, num_levels=1, metrics=[name], ties=ties).values[:, 0]
        reachable = best[(reached.astype(bool) & valid).sum(axis=1)]
        total += np.nan_to_num(found) * reachable
        ideal += reachable
    return np.where(ideal > 0, total / np.where(ideal > 0, ideal, 1.0), np.nan)


def _normalised(embeddings: NDArray[Any]) -> NDArray[Any]:
    largest = embeddings / np.abs(embeddings).max(axis=1, keepdims=True)
    unit: NDArray[Any] = largest / np.linalg.norm(largest, axis=1, keepdims=True)
    return unit
