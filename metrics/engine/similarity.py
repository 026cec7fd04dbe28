"""Cosine similarities of blocks of queries with parts of the gallery.

A product's rounding may depend on its shape. So all have the same height, whatever the block size, the last one padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.gallery import Gallery
    from .device import Device
    from .vectors import Vectors

_LARGEST_COPY = 2**29  # bytes of a gallery of which a normalized copy is held
_TILE, _TILE_ON_A_DEVICE = 2**25, 2**27  # bytes of one tile of a larger one


class Similarity:
    """The products of queries with a gallery.

    Args:
        query: Q embeddings.
        items: N embeddings, in the order the user gave them.
        gallery: their tree order, and what each list leaves out.
        tile_size: gallery items multiplied at once; unless given all, if a normalized copy of the gallery may be held.
        device: where torch multiplies, or None for numpy.
        dtype: of the products; unless given that of the embeddings.

    Attributes:
        gallery: as given.
        dtype: of the scores.
        device: what multiplies, or None for numpy.
        held: whether a normalized copy of the gallery is kept.
        tiles: consecutive ranges of the gallery in tree order.
    """

    def __init__(
        self,
        query: Vectors,
        items: Vectors,
        gallery: Gallery,
        *,
        tile_size: int | None = None,
        device: Device | None = None,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        self._query, self._items, self.gallery, self.device = query, items, gallery, device
        self.dtype = np.result_type(query.dtype, items.dtype) if dtype is None else dtype
        num_items, row_bytes = len(gallery), items.dimensions * self.dtype.itemsize
        self._piece = max((_TILE if device is None else _TILE_ON_A_DEVICE) // row_bytes, 1024)
        if device is None:
            self.held = not items.mapped and num_items * row_bytes <= _LARGEST_COPY
            width = num_items if self.held else self._piece
        else:
            self.held = num_items * row_bytes <= device.gallery_bytes
            width = self._piece  # whatever memory is free
        self.tiles = _ranges(num_items, width if tile_size is None else tile_size)

    @property
    def embeddings(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Those of the queries and of the gallery, as given."""
        return self._query.array, self._items.array

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        return self._query.dimensions

    def parts(self) -> Iterator[NDArray[np.int64]]:
        """The whole gallery in parts: the places of each, rising.

        A file is read from its beginning to its end, however its labels are mixed: a part is consecutive rows of it.
        """
        for part in self.tiles:
            in_file = self._items.mapped and not self.held
            yield np.sort(self.gallery.tree.place[part]) if in_file else np.arange(part.start, part.stop)

    def queries(self, rows: NDArray[np.int64], height: int) -> NDArray[Any]:
        """Some normalized queries, and the first of them again up to a multiple of ``height``."""
        return self._query.unit(np.append(rows, np.repeat(rows[:1], -len(rows) % height)), self.dtype)

    def items(self, places: NDArray[np.int64]) -> Any:
        """The normalized items at some places, where they are multiplied."""
        if self.held:
            return self._copy[places[0] : places[-1] + 1]
        items = self._items.unit(self.gallery.tree.order[places], self.dtype)
        return items if self.device is None else self.device.put(items)

    def fill(self, queries: NDArray[Any], items: Any, scores: NDArray[Any], height: int) -> None:
        """Write the scores of padded queries."""
        for start in range(0, len(queries), height):
            rows = slice(start, start + height)
            if self.device is None:
                np.matmul(queries[rows], items.T, out=scores[rows])
            else:
                self.device.multiply_into(self.device.put(queries[rows]), items, scores[rows])

    @cached_property
    def _copy(self) -> Any:
        """The whole gallery in tree order, where it is multiplied."""
        if self.device is None:
            return self._items.unit(self.gallery.tree.order, self.dtype)
        pieces = _ranges(len(self.gallery.tree.order), self._piece)
        read = (self._items.unit(self.gallery.tree.order[piece], self.dtype) for piece in pieces)
        return self.device.put_all(read, (len(self.gallery.tree.order), self.dimensions), self.dtype)


def _ranges(number: int, size: int) -> list[slice]:
    """0 … number in parts of one size, the last one smaller."""
    return [slice(start, min(start + size, number)) for start in range(0, number, size)]
