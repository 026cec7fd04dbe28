"""Evaluation of ranked lists made elsewhere: indices from a search library, or a run and its judgments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import OptionError
from hiertree.level_columns import LabelNames
from hiertree.options import check_choice

from ..conventions.protocols import ProtocolName, resolve_rules
from ..conventions.request import Relevance, metric_request
from ..conventions.rules import Compat, Rules
from ..conventions.ties import Ties
from ..result import Evaluation
from ..trec.triples import NegativeQrels
from .inputs import MaskOptions, checked_labels
from .named_paths import indices_of_names

if TYPE_CHECKING:
    from numpy.typing import NDArray


def evaluate_ranking(
    run: Any,
    qrels: Any = None,
    *,
    query_paths: Any = None,
    gallery_paths: Any = None,
    query_names: Any = None,
    gallery_names: Any = None,
    num_levels: int | None = None,
    unjudged: Literal["irrelevant", "error"] = "irrelevant",
    negative_qrels: NegativeQrels = "error",
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    ties: Ties = "average",
    protocol: ProtocolName | None = None,
    compat: Compat | Rules | None = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    junk: Iterable[Iterable[int]] | None = None,
    distractors: Any = None,
) -> Evaluation:
    """Every metric of ranked lists, which may be cut short: positives that are not listed count as never found.

    Either *indices*: ``run`` is (Q, K) gallery indices, best first, −1 where a list ends early (as faiss returns them),
    with ``query_paths`` and, unless the queries retrieve each other, ``gallery_paths``. In self-retrieval query i is
    gallery item i; it is dropped from its own list, wherever it stands, and from the counts.

    Or *names*: ``run`` lists the items of each query and ``qrels`` judges them, graded judgments being levels. Each is
    the path of a TREC file, of a table in Parquet or CSV, or of JSON as ranx saves it; a frame of pandas, polars or
    pyarrow (columns query, doc and score or rank; query, doc and level; also under the names of TREC tools); a ranx
    Run and Qrels; an iterator of ir_measures' ScoredDocs and Qrels; or a mapping: query → items (best first), query →
    item → score, query → item → level. Scores rank, also where there are ranks beside them; they are compared as
    float64 (trec_eval, pytrec_eval and ir_measures compare float32). A judged query that the run lacks has an empty
    list; a query of the run that has no judgments has no value and is skipped, whatever ``compat`` says.

    Or *names without judgments*: ``query_paths`` with ``query_names``, and perhaps ``gallery_paths`` with
    ``gallery_names``, instead of ``qrels``: the level of an item is where its path agrees with the query's. Without a
    gallery all are items, the queries are those of the run, and each is dropped from its own list; with one, a query
    that the run lacks has an empty list.

    Args:
        run: the lists.
        qrels: levels 0 … L by query and item, for named lists.
        query_paths: (Q, L) label ids, for lists of indices, or with names.
        gallery_paths: (N, L) label ids.
        query_names: Q names of these rows, as the run has them.
        gallery_names: N names.
        unjudged: what a listed item without judgment, or without a path, is, for named lists: ``"irrelevant"``, of
            level 0, or an ``"error"``; the convention card says which, and how many there were.
        negative_qrels: what a judgment below 0 is, by which TREC marks spam: an ``"error"``, or ``"irrelevant"``.
        num_levels: L, for named lists; the largest level of ``qrels`` unless given.
        metrics: names; the default ones unless given.
        alpha: of the relevance of ``H-AP``.
        relevance: in place of that, a function of counts or a table, as :func:`evaluate` takes it. For named lists the
            rows of a table are in the order of ``qrels``, then of the queries that only the run has (``query_ids`` of
            the result), and level 0 counts only what is judged.
        ties: the policy for equal scores, or ranks; lists have no ties. ``"index"`` keeps the order of the run.
        protocol: a benchmark that names the metrics and sets its rules; of indices also what retrieval it asks for. See
            :func:`hiertree.metrics.evaluate`, as for the rest:
        compat: the rules of others. No list loses its worst item, which one cut short does not hold; a list of names is
            taken as it is, its query in no count.
        query_ids: for lists of indices; items of the query's id are left out of its list and of the counts.
        gallery_ids: N ids, for a separate gallery.
        junk: for lists of indices, the gallery indices to leave out of each.
        distractors: for lists of indices, (N,) booleans that mark gallery items without a label, at level 0 to every
            query.

    Raises:
        OptionError: neither or both of ``qrels`` and ``query_paths``, an unknown metric or option, no shared query,
            masks beside ``qrels``, or a retrieval that the protocol does not make.
        ShapeError: indices that are not (Q, K), or of another number of queries.
        PathError: an index outside the gallery, an item listed or judged twice, a level that is no integer from 0 to
            255, an item without judgment under ``unjudged="error"``, or a named query without a path.
        EmbeddingError: a score is NaN.
        TableError: a broken line of a TREC file; the message names file and line.

    >>> import numpy as np
    >>> paths = np.array([[0, 0], [0, 0], [0, 1], [1, 2]])
    >>> run = [[0, 1, 2], [3, 0, -1]]
    >>> result = evaluate_ranking(run, query_paths=paths[:2], gallery_paths=paths, metrics=["AP[1]"])
    >>> result.per_query()["AP[1]"].round(4).tolist()
    [1.0, 0.1667]
    >>> run = {"q": {"a": 0.9, "b": 0.4}}
    >>> evaluate_ranking(run, {"q": {"b": 2, "c": 1}}, metrics=["AP[1]", "R@1", "H-AP"]).summary().round(4).to_dict()
    {'AP[1]': 0.25, 'R@1': 0.0, 'H-AP': 0.3333}
    >>> run = {"a.jpg": ["c.jpg", "a.jpg", "b.jpg"]}
    >>> names = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    >>> evaluate_ranking(run, query_paths=paths, query_names=names, metrics=["AP"]).summary().to_dict()
    {'AP': 0.5}
    """
    if (qrels is None) == (query_paths is None) or (qrels is not None and gallery_paths is not None):
        raise OptionError("both or neither of qrels and paths", expected="qrels for named items, paths for indices")
    check_choice("unjudged", unjudged, Literal["irrelevant", "error"])
    if query_names is None and gallery_names is not None:
        raise OptionError("gallery_names without query_names", expected="both, or neither")
    from ..engine.retrieval import values_of_lists  # takes numba with it
    from .lists import check_indices, named_lists, retrieval_of_indices

    protocol_asked, rules = resolve_rules(protocol, compat)
    rules = replace(rules, worst="kept")
    masks = MaskOptions(query_ids, gallery_ids, junk, distractors)
    request = partial(metric_request, metrics, alpha=alpha, relevance=relevance, ties=ties, protocol=protocol_asked)
    if qrels is not None:
        if query_names is not None or any(option is not None for option in masks):
            given = f"one of query_names, {', '.join(masks._fields)} beside qrels"
            raise OptionError(given, expected="it only beside paths")
        lists = named_lists(run, qrels, num_levels, unjudged, negative_qrels)
        rules = replace(rules, counts="strict", itself="masked")
        retrieval = lists.retrieval(request(num_queries=len(lists.totals), num_levels=lists.num_levels, rules=rules))
        values = values_of_lists(retrieval)
        values[lists.num_judged :] = np.nan  # whatever the rules say of queries without positives
        return retrieval.evaluation(values)
    if num_levels is not None or negative_qrels != "error" or (unjudged == "error" and query_names is None):
        given = "num_levels=, negative_qrels= or unjudged='error' beside paths"
        raise OptionError(given, expected="them only beside qrels")
    if protocol_asked is not None:
        protocol_asked.check(self_retrieval=gallery_paths is None, with_ids=query_ids is not None)
    found = _lists_of_indices(run, query_paths, gallery_paths, masks, query_names, gallery_names, unjudged)
    labels = checked_labels(
        found.query_paths,
        found.gallery_paths,
        num_queries=len(found.indices),
        num_items=None if found.gallery_paths is None else len(found.gallery_paths),
        options=found.masks,
        rules=rules,
    )
    check_indices(found.indices, len(labels.gallery_paths))
    asked = request(num_queries=len(found.indices), num_levels=labels.query_paths.shape[1], rules=rules)
    retrieval = retrieval_of_indices(found.indices, labels, asked, scores=found.scores)
    if found.query_names is not None:
        retrieval = replace(retrieval, query_ids=found.query_names)
    if found.label_names is not None:
        labels = labels._replace(names=found.label_names)
    return labels.named(retrieval.evaluation(values_of_lists(retrieval)))


class _Lists(NamedTuple):
    """Lists of indices, of names or not, with what labels them."""

    indices: NDArray[np.int64]
    scores: NDArray[np.float64] | None
    query_paths: Any
    gallery_paths: Any
    masks: MaskOptions
    query_names: Sequence[Any] | None
    label_names: LabelNames | None = None


def _lists_of_indices(
    run: Any,
    query_paths: Any,
    gallery_paths: Any,
    masks: MaskOptions,
    query_names: Any,
    gallery_names: Any,
    unjudged: str,
) -> _Lists:
    if query_names is None:
        from .lists import as_indices

        is_single = gallery_paths is not None and np.ndim(to_numpy(gallery_paths, name="gallery_paths")) == 0
        items = np.atleast_1d(to_numpy(gallery_paths)) if is_single else gallery_paths
        return _Lists(as_indices(run), None, query_paths, items, masks, None)
    if any(option is not None for option in masks):
        raise OptionError(f"one of {', '.join(masks._fields)} beside names", expected="it only beside indices")
    return _Lists(*indices_of_names(run, query_paths, gallery_paths, query_names, gallery_names, unjudged=unjudged))
