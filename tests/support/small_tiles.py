"""Galleries in tiles of a few items, as larger ones are in tiles of thousands."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hiertree.metrics.engine import similarity

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def small_tiles(items: int | None) -> Iterator[None]:
    """A block in which a tile has so many items; None changes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_TILE", "_TILE_ON_A_DEVICE", "LARGEST_COPY") if items else ():
            patch.setattr(similarity, name, 0)
        patch.setattr(similarity, "_LEAST_TILE", items or similarity._LEAST_TILE)
        yield
