"""Evaluation of ranked lists from elsewhere: indices from a search library, or a run and its judgments."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Literal

from hiertree.errors import OptionError
from hiertree.evaluation_options import Labels, RetrievalOptions
from hiertree.options import check_choice, with_options_of

from ..result import Evaluation
from ..runs import Judgments, Run, as_run
from . import CheckedRetrievalOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_options_of(CheckedRetrievalOptions)
def evaluate_ranking(
    run: Run,
    qrels: Judgments | None = None,
    *,
    query_paths: Labels | None = None,
    gallery_paths: Labels | None = None,
    query_names: Iterable[Hashable] | None = None,
    gallery_names: Iterable[Hashable] | None = None,
    num_levels: int | None = None,
    higher_is_better: bool = True,
    **options: Unpack[RetrievalOptions],
) -> Evaluation:
    """Every metric of ranked lists, which may be cut short: positives that are not listed count as never found.

    Either *indices*: ``run`` is (Q, K) gallery indices, best first, −1 where a list ends early (as faiss returns them),
    with ``query_paths`` and, unless the queries retrieve each other, ``gallery_paths``. In self-retrieval query i is
    gallery item i; it is dropped from its own list, wherever it stands, and from the counts.

    Or *names*: ``run`` lists the items of each query and ``qrels`` judges them, graded judgments being levels. Each is
    the path of a TREC file, of a table in Parquet or CSV, or of JSON as ranx saves it; a frame of pandas, polars or
    pyarrow (columns query, doc and score, distance or rank; query, doc and level; also under the names of TREC tools;
    or id and images, as Kaggle lists GLDv2); a ranx Run and Qrels; an iterator of ir_measures' ScoredDocs and Qrels; or
    a mapping: query → items (best first), query → item → score, query → item → level. Scores rank, also where there are
    ranks beside them; they are compared as float64 (trec_eval, pytrec_eval and ir_measures compare float32). A judged
    query that the run lacks has an empty list; a query of the run that has no judgments has no value and is skipped,
    whatever ``compat`` says.

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
        higher_is_better: False if the scores of named lists are distances, such as faiss's for L2; those in a column
            ``distance`` or ``_distance`` are distances anyway.
        num_levels: L, for named lists; the largest level of ``qrels`` unless given.
        **options: as :func:`evaluate` takes them. Of named lists, the rows of a ``relevance`` table are in the order of
            ``qrels``, then of the queries that only the run has (``query_ids`` of the result), level 0 counts only what
            is judged, and a list is taken as it is, its query in no count. ``ties="index"`` keeps the order of the run.
            No list loses its worst item, which one cut short does not hold. An item that a list holds twice is an
            error, or under ``compat="delf"`` irrelevant where it stands again, as GLDv2's code has it. A listed item
            without a judgment or a path is irrelevant, and a judgment below 0 an error, unless ``compat=Rules(…)``
            says otherwise. Ids and junk are for lists of indices alone.

    Raises:
        OptionError: neither or both of ``qrels`` and ``query_paths``, an unknown metric or option, no shared query,
            masks beside ``qrels``, or a retrieval that the protocol does not make.
        ShapeError: indices that are not (Q, K), or of another number of queries.
        PathError: an index outside the gallery, an item listed or judged twice, a level other than an integer from 0
            to 255, an item without judgment where ``Rules`` say that it is an error, or a named query without a path.
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
        sources = "neither qrels nor label paths" if qrels is None else "both qrels and label paths"
        raise OptionError(sources, expected="exactly one of them: qrels for names, paths for indices")
    check_choice("higher_is_better", higher_is_better, Literal[True, False])
    if query_names is None and gallery_names is not None:
        raise OptionError("gallery_names without query_names", expected="both, or neither")
    # a list cut short does not hold its worst item
    checked_options = CheckedRetrievalOptions(**options).replace_rules(worst="kept")
    from .lists import evaluate_indices, evaluate_judged, evaluate_named  # takes numba with it

    if qrels is not None:
        if query_names is not None:
            raise OptionError("query_names with qrels", expected="query_names only with label paths")
        checked_options.refuse_masks("with qrels")
        return evaluate_judged(run, qrels, checked_options, num_levels=num_levels, higher_is_better=higher_is_better)
    if num_levels is not None:
        raise OptionError("num_levels= with label paths", expected="it only with qrels")
    if query_names is not None:
        checked_options.refuse_masks("with names")
    checked_options.check_protocol(self_retrieval=gallery_paths is None)
    if query_names is None:
        if not higher_is_better:
            raise OptionError("higher_is_better=False with lists of indices", expected="lists with scores")
        return evaluate_indices(run, query_paths, gallery_paths, checked_options)
    run_triples = as_run(run, higher_is_better=higher_is_better, repeats=checked_options.rules.repeats)
    paths, names = (query_paths, gallery_paths), (query_names, gallery_names)
    return evaluate_named(run_triples, paths, names, checked_options)
