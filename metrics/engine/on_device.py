"""The values of blocks of queries whose scores never leave a device of torch.

The device multiplies, and counts all items among each query's sorted positives. Only these counts come back, and the
processor turns them into metrics by the same formulas as ever, while the device is at work on the next block.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch

from hiertree.errors import DeviceError
from hiertree.io.progress import Advance

from ..ranking.sorted_positives import row_bytes
from .blocks import for_row_ranges, loaded, ranges
from .device_positives import DevicePositives
from .tiled import parts_with_positives

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.sorted_positives import SortedPositives
    from .device import Device
    from .layout import Layout
    from .retrieval import Retrieval
    from .similarity import Similarity

_LONGEST_ROW = 2**18  # scores of one query


def values_on_device(
    retrieval: Retrieval[Similarity], layout: Layout, blocks: list[NDArray[np.int64]], advance: Advance
) -> Iterator[NDArray[np.float64]]:
    """Yield the values of each block; while one is computed here, the next is on the device."""
    device = cast("Device", retrieval.source.device)  # or the layout would name another way
    work = _Work(retrieval, device, layout.height, device.send(retrieval.source.gallery.tree.order))
    with ThreadPoolExecutor(1) as pool:
        computed: Future[NDArray[np.float64]] | None = None
        for rows in blocks:
            try:
                positives = work.sorted_positives(rows)
            except torch.OutOfMemoryError as error:
                remedy = "pass a smaller tile_size, or free memory there"
                raise DeviceError(f"the memory of {device.where}", expected="more of it", remedy=remedy) from error
            if computed is not None:
                yield computed.result()
            computed = pool.submit(_values, retrieval, rows, positives)
            advance(len(rows))
        if computed is not None:
            yield computed.result()


class _Product(NamedTuple):
    """Queries of a block that are multiplied at once: their rows, vectors and positives."""

    rows: slice
    queries: torch.Tensor
    positives: DevicePositives


class _Work(NamedTuple):
    """What all blocks share: the retrieval, the device, the height of a product, and the gallery's order there."""

    retrieval: Retrieval[Similarity]
    device: Device
    height: int
    order: torch.Tensor

    def sorted_positives(self, rows: NDArray[np.int64]) -> list[SortedPositives]:
        """The positives of the queries of a block among all items, product by product."""
        products = self._products(rows)
        if self.retrieval.source.held and len(self.order) <= _LONGEST_ROW:
            self._count_at_once(products)
        else:
            self._gather(rows, products)
            self._count(products)
        return [product.positives.on_processor() for product in products]

    def _products(self, rows: NDArray[np.int64]) -> list[_Product]:
        vectors = self.retrieval.source.queries(rows, self.height)
        return [
            _Product(
                part,
                self.device.put(vectors[part.start : part.start + self.height]),
                DevicePositives(self.retrieval, rows[part], self.order),
            )
            for part in ranges(len(rows), self.height)
        ]

    def _count_at_once(self, products: list[_Product]) -> None:
        """Multiply once, the scores of a product with the whole gallery held."""
        places, similarity = np.arange(len(self.order)), self.retrieval.source
        items = [similarity.items(places[tile]) for tile in similarity.tiles]
        for product in products:
            scores = self._scores(product, places, *items)
            product.positives.gather(scores, places)
            product.positives.sort()
            product.positives.count(scores, places)

    def _gather(self, rows: NDArray[np.int64], products: list[_Product]) -> None:
        parts = parts_with_positives(self.retrieval.source, rows, [product.rows for product in products])
        of_rows = {product.rows.start: product for product in products}
        for (places, chosen), items in loaded(lambda part: self.retrieval.source.items(part[0]), parts):
            for part in chosen:
                product = of_rows[part.start]
                product.positives.gather(self._scores(product, places, items), places)
        for product in products:
            product.positives.sort()

    def _count(self, products: list[_Product]) -> None:
        similarity = self.retrieval.source
        for places, items in loaded(similarity.items, similarity.parts):
            for product in products:
                product.positives.count(self._scores(product, places, items), places)

    def _scores(self, product: _Product, places: NDArray[np.int64], *items: torch.Tensor) -> torch.Tensor:
        """The scores of a product's queries, masked ones −inf."""
        exact = self.retrieval.source.exact
        found = torch.cat([self.device.multiply(product.queries, tile, exact=exact) for tile in items], dim=1)
        scores = found[: product.rows.stop - product.rows.start]
        copies, originals = self.retrieval.source.equal_columns(places)
        if len(copies):
            scores[:, self.device.send(copies)] = scores[:, self.device.send(originals)]
        product.positives.leave_out(scores, places)
        return scores


def _values(
    retrieval: Retrieval[Similarity], rows: NDArray[np.int64], products: list[SortedPositives]
) -> NDArray[np.float64]:
    """The values of a block."""
    values, start = np.empty((len(rows), len(retrieval.request.metrics))), 0
    for positives in products:
        stop = start + len(positives.number)
        _fill_values(retrieval, rows[start:stop], positives, values[start:stop])
        start = stop
    return values


def _fill_values(
    retrieval: Retrieval[Similarity],
    rows: NDArray[np.int64],
    positives: SortedPositives,
    values: NDArray[np.float64],
) -> None:
    def work(part: slice) -> None:
        values[part] = retrieval.values_of(positives.rows(part), rows[part])

    for_row_ranges(work, len(rows), row_bytes=4 * row_bytes(positives.score.shape[1]))
