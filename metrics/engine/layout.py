"""How the work is cut: into blocks of queries, and these into products of one height.

There are three ways to hold the scores: all those of a block (:mod:`hiertree.metrics.engine.in_memory`); those with a
tile of the gallery, in memory that does not grow with it (:mod:`hiertree.metrics.engine.tiled`); or on a device of
torch (:mod:`hiertree.metrics.engine.on_device`). The choice depends on sizes alone, not on that of the blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ..ranking.sorted_positives import row_bytes
from .blocks import BUDGET

if TYPE_CHECKING:
    from .retrieval import Retrieval
    from .similarity import Similarity

Way: TypeAlias = Literal["in memory", "tiled", "on a device"]
PRODUCT_ROWS = 256
_LEAST_PRODUCT_ROWS = 8
_MOST_ROWS = 1024  # of a block whose scores are all held
_MOST_ROWS_TILED = 2**14  # of a block for which the gallery is read once or twice
DEVICE_BYTES_OF_A_POSITIVE = 64  # while it is sorted there


class Layout(NamedTuple):
    """How the work is cut.

    Attributes:
        way: where the scores of a block are held.
        height: queries multiplied at once, a power of two.
        rows: queries in a block, a multiple of the height.
    """

    way: Way
    height: int
    rows: int


def choose_layout(retrieval: Retrieval[Similarity], block_size: int | None, *, sharers: int = 1) -> Layout:
    """The way that takes more queries at once within the memory budget; every one of the sharers gets a block."""
    similarity, num_queries = retrieval.source, len(retrieval)
    way, most = _roomiest(similarity)
    height = min(PRODUCT_ROWS, most, max(num_queries, _LEAST_PRODUCT_ROWS))
    if way == "tiled":
        height = min(height, BUDGET // (similarity.longest_part * similarity.dtype.itemsize))
    height = 1 << (max(height, _LEAST_PRODUCT_ROWS).bit_length() - 1)
    if block_size is not None:
        return Layout(way, height, -(-min(block_size, max(num_queries, 1)) // height) * height)
    longest: dict[Way, int] = {
        "in memory": height if len(similarity.tiles) == 1 else _MOST_ROWS,
        "tiled": _MOST_ROWS_TILED,
        "on a device": _MOST_ROWS if similarity.held else _MOST_ROWS_TILED,
    }
    fair = -(-num_queries // (height * sharers)) * height
    return Layout(way, height, max(min(most, longest[way], fair) // height, 1) * height)


def _roomiest(similarity: Similarity) -> tuple[Way, int]:
    """A way, and how many queries it can take at once."""
    positives, item_bytes = similarity.gallery.most_positives(), similarity.dtype.itemsize
    in_memory = BUDGET // (len(similarity.gallery) * item_bytes)
    if similarity.gallery.mask.place is not None:
        return "in memory", in_memory
    tiled = 2 * BUDGET // (row_bytes(positives) + similarity.dimensions * item_bytes)
    if similarity.device is not None:
        row_there = max(positives, 1) * DEVICE_BYTES_OF_A_POSITIVE
        return "on a device", min(tiled, similarity.device.block_bytes // row_there)
    if len(similarity.tiles) == 1 or in_memory >= tiled:
        return "in memory", in_memory
    return "tiled", tiled
