"""Writers of TREC runs and qrels, compressed by gzip where the name ends in ``.gz``."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from hiertree import levels
from hiertree.arrays import as_paths, to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.io.files import open_replacing, replacing

from .forms import as_qrels, as_run
from .triples import Triples, checked_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEVELS_AT_ONCE = 1 << 26


def write_trec_run(
    path: str | os.PathLike[str],
    run: Any,
    *,
    scores: Any = None,
    self_retrieval: bool = False,
    tag: str = "hiertree",
) -> None:
    """Write a TREC run, lines ``query Q0 item rank score tag``, by query and falling score; the file appears whole.

    Args:
        path: the file; a name that ends in ``.gz`` is compressed.
        run: as :func:`hiertree.metrics.evaluate_ranking` takes it: a frame, a ranx Run, a mapping from query to items,
            another TREC run; or (Q, K) gallery indices, best first, −1 where a list ends, named by their numbers.
        scores: (Q, K) of the indices; places of the list unless given. trec_eval compares scores as float32.
        self_retrieval: leave query i's own index out of its list.
        tag: the last column.

    Raises:
        OptionError: a name that is empty or holds white space, or scores beside a run with names.
        InputError: as :func:`hiertree.metrics.evaluate_ranking`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "run.txt"
    ...     write_trec_run(file, {"q1": ["d7", "d2"]})
    ...     file.read_text().splitlines()
    ['q1 Q0 d7 1 -1.0 hiertree', 'q1 Q0 d2 2 -2.0 hiertree']
    """
    if hasattr(run, "ndim") or isinstance(run, (list, tuple)):
        triples = checked_run(_indexed(to_numpy(run), scores, self_retrieval))
    elif scores is None and not self_retrieval:
        triples = as_run(run)
    else:
        raise OptionError("scores= or self_retrieval= beside a run with names", expected="them beside indices only")
    _refuse_spaces([*triples.queries, *triples.items, tag])
    order = np.lexsort([-triples.value, triples.query])
    starts = np.searchsorted(triples.query[order], triples.query[order])
    with _open(path) as file:
        for place, row in enumerate(order):
            query, item = triples.queries[triples.query[row]], triples.items[triples.item[row]]
            file.write(f"{query} Q0 {item} {place - starts[place] + 1} {float(triples.value[row])!r} {tag}\n")


def write_trec_qrels(
    path: str | os.PathLike[str], qrels: Any = None, *, query_paths: Any = None, gallery_paths: Any = None
) -> None:
    """Write TREC qrels, lines ``query 0 item level``; the file appears whole.

    Either judgments as :func:`hiertree.metrics.evaluate_ranking` takes them, or label paths: then every item at level
    1 or deeper is written, queries and items named by their numbers. Without ``gallery_paths`` the queries retrieve
    each other and none is its own item.

    Args:
        path: the file; a name that ends in ``.gz`` is compressed.
        qrels: a frame, a ranx Qrels, a mapping from query to items to levels, or other TREC qrels.
        query_paths: (Q, L) label ids, coarse → fine.
        gallery_paths: (N, L).

    Raises:
        OptionError: both or neither of qrels and paths, or a name that is empty or holds white space.
        InputError: as :func:`hiertree.metrics.evaluate_ranking`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "qrels.txt"
    ...     write_trec_qrels(file, query_paths=[[0, 0], [0, 0], [0, 1]])
    ...     file.read_text().splitlines()
    ['0 0 1 2', '0 0 2 1', '1 0 0 2', '1 0 2 1', '2 0 0 1', '2 0 1 1']
    """
    if (qrels is None) == (query_paths is None) or (qrels is not None and gallery_paths is not None):
        raise OptionError("both or neither of qrels and paths", expected="one of the two")
    if qrels is None:
        rows = _levels_of_paths(query_paths, gallery_paths)
    else:
        judged = as_qrels(qrels)
        _refuse_spaces([*judged.queries, *judged.items])
        rows = _rows(judged)
    with _open(path) as file:
        for query, item, level in rows:
            file.write(f"{query} 0 {item} {level}\n")


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A text file that appears whole; a compressed one holds no time, so that equal content gives equal bytes."""
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
    places = np.broadcast_to(-np.arange(1.0, indices.shape[1] + 1), indices.shape)
    values = places if scores is None else to_numpy(scores).astype(np.float64)
    if values.shape != indices.shape:
        raise ShapeError(f"scores of shape {values.shape}", expected=f"one an index, {indices.shape}")
    kept = indices >= 0
    if self_retrieval:
        kept &= indices != np.arange(len(indices))[:, None]
    query, column = np.nonzero(kept)
    items = indices[query, column].astype(np.int64)
    return Triples(range(len(indices)), range(int(items.max(initial=-1)) + 1), query, items, values[kept], "indices")


def _rows(judged: Triples) -> Iterator[tuple[object, object, int]]:
    for query, item, level in zip(judged.query, judged.item, judged.value, strict=True):
        yield judged.queries[query], judged.items[item], int(level)


def _levels_of_paths(query_paths: Any, gallery_paths: Any) -> Iterator[tuple[object, object, int]]:
    """Block by block, so that no Q × N matrix exists."""
    queries = as_paths(query_paths, name="query_paths")
    items = queries if gallery_paths is None else as_paths(gallery_paths, name="gallery_paths")
    height = max(_LEVELS_AT_ONCE // max(len(items), 1), 1)
    for start in range(0, len(queries), height):
        found = levels(queries[start : start + height], items)
        if gallery_paths is None:
            found[np.arange(len(found)), start + np.arange(len(found))] = 0
        for row, item in zip(*np.nonzero(found), strict=True):
            yield start + row, item, int(found[row, item])


def _refuse_spaces(names: list[Any]) -> None:
    bad = next((name for name in names if len(str(name).split()) != 1 or str(name) != str(name).strip()), None)
    if bad is not None:
        raise OptionError(f"the name {bad!r}", expected="names without white space, as TREC files need them")
