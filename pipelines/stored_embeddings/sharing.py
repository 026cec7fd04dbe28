"""The shards of ``hiertree embed``, divided among processes that advance batch by batch together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from hiertree.datasets import ImageDataset
from hiertree.datasets.readers.images import stamp_of
from hiertree.errors import CheckpointError, ImageError
from hiertree.io.progress import show_progress
from hiertree.io.provenance import digest

from ..training.data.batches import BatchKey, ImageBatch, batch_loader, keys_in_order
from ..training.data.views import ImageViews
from ..training.distributed.group import StopRequest
from ..training.distributed.processes import Processes
from ..training.network.embedder import Embedder, embed_at_scales, require_finite
from ..training.recipe.schema import Recipe
from .embedded_files import EmbeddingFiles, Shard

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from numpy.typing import NDArray

_BLOCK = 1024  # images whose sizes and times are hashed together
Embed = Callable[[Tensor], "NDArray[np.float32]"]


def image_digests(dataset: ImageDataset, processes: Processes) -> dict[int, str]:
    """Of the names, sizes and times of images, by the first of each block; two of the processes look at a block."""
    starts = range(0, len(dataset), _BLOCK)
    with processes.agreeing():
        digests = {start: _digest_of(dataset, start) for start in starts if _looks_at(start, processes)}
    all_digests: dict[int, str] = {}
    for rank, blocks in enumerate(processes.from_each(digests)):
        with processes.agreeing():
            if any(all_digests.setdefault(start, text) != text for start, text in blocks.items()):
                raise _other_images(rank, processes)
    return dict(sorted(all_digests.items()))


def require_same_images(
    share: Sequence[Shard], dataset: ImageDataset, digests: Mapping[int, str], processes: Processes
) -> None:
    """Refuse images that this process is to read, but which the two that looked at them have seen otherwise."""
    starts = {start for shard in share for start in np.unique(shard.rows // _BLOCK * _BLOCK).tolist()}
    for start in sorted(starts):
        if not _looks_at(start, processes) and _digest_of(dataset, start) != digests[start]:
            raise _other_images(processes.rank, processes)


def _looks_at(start: int, processes: Processes) -> bool:
    return (processes.rank - start // _BLOCK) % processes.size < 2


def _digest_of(dataset: ImageDataset, start: int) -> str:
    rows = range(start, min(start + _BLOCK, len(dataset)))
    return digest(f"{dataset.images.name(row)}\0{stamp_of(dataset.images, row)}\0" for row in rows)


def _other_images(rank: int, processes: Processes) -> CheckpointError:
    problem = f"process {rank} of {processes.size} has other images than the others"
    return CheckpointError(problem, expected="the same files in all")


def embed_shards(
    embedder: Embedder,
    recipe: Recipe,
    output: EmbeddingFiles,
    fabric: Fabric,
    stop: StopRequest,
    processes: Processes,
    *,
    digests: Mapping[int, str],
    skip_bad: bool,
) -> None:
    """Write the shards that are not there yet, each whole; exit before the batch at hand when SIGTERM has come.

    The processes take them in turn. All learn at once of an error in one. ``digests`` are those of all images.
    """
    missing = processes.from_first(output.missing)
    shares = [[output.shards[number] for number in missing[rank :: processes.size]] for rank in range(processes.size)]
    with processes.agreeing():
        require_same_images(shares[processes.rank], output.dataset, digests, processes)
    steps = [sum(-(-len(shard.rows) // recipe.evaluation.batch_size) for shard in share) for share in shares]
    max_steps, dataset = max(steps), output.dataset
    views = _ReadableViews(ImageViews(dataset.images, recipe.images.model_copy(update={"cache": False})), skip=skip_bad)
    image_counts = _written(shares[processes.rank], views, recipe, output, _embedding(embedder, recipe, fabric))
    total = sum(len(shard.rows) for shard in output.shards)
    left = sum(len(shard.rows) for share in shares for shard in share)
    with show_progress(description=f"embedding {dataset.name}", total=total) as advance, torch.inference_mode():
        advance(total - left, "")
        for images in processes.in_step(chain(image_counts, repeat(0, max_steps - steps[processes.rank]))):
            if stop.requested():
                count = sum(len(shard.rows) for shard in output.shards if output.is_written(shard))
                stop.obey(f"{count} images")
            done = min(left, images * processes.size)  # the others are about as far
            left -= done
            advance(done, "")


def _embedding(embedder: Embedder, recipe: Recipe, fabric: Fabric) -> Embed:
    """(B, C, S, S) pixels → (B, d), in the recipe's arithmetic, each process by itself."""
    network = fabric.to_device(embedder)

    def forward(images: Tensor) -> Tensor:
        with fabric.autocast():
            embeddings: Tensor = network(images)
        return embeddings.float()

    def embed(images: Tensor) -> NDArray[np.float32]:
        if not len(images):
            return np.empty((0, embedder.embedding_size), np.float32)
        embeddings = embed_at_scales(forward, fabric.to_device(images), recipe.evaluation.scales)
        return require_finite(embeddings).cpu().numpy()

    return embed


def _written(
    shards: Sequence[Shard], views: _ReadableViews, recipe: Recipe, output: EmbeddingFiles, embed: Embed
) -> Iterator[int]:
    """Embed and write shards; yields before each batch is embedded, with the number of its images."""
    for shard in shards:
        keys = keys_in_order(shard.rows.tolist(), recipe.evaluation.batch_size)
        parts: list[NDArray[np.float32]] = []
        rows: list[int] = []
        bad: dict[int, str] = {}
        for indices, images, reasons in batch_loader(views, keys, workers=recipe.images.workers):
            yield len(indices) + len(reasons)
            parts.append(embed(images))
            rows += indices.tolist()
            bad |= reasons
        output.write(shard, np.concatenate(parts), rows, bad)


class _ReadableBatch(NamedTuple):
    indices: Tensor
    images: Tensor
    reasons: dict[int, str]  # why other rows of the batch are missing


class _ReadableViews(Dataset[_ReadableBatch]):
    """Batches without the images that do not decode, where these are skipped."""

    def __init__(self, views: ImageViews, *, skip: bool) -> None:
        self._views, self._skip = views, skip

    def __getitem__(self, key: BatchKey) -> _ReadableBatch:
        try:
            return _ReadableBatch(*self._views[key], {})
        except ImageError:
            if not self._skip:
                raise
        tried = {row: self._tried(key._replace(indices=[row])) for row in key.indices}
        batches = [batch for batch in tried.values() if not isinstance(batch, str)]
        reasons = {row: reason for row, reason in tried.items() if isinstance(reason, str)}
        if not batches:
            return _ReadableBatch(torch.empty(0, dtype=torch.int64), torch.empty(0), reasons)
        indices, images = zip(*batches, strict=True)
        return _ReadableBatch(torch.cat(indices), torch.cat(images), reasons)

    def _tried(self, key: BatchKey) -> ImageBatch | str:
        try:
            return self._views[key]
        except ImageError as error:
            return str(error)
