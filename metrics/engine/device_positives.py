"""The positives of some queries on a device of torch: gathered, sorted, and the other items counted among them.

This is what :mod:`hiertree.metrics.ranking.sorted_positives` does on the processor, by operations that a GPU has; the
same scores give the same result. Scores are held negated, so that the best comes first in rising order; an item that is
not there is +∞.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..ranking.sorted_positives import SortedPositives, empty_positives

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .retrieval import Retrieval
    from .similarity import Similarity

_SCORES_AT_ONCE = 2**22
_INDEX_BITS = 32
_UNREAD = 2**14  # cells for the items behind a list's last positive: most items, which one cell would make wait


class DevicePositives:
    """The positives of the queries of one product.

    Args:
        retrieval: what is computed.
        rows: the queries.
        order: (N,) the gallery's tree order on the device.
    """

    def __init__(self, retrieval: Retrieval[Similarity], rows: NDArray[np.int64], order: torch.Tensor) -> None:
        self._gallery, self._dtype = retrieval.source.gallery, retrieval.source.dtype
        self._by_index, self._rows, self._order = retrieval.request.ties == "index", rows, order
        tree = self._gallery.tree
        self._low, self._high = (self._put(bounds[rows]) for bounds in (tree.low, tree.high))
        most = max(self._gallery.most_positives(rows), 1)
        kind = torch.from_numpy(np.empty(0, self._dtype)).dtype
        self._place = self._low[:, :1] + torch.arange(most, device=order.device)
        self._falling = torch.full((len(rows), most), torch.inf, dtype=kind, device=order.device)
        self._level = torch.zeros((len(rows), most), dtype=torch.uint8, device=order.device)
        self._key = self._falling  # what the others are looked up among
        self._number = torch.zeros((len(rows), 1), dtype=torch.int64, device=order.device)
        self._others = torch.zeros(len(rows) * (most + 1) * 2 + _UNREAD, dtype=torch.int32, device=order.device)

    def leave_out(self, scores: torch.Tensor, places: NDArray[np.int64]) -> None:
        """Give masked items the score −inf."""
        rows, columns = self._gallery.masked(places, self._rows)
        scores[self._put(rows), self._put(columns)] = -torch.inf

    def gather(self, scores: torch.Tensor, places: NDArray[np.int64]) -> None:
        """Take the positives from the scores of some places."""
        if places[-1] - places[0] < len(places):
            column = self._place - places[0]
            here = (column >= 0) & (column < len(places))
        else:
            standing = self._put(places)
            column = torch.searchsorted(standing, self._place)
            here = standing[column.clamp(max=len(places) - 1)] == self._place
        here &= self._place < self._high[:, :1]
        found = scores.gather(1, column.clamp(0, len(places) - 1))
        self._falling = torch.where(here, 0 - found, self._falling)

    def sort(self) -> None:
        """Put the positives in order: by score, then by index if that breaks ties, else by level."""
        for low, high in zip(self._low.T[..., None], self._high.T[..., None], strict=True):
            self._level += (low <= self._place) & (self._place < high)
        second = self._order[self._place.clamp(max=len(self._order) - 1)] if self._by_index else self._level
        first = second.sort(dim=1, stable=True).indices
        self._falling, order = self._falling.gather(1, first).sort(dim=1, stable=True)
        self._level = self._level.gather(1, first).gather(1, order)
        self._number = (self._falling < torch.inf).sum(dim=1, keepdim=True)
        self._key = self._falling
        if self._by_index:
            item = second.gather(1, first).gather(1, order)
            self._key = (torch.searchsorted(self._falling, self._falling) << _INDEX_BITS) + item

    def count(self, scores: torch.Tensor, places: NDArray[np.int64]) -> None:
        """Count the other items."""
        low, high = (self._put(bound[:, None]) for bound in self._gallery.positive_columns(places, self._rows))
        width = max(_SCORES_AT_ONCE // len(self._rows), 1)
        for start in range(0, len(places), width):
            column = torch.arange(start, min(start + width, len(places)), device=scores.device)
            falling = 0 - scores[:, start : start + width]
            falling.masked_fill_((low <= column) & (column < high), torch.inf)
            self._count(falling.contiguous(), places[start : start + width])

    def _count(self, falling: torch.Tensor, places: NDArray[np.int64]) -> None:
        """Count each item at the first positive that does not stand ahead of it, apart where it ties with that.

        Additions to one cell wait for each other on a GPU. What stands behind all positives is never read; it is spread.
        """
        most = self._falling.shape[1]
        place = torch.searchsorted(self._falling, falling)
        tied = self._falling.gather(1, place.clamp(max=most - 1)) == falling
        if self._by_index:
            index = self._order[self._put(places)]
            place = torch.searchsorted(self._key, (place << _INDEX_BITS) + tied * index)
            tied = torch.zeros_like(tied)
        row = torch.arange(len(falling), device=falling.device)[:, None]
        unread = (len(falling) * (most + 1) * 2) + torch.arange(falling.numel(), device=falling.device) % _UNREAD
        where = torch.where(place < self._number, (row * (most + 1) + place) * 2 + tied, unread.view_as(place)).flatten()
        self._others.scatter_add_(0, where, torch.ones((), dtype=torch.int32, device=where.device).expand(len(where)))

    def on_processor(self) -> SortedPositives:
        """The same on the processor."""
        number, most = self._falling.shape
        empty = empty_positives(number, most, len(self._order), self._dtype, by_index=False)
        return empty._replace(
            score=(0 - self._falling).cpu().numpy(),
            level=self._level.cpu().numpy(),
            number=self._number[:, 0].cpu().numpy(),
            others=self._others[:-_UNREAD].reshape(number, most + 1, 2).cpu().numpy(),
        )

    def _put(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(self._order.device)
