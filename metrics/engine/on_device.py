"""The values of blocks of queries whose scores never leave a device of torch.

The device multiplies, sorts positives and counts all items among them, as :mod:`hiertree.metrics.ranking` does on the
processor, and with the same result. The processor turns these counts into metrics while the next block is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch.nn.functional import pad

from hiertree.errors import DeviceError
from hiertree.io.progress import Advance
from hiertree.jit import Array, Floats, Ints

from ..ranking.sorted_positives import SortedPositives, empty_positives
from .blocks import Layout, for_each, loaded, num_threads, ranges
from .device import sent, single_threaded
from .retrieval import Retrieval

if TYPE_CHECKING:
    from .device import Device
    from .similarity import Similarity

_LONGEST_ROW = 2**18  # scores of one query
_SCORES_AT_ONCE = 2**19, 2**24  # on a processor, whose caches hold them, and on a GPU, which waits for each count
_UNREAD = 2**14  # cells for the items behind a list's last positive: most items, which one cell would make wait
_INTERVALS, _MOST_INTERVALS = 4, 2**21  # of the score: per positive, and how many float32 tells apart
_NARROWEST = 2.0**-10  # range of scores that is divided


def values_on_device(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[Ints], advance: Advance
) -> Iterator[Floats]:
    """Yield the values of each block; while one is computed here, the next is on the device."""
    device = cast("Device", retrieval.source.device)  # or the layout would name another way
    work = _Work(retrieval, device, layout.height)
    computed: list[Future[Floats]] = []
    with single_threaded(device.where), device.computing(), ThreadPoolExecutor(1) as pool:
        for rows in blocks:
            positives = work.sorted_positives(rows)
            yield from (values.result() for values in computed)
            computed = [pool.submit(work.values, rows, positives)]
            advance(len(rows))
        yield from (values.result() for values in computed)


class _Work(NamedTuple):
    """What all blocks share: the retrieval, the device and the height of a product."""

    retrieval: Retrieval[Similarity]
    device: Device
    height: int

    def values(self, rows: Ints, products: list[SortedPositives]) -> Floats:
        """The values of the queries of a block, whose positives are sorted."""
        blocks_of_rows = list(zip(ranges(len(rows), self.height), products, strict=True))
        values = np.empty((len(rows), len(self.retrieval.request.metrics)))
        for block, positives in blocks_of_rows:
            values[block] = self.retrieval.values_of_positives(rows[block], positives)
        return values

    def sorted_positives(self, rows: Ints) -> list[SortedPositives]:
        """The positives of the queries of a block among all items, product by product."""
        try:
            return self._sorted_positives(rows)
        except torch.OutOfMemoryError as error:
            remedy = "free memory there"
            raise DeviceError(f"the memory of {self.device.where}", expected="more of it", remedy=remedy) from error

    def _sorted_positives(self, rows: Ints) -> list[SortedPositives]:
        vectors, similarity = self.retrieval.source.queries(rows, self.height), self.retrieval.source
        products = []
        for block in ranges(len(rows), self.height):
            queries = self.device.send(vectors[block.start : block.start + self.height])
            products.append(_Product(self.retrieval, rows[block], queries))
        if similarity.held and len(similarity.gallery) <= _LONGEST_ROW:
            self._count_at_once(products)
        else:
            self._gather(rows, products)
            for positions, items in loaded(similarity.items, similarity.tiles):
                self._apply(_Product.count, products, positions, items)
        for product in products:
            product.finish()
        return [product.move_to_processor() for product in products]

    def _count_at_once(self, products: list[_Product]) -> None:
        similarity = self.retrieval.source
        positions = np.arange(len(similarity.gallery))
        self._apply(
            _Product.count_at_once,
            products,
            positions,
            *[similarity.items(positions[tile]) for tile in similarity.tile_ranges],
        )

    def _apply(
        self,
        step: Callable[[_Product, torch.Tensor, Ints], None],
        products: list[_Product],
        positions: Ints,
        *items: torch.Tensor,
    ) -> None:
        """Apply a step to the scores of products, one after the other unless the device is the processor."""

        def work(product: _Product) -> None:
            step(product, self._scores(product, positions, *items), positions)

        for_each(work, products, num_threads() if self.device.where.type == "cpu" else 1)

    def _gather(self, rows: Ints, products: list[_Product]) -> None:
        similarity = self.retrieval.source
        blocks_of_rows = similarity.tiles_with_positives(rows, ranges(len(rows), self.height))
        for (positions, product_rows), items in loaded(lambda block: similarity.items(block[0]), blocks_of_rows):
            part_products = [products[block.start // self.height] for block in product_rows]
            self._apply(_Product.gather, part_products, positions, items)
        for product in products:
            product.sort()

    def _scores(self, product: _Product, positions: Ints, *items: torch.Tensor) -> torch.Tensor:
        """The scores of a product's queries, masked ones −inf."""
        exact = self.retrieval.source.exact
        products = [self.device.multiply(product.queries, tile, exact=exact)[: len(product)] for tile in items]
        scores = products[0] if len(products) == 1 else torch.cat(products, dim=1)
        copies, originals = self.retrieval.source.equal_columns(positions)
        if len(copies):
            scores[:, self.device.send(copies)] = scores[:, self.device.send(originals)]
        product.leave_out(scores, positions)
        return scores


class _Product:
    """Queries that are multiplied at once, and their positives.

    Positives are held negated, so that the best comes first in rising order; one that is not there is +∞. Items are
    counted by equal intervals of the score; those in the interval of a positive are looked up there.
    """

    def __init__(self, retrieval: Retrieval[Similarity], rows: Ints, queries: torch.Tensor) -> None:
        self.queries = queries
        self._gallery, self._dtype = retrieval.source.gallery, retrieval.source.dtype
        self._rows, self._device = rows, queries.device
        tree = self._gallery.tree
        self._low, self._high = (self._put(bounds[rows]) for bounds in (tree.low, tree.high))
        width = max(self._gallery.most_positives(rows), 1)
        self._num_intervals = min(_INTERVALS * width + 2, _MOST_INTERVALS)
        kind = torch.from_numpy(np.empty(0, self._dtype)).dtype
        self._place = self._low[:, :1] + torch.arange(width, device=self._device)
        self._negated = torch.full((len(rows), width), torch.inf, dtype=kind, device=self._device)
        self._level = torch.zeros((len(rows), width), dtype=torch.uint8, device=self._device)
        self._spread = max(_UNREAD // len(rows), 1)
        self._counts = self._zeros(self._num_intervals + self._spread)
        self._negatives = self._zeros(2 * (width + 1))

    def __len__(self) -> int:
        return len(self._rows)

    def leave_out(self, scores: torch.Tensor, positions: Ints) -> None:
        """Give masked items the score −inf."""
        rows, columns = self._gallery.masked(positions, self._rows)
        scores[self._put(rows), self._put(columns)] = -torch.inf

    def gather(self, scores: torch.Tensor, positions: Ints) -> None:
        """Take the positives from the scores of some places."""
        if positions[-1] - positions[0] < len(positions):
            column = self._place - positions[0]
            is_present = (column >= 0) & (column < len(positions))
        else:
            standing = self._put(positions)
            column = torch.searchsorted(standing, self._place)
            is_present = standing[column.clamp(max=len(positions) - 1)] == self._place
        is_present &= self._place < self._high[:, :1]
        part_scores = scores.gather(1, column.clamp(0, len(positions) - 1))
        self._negated = torch.where(is_present, 0 - part_scores, self._negated)

    def count_at_once(self, scores: torch.Tensor, positions: Ints) -> None:
        """All of it, where all scores of the queries are there."""
        self.gather(scores, positions)
        self.sort()
        self.count(scores, positions)

    def sort(self) -> None:
        """Put the positives in order."""
        for low, high in zip(self._low.T[..., None], self._high.T[..., None], strict=True):
            self._level += (low <= self._place) & (self._place < high)
        self._negated, order = self._negated.sort(dim=1, stable=True)
        self._level = self._level.gather(1, order)
        self._fill_table()

    def _fill_table(self) -> None:
        """Begin the intervals a little ahead of the best positive; find the first one not in an earlier interval."""
        is_there = self._negated < torch.inf
        self._number = is_there.sum(dim=1, keepdim=True)
        best = self._negated[:, :1].nan_to_num(posinf=0)
        worst = torch.where(is_there, self._negated, best).amax(dim=1, keepdim=True)
        self._top = best - (worst - best).clamp(min=_NARROWEST) / _INTERVALS
        self._scale = (self._num_intervals - 2) / (self._top - worst)
        interval = self._intervals(0 - self._negated, last=self._num_intervals - 1)
        sizes = self._zeros(self._num_intervals + self._spread + 1)
        sizes.scatter_add_(1, interval + 1, is_there.int())
        self._is_occupied = sizes[:, 1:] > 0
        self._steps = int(sizes.amax()).bit_length()
        self._first = sizes.cumsum(dim=1, dtype=torch.int32)
        padding = 0, 2**self._steps  # so that no search leaves its row
        self._sorted = pad(self._negated, padding, value=torch.inf)
        row = torch.arange(len(self), device=self._device)[:, None]
        self._first_cell = self._first + row * self._sorted.shape[1]

    def _intervals(self, scores: torch.Tensor, *, last: torch.Tensor | int) -> torch.Tensor:
        """The interval of each score: one for equal scores, and no earlier one for a smaller score."""
        interval = scores + self._top
        interval *= self._scale
        return interval.clamp_(max=last).clamp_(min=0).long()

    def count(self, scores: torch.Tensor, positions: Ints) -> None:
        """Count the other items, without those that are positive for all queries."""
        low, high = self._gallery.positive_columns(positions, self._rows)
        step = max(_SCORES_AT_ONCE[scores.is_cuda] // len(self), 1)
        for first, stop in ((0, low.max()), (max(low.max(), high.min()), len(positions))):
            for start in range(first, stop, step):
                column = np.arange(start, min(start + step, stop))
                block = scores[:, start : column[-1] + 1]
                if low.min() <= column[-1] and start < high.max():
                    is_positive = (low[:, None] <= column) & (column < high[:, None])
                    block = block.masked_fill(self._put(is_positive), -torch.inf)
                self._count(block)

    def _count(self, scores: torch.Tensor) -> None:
        """Count items by interval; look up those that have a positive in theirs, and count them there.

        Additions to one cell may wait for each other. Items behind all positives are never read; they are spread.
        """
        column = torch.arange(scores.shape[1], device=scores.device)
        interval = self._intervals(scores, last=(self._num_intervals + column % self._spread).to(scores.dtype))
        self._counts.scatter_add_(1, interval, self._ones(interval.shape))
        row, column = self._is_occupied.gather(1, interval).nonzero(as_tuple=True)
        pair = column.add_(row, alpha=scores.shape[1])
        negated = _take(scores, pair).neg_()
        cell = _take(self._first_cell, _take(interval, pair).add_(row, alpha=self._first.shape[1]))
        for step in reversed(range(self._steps)):
            cell.add_(_take(self._sorted, cell, 2**step - 1) < negated, alpha=2**step)
        count = row.mul_(self._negated.shape[1] + 1 - self._sorted.shape[1]).add_(cell).mul_(2)
        count += _take(self._sorted, cell) == negated
        self._negatives.view(-1).scatter_add_(0, count, self._ones(count.shape))

    def finish(self) -> None:
        """Add the items of intervals without a positive."""
        counts = self._counts[:, : self._num_intervals].masked_fill(self._is_occupied[:, : self._num_intervals], 0)
        self._negatives.scatter_add_(1, 2 * self._first[:, : self._num_intervals].long(), counts)

    def move_to_processor(self) -> SortedPositives:
        """The same on the processor, most in four bytes a positive.

        Of scores nothing is read but where they change: they come as 0 and 1 in turn.
        """
        num_rows, width = self._negated.shape
        negatives = self._negatives.view(num_rows, width + 1, 2)
        counts = torch.cat([self._number[:, 0], negatives.amax().long()[None]]).cpu().numpy()
        if counts[-1] < 256:
            negatives = negatives.byte()
        changes = self._negated != self._negated.roll(1, dims=1)
        return empty_positives(num_rows, width, self._dtype)._replace(
            score=(changes.cumsum(dim=1, dtype=torch.uint8) % 2).cpu().numpy().astype(self._dtype),
            level=self._level.cpu().numpy(),
            num_positives=counts[:-1],
            negatives=negatives.cpu().numpy().astype(np.int32, copy=False),
        )

    def _zeros(self, columns: int) -> torch.Tensor:
        return torch.zeros((len(self), columns), dtype=torch.int32, device=self._device)

    def _ones(self, shape: torch.Size) -> torch.Tensor:
        return torch.ones((), dtype=torch.int32, device=self._device).expand(shape)

    def _put(self, values: Array) -> torch.Tensor:
        return sent(values, self._device)


def _take(values: torch.Tensor, cells: torch.Tensor, offset: int = 0) -> torch.Tensor:
    """Some cells of a matrix, numbered row by row; indexing it takes five times as long on a processor."""
    return values.reshape(-1)[offset:].index_select(0, cells)
