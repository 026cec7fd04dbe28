"""Cosine similarities between blocks of queries and parts of the gallery.

The rounding of a product may depend on its shape and on the column. So all products have the same height (the last is
padded), and equal vectors of the gallery belong to one part and get the score of the first of them.

Dot products of small integers are exact in any order of summation. The squared cosine with the sign of the cosine,
(q·x)·|q·x| / (‖q‖²‖x‖²), is then one rounded division of exact integers: equal cosines give equal scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import require_package
from hiertree.jit import Array, Ints, jit

from ..ranking.gallery import Gallery
from .blocks import for_each, num_threads, ranges
from .vectors import LARGEST_SUM, Vectors, first_of_equal, hashes_of

if TYPE_CHECKING:
    from .device import Device

LARGEST_COPY = 2**29  # bytes of the largest gallery that is copied in normalized form
_TILE, _TILE_ON_A_DEVICE = 2**25, 2**27  # bytes of a tile of a larger gallery
_LEAST_TILE = 1024  # items
LONGEST_TILE = 2**16  # items of a tile; for each tile the tables of positives are read again, and scores held
PRODUCT_ITEMS = 2048  # items of a product: its scores stay in the cache while they are summed


class Similarity:
    """Products of Q queries with N items, both given in the user's order; places are in the gallery's tree order.

    A normalized copy of the gallery is ``held`` if it is small enough; then all items are multiplied at once unless
    it lies on a device. ``tile_ranges`` are consecutive ranges in tree order. Where ``exact``, small integers are
    multiplied, and scores are squared cosines with their signs.
    """

    def __init__(self, query: Vectors, items: Vectors, gallery: Gallery, *, device: str | None = None) -> None:
        self._query, self._items, self.gallery = query, items, gallery
        self.embeddings = query.array, items.array  # as given
        self.dimensions = query.dimensions
        self.device = _device(device)
        self.dtype = np.dtype(np.result_type(query.dtype, items.dtype))
        num_items, row_bytes = len(gallery), items.dimensions * self.dtype.itemsize
        self._chunk = max((_TILE if self.device is None else _TILE_ON_A_DEVICE) // row_bytes, _LEAST_TILE)
        if self.device is None:
            self.held = not items.mapped and num_items * row_bytes <= LARGEST_COPY
            width = num_items if self.held else min(self._chunk, LONGEST_TILE)
        else:
            self.held = num_items * row_bytes <= self.device.gallery_bytes
            width = self._chunk  # independent of free memory, so that values are too
        self.tile_ranges = ranges(num_items, width)
        norms = query.longest, items.longest
        largest_exact = LARGEST_SUM if self.device is None else self.device.largest_integer
        self.exact = max(norms) <= largest_exact**2 and norms[0] * norms[1] <= LARGEST_SUM**2  # |q·x| ≤ ‖q‖·‖x‖

    @cached_property
    def tiles(self) -> list[Ints]:
        """The positions of the items of each tile, in ascending order.

        A tile of a file is consecutive rows of it. Equal vectors belong to the tile of the first of them.
        """
        return [positions for positions in self._divided() if len(positions)]

    def _standing(self, tile: slice) -> Ints:
        """The places of the items of a tile, in ascending order."""
        in_file = self._items.mapped and not self.held
        return np.sort(self.gallery.tree.position[tile]) if in_file else np.arange(tile.start, tile.stop)

    def _divided(self) -> list[Ints]:
        """The places of each tile; a vector moves to the tile of the first vector that equals it."""
        standing = list(map(self._standing, self.tile_ranges))
        if self._first is None or len(standing) == 1:
            return standing
        tile_of_position = np.empty(len(self.gallery), np.int64)
        for tile, positions in enumerate(standing):
            tile_of_position[positions] = tile
        target_tile = tile_of_position[self._first]
        order = np.argsort(target_tile, kind="stable")
        return np.split(order, np.searchsorted(target_tile[order], np.arange(1, len(standing))))

    @cached_property
    def longest_tile(self) -> int:
        """The number of items in the longest tile."""
        return max(map(len, self.tiles))

    def tiles_with_positives(self, rows: Ints, products: list[slice]) -> Iterator[tuple[Ints, list[slice]]]:
        """Yield each tile that holds positives of these rows, and the products that have some in it."""
        for positions in self.tiles:
            low, high = self.gallery.positive_columns(positions, rows)
            relevant_products = [product for product in products if (low[product] < high[product]).any()]
            if relevant_products:
                yield positions, relevant_products

    def queries(self, rows: Ints, height: int) -> Array:
        """The vectors of some queries, padded with the first one to a multiple of ``height``."""
        return self._vectors(self._query, np.append(rows, np.repeat(rows[:1], -len(rows) % height)))

    def items(self, positions: Ints) -> Any:
        """The vectors of the items at some places, on the device if there is one."""
        if self.held:
            consecutive = positions[-1] - positions[0] < len(positions)
            return self._copy[slice(positions[0], positions[-1] + 1) if consecutive else positions]
        items = self._vectors(self._items, self.gallery.tree.order[positions])
        return items if self.device is None else self.device.send(items)

    def fill(self, queries: Array, items: Any, positions: Ints, scores: Array, *, height: int, threads: int) -> None:
        """Write the scores of padded queries against the items of a part."""
        self._multiply(queries, items, scores, height, threads)
        copies, originals = self.equal_columns(positions)
        if len(copies):
            scores[:, copies] = scores[:, originals]

    def _multiply(self, queries: Array, items: Any, scores: Array, height: int, threads: int) -> None:
        """Write the scores of padded queries against some items, without regard to equal vectors."""
        width = PRODUCT_ITEMS if self.device is None else len(items)
        pairs = [(rows, tile) for rows in ranges(len(queries), height) for tile in ranges(len(items), width)]

        def multiply(product: tuple[slice, slice]) -> None:
            rows, tile = product
            if self.device is None:
                np.matmul(queries[rows], items[tile].T, out=scores[rows, tile])
                if self.exact:
                    _square(queries[rows], items[tile], scores[rows, tile])
            else:
                products = self.device.multiply(self.device.send(queries[rows]), items, exact=self.exact)
                scores[rows] = products.cpu().numpy()

        for_each(multiply, pairs, threads)

    def equal_columns(self, positions: Ints) -> tuple[Ints, Ints]:
        """The columns of a part (or of all parts) whose vectors equal earlier ones, and the columns of those."""
        if self._first is None:
            return positions[:0], positions[:0]
        first = self._first[positions]
        copies = np.flatnonzero(first != positions)
        return copies, np.searchsorted(positions, first[copies])

    @cached_property
    def _copy(self) -> Any:
        """The whole gallery in tree order, normalized, on the device if there is one."""
        if self.device is None:
            return self._vectors(self._items, self.gallery.tree.order, threads=num_threads())
        return self.device.send_all(self._chunks(), (len(self.gallery), self.dimensions), self.dtype)

    @cached_property
    def _first(self) -> Ints | None:
        """For each position, that of the first equal vector; None if all differ or scores are exact."""
        if self.exact:
            return None
        hashes = np.concatenate([hashes_of(chunk) for chunk in self._chunks()])
        return first_of_equal(hashes, lambda rows: self._vectors(self._items, self.gallery.tree.order[rows]))

    def _vectors(self, vectors: Vectors, rows: slice | Ints, *, threads: int = 1) -> Array:
        """Some rows prepared for products: as small integers, or with norm 1."""
        return (vectors.integers if self.exact else vectors.unit)(rows, self.dtype, threads=threads)

    def _chunks(self) -> Iterator[Array]:
        copied = self.held and self.device is None
        for chunk in ranges(len(self.gallery), self._chunk):
            yield self._copy[chunk] if copied else self._vectors(self._items, self.gallery.tree.order[chunk])


def _device(name: str | None) -> Device | None:
    """The device of that name, or None for numpy."""
    if name is None:
        return None
    require_package("torch", extra="train")
    from .device import Device

    return Device(name)


@jit
def _square(queries: Array, items: Array, scores: Array) -> None:
    """Turn products of integers into squared cosines with their signs, in place."""
    lengths = np.empty(len(items))
    for column in range(len(items)):
        lengths[column] = _squared_norm(items[column])
    for row in range(len(queries)):
        query_norm = _squared_norm(queries[row])
        for column in range(len(items)):
            product = np.float64(scores[row, column])
            scores[row, column] = product * abs(product) / (query_norm * lengths[column])


@jit
def _squared_norm(row: Array) -> float:
    total = 0.0
    for item in range(len(row)):
        total += np.float64(row[item]) * np.float64(row[item])
    return total
