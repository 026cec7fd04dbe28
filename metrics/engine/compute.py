"""The values of a retrieval of embeddings, block of queries by block.

Blocks are taken in tree order, where neighboring queries have the same positives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.io.parts import PartStore
from hiertree.io.progress import show_progress

from .blocks import single_threaded_blas
from .in_memory import values_in_memory
from .layout import choose_layout
from .processes import ALONE, check_alike, share_of_group
from .resume import fingerprint
from .tiled import values_tiled

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from .layout import Way
    from .retrieval import Retrieval
    from .similarity import Similarity


def values_of_embeddings(
    retrieval: Retrieval[Similarity],
    *,
    block_size: int | None,
    distributed: bool,
    resume: str | os.PathLike[str] | None,
    progress: bool,
) -> NDArray[np.float64]:
    """(Q, M) values of the metrics.

    Args:
        retrieval: what is computed.
        block_size: queries whose scores are held at once, unless the memory budget decides.
        distributed: whether the processes of a group share the blocks; all get the values of all.
        resume: a folder from which finished blocks are read, and in which others are kept.
        progress: whether to show it.
    """
    share = share_of_group() if distributed else ALONE
    if share.number > 1:
        check_alike(retrieval)
    layout = share.agreed(choose_layout(retrieval, block_size, sharers=share.number))
    finished = None if resume is None else PartStore(resume, fingerprint(retrieval, layout), rows="queries")
    queries = retrieval.source.gallery.tree.queries
    values = np.zeros((len(queries), len(retrieval.request.metrics)))
    starts = range(0, len(queries), layout.rows)[share.blocks]
    missing = []
    for block in (slice(start, min(start + layout.rows, len(queries))) for start in starts):
        stored = None if finished is None else finished.load(block)
        if stored is None:
            missing.append(block)
        else:
            values[queries[block]] = stored
    total = sum(block.stop - block.start for block in missing)
    enabled = progress and share.rank == 0
    with single_threaded_blas(), show_progress(description="queries", total=total, enabled=enabled) as advance:
        computed = _compute(layout.way)(retrieval, layout, [queries[block] for block in missing], advance)
        for block, found in zip(missing, computed, strict=True):
            values[queries[block]] = found
            if finished is not None:
                finished.save(block, found)
    return share.gathered(values)


def _compute(way: Way) -> Callable[..., Iterator[NDArray[Any]]]:
    if way == "in memory":
        return values_in_memory
    if way == "tiled":
        return values_tiled
    from .on_device import values_on_device  # needs torch

    return values_on_device
