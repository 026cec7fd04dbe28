"""Cosine similarities of blocks of queries with tiles of the gallery in tree order.

A product's rounding may depend on its shape. So all have the same height, whatever the block size, the last one padded.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics._blocks import BUDGET
from hiertree.metrics._device import Multiplier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._vectors import Vectors

_PRODUCT_ROWS = 256
_LARGEST_COPY = 2**29  # bytes of a gallery of which a normalised copy is held
_TILE = 2**26  # bytes of one tile of a larger one


class Similarity:
    """The products that an evaluation is made of.

    Args:
        query: Q embeddings.
        gallery: N embeddings.
        order: (N,) the gallery's tree order.
        tile_size: gallery items multiplied at once; unless given all, if a normalised copy of the gallery may be held.
        device: where torch multiplies, or None for numpy.

    Attributes:
        dtype: of the scores.
        height: queries multiplied at once.
        tiles: consecutive ranges of the gallery.
        device: what multiplies.
    """

    def __init__(
        self,
        query: Vectors,
        gallery: Vectors,
        order: NDArray[np.int64],
        *,
        tile_size: int | None = None,
        device: str | None = None,
    ) -> None:
        self._query, self._gallery, self._order = query, gallery, order
        self.dtype = np.result_type(query.dtype, gallery.dtype)
        self.device, self._multiplier = device or "numpy", Multiplier(device)
        num_items, row_bytes = len(order), gallery.dimensions * self.dtype.itemsize
        if tile_size is None:
            whole = not gallery.mapped and num_items * row_bytes <= _LARGEST_COPY
            tile_size = num_items if whole else max(_TILE // row_bytes, 1024)
        width = min(tile_size, num_items)
        self.tiles = [slice(start, min(start + width, num_items)) for start in range(0, num_items, width)]
        height = min(_PRODUCT_ROWS, BUDGET // (width * self.dtype.itemsize), max(len(query), 8))
        self.height = 1 << max(height.bit_length() - 1, 3)

    def queries(self, rows: slice) -> NDArray[Any]:
        """The normalised queries of a block, padded with zeros to whole products."""
        number = rows.stop - rows.start
        padded = np.zeros((-(-number // self.height) * self.height, self._query.dimensions), self.dtype)
        padded[:number] = self._query.unit(rows, self.dtype)
        return padded

    def fill(self, queries: NDArray[Any], tile: slice, scores: NDArray[Any]) -> None:
        """Write the scores of a padded block with a tile."""
        items = self._whole if len(self.tiles) == 1 else self._tile(tile)
        for start in range(0, len(queries), self.height):
            rows = slice(start, start + self.height)
            self._multiplier.multiply(queries[rows], items, scores[rows])

    @cached_property
    def _whole(self) -> Any:
        """The only tile, kept."""
        return self._tile(self.tiles[0])

    def _tile(self, tile: slice) -> Any:
        return self._multiplier.hold(self._gallery.unit(self._order[tile], self.dtype))
