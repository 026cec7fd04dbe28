"""The values of a retrieval of embeddings, block of queries by block.

Blocks are taken in tree order, where neighboring queries have the same positives. The scores of a block are held in one
of three ways: all at once; those with a tile of the gallery, in memory that does not grow with it
(both :mod:`~hiertree.metrics.engine.on_processor`); or on a device of torch
(:mod:`~hiertree.metrics.engine.on_device`). The choice depends on sizes alone, not on that of the blocks. Finished
blocks may be kept in a folder, from which an interrupted evaluation goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import hiertree
from hiertree.io.parts import PartStore, digest
from hiertree.io.progress import show_progress

from ..ranking.sorted_positives import row_bytes
from .blocks import BUDGET, Layout, Way, single_threaded_blas
from .on_processor import values_in_memory, values_tiled

if TYPE_CHECKING:
    from hiertree.jit import Floats

    from .retrieval import Retrieval
    from .similarity import Similarity

PRODUCT_ROWS = 256
_LEAST_PRODUCT_ROWS = 8
_MOST_ROWS = 1024  # of a block whose scores are all held
_MOST_ROWS_TILED = 2**14  # of a block for which the gallery is read once or twice
_DEVICE_BYTES_OF_A_POSITIVE = 64  # while it is sorted there


def values_of_embeddings(
    retrieval: Retrieval[Similarity],
    *,
    block_size: int | None,
    distributed: bool,
    resume: str | os.PathLike[str] | None,
    progress: bool,
) -> Floats:
    """(Q, M) values of the metrics.

    Args:
        retrieval: what is computed.
        block_size: queries whose scores are held at once, unless the memory budget decides.
        distributed: whether the processes of a group share the blocks; all get the values of all.
        resume: a folder from which finished blocks are read, and in which others are kept.
        progress: whether to show it.
    """
    share = None
    if distributed:
        from .processes import share_of_group

        share = share_of_group(retrieval)
    layout = choose_layout(retrieval, block_size, sharers=1 if share is None else share.number)
    if share is not None:
        layout = share.agreed(layout)
    finished = None if resume is None else PartStore(resume, _fingerprint(retrieval, layout), rows="queries")
    queries = retrieval.source.gallery.tree.queries
    values = np.zeros((len(queries), len(retrieval.request.metrics)))
    starts = range(0, len(queries), layout.rows)[slice(None) if share is None else share.blocks]
    missing = []
    for block in (slice(start, min(start + layout.rows, len(queries))) for start in starts):
        stored = None if finished is None else finished.load(block)
        if stored is None:
            missing.append(block)
        else:
            values[queries[block]] = stored
    total = sum(block.stop - block.start for block in missing)
    enabled = progress and (share is None or share.rank == 0)
    with single_threaded_blas(), show_progress(description="queries", total=total, enabled=enabled) as advance:
        computed = _compute(layout.way)(retrieval, layout, [queries[block] for block in missing], advance)
        for block, found in zip(missing, computed, strict=True):
            values[queries[block]] = found
            if finished is not None:
                finished.save(block, found)
    return values if share is None else share.gathered(values)


def _compute(way: Way) -> Callable[..., Iterator[Floats]]:
    if way == "in memory":
        return values_in_memory
    if way == "tiled":
        return values_tiled
    from .on_device import values_on_device  # needs torch

    return values_on_device


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
        row_there = max(positives, 1) * _DEVICE_BYTES_OF_A_POSITIVE
        return "on a device", min(tiled, similarity.device.block_bytes // row_there)
    if len(similarity.tiles) == 1 or in_memory >= tiled:
        return "in memory", in_memory
    return "tiled", tiled


def _fingerprint(retrieval: Retrieval[Similarity], layout: Layout) -> dict[str, str]:
    """SHA-256 of everything that a value depends on, by name; the size of the blocks is not among it."""
    request, similarity = retrieval.request, retrieval.source
    tree, mask = similarity.gallery.tree, similarity.gallery.mask
    products = f"{layout.way} {layout.height} {similarity.tiles[0].stop} {similarity.held} {similarity.dtype}"
    products += f" {similarity.device}"
    parts: dict[str, list[Any]] = {
        "embeddings": [*similarity.embeddings],
        "labels": [tree.order, tree.low, tree.high, tree.queries],
        "mask": [mask.start, mask.item, str(mask.place)],
        "metrics": [str(request.names), request.ties, repr(request.rules), *retrieval.relevances()],
        "products": [products, np.__version__],
        "version of hiertree": [hiertree.__version__],
    }
    return {name: digest(values) for name, values in parts.items()}
