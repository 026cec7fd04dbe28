"""Embed the images of a data set with a trained network: arrays and tables that ``hiertree evaluate`` reads."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.errors import CheckpointError, OptionError
from hiertree.io import files
from hiertree.io.parts import PartStore, digest
from hiertree.io.provenance import MANIFEST, manifest
from hiertree.tree import LabelTree

from ..inference.image_inputs import listed_images
from ..training.data.splits import load_learning_splits, load_split
from ..training.distributed.devices import Launch, build_fabric, detect_launch, number_of_devices
from ..training.distributed.group import ending_together
from ..training.distributed.processes import Processes
from ..training.distributed.starting import run_processes
from ..training.learning.starting_weights import initialize_projection, start_from_earlier
from ..training.network.embedder import Embedder, require_sizes, warn_of_cut_images
from ..training.network.model_files import WEIGHTS, Backbone, load_embedder
from ..training.recipe.reading import load_recipe
from ..training.recipe.schema import Recipe
from ..training.run.stopping import StopRequest
from .embedded_files import KINDS, SHARDS, Embedded, EmbeddingFiles, FileFormat, Numbers, written_in
from .sharing import embed_shards, images_digest

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class _Call(NamedTuple):
    """The arguments of :func:`embed`."""

    model: Path
    data: str
    out: Path
    split: str
    shard_size: int
    overrides: tuple[str, ...]
    labeled: bool
    backbone: Backbone | None
    kind: FileFormat
    dtype: Numbers
    skip_bad: bool

    def recipe(self) -> Recipe:
        """The recipe of the run or of that name, its data where they are now."""
        return _recipe(self.model, self.data if self.labeled else None, self.overrides)


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
    file_format: FileFormat | None = None,
    dtype: Numbers = "float32",
    devices: int | Literal["auto"] = 1,
    skip_bad: bool = False,
) -> Embedded:
    """Embed one split, shard by shard; an interrupted call continues after the last whole shard.

    A recipe's projection is the one that training starts from: drawn by the seed, or a PCA of the training split.
    Images are embedded at the recipe's ``evaluation.scales``.

    With ``file_format="npy"``, ``out`` then holds ``embeddings.npy`` (n, d) and ``labels.csv``, or ``queries.npy``,
    ``queries.csv``, ``gallery.npy`` and ``gallery.csv`` of a split with a gallery of its own, and ``manifest.json``. A
    table holds each image's name and the labels of its path, coarse → fine; of images without labels, ``images.csv``
    holds the names. With ``file_format="parquet"``, each shard is a file of ``out``, or of its folders ``queries`` and
    ``gallery``: columns ``embedding``, ``image`` and one a level. Several processes write Parquet unless told
    otherwise, one process arrays.

    The processes that torchrun, ``fabric run`` or SLURM started share the shards; so do ``devices`` processes that this
    call starts, one GPU each, or that many on a CPU. A shard, and each batch in it, is the same on any number of them:
    an interrupted call may go on with another number. With ``skip_bad``, images that do not decode are left out;
    ``skipped.csv`` names them.

    ``model`` is the folder of a finished run, or a recipe with pretrained weights; ``data`` the root of the images, in
    the format of the recipe's ``data`` section, or, unless ``labeled``, any folder of images or a table whose column
    ``image`` lists files; ``out`` a folder that is new, empty, or that of the same call interrupted, and that all
    processes share; ``backbone`` as for :func:`hiertree.load_model`. On SIGTERM the call exits with status 0, and whole
    shards are kept.
    """
    if shard_size < 1:
        raise OptionError(f"shard_size={shard_size}", expected="an integer ≥ 1")
    source, launch = (Path(model), os.fspath(data), Path(out)), detect_launch()
    recipe = _recipe(source[0], data if labeled else None, overrides)
    asked = recipe.training.model_copy(update={"devices": devices})
    count = 1 if launch is not None or devices == 1 else number_of_devices(asked)
    kind = file_format or ("npy" if launch is None and count == 1 else "parquet")
    if skip_bad and kind == "npy":
        raise OptionError("skip_bad with .npy files", expected="Parquet", remedy="pass --format parquet")
    call = _Call(*source, split, shard_size, tuple(overrides), labeled, backbone, kind, dtype, skip_bad)
    if count == 1:
        return _embed(call, recipe, launch)
    _require_usable(call.out)
    run_processes(_embed_as_one_of_several, call, count=count)
    found = written_in(call.out)
    if found is None:  # the processes obeyed SIGTERM
        raise SystemExit(0)
    return found


def _embed_as_one_of_several(call: _Call) -> None:
    _embed(call, call.recipe(), detect_launch())


def _embed(call: _Call, recipe: Recipe, launch: Launch | None) -> Embedded:
    """Take part in a call, alone or as one of several processes."""
    fabric = build_fabric(recipe.training, launch)
    processes = Processes(None if launch is None else fabric)
    stop = StopRequest(processes)
    with stop.listening(), ending_together(processes):
        with processes.agreeing():
            dataset = load_split(recipe, call.split) if call.labeled else _without_labels(Path(call.data))
        with processes.agreeing():
            embedder = _network(call.model, recipe, fabric, call.backbone)  # after the images: it may download weights
        if not call.model.is_dir():
            processes.copy_from_first(embedder.state_dict().values())  # a PCA on a GPU is not the same everywhere
        output = _claimed(call, embedder, recipe, dataset, processes)
        embed_shards(embedder, recipe, output, fabric, stop, processes, skip_bad=call.skip_bad)
        processes.from_first(lambda: _finish(call, recipe, output))
    if stop.requested():
        raise SystemExit(0)
    found = written_in(call.out, is_first=processes.is_first)
    assert found is not None  # the first process has written it
    return found


def _finish(call: _Call, recipe: Recipe, output: EmbeddingFiles) -> None:
    """Write the manifest, which says that all is there."""
    about = output.finish()
    made = manifest(
        command=f"hiertree embed {call.model}",
        parameters={"split": call.split, **recipe.as_dict()} | ({} if call.labeled else {"embedded": call.data}),
        inputs=[call.model / WEIGHTS] if call.model.is_dir() else [],
        outputs=[call.out / name for name in (*about["embeddings"], *about["labels"]) if call.kind == "npy"],
    )
    files.write_json(call.out / MANIFEST, {**made, **about})
    shutil.rmtree(call.out / SHARDS)


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
    recipe = load_recipe(source, overrides, trusted=not model.is_dir())
    if data is None:
        return recipe
    if not recipe.data.takes("root"):
        raise OptionError(
            f"{data} for data without a root ({recipe.data.name})",
            expected="a recipe that reads files",
            remedy="pass --no-labels to embed the images of any folder",
        )
    placed = [*overrides, f"data.root={json.dumps(os.fspath(data))}"]
    return load_recipe(source, placed, trusted=not model.is_dir())


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


def _fingerprint(call: _Call, embedder: Embedder, recipe: Recipe, dataset: ImageDataset) -> dict[str, str]:
    """Hashes of all that the shards depend on."""
    precision, scales = recipe.training.precision, recipe.evaluation.scales
    settings = [recipe.experiment()["images"], scales, precision, dataset.split, call.shard_size]
    if call.kind == "parquet":
        settings += [recipe.evaluation.batch_size, call.dtype, call.skip_bad]
    weights = (tensor.numpy() for tensor in embedder.state_dict().values())
    return {
        "settings": digest([json.dumps(settings)]),
        "labels": digest([dataset.paths]),
        "weights": digest(weights),
    }


def _claimed(
    call: _Call, embedder: Embedder, recipe: Recipe, dataset: ImageDataset, processes: Processes
) -> EmbeddingFiles:
    """The files to write in a folder, new or that of the same call interrupted; all processes see the same inputs."""
    with processes.agreeing():
        own = _fingerprint(call, embedder, recipe, dataset)
    own["images"] = images_digest(dataset, processes)

    def claim() -> dict[str, str]:
        _require_usable(call.out)
        PartStore(call.out / SHARDS, own)
        return own

    first = processes.from_first(claim)
    with processes.agreeing():
        if others := [name for name, found in own.items() if found != first[name]]:
            given = f"process {processes.rank} of {processes.size} has other {', '.join(others)} than the first"
            raise CheckpointError(given, expected="one model, one data set and the same options in all")
        width = embedder.projection.out_features
        shape: Any = {"shard_size": call.shard_size, "labeled": call.labeled, "width": width, "dtype": call.dtype}
        return KINDS[call.kind](call.out, dataset, own, **shape)


def _require_usable(folder: Path) -> None:
    """Refuse a folder that holds anything else than the same call interrupted."""
    if not (folder / SHARDS).is_dir() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        held = "finished embeddings" if (folder / MANIFEST).is_file() else "other files"
        raise OptionError(
            f"out={folder} holds {held}" if folder.is_dir() else f"out={folder} is a file",
            expected="a new or empty folder, or that of the same call interrupted",
            remedy="name another folder, or remove this one",
        )
