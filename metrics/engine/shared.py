"""A gallery divided among processes: each holds some tiles, so that more processes hold a larger gallery.

All processes work on the same block of queries. Each gathers the positives in its own tiles, receives those of the
others, and counts its other items among all of them. The tiles are those of a single process, so values are equal bit
for bit.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from hiertree.jit import Array, Ints, Words

from ..ranking.gallery import Gallery
from .blocks import num_threads, ranges
from .processes import Share
from .similarity import LARGEST_COPY, Similarity
from .vectors import Vectors, find_repeated, hashes_of


def similarity_of(query: Vectors, items: Vectors, gallery: Gallery, share: Share, **options: Any) -> Similarity:
    """The similarity to use: of a divided gallery, or of a whole one if it is small or lists lose an item."""
    dtype = np.result_type(query.dtype, items.dtype)
    if gallery.mask.place is None and len(items) * items.dimensions * dtype.itemsize > LARGEST_COPY:
        return SharedSimilarity(query, items, gallery, share, **options)
    with share.agreeing():
        query_vectors = query.whole("query")
        item_vectors = query_vectors if items is query else items.whole("gallery")
    return Similarity(query_vectors, item_vectors, gallery, **options)


class SharedSimilarity(Similarity):
    """Products of all queries with the tiles of this process. All processes must call the collective methods."""

    share: Share

    def __init__(self, query: Vectors, items: Vectors, gallery: Gallery, share: Share, **options: Any) -> None:
        self.share = share
        super().__init__(query, items, gallery, **options)

    @cached_property
    def _own(self) -> Ints:
        """The places whose vectors this process holds, in ascending order."""
        tiles = map(self._standing, self.tiles[self.share.part(len(self.tiles))])
        return np.sort(np.concatenate([np.empty(0, np.int64), *tiles]))

    @cached_property
    def _dealt(self) -> list[Ints]:
        return self._divided(self.tiles)

    @cached_property
    def parts(self) -> list[Ints]:
        """The parts of this process."""
        return [places for places in self._dealt[self.share.part(len(self.tiles))] if len(places)]

    @cached_property
    def longest_part(self) -> int:
        """The number of items in the longest part over all processes."""
        return max(len(part) for part in self._dealt)

    def _longest(self) -> tuple[float, float]:
        """Read the rows of this process; return the largest squared norms over all processes."""
        tree, is_self_retrieval = self.gallery.tree, self._query is self._items
        part = self.share.part(len(tree.queries))
        self._own_queries = tree.order[self._own] if is_self_retrieval else tree.queries[part]
        with self.share.agreeing():
            items = self._items.taken(tree.order[self._own], name="query" if is_self_retrieval else "gallery")
            queries = items if is_self_retrieval else self._query.taken(self._own_queries, name="query")
        self._taken = queries, items
        self._where = np.full(len(tree.queries), -1)
        self._where[self._own_queries] = np.arange(len(self._own_queries))
        norms = self.share.reduced(np.array([queries.longest, items.longest]), "largest")
        return float(norms[0]), float(norms[1])

    @cached_property
    def _kept(self) -> tuple[Array, Array]:
        """The prepared vectors of this process: its queries and its items."""
        queries, items = self._taken
        del self._taken  # freed
        item_vectors = self._in_place(items)
        return (item_vectors if queries is items else self._in_place(queries)), item_vectors

    def _in_place(self, vectors: Vectors) -> Array:
        """Prepare vectors for products, in place if they have the type of the scores."""
        target: Array = vectors.array
        if target.dtype != self.dtype:
            target = np.empty(target.shape, self.dtype)
        for piece in ranges(len(target), self._piece):
            target[piece] = self._vectors(vectors, piece, threads=num_threads())
        return target

    @cached_property
    def _copy(self) -> Any:
        """The prepared items, on the device if they fit there."""
        item_vectors = self._kept[1]
        return self.device.put(item_vectors) if self.device is not None and self._is_there else item_vectors

    @property
    def _is_there(self) -> bool:
        return (
            self.device is None or len(self._own) * self.dimensions * self.dtype.itemsize <= self.device.gallery_bytes
        )

    def queries(self, rows: Ints, height: int) -> Array:
        """The vectors of some queries, from all processes, padded with the first one to a multiple of ``height``."""
        padded = np.append(rows, np.repeat(rows[:1], -len(rows) % height))
        vectors = np.zeros((len(padded), self.dimensions), self.dtype)
        at = self._where[padded]
        vectors[at >= 0] = self._kept[0][at[at >= 0]]
        return self.share.reduced(vectors)

    def items(self, places: Ints) -> Any:
        """The vectors of the items at some places of one part, on the device if there is one."""
        items = self._rows(places if self._first is None else self._first[places])
        return items if self._is_there or self.device is None else self.device.put(items)

    def _rows(self, places: Ints) -> Any:
        at = np.searchsorted(self._own, places)
        return self._copy[slice(at[0], at[-1] + 1) if (np.diff(at) == 1).all() else at]

    @cached_property
    def item_hashes(self) -> Words:
        """Those of all processes."""
        return self._hashed(self._kept[1], self._own, len(self.gallery))

    @property
    def query_hashes(self) -> Words:
        """Those of all processes."""
        return self._hashed(self._kept[0], self._own_queries, len(self._where))

    def _hashed(self, vectors: Array, rows: Ints, number: int) -> Words:
        hashes = np.zeros(number, np.uint64)
        for piece in ranges(len(rows), self._piece):
            hashes[rows[piece]] = hashes_of(self._rounded(vectors[piece]))
        return self.share.reduced(hashes)

    def _first_of_equal(self) -> Ints | None:
        hashes = self.item_hashes
        candidates = find_repeated(hashes)
        local = np.flatnonzero(np.isin(candidates, self._own))
        marks = np.zeros((len(candidates), 2), np.uint64)
        for piece in ranges(len(local), self._piece):
            vectors = self._rounded(self._kept[1][np.searchsorted(self._own, candidates[local[piece]])])
            rows = vectors + vectors.dtype.type(0)  # −0 becomes 0
            digests = b"".join(blake2b(row.tobytes(), digest_size=16).digest() for row in rows)
            marks[local[piece]] = np.frombuffer(digests, np.uint64).reshape(-1, 2)
        if not len(candidates):
            return None
        equal = np.unique(self.share.reduced(marks), axis=0, return_inverse=True)[1].reshape(-1)
        smallest = np.full(len(candidates), len(hashes))
        np.minimum.at(smallest, equal, candidates)
        first = np.arange(len(hashes))
        first[candidates] = smallest[equal]
        return None if (first == np.arange(len(first))).all() else first
