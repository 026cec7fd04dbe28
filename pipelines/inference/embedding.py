"""Embed images with a trained or a pretrained network: a Parquet data set that ``hiertree evaluate`` reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.utils.data import Dataset

from hiertree.datasets.input_images import InputImages, load_input_images
from hiertree.errors import ImageError, OptionError, OtherLayoutError, RecipeError, TableError
from hiertree.io import files
from hiertree.io.progress import is_progress_shown, show_progress
from hiertree.io.provenance import MANIFEST, manifest, sha256
from hiertree.metrics.engine.blocks import num_threads
from hiertree.options import check_integer

from ..launchers import launched
from ..networks.clip import HUB, TEMPLATES, check_templates
from ..networks.embedder import Embedder, require_sizes
from ..networks.loading import (
    WEIGHTS,
    Backbone,
    is_pretrained,
    library_preprocessing,
    load_embedder,
    preprocessing_of,
    pretrained_model,
)
from ..networks.settings import ModelSettings
from ..settings import Section, complaint
from ..stored_embeddings.embedded_files import (
    Embedded,
    EmbeddingFiles,
    Numbers,
    label_columns,
    write_embeddings,
    written_in,
)
from ..stored_embeddings.label_columns import IMAGE, SPLIT, LabelColumns, number_labels, rows_with_table
from ..stored_embeddings.locations import no_such
from ..training.data.batches import BatchKey, ImageBatch, batch_loader, keys_in_order
from ..training.data.splits import load_learning_splits, load_split
from ..training.data.views import ImageViews
from ..training.distributed.group import (
    STOPPED,
    StopRequest,
    build_fabric,
    local_device,
    number_of_devices,
    run_processes,
)
from ..training.distributed.processes import worker_errors
from ..training.recipe.reading import built_in_recipes, load_recipe, plain, read_layers
from ..training.recipe.settings import EvaluationSettings, ImageSettings, Recipe, TrainingSettings
from ..training.run.starting_weights import initialize_projection, start_from_earlier
from .model_folder import download_model
from .trained_model import TrainedModel, load_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_WORKERS = 8  # processes that decode


class EmbeddingRecipe(Section):
    """What a recipe says of embedding: all that a pretrained network needs."""

    name: str
    """of the network"""
    seed: int = 0
    """of a projection, if it has one"""
    images: ImageSettings
    """how images become tensors"""
    model: ModelSettings
    """the network"""
    training: TrainingSettings = TrainingSettings(epochs=0)
    """on what, and by which arithmetic"""
    evaluation: EvaluationSettings = EvaluationSettings(batch_size=64)
    """how many images at once, and at which scales"""


AnyRecipe = Recipe | EmbeddingRecipe


def pretrained_recipe(name: str, overrides: Sequence[str] = ()) -> EmbeddingRecipe:
    """The settings by which a pretrained network embeds: its library's; the crop follows ``images.size``."""
    model, stated = pretrained_model(name), plain(read_layers({"name": name}, overrides)).get("images")
    size = stated.get("size") if isinstance(stated, dict) else None
    view = library_preprocessing(model, size=size if isinstance(size, int) and size > 0 else None)
    images = {key: getattr(view, key) for key in ("size", "resize", "interpolation", "border")}
    sections = {
        "images": {"cache": False, "workers": min(_MOST_WORKERS, num_threads()), **images},
        "model": model.model_dump(),
        "training": {"epochs": 0},
        "evaluation": {"batch_size": 64},
    }
    try:
        return EmbeddingRecipe.model_validate(plain(read_layers({"name": name, **sections}, overrides)))
    except ValidationError as error:
        raise RecipeError(f"{name}: {'; '.join(map(complaint, error.errors()))}") from error


def recipe_of(model: str, overrides: Sequence[str] = ()) -> AnyRecipe:
    """The recipe of a run, of that name, or of a pretrained network."""
    if is_pretrained(model):
        return pretrained_recipe(model, overrides)
    path = Path(model)
    if not path.exists() and model not in built_in_recipes():
        missing = no_such(path)
        if missing.remedy is not None or len(path.parts) > 1:  # else perhaps the name of a recipe
            raise missing
    if not path.is_dir():
        return load_recipe(model, overrides)
    if not (path / "recipe.yaml").is_file():
        raise OptionError(f"{path} holds no recipe.yaml", expected="the folder of a finished run, or a recipe")
    return load_recipe(path / "recipe.yaml", overrides, trusted=False)


def embed(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    *,
    split: str | None = None,
    levels: Sequence[str] = (),
    shard_size: int = 16_384,
    overrides: Sequence[str] = (),
    labeled: bool = True,
    backbone: Backbone | None = None,
    dtype: Numbers = "float32",
    devices: int | Literal["auto"] = 1,
    skip_bad: bool = False,
    root: str | os.PathLike[str] | None = None,
) -> Embedded | None:
    """Embed images, shard by shard; an interrupted call continues after the last whole shard.

    ``model`` is the folder of a finished run or ``hf-hub:OWNER/NAME`` of one; a pretrained network, as
    :mod:`hiertree.pipelines.networks.loading` names them; or a recipe with pretrained weights, whose projection is the
    one that training starts from: drawn by the seed, or a PCA of the training split. Images are embedded at the
    recipe's ``evaluation.scales``.

    ``data`` is the root of images in the format of the recipe's ``data`` section, of which ``split`` is embedded
    (``test`` unless given); None, where that section says; or what
    :func:`hiertree.datasets.input_images.load_input_images` reads, with the labels that are there, or those of
    ``levels``, unless ``labeled`` is False. A line on standard error says which. The files of a table lie below
    ``root``, the table's own folder unless given.

    Each shard is a Parquet file of ``out``: columns ``embedding``, ``image`` (the name, or the id where there are ids),
    ``split`` (``query`` or ``gallery`` where the split has a gallery of its own) and, of images with labels, one a
    level, coarse → fine. ``manifest.json`` appears last, with the SHA-256 of each.

    Of the processes that torchrun, ``fabric run`` or SLURM started, each writes every n-th shard, and the last to end
    writes the manifest: in the others the result is None. So do ``devices`` processes that this call starts, one GPU
    each, or that many on a CPU. An interrupted call may go on with another number. With ``skip_bad``, images that do
    not decode are left out; ``skipped.csv`` lists them.

    Raises:
        OptionError: no such images, no pretrained weights, or ``out`` holds something else.
        CheckpointError: a damaged run, or shards of other images, labels, weights or options.
        ImageError: an image that does not decode, unless ``skip_bad``.
        DeviceError: more devices than there are.
    """
    arguments = locals()
    check_integer("shard_size", shard_size)
    if levels and not labeled:
        raise OptionError(f"levels {', '.join(levels)} of images without labels", expected="no levels")
    if devices != "auto":
        check_integer("devices", devices)
    name, folder = os.fspath(model), Path(out)
    name = str(download_model(name)) if name.startswith(HUB) else name
    recipe = recipe_of(name, overrides)
    count = number_of_devices(recipe.training.model_copy(update={"devices": devices}))
    process = launched()
    if process is None and count > 1:
        run_processes(partial(embed, **{**arguments, "devices": 1}), count=count)
        return written_in(folder)
    rank, size = process or (0, 1)
    if rank:
        os.environ["HIERTREE_PROGRESS"] = "0"  # only the first process reports
    source = None if data is None else os.fspath(data)
    inputs: Any = {"labeled": labeled, "root": None if root is None else os.fspath(root)}
    images, recipe, location = _inputs(recipe, name, source, split, levels, overrides, **inputs)
    if rank == 0 and is_progress_shown():
        print(f"{source or name}: {images.about}", file=sys.stderr)
    network = _network(name, recipe, backbone, is_alone=size == 1)  # after the images: it may download weights
    scales, precision = recipe.evaluation.scales, recipe.training.precision
    preprocessing = preprocessing_of(recipe.images, network.settings, scales=scales, precision=precision)
    embedder = TrainedModel(network, preprocessing, device=_device(recipe.training.device))
    settings = [preprocessing.model_dump(mode="json"), images.dataset.split, shard_size, dtype]
    settings += [recipe.evaluation.batch_size, images.labeled]
    shape: Any = {"shard_size": shard_size, "has_labels": images.labeled, "dtype": dtype, "rank": rank, "size": size}
    output = EmbeddingFiles(folder, images.dataset, embedder.weights, json.dumps(settings), **shape)
    if output.is_finished():
        return written_in(folder)
    _embed_shards(embedder, recipe, output, skip_bad=skip_bad, is_first=rank == 0)
    sources = [Path(name) / WEIGHTS] if Path(name).is_dir() else []
    parameters = {**recipe.model_dump(mode="json", by_alias=True), **location}
    return output.finish(manifest(command=f"hiertree embed {name}", parameters=parameters, inputs=sources, outputs=[]))


def embed_texts(
    model: str | os.PathLike[str],
    table: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    templates: Sequence[str] = TEMPLATES,
    levels: Sequence[str] = (),
    device: str = "auto",
) -> Embedded:
    """Embed the labels of a table as texts: a row for each path, which is the text of its finest label.

    ``out`` becomes a data set as :func:`embed` writes it: images are evaluated with it as their gallery.

    Args:
        model: an open_clip model, as :mod:`hiertree.pipelines.networks.loading` names them.
        table: CSV or Parquet of labels.
        out: a new or empty folder.
        templates: texts with ``{}``, where the label goes; the mean direction over them counts.
        levels: columns of labels, coarse → fine; all but names unless given.
        device: ``"auto"`` takes a GPU if there is one.

    Raises:
        OptionError: a model without a text tower, a template without ``{}``, or ``out`` holds something else.
        TableError: a table without labels.
    """
    folder, source = Path(out), Path(table)
    check_templates(templates)
    if not files.is_unused(folder):
        raise OptionError(f"out={folder} holds other files", expected="a new or empty folder")
    rows = rows_with_table(np.empty(()), source, LabelColumns(tuple(levels)))
    tree, (items,) = number_labels([rows], uneven="unknown")
    if tree is None:
        raise TableError(f"{source} without labels", expected="columns of labels, coarse → fine")
    paths = np.unique(items.paths, axis=0)
    paths = paths[paths[:, 0] >= 0]
    texts = [str(tree.labels_of(path)[-1]) for path in paths.tolist()]
    network = load_model(os.fspath(model), device=device)
    vectors = network.embed(texts=texts, templates=templates)
    levels_of_rows = label_columns(tree, paths)
    columns = {IMAGE: texts, SPLIT: ["text"] * len(texts), **levels_of_rows}
    file = folder / "part-00000-of-00001.parquet"
    write_embeddings(file, vectors, columns, {b"hiertree.model": network.weights})
    parameters = {"name": os.fspath(model), "templates": list(templates), "levels": [*levels_of_rows]}
    provenance = manifest(command=f"hiertree embed {model} --texts", parameters=parameters, inputs=[source], outputs=[])
    entries = [{"name": file.name, "rows": len(texts), "sha256": sha256(file)}]
    facts = {"model": network.weights, "dimensions": vectors.shape[1], "dtype": "float32", "rows": len(texts)}
    files.write_json(folder / MANIFEST, {**provenance, **facts, "parts": entries})
    return Embedded(folder, len(texts))


def _device(device: str) -> str:
    """The device of this process on its machine."""
    has_gpu = device != "cpu" and torch.cuda.is_available()
    return str(local_device("cuda" if has_gpu else "cpu"))


class _Inputs(NamedTuple):
    """The images, the recipe that embeds them, and their location."""

    images: InputImages
    recipe: AnyRecipe
    location: dict[str, Any]


def _inputs(
    recipe: AnyRecipe,
    model: str,
    data: str | None,
    split: str | None,
    levels: Sequence[str],
    overrides: Sequence[str],
    *,
    labeled: bool,
    root: str | None,
) -> _Inputs:
    """The split of the recipe's data set, or other images found at the location."""
    reason = ""
    options: dict[str, Any] = {"levels": tuple(levels)}
    if isinstance(recipe, Recipe):
        relocated = recipe if data is None else _relocated(recipe, model, data, split, overrides)
        if root is None and relocated is not None and (data is None or (labeled and not levels)):
            try:
                dataset = load_split(relocated, split or "test")
                description = f"{len(dataset)} images of {dataset.name}, split {dataset.split}"
                return _Inputs(InputImages(dataset, True, description), relocated, {"split": split or "test"})
            except OtherLayoutError as error:
                reason = f"; no {recipe.data.name} is there: {error.given}"
        if data is not None and recipe.data.name == "table" and Path(data).is_file():  # as that of the training
            stated = recipe.data.options()
            options = {"image": stated.get("image"), "levels": tuple(levels) or stated["levels"]}
    if data is None:
        raise OptionError(f"{model} without images", expected="a folder, a table or archives of images")
    images = load_input_images(data, split, labeled=labeled, root=root, **options)
    return _Inputs(
        images._replace(about=images.about + reason), recipe, {"split": split, "embedded": data, "root": root}
    )


def _relocated(recipe: Recipe, model: str, data: str, split: str | None, overrides: Sequence[str]) -> Recipe | None:
    """The recipe with the present location of its data; None for images of any kind."""
    root = Path(data)
    if not (root.is_dir() and recipe.data.takes("root")):
        return None
    is_other = recipe.data.name == "folder" and root.resolve() != Path(recipe.data.options()["root"]).resolve()
    if is_other and split is None:
        return None
    is_trusted = not Path(model).is_dir()
    return load_recipe(recipe.as_dict(), [*overrides, f"data.root={json.dumps(data)}"], trusted=is_trusted)


def _network(model: str, recipe: AnyRecipe, backbone: Backbone | None, *, is_alone: bool) -> Embedder:
    """The network of the run, the pretrained one, or the one that the recipe's training would start from."""
    size, scales = recipe.images.size, recipe.evaluation.scales
    if Path(model).is_dir():
        network = load_embedder(model, backbone=backbone)
    elif isinstance(recipe, EmbeddingRecipe):
        network = untrained_network(recipe)
    else:
        network = _starting_network(model, recipe)
    require_sizes(network, size, scales)
    if isinstance(recipe, Recipe) and not Path(model).is_dir() and recipe.model.projection_init != "random":
        if not is_alone:
            problem = f"model.projection_init={recipe.model.projection_init} in several processes"
            remedy = "train it with training.epochs=0, and embed by the run"
            raise OptionError(problem, expected="one, which computes that PCA", remedy=remedy)
        fabric, (train_set, _) = build_fabric(recipe.training), load_learning_splits(recipe)
        initialize_projection(network.to(fabric.device), train_set, recipe, fabric)
    return network.cpu().eval()


def _starting_network(model: str, recipe: Recipe) -> Embedder:
    """What training would start from: pretrained weights and a projection that the seed draws, or an earlier run's."""
    if recipe.training.start_from is None and not recipe.model.pretrained and recipe.training.epochs:
        raise OptionError(
            f"{model} with model.pretrained=false",
            expected="the folder of a finished run, or a recipe with pretrained weights",
            remedy="train it first; to embed by random weights, set training.epochs=0",
        )
    network = untrained_network(recipe)
    start_from_earlier(network, recipe)
    return network


def untrained_network(recipe: AnyRecipe) -> Embedder:
    """A recipe's network before training: pretrained weights, if named, and a projection that the seed draws."""
    images, is_new = recipe.images, recipe.training.start_from is None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return Embedder(recipe.model, channels=images.channels, size=images.size, load_weights=is_new)


def _embed_shards(
    model: TrainedModel, recipe: AnyRecipe, output: EmbeddingFiles, *, skip_bad: bool, is_first: bool
) -> None:
    """Write this process's shards that are not there yet, each whole; stopped, it says how many images are kept."""
    missing = [shard for shard in output.shards if not output.is_written(shard)]
    total = sum(len(shard.rows) for shard in output.shards)
    done = total - sum(len(shard.rows) for shard in missing)
    settings = recipe.images.model_copy(update={"cache": False})
    views = _ReadableViews(ImageViews(output.dataset.images, settings), skip=skip_bad)
    stop, batch_size = StopRequest(), recipe.evaluation.batch_size
    description = f"embedding {output.dataset.name}"
    with stop.listening(), worker_errors(), show_progress(description=description, total=total) as advance:
        advance(done, "")
        try:
            for shard in missing:
                keys = keys_in_order(shard.rows.tolist(), batch_size)
                tiles: list[NDArray[np.float32]] = []
                rows: list[int] = []
                bad: dict[int, str] = {}
                for indices, images, reasons in batch_loader(views, keys, workers=recipe.images.workers):
                    if stop.requested():
                        raise KeyboardInterrupt
                    tiles.append(model.embed_pixels(images))
                    rows += indices.tolist()
                    bad |= reasons
                    advance(len(indices) + len(reasons), "")
                output.write(shard, np.concatenate(tiles), rows, bad)
                done += len(shard.rows)
        except KeyboardInterrupt:
            progress = f"{done} of {total} images, which are kept"
            if stop.requested():
                stop.obey(progress) if is_first else sys.exit(STOPPED)
            if is_first:
                print(f"stopped after {progress}; run the same command to go on from there", file=sys.stderr)
            raise


class _ReadableBatch(NamedTuple):
    indices: Tensor
    images: Tensor
    reasons: dict[int, str]  # why other rows of the batch are missing


class _ReadableViews(Dataset[_ReadableBatch]):
    """Batches without the images that do not decode, where these are skipped."""

    def __init__(self, views: ImageViews, *, skip: bool) -> None:
        self._views, self._skip = views, skip

    def __getitem__(self, key: BatchKey) -> _ReadableBatch:
        if not self._skip:
            return _ReadableBatch(*self._views[key], {})
        outcomes = {row: self._decoded(key._replace(indices=[row])) for row in key.indices}
        batches = [batch for batch in outcomes.values() if not isinstance(batch, str)]
        reasons = {row: reason for row, reason in outcomes.items() if isinstance(reason, str)}
        if not batches:
            return _ReadableBatch(torch.empty(0, dtype=torch.int64), torch.empty(0), reasons)
        indices, images = zip(*batches, strict=True)
        return _ReadableBatch(torch.cat(indices), torch.cat(images), reasons)

    def _decoded(self, key: BatchKey) -> ImageBatch | str:
        """A batch of one image, or why it does not decode."""
        try:
            return self._views[key]
        except ImageError as error:
            return str(error)
