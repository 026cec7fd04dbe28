"""Embed the images of a data set with a trained network: arrays and tables that ``hiertree evaluate`` reads."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.datasets.readers.images import stamp_of
from hiertree.errors import OptionError
from hiertree.io import files
from hiertree.io.parts import PartStore, digest
from hiertree.io.progress import show_progress
from hiertree.io.provenance import manifest
from hiertree.tree import LabelTree

from ..inference.image_inputs import listed_images
from ..training.data.batches import batch_loader, keys_in_order
from ..training.data.splits import load_learning_splits, load_split
from ..training.data.views import ImageViews
from ..training.distributed.devices import build_fabric
from ..training.learning.starting_weights import initialize_projection, start_from_earlier
from ..training.network.embedder import Embedder, embed_at_scales, require_sizes, warn_of_cut_images
from ..training.network.model_files import WEIGHTS, Backbone, load_embedder
from ..training.recipe.components import takes
from ..training.recipe.reading import load_recipe
from ..training.recipe.schema import Recipe
from ..training.run.stopping import StopRequest
from .label_columns import IMAGE

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from numpy.typing import NDArray


class Embedded(NamedTuple):
    """The files that were written."""

    folder: Path
    images: int
    embeddings: tuple[Path, ...]  # the arrays: of all images, or of the queries and of their gallery
    labels: tuple[Path, ...]  # a table for each array: the image's id, and its label at every level, coarse → fine


def embed(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    split: str = "test",
    shard_size: int = 16_384,
    overrides: Sequence[str] = (),
    labeled: bool = True,
    backbone: Backbone | None = None,
) -> Embedded:
    """Embed one split, shard by shard; an interrupted call continues after the last whole shard.

    A recipe's projection is the one that training starts from: drawn by the seed, or a PCA of the training split.
    Images are embedded at the recipe's ``evaluation.scales``.

    ``out`` then holds ``embeddings.npy`` (n, d) float32 and ``labels.csv``, or ``queries.npy``, ``queries.csv``,
    ``gallery.npy`` and ``gallery.csv`` of a split with a gallery of its own, and ``manifest.json``. A table holds each
    image's name and the labels of its path, coarse → fine; of images without labels, ``images.csv`` holds the names.

    ``model`` is the folder of a finished run, or a recipe with pretrained weights; ``data`` the root of the images, in
    the format of the recipe's ``data`` section, or, unless ``labeled``, any folder of images or a table whose column
    ``image`` lists files; ``out`` a folder that is new, empty, or that of the same call interrupted; ``backbone`` as
    for :func:`hiertree.load_model`. On SIGTERM the call exits with status 0, and whole shards are kept.
    """
    if shard_size < 1:
        raise OptionError(f"shard_size={shard_size}", expected="an integer ≥ 1")
    stop = StopRequest()
    with stop.listening():
        recipe = _recipe(Path(model), data if labeled else None, overrides)
        dataset = load_split(recipe, split) if labeled else _without_labels(Path(data))
        fabric = build_fabric(recipe.training)
        embedder = _network(Path(model), recipe, fabric, backbone)  # after the images: it may download weights
        store = _claimed(Path(out), _fingerprint(embedder, recipe, dataset, shard_size))
        starts = range(0, len(dataset), shard_size)
        shards = [range(start, min(start + shard_size, len(dataset))) for start in starts]
        _embed_shards(embedder, recipe, dataset, store, shards, fabric, stop)
        parts = [store.file(rows) for rows in shards]
        arrays, tables = _write(dataset, Path(out), parts, labeled=labeled)
        made = manifest(
            command=f"hiertree embed {model}",
            parameters={"split": split, **recipe.as_dict()} | ({} if labeled else {"embedded": os.fspath(data)}),
            inputs=[Path(model) / WEIGHTS] if Path(model).is_dir() else [],
            outputs=[*arrays, *tables],
        )
        files.write_json(Path(out) / "manifest.json", made)
        shutil.rmtree(store.folder)
    if stop.requested():
        raise SystemExit(0)
    return Embedded(Path(out), len(dataset), arrays, tables)


def _without_labels(data: Path) -> ImageDataset:
    """Images as one class, which no table mentions."""
    images = listed_images(data)
    tree = LabelTree.from_paths([("unlabeled",)])
    paths = np.zeros((len(images), 1), dtype=np.int32)
    return ImageDataset(name=data.stem, split="all", tree=tree, paths=paths, images=images)


def _recipe(model: Path, data: str | os.PathLike[str] | None, overrides: Sequence[str]) -> Recipe:
    """The recipe of the run or of that name, its data where they are now."""
    source = model / "recipe.yaml" if model.is_dir() else model
    if model.is_dir() and not source.is_file():
        raise OptionError(f"{model} holds no recipe.yaml", expected="the folder of a finished run, or a recipe")
    recipe = load_recipe(source, overrides)
    if data is None:
        return recipe
    if not takes("data", recipe.data.name, "root"):
        raise OptionError(
            f"{data} for data that are drawn ({recipe.data.name})",
            expected="a recipe that reads files",
            remedy="pass --no-labels to embed the images of any folder",
        )
    return load_recipe(source, [*overrides, f"data.root={json.dumps(os.fspath(data))}"])


def _network(model: Path, recipe: Recipe, fabric: Fabric, backbone: Backbone | None) -> Embedder:
    """The network of the run, or the one that the recipe's training would start from, on the CPU."""
    embedder = load_embedder(model, backbone=backbone) if model.is_dir() else _untrained(model, recipe)
    require_sizes(embedder, recipe.images.size, recipe.evaluation.scales)
    warn_of_cut_images(embedder, recipe.images.size)
    if not model.is_dir() and recipe.model.projection_init != "random":
        train_set, _ = load_learning_splits(recipe)
        initialize_projection(embedder.to(fabric.device), train_set, recipe, fabric)
    return embedder.cpu().eval()


def _untrained(model: Path, recipe: Recipe) -> Embedder:
    """Pretrained weights with a projection that the seed draws, or those of an earlier run."""
    import torch

    starts_anew = recipe.training.start_from is None
    if starts_anew and not recipe.model.pretrained:
        raise OptionError(
            f"{model} with model.pretrained=false",
            expected="the folder of a finished run, or a recipe with pretrained weights",
            remedy="train it first",
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        images = recipe.images
        embedder = Embedder(recipe.model, channels=images.channels, size=images.size, load_weights=starts_anew)
    start_from_earlier(embedder, recipe)
    return embedder


def _fingerprint(embedder: Embedder, recipe: Recipe, dataset: ImageDataset, shard_size: int) -> dict[str, str]:
    """Hashes of all that the shards depend on."""
    precision, scales = recipe.training.precision, recipe.evaluation.scales
    settings = [recipe.experiment()["images"], scales, precision, dataset.split, shard_size]
    images = (f"{dataset.images.name(row)}\0{stamp_of(dataset.images, row)}\0" for row in range(len(dataset)))
    weights = (tensor.numpy() for tensor in embedder.state_dict().values())
    return {
        "settings": digest([json.dumps(settings)]),
        "labels": digest([dataset.paths]),
        "images": digest(images),
        "weights": digest(weights),
    }


def _claimed(folder: Path, fingerprint: dict[str, str]) -> PartStore:
    """The store of shards, new or that of the same call interrupted."""
    shards = folder / "shards"
    if not shards.is_dir() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        held = "finished embeddings" if (folder / "manifest.json").is_file() else "other files"
        raise OptionError(
            f"out={folder} holds {held}" if folder.is_dir() else f"out={folder} is a file",
            expected="a new or empty folder, or that of the same call interrupted",
            remedy="name another folder, or remove this one",
        )
    return PartStore(shards, fingerprint)


def _embed_shards(
    embedder: Embedder,
    recipe: Recipe,
    dataset: ImageDataset,
    store: PartStore,
    shards: Sequence[range],
    fabric: Fabric,
    stop: StopRequest,
) -> None:
    """Write the shards that are not there yet, each whole; exit after the batch at hand when SIGTERM has come."""
    import torch

    network = fabric.setup_module(embedder)
    views = ImageViews(dataset.images, recipe.images.model_copy(update={"cache": False}))
    size = recipe.evaluation.batch_size
    with show_progress(description=f"embedding {dataset.name}", total=len(dataset)) as advance, torch.inference_mode():
        for rows in shards:
            if not store.file(rows).is_file():
                loader, parts = batch_loader(views, keys_in_order(rows, size), workers=recipe.images.workers), []
                for _, images in loader:
                    if stop.requested():
                        kept = f"after {rows.start} images; run the same command to go on from there"
                        print(f"stopped by SIGTERM {kept}", file=sys.stderr)
                        raise SystemExit(0)
                    embeddings = embed_at_scales(network, fabric.to_device(images), recipe.evaluation.scales)
                    parts.append(embeddings.float().cpu().numpy())
                store.save(rows, np.concatenate(parts))
            advance(len(rows), "")


def _write(
    dataset: ImageDataset, folder: Path, shards: Sequence[Path], *, labeled: bool
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Join the shards, rows in the order of the tables; only one shard at a time is in memory."""
    if dataset.queries is None or dataset.gallery is None:
        parts = {("embeddings", "labels" if labeled else "images"): np.arange(len(dataset))}
    else:
        parts = {("queries", "queries"): dataset.queries, ("gallery", "gallery"): dataset.gallery}
    arrays = tuple(folder / f"{array}.npy" for array, _ in parts)
    tables = tuple(folder / f"{table}.csv" for _, table in parts)
    for array, table, rows in zip(arrays, tables, parts.values(), strict=True):
        _write_array(array, rows, shards)
        _write_table(table, rows, dataset, labeled=labeled)
    return arrays, tables


def _write_array(path: Path, rows: NDArray[np.int64], shards: Sequence[Path]) -> None:
    first = np.load(shards[0], mmap_mode="r")
    with files.replacing(path) as temporary:
        joined = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=(len(rows), first.shape[1]))
        for number, shard in enumerate(shards):
            here = np.flatnonzero(rows // len(first) == number)
            joined[here] = np.load(shard)[rows[here] - number * len(first)]
        joined.flush()
        del joined


def _write_table(path: Path, rows: NDArray[np.int64], dataset: ImageDataset, *, labeled: bool) -> None:
    import pandas as pd

    nodes, inverse = np.unique(dataset.paths[rows], axis=0, return_inverse=True)
    labels = pd.DataFrame([dataset.tree.labels_of(node) for node in nodes.tolist()], columns=dataset.tree.level_names)
    table = labels.iloc[inverse.reshape(-1)] if labeled else pd.DataFrame(index=range(len(rows)))
    ids = [dataset.images.name(int(row)) for row in rows] if dataset.ids is None else dataset.ids[rows].tolist()
    table.insert(0, IMAGE, ids)
    with files.open_replacing(path) as file:
        table.to_csv(file, index=False, lineterminator="\n")
