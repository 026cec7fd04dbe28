"""The values of blocks of queries whose scores never leave a device of torch.

The device multiplies, sorts positives and counts all items among them, as :mod:`hiertree.metrics.ranking` does on the
processor, and with the same result. The processor turns these counts into metrics while the next block is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch

from hiertree.errors import DeviceError
from hiertree.io.progress import Advance
from hiertree.jit import Array, Floats, Ints

from ..ranking.sorted_positives import SortedPositives, empty_positives
from .blocks import Layout, loaded, ranges
from .device import sent
from .retrieval import Retrieval

if TYPE_CHECKING:
    from .device import Device
    from .processes import Share
    from .similarity import Similarity

_LONGEST_ROW = 2**18  # scores of one query
_SCORES_AT_ONCE = 2**19
_INDEX_BITS = 32
_UNREAD = 2**14  # cells for the items behind a list's last positive: most items, which one cell would make wait


def values_on_device(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[Ints], advance: Advance
) -> Iterator[Floats]:
    """Yield the values of each block; while one is computed here, the next is on the device."""
    device = cast("Device", retrieval.source.device)  # or the layout would name another way
    work = _Work(retrieval, device, layout.height, device.send(retrieval.source.gallery.tree.order))
    computed: list[Future[Floats]] = []
    with ThreadPoolExecutor(1) as pool:
        for rows in blocks:
            positives = work.sorted_positives(rows)
            yield from map(work.finished, computed)
            computed = [pool.submit(work.values, rows, positives)]
            advance(len(rows))
        yield from map(work.finished, computed)


class _Work(NamedTuple):
    """What all blocks share: the retrieval, the device, the height of a product, and the gallery's order there."""

    retrieval: Retrieval[Similarity]
    device: Device
    height: int
    order: torch.Tensor

    def values(self, rows: Ints, products: list[SortedPositives]) -> Floats:
        """The values of the queries of a block, whose positives are sorted."""
        parts = list(zip(ranges(len(rows), self.height), products, strict=True))
        share, values = self.retrieval.source.share, np.zeros((len(rows), len(self.retrieval.request.metrics)))
        for part, positives in parts if share is None else parts[share.part(len(parts))]:
            values[part] = self.retrieval.values_of_positives(rows[part], positives)
        return values

    def finished(self, values: Future[Floats]) -> Floats:
        """The values of a block; of all processes where they share the gallery."""
        share = self.retrieval.source.share
        return values.result() if share is None else share.reduced(values.result())

    def sorted_positives(self, rows: Ints) -> list[SortedPositives]:
        """The positives of the queries of a block among all items, product by product."""
        try:
            return self._sorted_positives(rows)
        except torch.OutOfMemoryError as error:
            remedy = "pass a smaller tile_size, or free memory there"
            raise DeviceError(f"the memory of {self.device.where}", expected="more of it", remedy=remedy) from error

    def _sorted_positives(self, rows: Ints) -> list[SortedPositives]:
        vectors, similarity = self.retrieval.source.queries(rows, self.height), self.retrieval.source
        products = []
        for part in ranges(len(rows), self.height):
            queries = self.device.put(vectors[part.start : part.start + self.height])
            products.append(_Product(self.retrieval, rows[part], queries, self.order))
        if similarity.held and similarity.share is None and len(self.order) <= _LONGEST_ROW:
            self._count_at_once(products)
        else:
            self._gather(rows, products)
            for places, items in loaded(similarity.items, similarity.parts):
                for product in products:
                    product.count(self._scores(product, places, items), places)
        if similarity.share is not None:
            for product in products:
                product.sum_counts(similarity.share)
        return [product.on_processor() for product in products]

    def _count_at_once(self, products: list[_Product]) -> None:
        places, similarity = np.arange(len(self.order)), self.retrieval.source
        items = [similarity.items(places[tile]) for tile in similarity.tiles]
        for product in products:
            scores = self._scores(product, places, *items)
            product.gather(scores, places)
            product.sort()
            product.count(scores, places)

    def _gather(self, rows: Ints, products: list[_Product]) -> None:
        similarity = self.retrieval.source
        parts = similarity.parts_with_positives(rows, ranges(len(rows), self.height))
        for (places, product_rows), items in loaded(lambda part: similarity.items(part[0]), parts):
            for part in product_rows:
                product = products[part.start // self.height]
                product.gather(self._scores(product, places, items), places)
        for product in products:
            if similarity.share is not None:
                product.merge(similarity.share)
            product.sort()

    def _scores(self, product: _Product, places: Ints, *items: torch.Tensor) -> torch.Tensor:
        """The scores of a product's queries, masked ones −inf."""
        exact = self.retrieval.source.exact
        products = torch.cat([self.device.multiply(product.queries, tile, exact=exact) for tile in items], dim=1)
        scores = products[: len(product)]
        copies, originals = self.retrieval.source.equal_columns(places)
        if len(copies):
            scores[:, self.device.send(copies)] = scores[:, self.device.send(originals)]
        product.leave_out(scores, places)
        return scores


class _Product:
    """Queries that are multiplied at once, and their positives; ``order`` is the gallery's tree order on the device.

    Scores are held negated, so that the best comes first in rising order; an item that is not there is +∞.
    """

    def __init__(
        self, retrieval: Retrieval[Similarity], rows: Ints, queries: torch.Tensor, order: torch.Tensor
    ) -> None:
        self.queries = queries
        self._gallery, self._dtype = retrieval.source.gallery, retrieval.source.dtype
        self._by_index, self._rows, self._order = retrieval.request.ties == "index", rows, order
        tree = self._gallery.tree
        self._low, self._high = (self._put(bounds[rows]) for bounds in (tree.low, tree.high))
        width = max(self._gallery.most_positives(rows), 1)
        kind = torch.from_numpy(np.empty(0, self._dtype)).dtype
        self._place = self._low[:, :1] + torch.arange(width, device=order.device)
        self._negated = torch.full((len(rows), width), torch.inf, dtype=kind, device=order.device)
        self._level = torch.zeros((len(rows), width), dtype=torch.uint8, device=order.device)
        self._key = self._negated  # what the others are looked up among
        self._number = torch.zeros((len(rows), 1), dtype=torch.int64, device=order.device)
        self._negatives = torch.zeros(len(rows) * (width + 1) * 2 + _UNREAD, dtype=torch.int32, device=order.device)

    def __len__(self) -> int:
        return len(self._rows)

    def leave_out(self, scores: torch.Tensor, places: Ints) -> None:
        """Give masked items the score −inf."""
        rows, columns = self._gallery.masked(places, self._rows)
        scores[self._put(rows), self._put(columns)] = -torch.inf

    def gather(self, scores: torch.Tensor, places: Ints) -> None:
        """Take the positives from the scores of some places."""
        if places[-1] - places[0] < len(places):
            column = self._place - places[0]
            is_present = (column >= 0) & (column < len(places))
        else:
            standing = self._put(places)
            column = torch.searchsorted(standing, self._place)
            is_present = standing[column.clamp(max=len(places) - 1)] == self._place
        is_present &= self._place < self._high[:, :1]
        part_scores = scores.gather(1, column.clamp(0, len(places) - 1))
        self._negated = torch.where(is_present, 0 - part_scores, self._negated)

    def merge(self, share: Share) -> None:
        """Take the positives that other processes have found."""
        self._negated = share.reduce(self._negated, "smallest")

    def sum_counts(self, share: Share) -> None:
        """Add the items that other processes have counted."""
        self._negatives = share.reduce(self._negatives)

    def sort(self) -> None:
        """Put the positives in order: by score, then by index if that breaks ties, else by level."""
        for low, high in zip(self._low.T[..., None], self._high.T[..., None], strict=True):
            self._level += (low <= self._place) & (self._place < high)
        second = self._order[self._place.clamp(max=len(self._order) - 1)] if self._by_index else self._level
        first = second.sort(dim=1, stable=True).indices
        self._negated, order = self._negated.gather(1, first).sort(dim=1, stable=True)
        self._level = self._level.gather(1, first).gather(1, order)
        self._number = (self._negated < torch.inf).sum(dim=1, keepdim=True)
        self._key = self._negated
        if self._by_index:
            item = second.gather(1, first).gather(1, order)
            self._key = (torch.searchsorted(self._negated, self._negated) << _INDEX_BITS) + item

    def count(self, scores: torch.Tensor, places: Ints) -> None:
        """Count the other items."""
        low, high = (self._put(bound[:, None]) for bound in self._gallery.positive_columns(places, self._rows))
        step = max(_SCORES_AT_ONCE // len(self._rows), 1)
        for start in range(0, len(places), step):
            column = torch.arange(start, min(start + step, len(places)), device=scores.device)
            negated = 0 - scores[:, start : start + step]
            negated.masked_fill_((low <= column) & (column < high), torch.inf)
            self._count(negated.contiguous(), places[start : start + step])

    def _count(self, negated: torch.Tensor, places: Ints) -> None:
        """Count each item at the first positive that does not stand ahead of it, apart where it ties with that.

        Additions to one cell may wait for each other. Items behind all positives are never read; they are spread.
        """
        width = self._negated.shape[1]
        place = torch.searchsorted(self._negated, negated)
        tied = self._negated.gather(1, place.clamp(max=width - 1)) == negated
        if self._by_index:
            index = self._order[self._put(places)]
            place = torch.searchsorted(self._key, (place << _INDEX_BITS) + tied * index)
            tied = torch.zeros_like(tied)
        row = torch.arange(len(negated), device=negated.device)[:, None]
        unread = (len(negated) * (width + 1) * 2) + torch.arange(negated.numel(), device=negated.device) % _UNREAD
        cells = torch.where(
            place < self._number, (row * (width + 1) + place) * 2 + tied, unread.view_as(place)
        ).flatten()
        self._negatives.scatter_add_(
            0, cells, torch.ones((), dtype=torch.int32, device=cells.device).expand(len(cells))
        )

    def on_processor(self) -> SortedPositives:
        """The same on the processor, most in four bytes a positive.

        Of scores nothing is read but where they change: they come as 0 and 1 in turn.
        """
        number, width = self._negated.shape
        negatives = self._negatives[:-_UNREAD].reshape(number, width + 1, 2)
        counts = torch.cat([self._number[:, 0], negatives.amax().long()[None]]).cpu().numpy()
        if counts[-1] < 256:
            negatives = negatives.byte()
        changes = self._negated != self._negated.roll(1, dims=1)
        empty = empty_positives(number, width, self._dtype, by_index=False)
        return empty._replace(
            score=(changes.cumsum(dim=1, dtype=torch.uint8) % 2).cpu().numpy().astype(self._dtype),
            level=self._level.cpu().numpy(),
            number=counts[:-1],
            negatives=negatives.cpu().numpy().astype(np.int32, copy=False),
        )

    def _put(self, values: Array) -> torch.Tensor:
        return sent(values, self._order.device)
