"""``hiertree export``: a trained network for other runtimes, and an index of a gallery to search in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from hiertree.datasets import ImageSource
from hiertree.errors import HiertreeError, MissingResourceError, OptionError, ShapeError, require_package
from hiertree.io import files
from hiertree.io.provenance import MANIFEST, manifest

from ..training.data.splits import load_split
from ..training.data.views import pixels, plain_view
from ..training.network.model_files import SETTINGS, WEIGHTS, Backbone
from ..training.recipe.reading import load_recipe
from .exported_network import describe_model, write_onnx, write_torchscript
from .gallery_files import read_gallery, require_weights
from .gallery_index import INDEX, write_index
from .image_inputs import as_image_source
from .trained_model import TrainedModel, load_model

ONNX, TORCHSCRIPT = "model.onnx", "model.torchscript"
_COMPARED = 8  # images


class ExportedFiles(NamedTuple):
    """What was written.

    Attributes:
        files: by name.
        checks: by file, the largest difference from the network or the exact products; of an approximate index the
            share of the ten nearest that it finds.
    """

    files: list[Path]
    checks: dict[str, float]


def export(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    onnx: bool = False,
    torchscript: bool = False,
    faiss: bool = False,
    images: str | os.PathLike[str] | None = None,
    gallery: str | os.PathLike[str] | None = None,
    index: str = "Flat",
    backbone: Backbone | None = None,
) -> ExportedFiles:
    """Write a trained network as ONNX or TorchScript, and an index of a gallery; each is compared before it is kept.

    ``out`` then holds ``model.onnx``, ``model.torchscript``, ``index.faiss`` with ``index.csv``, as asked for, and
    ``manifest.json`` with what was compared. The networks compute in float32, whatever the run's precision was.

    Args:
        run: the folder of a run or of a model.
        out: new or empty.
        onnx: compared with the network to 1e-5.
        torchscript: compared to 1e-6.
        faiss: inner products compared with those of the embeddings to 1e-5.
        images: a folder, or files, on which networks are compared; None takes the test split of the run's recipe.
        gallery: a folder of ``hiertree embed``; None takes the run's own embeddings of its test split.
        index: as :func:`faiss.index_factory` names it; ``"Flat"`` is exact.
        backbone: as for :func:`hiertree.load_model`.

    Raises:
        ExportError: what was made differs from the network; nothing is written.
        OptionError: nothing to write, or a folder that holds other files.
        MissingPackageError: an optional package is not installed.
        InputError: the gallery was embedded with another model.
        HiertreeError: whatever is wrong with the model, the images or the gallery.
    """
    source, target = Path(run), Path(out)
    if not (onnx or torchscript or faiss):
        raise OptionError("nothing to export", expected="--onnx, --torchscript, --faiss or several of them")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OptionError(f"out={target} holds other files", expected="a new or empty folder")
    if onnx:
        require_package("onnx", "onnxruntime", "onnxscript", extra="export")
    model = load_model(source, device="cpu", backbone=backbone)
    checks, read = {}, [source / WEIGHTS, source / SETTINGS]
    with files.replacing_folder(target) as folder:
        if onnx or torchscript:
            compared = _compared_images(model, source, images)
        if onnx:
            checks[ONNX] = write_onnx(model, compared, folder / ONNX)
        if torchscript:
            checks[TORCHSCRIPT] = write_torchscript(model, compared, folder / TORCHSCRIPT)
        if faiss:
            embedded = source if gallery is None else Path(gallery)
            found = read_gallery(embedded)
            if found.embeddings.shape[1] != model.embedding_size:
                given = f"a gallery of {found.embeddings.shape[1]} dimensions"
                raise ShapeError(given, expected=f"{model.embedding_size}, as this model embeds")
            require_weights(embedded, source / WEIGHTS)
            checks[INDEX] = write_index(found.embeddings, found.table, folder, kind=index)
            read += found.files
        written = sorted(folder.iterdir())
        parameters = {**describe_model(model), "index": index if faiss else None, "checks": checks}
        made = manifest(command=f"hiertree export {run}", parameters=parameters, inputs=read, outputs=written)
        files.write_json(folder / MANIFEST, made)
    return ExportedFiles([target / path.name for path in written], checks)


def _compared_images(model: TrainedModel, run: Path, images: str | os.PathLike[str] | None) -> Tensor:
    """(n, C, S, S) uint8: the first few images, prepared as the network takes them."""
    source: ImageSource = _test_images(run) if images is None else as_image_source(images)
    settings, count = model.preprocessing, min(_COMPARED, len(source))
    decoded = [pixels(source[row], channels=settings.channels) for row in range(count)]
    views = [plain_view(image, size=settings.size, resize=settings.resize) for image in decoded]
    return torch.stack(views if count > 1 else [*views, views[0].flip(-1)])


def _test_images(run: Path) -> ImageSource:
    try:
        return load_split(load_recipe(run / "recipe.yaml"), "test").images
    except (HiertreeError, OSError) as error:
        raise MissingResourceError(
            f"no images to compare on ({error})", expected="those of the run's recipe", remedy="name others by --images"
        ) from error
