"""The values of blocks of queries whose scores never leave a device of torch; the processor measures meanwhile.

Products, and the counts of all items among each query's sorted positives, are made there. What comes back is as large
as the positives are many, and goes through the same formulas as everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch

from hiertree.errors import DeviceError
from hiertree.io.progress import Advance

from ..ranking.sorted_positives import row_bytes as placed_bytes
from .blocks import for_row_ranges, loaded, products_of
from .device_positives import ROW_BYTES, DevicePositives
from .tiled import holding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.retrieval import Job
    from ..ranking.sorted_positives import Placed
    from .device import Device
    from .scoring import Layout

_LONGEST_ROW = 2**18  # scores of one query


def row_bytes(num_positives: int) -> int:
    """Memory of one query on the device."""
    return max(num_positives, 1) * ROW_BYTES


def values_on_device(
    job: Job, layout: Layout, blocks: list[NDArray[np.int64]], advance: Advance
) -> Iterator[NDArray[np.float64]]:
    """Yield the values of each block; while one is measured here, the next is on the device."""
    device = cast("Device", job.similarity.device)  # or the layout would name another way
    work = _Work(job, device, layout.height, device.send(job.tree.order))
    with ThreadPoolExecutor(1) as pool:
        measured: Future[NDArray[np.float64]] | None = None
        for rows in blocks:
            try:
                placed = work.place(rows)
            except torch.OutOfMemoryError as error:
                remedy = "pass a smaller tile_size, or free memory there"
                raise DeviceError(f"the memory of {device.where}", expected="more of it", remedy=remedy) from error
            if measured is not None:
                yield measured.result()
            measured = pool.submit(_measure, job, rows, placed)
            advance(len(rows))
        if measured is not None:
            yield measured.result()


class _Product(NamedTuple):
    """Queries of a block that are multiplied at once: their rows, vectors and positives."""

    rows: slice
    queries: torch.Tensor
    positives: DevicePositives


class _Work(NamedTuple):
    """What all blocks share: the job, its device, the height of a product, and the gallery's order on the device."""

    job: Job
    device: Device
    height: int
    order: torch.Tensor

    def place(self, rows: NDArray[np.int64]) -> list[Placed]:
        """The positives of the queries of a block among all items, product by product."""
        products = self._products(rows)
        if self.job.similarity.held and len(self.order) <= _LONGEST_ROW:
            self._place_at_once(products)
        else:
            self._gather(rows, products)
            self._count(products)
        return [product.positives.placed() for product in products]

    def _products(self, rows: NDArray[np.int64]) -> list[_Product]:
        vectors = self.job.similarity.queries(rows, self.height)
        return [
            _Product(
                part,
                self.device.put(vectors[part.start : part.start + self.height]),
                DevicePositives(self.job, rows[part], self.order),
            )
            for part in products_of(len(rows), self.height)
        ]

    def _place_at_once(self, products: list[_Product]) -> None:
        """Multiply once, the scores of a product with the whole gallery held."""
        places, similarity = np.arange(len(self.order)), self.job.similarity
        items = [similarity.items(places[tile]) for tile in similarity.tiles]
        for product in products:
            scores = self._scores(product, places, *items)
            product.positives.gather(scores, 0)
            product.positives.sort()
            product.positives.count(scores, places)

    def _gather(self, rows: NDArray[np.int64], products: list[_Product]) -> None:
        tiles = holding(self.job, rows, [product.rows for product in products])
        of_rows = {product.rows.start: product for product in products}
        for (places, chosen), items in loaded(lambda tile: self.job.similarity.items(tile[0]), tiles):
            for part in chosen:
                product = of_rows[part.start]
                product.positives.gather(self._scores(product, places, items), int(places[0]))
        for product in products:
            product.positives.sort()

    def _count(self, products: list[_Product]) -> None:
        similarity = self.job.similarity
        for places, items in loaded(similarity.items, similarity.parts()):
            for product in products:
                product.positives.count(self._scores(product, places, items), places)

    def _scores(self, product: _Product, places: NDArray[np.int64], *items: torch.Tensor) -> torch.Tensor:
        """The scores of a product's queries, masked ones −inf."""
        found = torch.cat([self.device.multiply(product.queries, tile) for tile in items], dim=1)
        scores = found[: product.rows.stop - product.rows.start]
        product.positives.leave_out(scores, places)
        return scores


def _measure(job: Job, rows: NDArray[np.int64], placed: list[Placed]) -> NDArray[np.float64]:
    """The values of a block's metrics."""
    found = np.empty((len(rows), len(job.plan.metrics)))
    start = 0
    for product in placed:
        first = start

        def work(part: slice, product: Placed = product, first: int = first) -> None:
            own = slice(first + part.start, first + part.stop)
            found[own] = job.measure(product.rows(part), rows[own])

        number = len(product.number)
        for_row_ranges(work, number, row_bytes=4 * placed_bytes(product.score.shape[1]))
        start += number
    return found
