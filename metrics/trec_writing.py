"""Writers of TREC runs and qrels, compressed by gzip where the name ends in ``.gz``."""

from __future__ import annotations

import gzip
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hiertree import levels
from hiertree.arrays import as_float64, shared_paths, to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.evaluation_options import ArrayLike, Labels
from hiertree.io.files import open_replacing, replacing
from hiertree.options import is_integer

from .runs import Judgments, Run, as_qrels, as_run, is_records
from .trec_reading import Triples, checked_run, rows_of_names


def write_trec_run(
    path: str | os.PathLike[str],
    run: Run,
    *,
    scores: ArrayLike | None = None,
    self_retrieval: bool = False,
    tag: str = "hiertree",
) -> None:
    """Write a TREC run, lines ``query Q0 item rank score tag``, by query and falling score; the file appears whole.

    Args:
        path: the file; a name that ends in ``.gz`` is compressed.
        run: as :func:`hiertree.metrics.evaluate_ranking` takes it: a frame, a ranx Run, a mapping from query to items,
            another TREC run; or (Q, K) gallery indices, best first, −1 where a list ends, named by their numbers.
        scores: (Q, K) of the indices, larger being better (negate distances); places of the list unless given.
            trec_eval compares scores as float32.
        self_retrieval: leave query i's own index out of its list.
        tag: the last column.

    Raises:
        OptionError: a name that is empty or holds white space, scores beside a run with names, or scores that rise
            along a list.
        InputError: as :func:`hiertree.metrics.evaluate_ranking`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "run.txt"
    ...     write_trec_run(file, {"q1": ["d7", "d2"]})
    ...     file.read_text().splitlines()
    ['q1 Q0 d7 1 -1.0 hiertree', 'q1 Q0 d2 2 -2.0 hiertree']
    """
    if hasattr(run, "ndim") or (isinstance(run, (list, tuple)) and not is_records(run)):
        triples = checked_run(_indexed(to_numpy(run), scores, self_retrieval))
    elif scores is None and not self_retrieval:
        triples = as_run(run)
    else:
        raise OptionError("scores= or self_retrieval= with a run of names", expected="them only with a run of indices")
    _refuse_names(triples.queries, [*triples.items, tag])
    order = np.lexsort([-triples.value, triples.query])
    starts = np.searchsorted(triples.query[order], triples.query[order])
    with _open(path) as file:
        for line, row in enumerate(order):
            query, item = triples.queries[triples.query[row]], triples.items[triples.item[row]]
            file.write(f"{query} Q0 {item} {line - starts[line] + 1} {float(triples.value[row])!r} {tag}\n")


def write_trec_qrels(
    path: str | os.PathLike[str],
    qrels: Judgments | None = None,
    *,
    query_paths: Labels | None = None,
    gallery_paths: Labels | None = None,
    query_names: Iterable[Hashable] | None = None,
    gallery_names: Iterable[Hashable] | None = None,
    grades: Sequence[int] | None = None,
) -> None:
    """Write TREC qrels, lines ``query 0 item grade``, for trec_eval, ranx or ir_measures; the file appears whole.

    Either judgments as :func:`hiertree.metrics.evaluate_ranking` takes them, or label paths: then every item at level
    1 or deeper is written. Without ``gallery_paths`` the queries retrieve each other and none is its own item.

    Args:
        path: the file; a name that ends in ``.gz`` is compressed.
        qrels: anything that judges, a frame, a ranx Qrels, a mapping from query to items to levels, or other qrels.
        query_paths: (Q, L) label ids, coarse → fine.
        gallery_paths: (N, L).
        query_names: Q names; numbers from 0 unless given.
        gallery_names: N names.
        grades: the grade of each level, 0 to L, such as (0, 1, 3, 7) for the gains 2^l − 1; the level itself unless
            given. Items of grade 0 are left out.

    Raises:
        OptionError: both or neither of qrels and paths, names without their paths, a name that is empty or holds white
            space, or grades that are not L + 1 integers ≥ 0.
        ShapeError: another number of names than of paths.
        InputError: as :func:`hiertree.metrics.evaluate_ranking`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "qrels.txt"
    ...     write_trec_qrels(file, query_paths=[[0, 0], [0, 0], [0, 1]], query_names=["a", "b", "c"], grades=(0, 1, 3))
    ...     file.read_text().splitlines()
    ['a 0 b 3', 'a 0 c 1', 'b 0 a 3', 'b 0 c 1', 'c 0 a 1', 'c 0 b 1']
    """
    if (qrels is None) == (query_paths is None) or (qrels is not None and gallery_paths is not None):
        raise OptionError("qrels and paths", expected="exactly one of them")
    if qrels is not None and not (query_names is None and gallery_names is None and grades is None):
        raise OptionError("names or grades with qrels", expected="names and grades only with label paths")
    if gallery_paths is None and gallery_names is not None:
        raise OptionError("gallery_names without gallery_paths", expected="both, or neither")
    names: Sequence[object]
    item_names: Sequence[object]
    rows: Iterable[tuple[int, int, int]]
    if qrels is None:
        labels = {"query_paths": query_paths} | ({} if gallery_paths is None else {"gallery_paths": gallery_paths})
        paths, _ = shared_paths(labels)
        queries, items = paths["query_paths"], paths.get("gallery_paths", paths["query_paths"])
        names = _names(query_names, len(queries), "query_names")
        item_names = names if gallery_paths is None else _names(gallery_names, len(items), "gallery_names")
        rows = _grades_of_paths(queries, items, _checked_grades(grades, queries.shape[1]), gallery_paths is not None)
    else:
        judgments = as_qrels(qrels)
        names, item_names = judgments.queries, judgments.items
        rows = zip(judgments.query, judgments.item, judgments.value.astype(np.int64), strict=True)
    _refuse_names(names, item_names)
    with _open(path) as file:
        for query, item, grade in rows:
            file.write(f"{names[query]} 0 {item_names[item]} {grade}\n")


def _names(names: Any, num_names: int, argument: str) -> Sequence[object]:
    return range(num_names) if names is None else [*rows_of_names(names, argument, num_names)]


def _checked_grades(grades: Any, num_levels: int) -> Sequence[int]:
    if grades is None:
        return range(num_levels + 1)
    are_grades = isinstance(grades, Sequence) and all(is_integer(grade) and grade >= 0 for grade in grades)
    if not are_grades or len(grades) != num_levels + 1:
        raise OptionError(
            f"grades={grades!r}", expected=f"{num_levels + 1} integers ≥ 0, of the levels 0 to {num_levels}"
        )
    return tuple(map(int, grades))


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A text file that appears whole; a compressed one stores no time, so that equal content gives equal bytes."""
    if Path(path).suffix != ".gz":
        with open_replacing(path) as file:
            yield file
        return
    with (
        replacing(path) as temporary,
        temporary.open("wb") as target,
        gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as packed,
        TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        yield text


def _indexed(indices: NDArray[Any], scores: Any, self_retrieval: bool) -> Triples:
    if indices.ndim != 2 or indices.dtype.kind not in "iu":
        raise ShapeError(f"a run of shape {indices.shape}, {indices.dtype}", expected="(Q, K) gallery indices")
    ranks = np.broadcast_to(-np.arange(1.0, indices.shape[1] + 1), indices.shape)
    values = ranks if scores is None else as_float64(to_numpy(scores), name="scores")
    if values.shape != indices.shape:
        raise ShapeError(f"scores of shape {values.shape}", expected=f"one per index, {indices.shape}")
    is_listed = indices >= 0
    rising = ((np.diff(values) > 0) & is_listed[:, 1:] & is_listed[:, :-1]).any(axis=1)
    if rising.any():
        problem = f"scores that rise along list {rising.argmax()}"
        raise OptionError(problem, expected="each list sorted best first, by falling scores", remedy="negate distances")
    if self_retrieval:
        is_listed &= indices != np.arange(len(indices))[:, None]
    query, column = np.nonzero(is_listed)
    items = indices[query, column].astype(np.int64)
    return Triples(
        range(len(indices)), range(int(items.max(initial=-1)) + 1), query, items, values[is_listed], "indices"
    )


def _grades_of_paths(
    queries: NDArray[np.int64], items: NDArray[np.int64], grades: Sequence[int], itself: bool
) -> Iterator[tuple[int, int, int]]:
    """Each query, item and its grade, unless that is 0; a query meets only items of its coarsest label."""
    order = np.argsort(items[:, 0], kind="stable")
    starts, stops = (np.searchsorted(items[order, 0], queries[:, 0], side) for side in ("left", "right"))
    for row, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        candidates = order[start:stop]
        shared_levels = levels(queries[row : row + 1], items[candidates])[0]
        for item, level in zip(candidates.tolist(), shared_levels.tolist(), strict=True):
            if level and grades[level] and (itself or item != row):
                yield row, item, grades[level]


def _refuse_names(queries: Iterable[object], items: Iterable[object]) -> None:
    for names, at_start in ((queries, True), (items, False)):
        for name in map(str, names):
            if len(name.split()) != 1 or name != name.strip() or (at_start and name.startswith("#")):
                raise OptionError(f"the name {name!r}", expected="no white space, and no '#' at the start of a query's")
