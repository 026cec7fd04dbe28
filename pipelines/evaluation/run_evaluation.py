"""``hiertree evaluate --run`` and ``hiertree qrels``: ranked lists on disk, with judgments or a table of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from hiertree.errors import InputError, OptionError
from hiertree.metrics import Compat, Evaluation, ProtocolName, evaluate_ranking, write_trec_qrels

from .label_columns import PathLike, named_rows, shared_paths
from .result_outputs import RelevanceName, ResultOutputs, relevance_of


def evaluate_run(
    run: PathLike,
    *,
    qrels: PathLike | None = None,
    tree: PathLike | None = None,
    query_labels: PathLike | None = None,
    levels: Sequence[str] = (),
    ids: str | None = None,
    unjudged: Literal["irrelevant", "error"] = "irrelevant",
    negative_qrels: Literal["error", "irrelevant"] = "error",
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: RelevanceName | Sequence[float] = "hap",
    ties: Literal["average", "worst", "best", "paper", "index"] = "average",
    protocol: ProtocolName | None = None,
    compat: Compat | None = None,
    as_json: bool = False,
    per_query: PathLike | None = None,
    out: PathLike | None = None,
) -> Evaluation:
    """Evaluate ranked lists on disk, print the result, and write what is asked for.

    Args:
        run: a TREC run, a Parquet table or ranx JSON, as :func:`hiertree.metrics.evaluate_ranking` reads it.
        qrels: judgments of the same kinds; graded ones are levels.
        tree: instead of judgments, a CSV or Parquet table with the name and the labels of each item.
        query_labels: the same of the queries, where these are not items themselves.
        levels: columns of labels, coarse → fine; all but ``ids`` unless given.
        ids: the column of names; ``image``, or else the first column, unless given.
        unjudged: what an item without judgment or labels is.
        negative_qrels: what a judgment below 0 is.
        metrics: this and the rest as :func:`hiertree.pipelines.evaluation.file_evaluation.evaluate_file` takes them.
        alpha: see there.
        relevance: see there.
        ties: see there.
        protocol: see there.
        compat: see there.
        as_json: see there.
        per_query: see there.
        out: see there.

    Raises:
        OptionError: both or neither of qrels and tree, or an option of the other kind.
        HiertreeError: as :func:`hiertree.metrics.evaluate_ranking` and :func:`hiertree.io.tables.read_table`.
    """
    outputs = ResultOutputs(as_json, per_query, out)
    if (qrels is None) == (tree is None):
        expected = "judgments (--qrels), or a table of labels (--tree)"
        raise OptionError("both or neither of qrels and tree", expected=expected)
    if qrels is not None and (query_labels is not None or levels or ids is not None):
        raise OptionError("query_labels, levels or ids beside qrels", expected="them only beside tree")
    options: dict[str, Any] = {"alpha": alpha, "ties": ties, "protocol": protocol, "compat": compat}
    options |= {"unjudged": unjudged, "negative_qrels": negative_qrels}
    judged = {"qrels": qrels} if tree is None else _labels(tree, query_labels, levels, ids)
    result = evaluate_ranking(Path(run), **judged, metrics=metrics, relevance=relevance_of(relevance), **options)
    if not result.has_values:
        raise InputError(f"{run} gives no metric a value", expected="queries with relevant items")
    parameters = {"metrics": list(result.names), "relevance": relevance, "levels": list(levels), "ids": ids, **options}
    inputs = [Path(file) for file in (run, qrels, tree, query_labels) if file is not None]
    outputs.deliver(result, parameters=parameters, inputs=inputs)
    return result


def write_qrels(
    tree: PathLike,
    out: PathLike,
    *,
    query_labels: PathLike | None = None,
    levels: Sequence[str] = (),
    ids: str | None = None,
    grades: Sequence[int] | None = None,
) -> None:
    """Write TREC qrels that grade every item by its level to every query.

    Args:
        tree: as for :func:`evaluate_run`; without ``query_labels`` every item is also a query, but not its own item.
        out: the file; a name that ends in ``.gz`` is compressed.
        query_labels: as for :func:`evaluate_run`.
        levels: as for :func:`evaluate_run`.
        ids: as for :func:`evaluate_run`.
        grades: of the levels 0 to L; the level itself unless given.

    Raises:
        HiertreeError: as :func:`hiertree.metrics.write_trec_qrels` and :func:`hiertree.io.tables.read_table`.
    """
    write_trec_qrels(out, **_labels(tree, query_labels, levels, ids), grades=grades)


def _labels(tree: PathLike, query_labels: PathLike | None, levels: Sequence[str], ids: str | None) -> dict[str, Any]:
    """Paths and names of queries and items, by the keywords of :func:`hiertree.metrics.evaluate_ranking`."""
    items = named_rows(Path(tree), levels, ids)
    if query_labels is None:
        return {"query_paths": shared_paths(items, None, distractors=False).queries, "query_names": items.ids}
    queries = named_rows(Path(query_labels), levels, ids)
    paths = shared_paths(queries, items, distractors=False)
    of_queries = {"query_paths": paths.queries, "query_names": queries.ids}
    return {**of_queries, "gallery_paths": paths.gallery, "gallery_names": items.ids}
