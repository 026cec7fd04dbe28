"""Embed images with a trained or a pretrained network: a Parquet data set that ``hiertree evaluate`` reads."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.datasets.input_images import InputImages, load_input_images
from hiertree.errors import CheckpointError, OptionError, OtherLayoutError
from hiertree.io import files
from hiertree.io.files import locked_folder
from hiertree.io.progress import is_progress_shown
from hiertree.io.provenance import MANIFEST, claim_unfinished, digest, manifest
from hiertree.io.reading import read_json_object
from hiertree.options import check_integer

from ..training.data.splits import load_learning_splits, load_split
from ..training.distributed.devices import Launch, build_fabric, detect_launch, number_of_devices
from ..training.distributed.group import StopRequest, ending_together, run_processes
from ..training.distributed.processes import Processes, worker_errors
from ..training.network.embedder import Embedder, require_sizes
from ..training.network.model_files import WEIGHTS, Backbone, load_embedder
from ..training.network.pretrained_recipe import is_pretrained, pretrained_recipe, untrained_network
from ..training.recipe.reading import built_in_recipes, load_recipe
from ..training.recipe.schema import Recipe
from ..training.run.starting_weights import initialize_projection, start_from_earlier
from .embedded_files import SHARDS_FOLDER, Embedded, EmbeddingFiles, Numbers, written_in
from .locations import no_such
from .sharing import embed_shards, image_digests

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class _Call(NamedTuple):
    """The arguments of :func:`embed`."""

    model: str
    data: str | None
    out: Path
    split: str | None
    levels: tuple[str, ...]
    overrides: tuple[str, ...]
    labeled: bool
    own_format: bool
    shard_size: int = 16_384
    backbone: Backbone | None = None
    dtype: Numbers = "float32"
    skip_bad: bool = False

    @property
    def run(self) -> Path | None:
        """The folder of the run; None of a recipe or a pretrained network."""
        return Path(self.model) if Path(self.model).is_dir() else None


def recipe_of(model: str, overrides: Sequence[str] = ()) -> Recipe:
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
    own_format: bool = True,
) -> Embedded:
    """Embed images, shard by shard; an interrupted call continues after the last whole shard.

    ``model`` is the folder of a finished run; a recipe with pretrained weights, whose projection is the one that
    training starts from: drawn by the seed, or a PCA of the training split; or ``timm:NAME``,
    ``open_clip:NAME/WEIGHTS`` or ``transformers:NAME``, without any projection. Images are embedded at the recipe's
    ``evaluation.scales``.

    ``data`` is the root of images in the format of the recipe's ``data`` section, of which ``split`` is embedded
    (``test`` unless given), where ``own_format`` allows it; None, where that section says; or what
    :func:`hiertree.datasets.input_images.load_input_images` reads, with the labels that are there, or those of
    ``levels``, unless ``labeled`` is False. A line on standard error says which.

    Each shard is a Parquet file of ``out``: columns ``embedding``, ``image`` (the name, or the id where there are ids),
    ``split`` (``query`` or ``gallery`` where the split has a gallery of its own) and, of images with labels, one a
    level, coarse → fine. ``manifest.json`` appears last.

    The processes that torchrun, ``fabric run`` or SLURM started share the shards; so do ``devices`` processes that this
    call starts, one GPU each, or that many on a CPU. A shard, and each batch in it, is the same on any number of them:
    an interrupted call may go on with another number. With ``skip_bad``, images that do not decode are left out;
    ``skipped.csv`` names them.

    ``out`` is a folder that is new, empty, or of the same call, interrupted or finished, and that all processes share;
    ``backbone`` as for :func:`hiertree.load_model`. SIGTERM ends the call with status 143; whole shards stay.
    """
    check_integer("shard_size", shard_size)
    if levels and not labeled:
        raise OptionError(f"levels {', '.join(levels)} of images without labels", expected="no levels")
    launch = detect_launch()
    recipe = recipe_of(os.fspath(model), overrides)
    on_devices = recipe.training.model_copy(update={"devices": devices})
    count = 1 if launch is not None or devices == 1 else number_of_devices(on_devices)
    call = _Call(
        model=os.fspath(model),
        data=None if data is None else os.fspath(data),
        out=Path(out),
        split=split,
        levels=tuple(levels),
        shard_size=shard_size,
        overrides=tuple(overrides),
        labeled=labeled,
        backbone=backbone,
        dtype=dtype,
        skip_bad=skip_bad,
        own_format=own_format,
    )
    if count == 1:
        return _embed(call, recipe, launch)
    _require_usable(call.out)
    run_processes(_embed_as_one_of_several, call, count=count)
    result = written_in(call.out)
    assert result is not None  # the first process has written it
    return result


def _embed_as_one_of_several(call: _Call) -> None:
    _embed(call, recipe_of(call.model, call.overrides), detect_launch())


def _embed(call: _Call, recipe: Recipe, launch: Launch | None) -> Embedded:
    """Take part in a call, alone or as one of several processes."""
    fabric = build_fabric(recipe.training, launch)
    processes = Processes(None if launch is None else fabric)
    stop = StopRequest(processes)
    with stop.listening(), ending_together(processes), worker_errors(), ExitStack() as lock:
        with processes.agreeing():
            inputs = _inputs(call, recipe)
        if processes.is_first and is_progress_shown():
            print(f"{call.data or call.model}: {inputs.read.about}", file=sys.stderr)
        recipe = inputs.recipe
        with processes.agreeing():
            embedder = _network(call, recipe, fabric)  # after the images: it may download weights
        if call.run is None:
            processes.copy_from_first(embedder.state_dict().values())  # a PCA on a GPU is not the same everywhere
        digests = image_digests(inputs.read.dataset, processes)
        output = _claimed(call, embedder, inputs, digests, processes, lock)
        if not processes.from_first((call.out / MANIFEST).is_file):
            embed_shards(embedder, recipe, output, fabric, stop, processes, digests=digests, skip_bad=call.skip_bad)
            processes.from_first(lambda: _finish(call, inputs, output))
        processes.from_first(lambda: shutil.rmtree(call.out / SHARDS_FOLDER, ignore_errors=True))
    if stop.requested():
        stop.obey("the last image")
    result = written_in(call.out, is_first=processes.is_first)
    assert result is not None  # the first process has written it
    return result


def _finish(call: _Call, inputs: _Inputs, output: EmbeddingFiles) -> None:
    """Write the manifest, which marks the call as finished."""
    summary = output.finish()
    provenance = manifest(
        command=f"hiertree embed {call.model}",
        parameters={**inputs.recipe.as_dict(), **inputs.place},
        inputs=[] if call.run is None else [call.run / WEIGHTS],
        outputs=[],  # its parts hold checksums
    )
    files.write_json(call.out / MANIFEST, {**provenance, **summary, "fingerprint": output.fingerprint})


def images_to_embed(
    model: str, data: str, *, split: str | None, levels: tuple[str, ...], overrides: tuple[str, ...], labeled: bool
) -> InputImages:
    """The images of ``data`` that :func:`embed` would embed; errors as there."""
    call = _Call(model, data, Path(), split, levels, overrides, labeled, own_format=False)
    return _inputs(call, recipe_of(model, overrides)).read


class _Inputs(NamedTuple):
    """The images, the recipe that embeds them, and their location."""

    read: InputImages
    recipe: Recipe
    place: dict[str, Any]


def _inputs(call: _Call, recipe: Recipe) -> _Inputs:
    """The split of the recipe's data set, or other images found at the location."""
    own_recipe, data, reason = _prepared_for(call, recipe), recipe.data.options(), ""
    if own_recipe is not None:
        try:
            dataset = load_split(own_recipe, call.split or "test")
            description = f"{len(dataset)} images of {dataset.name}, split {dataset.split}"
            return _Inputs(InputImages(dataset, True, description), own_recipe, {"split": call.split or "test"})
        except OtherLayoutError as error:
            reason = f"; no {recipe.data.name} is there: {error.given}"
    options: dict[str, Any] = {"levels": call.levels}
    assert call.data is not None
    if recipe.data.name == "table" and Path(call.data).is_file():  # another table like that of the training
        options = {"image": data["image"], "levels": call.levels or data["levels"]}
    images = load_input_images(call.data, call.split, labeled=call.labeled, **options)
    return _Inputs(images._replace(about=images.about + reason), recipe, {"split": call.split, "embedded": call.data})


def _prepared_for(call: _Call, recipe: Recipe) -> Recipe | None:
    """The recipe with the present location of its data; None for images of any kind."""
    if call.data is None:
        return recipe
    name, place = recipe.data.name, Path(call.data)
    if call.levels or not (call.own_format and call.labeled and place.is_dir() and recipe.data.takes("root")):
        return None
    is_other = name == "folder" and place.resolve() != Path(recipe.data.options()["root"]).resolve()
    if is_pretrained(recipe.name) or (is_other and call.split is None):
        return None
    overrides = [*call.overrides, f"data.root={json.dumps(call.data)}"]
    return load_recipe(recipe.as_dict(), overrides, trusted=call.run is None)


def _network(call: _Call, recipe: Recipe, fabric: Fabric) -> Embedder:
    """The network of the run, or the one that the recipe's training would start from, on the CPU."""
    run = call.run
    embedder = _untrained(call.model, recipe) if run is None else load_embedder(run, backbone=call.backbone)
    require_sizes(embedder, recipe.images.size, recipe.evaluation.scales)
    if run is None and recipe.model.projection_init != "random":
        train_set, _ = load_learning_splits(recipe)
        initialize_projection(embedder.to(fabric.device), train_set, recipe, fabric)
    return embedder.cpu().eval()


def _untrained(model: str, recipe: Recipe) -> Embedder:
    """Pretrained weights with a projection that the seed draws, or those of an earlier run."""
    if recipe.training.start_from is None and not recipe.model.pretrained and recipe.training.epochs:
        raise OptionError(
            f"{model} with model.pretrained=false",
            expected="the folder of a finished run, or a recipe with pretrained weights",
            remedy="train it first; to embed by random weights, set training.epochs=0",
        )
    embedder = untrained_network(recipe)
    start_from_earlier(embedder, recipe)
    return embedder


def _fingerprint(call: _Call, embedder: Embedder, inputs: _Inputs) -> dict[str, str]:
    """Hashes of everything that the shards depend on."""
    dataset, recipe = inputs.read.dataset, inputs.recipe
    precision, scales = recipe.training.precision, recipe.evaluation.scales
    settings = [recipe.experiment()["images"], scales, precision, dataset.split, call.shard_size, call.dtype]
    settings += [recipe.evaluation.batch_size, call.skip_bad]
    nodes, level_names = np.unique(dataset.paths, axis=0).tolist(), dataset.tree.level_names
    labels = (json.dumps(list(map(str, row))) for row in (level_names, *map(dataset.tree.labels_of, nodes)))
    ids = [] if dataset.ids is None else map(str, dataset.ids)
    weights = (tensor.numpy() for tensor in embedder.state_dict().values())
    return {
        "settings": digest([json.dumps(settings)]),
        "labels": digest([dataset.paths, str(inputs.read.labeled), *labels, json.dumps(list(ids))]),
        "weights": digest(weights),
    }


def _claimed(
    call: _Call, embedder: Embedder, inputs: _Inputs, digests: Mapping[int, str], processes: Processes, lock: ExitStack
) -> EmbeddingFiles:
    """The files to write in a folder, new or of the same call; it is locked, and all processes see the same inputs."""
    with processes.agreeing():
        fingerprint = _fingerprint(call, embedder, inputs)
    fingerprint["images"] = digest(digests.values())

    def claim() -> dict[str, str]:
        _require_usable(call.out)
        lock.enter_context(locked_folder(call.out))
        _require_usable(call.out, fingerprint)
        if not (call.out / MANIFEST).is_file():
            claim_unfinished(call.out / SHARDS_FOLDER, fingerprint)
        return fingerprint

    first = processes.from_first(claim)
    with processes.agreeing():
        if differences := [name for name, value in fingerprint.items() if value != first[name]]:
            problem = f"process {processes.rank} of {processes.size} has other {', '.join(differences)} than the first"
            raise CheckpointError(problem, expected="one model, one data set and the same options in all")
        shape: Any = {"shard_size": call.shard_size, "width": embedder.embedding_size, "dtype": call.dtype}
        return EmbeddingFiles(call.out, inputs.read.dataset, fingerprint, has_labels=inputs.read.labeled, **shape)


def _require_usable(folder: Path, fingerprint: Mapping[str, str] | None = None) -> None:
    """Refuse a folder that holds other things than what the same call has written."""
    is_finished = (folder / MANIFEST).is_file()
    if is_finished:
        old_fingerprint = read_json_object(folder / MANIFEST, expected="a manifest of hiertree").get("fingerprint")
        is_usable = isinstance(old_fingerprint, dict) and fingerprint in (None, old_fingerprint)
    else:
        is_usable = (folder / SHARDS_FOLDER).is_dir() or files.is_unused(folder)
    if not is_usable:
        content = "finished embeddings" if is_finished else "other files"
        raise OptionError(
            f"out={folder} holds {content}" if folder.is_dir() else f"out={folder} is a file",
            expected="a new or empty folder, or that of the same call",
            remedy="name another folder, or remove this one",
        )
