"""``hiertree audit``: the same embeddings through hiertree's metrics and other libraries', and why numbers differ.

A reason is shown, not looked up: hiertree's metric is computed again under the conventions by which a library is known
to differ, and the fewest that give the library's number are the reason. Where none do, the table says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree import levels
from hiertree.arrays import as_embeddings, as_paths, unit_rows
from hiertree.errors import InputError, OptionError, require_package
from hiertree.io import files
from hiertree.io.files import AnyPath
from hiertree.io.provenance import manifest
from hiertree.metrics import evaluate_scores
from hiertree.options import check_integer

from .embeddings_files import LabeledEmbeddings, naming_files, read_embeddings
from .evaluating import print_table
from .locations import files_read
from .other_libraries import LIBRARIES, K, ScoredQueries, values_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from hiertree.tree.label_rows import Uneven

MOST_PAIRS = 1 << 21  # scores; some libraries hold each as a Python object
TOLERANCE = 2e-6  # other libraries' values are means of float32 numbers
Means = Callable[[frozenset[str]], dict[str, float]]  # of each metric, under conventions
_MOST_REASONS = 4
DIFFERENCES = {
    "empty": "a query without positives counts as 0",
    "linear": "the gain is l, not 2^l − 1",
    "positive": "positives of score ≤ 0 are ignored",
    "own": "equal scores stand in an order of its own, worth between the worst and the best",
    "reversed": "of equal scores the later name comes first",
    "grouped": "equal scores are one threshold: all of them count as ahead",
    "all": "the divisor is all positives, not min(k, positives)",
    "found": "the divisor is the positives found in the top k",
}
_KNOWN = {
    "torchmetrics": ("empty", "linear", "positive", "all", "found", "own"),
    "sklearn": ("empty", "linear", "grouped"),
    "ir_measures": ("empty", "linear", "reversed", "all"),
    "ranx": ("empty", "linear", "all", "own"),
    "pytorch_metric_learning": ("all", "own"),
}


def audit(
    embeddings: AnyPath,
    *,
    labels: AnyPath | None = None,
    levels: Sequence[str] = (),
    uneven: Uneven = "error",
    queries: int = 200,
    seed: int = 0,
    out: AnyPath | None = None,
) -> pd.DataFrame:
    """Compare libraries on embeddings on disk, as ``read_embeddings`` takes them, by a draw of the queries.

    The table has a row for each metric and library, with columns ``metric``, ``library``, ``ours``, ``theirs`` and
    ``reason``: empty where they agree, ``"not explained"`` where no known convention gives their number. ``out`` is a
    ``.json`` file for it and its provenance.
    """
    check_integer("queries", queries)
    if len(not_installed()) == len(LIBRARIES):
        require_package(*LIBRARIES, extra="interop")
    collection = read_embeddings(embeddings, labels=labels, levels=levels, uneven=uneven)
    if _has_masks(collection):
        problem = f"{Path(embeddings).name} with ids, junk or distractors"
        raise OptionError(problem, expected="embeddings and paths alone")
    if len(collection.queries.embeddings) < 2 and not collection.separate:
        raise InputError(f"{embeddings} with one embedding", expected="at least two, so that one can be retrieved")
    with naming_files(embeddings, None):
        sample = draw_queries(collection, queries=queries, seed=seed)
    table = compare_libraries(sample)
    if table["ours"].isna().all():
        raise InputError(f"{embeddings} gives no metric a value", expected="items that share labels")
    if out is not None:
        inputs = [file for path in (embeddings, labels) if path is not None for file in files_read(Path(path))]
        parameters = {"levels": list(levels), "uneven": uneven, "queries": len(sample.scores)}
        provenance = manifest(command="hiertree audit", parameters=parameters, inputs=inputs, seed=seed)
        files.write_json(out, {"table": audit_rows(table), "manifest": provenance})
    return table


def _has_masks(collection: LabeledEmbeddings) -> bool:
    """Whether lists leave out more than the query itself, or hold distractors."""
    query_ids, item_ids = collection.queries.ids, collection.items.ids
    if query_ids is None:
        has_masks = False
    elif collection.separate:
        has_masks = item_ids is None or not set(query_ids).isdisjoint(item_ids)
    else:
        has_masks = len(set(query_ids)) < len(query_ids)
    return has_masks or collection.queries.junk is not None or collection.items.distractors is not None


def audit_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of an audit for JSON, which has no NaN: None where no query has a value."""
    rows: list[dict[str, Any]] = table.astype(object).where(table.notna(), None).to_dict(orient="records")
    return rows


def draw_queries(collection: LabeledEmbeddings, *, queries: int, seed: int) -> ScoredQueries:
    """Draw queries and score them against the whole gallery."""
    self_retrieval, items = not collection.separate, collection.items
    query, paths = unit_rows(as_embeddings(collection.queries.embeddings)), as_paths(collection.queries.paths)
    gallery = query if self_retrieval else unit_rows(as_embeddings(items.embeddings))
    gallery_paths = as_paths(items.paths)
    number = max(min(queries, len(query), MOST_PAIRS // len(gallery)), 1)
    rows = np.sort(np.random.default_rng(seed).choice(len(query), number, replace=False))
    joint_paths = np.concatenate([paths, gallery_paths])
    classes = np.unique(joint_paths, axis=0, return_inverse=True)[1].reshape(-1)
    images = np.tile(np.arange(len(paths)), 2) if self_retrieval else np.arange(len(joint_paths))
    # An unknown class is no other item's.
    classes = np.where(joint_paths[:, -1] < 0, len(joint_paths) + images, classes)
    valid = np.ones((number, len(gallery)), np.bool_)
    if self_retrieval:
        valid[np.arange(number), rows] = False
    scores, depths = query[rows] @ gallery.T, levels(paths[rows], gallery_paths)
    of_queries, of_gallery = classes[: len(paths)][rows], classes[len(paths) :]
    return ScoredQueries(
        scores, depths, valid, paths.shape[1], query[rows], of_queries, gallery, of_gallery, self_retrieval
    )


def compare_libraries(queries: ScoredQueries, libraries: Iterable[str] | None = None) -> pd.DataFrame:
    """The table of :func:`audit` for the installed libraries."""
    import pandas as pd

    missing = not_installed()
    installed = [name for name in LIBRARIES if name not in missing] if libraries is None else list(libraries)
    means: Means = cache(partial(_means, queries))  # each set of conventions is computed once
    rows = [
        (metric, library, means(frozenset())[metric], value, _reason(means, library, metric, value))
        for library in installed
        for metric, value in values_of(library, queries).items()
    ]
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: order.index(row[0]))
    table: pd.DataFrame = pd.DataFrame(rows, columns=["metric", "library", "ours", "theirs", "reason"])
    return table


def not_installed() -> list[str]:
    """The libraries that an audit omits."""
    dependencies = {"pytorch_metric_learning": ("faiss",)}
    return [name for name in LIBRARIES if not all(map(find_spec, (name, *dependencies.get(name, ()))))]


def print_audit(table: pd.DataFrame) -> None:
    """Show the table, libraries that agree in one row, and what is not installed, on standard output."""
    numbers = {name: table[name].map("{:.4f}".format) for name in ("ours", "theirs")}
    texts = table.assign(**numbers, reason=table["reason"].replace("", "agree"))
    rows = texts.groupby(["metric", "ours", "theirs", "reason"], sort=False)["library"].agg(", ".join).reset_index()
    print_table(list(table.columns), rows[table.columns].to_numpy().tolist(), right=("ours", "theirs"))
    if missing := not_installed():
        print(f'not installed: {", ".join(missing)} (pip install "hiertree[interop]")')


def _reason(means: Means, library: str, metric: str, value: float) -> str:
    """The fewest differences that explain a library's number; empty if it agrees.

    With ties in a library's own order, its number lies between the worst and the best order's.
    """
    keys = _KNOWN[library]
    subsets = chain.from_iterable(combinations(keys, size) for size in range(_MOST_REASONS + 1))
    for explanation in sorted(subsets, key=lambda subset: "own" in subset):
        rest = frozenset(explanation) - {"own"}
        ends = [rest | {"worst"}, rest | {"best"}] if "own" in explanation else [rest, rest]
        low, high = (means(conventions)[metric] for conventions in ends)
        if low - TOLERANCE <= value <= high + TOLERANCE:
            return "; ".join(DIFFERENCES[name] for name in explanation)
    return "not explained"


def _means(queries: ScoredQueries, conventions: frozenset[str]) -> dict[str, float]:
    """Means under keys of DIFFERENCES, with ``worst`` or ``best`` in place of ``own``."""
    scores, depths, valid = queries.scores, queries.levels, queries.valid
    if "positive" in conventions:
        depths = np.where(scores > 0, depths, 0).astype(np.uint8)
    if "reversed" in conventions:
        scores, depths, valid = scores[:, ::-1], depths[:, ::-1], valid[:, ::-1]
    policies = {"reversed": "index", "grouped": "paper", "worst": "worst", "best": "best"}
    ties: Any = next((policy for name, policy in policies.items() if name in conventions), "average")
    names = [f"AP[{level}]" for level in range(1, queries.num_levels + 1)]
    names += [f"mAP@{K}", f"P@{K}", f"R@{K}", f"TR@{K}", "NDCG", f"NDCG@{K}", "P@1", "mAP@R"]
    evaluation = evaluate_scores(scores, depths, valid=valid, num_levels=queries.num_levels, metrics=names, ties=ties)
    table = evaluation.per_query()
    if "linear" in conventions:
        for name in ("NDCG", f"NDCG@{K}"):
            table[name] = _linear_ndcg(scores, depths, valid, queries.num_levels, name, ties)
    positives = ((depths == queries.num_levels) & valid).sum(axis=1)
    if "all" in conventions:
        for name in (f"mAP@{K}", f"TR@{K}"):
            table[name] *= np.minimum(K, positives) / np.maximum(positives, 1)
    if "found" in conventions:
        hits = table[f"P@{K}"] * K
        table[f"mAP@{K}"] = (table[f"mAP@{K}"] * np.minimum(K, positives) / hits.where(hits > 0)).where(hits > 0, 0)
    means = (table.fillna(0.0) if "empty" in conventions else table).mean()
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
        ndcg = evaluate_scores(scores, reached, valid=valid, num_levels=1, metrics=[name], ties=ties).values[:, 0]
        reachable = best[(reached.astype(bool) & valid).sum(axis=1)]
        total += np.nan_to_num(ndcg) * reachable
        ideal += reachable
    return np.where(ideal > 0, total / np.where(ideal > 0, ideal, 1.0), np.nan)
