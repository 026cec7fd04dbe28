"""``hiertree export``: a trained network for other runtimes."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, normalize

import hiertree
from hiertree.datasets import ImageSource
from hiertree.errors import (
    ExportError,
    HiertreeError,
    MissingResourceError,
    OptionError,
    raised_as,
    require_package,
)
from hiertree.io import files
from hiertree.io.provenance import MANIFEST, is_written_by_hiertree, manifest, read_record

from ..networks.embedder import Embedder
from ..networks.loading import SETTINGS, WEIGHTS, Backbone
from ..training.data.batches import keys_in_order
from ..training.data.splits import load_split
from ..training.data.views import ImageViews
from ..training.recipe.reading import load_recipe
from .image_inputs import as_image_source
from .trained_model import TrainedModel, load_model

ONNX = "model.onnx"
_COMMAND = "hiertree export"
_COMPARED, _TOLERANCE = 8, 1e-5  # images; largest difference of an embedding's values
_LARGEST = 2**31 - 2**20  # bytes of an ONNX file


class FixedSizeNetwork(nn.Module):
    """Pixels → embeddings at all scales of the model, as operations that every runtime has."""

    def __init__(self, embedder: Embedder, *, size: int, scales: Sequence[float]) -> None:
        super().__init__()
        self.embedder, self._count = embedder, len(scales)
        for index, scale in enumerate(scales):
            self.register_buffer(f"resizing_{index}", None if scale == 1 else _resizing(size, scale))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) pixels in 0 … 255 → (B, d) of unit norm."""
        matrices = [getattr(self, f"resizing_{index}") for index in range(self._count)]
        if all(matrix is None for matrix in matrices):
            return cast(Tensor, self.embedder(images))
        resized = [images if matrix is None else matrix @ images.float() @ matrix.T for matrix in matrices]
        return normalize(torch.stack([self.embedder(view) for view in resized]).sum(dim=0), dim=1)


def describe_model(model: TrainedModel) -> dict[str, Any]:
    """The description stored with an exported network: preprocessing, sizes, and the levels of its classes."""
    tree = model.tree
    return {
        "preprocessing": model.preprocessing.model_dump(mode="json"),
        "embedding_size": model.embedding_size,
        "levels": [] if tree is None else list(tree.level_names),
        "level_sizes": [] if tree is None else list(tree.level_sizes),
        "hiertree": hiertree.__version__,
    }


def write_network(model: TrainedModel, images: Tensor, file: Path) -> float:
    """Write a network as ONNX: ``images`` (batch, C, S, S) uint8 → ``embeddings`` (batch, d) float32 of unit norm.

    Returns the largest difference of embeddings from the network's, in batches of different sizes.
    """
    import onnxruntime

    settings = model.preprocessing
    network = FixedSizeNetwork(model.network, size=settings.size, scales=settings.scales).cpu().eval()
    if sum(tensor.nbytes for tensor in network.state_dict().values()) > _LARGEST:
        raise ExportError("a network of more than 2 GB", expected="at most 2 GB in ONNX")
    options: Any = {"input_names": ["images"], "output_names": ["embeddings"], "dynamo": True, "verbose": False}
    options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    refused, expected = (RuntimeError, TypeError), "a network that torch can export so"
    with warnings.catch_warnings(), raised_as(ExportError, f"ONNX of {model!r}", expected=expected, on=refused):
        warnings.simplefilter("ignore")  # of torch, while it traces
        program: Any = torch.onnx.export(network, (images[:2],), **options)
        program.model.metadata_props.update({key: json.dumps(value) for key, value in describe_model(model).items()})
        program.save(str(file), external_data=False)
        session = onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    batches = (images, images[:1])
    exported = [torch.from_numpy(session.run(["embeddings"], {"images": batch.numpy()})[0]) for batch in batches]
    with torch.inference_mode():
        differences = [(rows - network(batch)).abs().max() for rows, batch in zip(exported, batches, strict=True)]
    largest = float(torch.stack(differences).max())  # NaN if one is
    if not largest <= _TOLERANCE:
        problem = f"ONNX embeddings that differ by {largest:.2g} from the network's"
        raise ExportError(problem, expected=f"at most {_TOLERANCE:g}", remedy="nothing was written")
    return largest


def _resizing(size: int, scale: float) -> Tensor:
    """(S', S) matrix M: M X Mᵀ is the image X resized with antialiasing."""
    scaled = max(1, round(scale * size))
    square = torch.eye(size)[None, None]
    return interpolate(square, size=[scaled, size], mode="bilinear", antialias=True)[0, 0]


def export(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str] | None = None,
    backbone: Backbone | None = None,
) -> tuple[Path, float]:
    """Write a trained network as ONNX; returns the file, and the largest difference from the network's embeddings.

    The network computes in float32, whatever the run's precision was. ``manifest.json`` says what was compared.
    """
    source, target = Path(run), Path(out)
    if not files.is_unused(target) and not _is_export(target):
        raise OptionError(f"out={target} holds other files", expected="a new or empty folder, or that of an export")
    require_package("onnx", "onnxruntime", "onnxscript", extra="export")
    model = load_model(source, device="cpu", backbone=backbone)
    with files.replacing_folder(target) as folder:
        difference = write_network(model, _compared_images(model, source, images), folder / ONNX)
        parameters = {**describe_model(model), "checks": {ONNX: difference}}
        inputs, outputs = [source / WEIGHTS, source / SETTINGS], [folder / ONNX]
        provenance = manifest(command=f"{_COMMAND} {run}", parameters=parameters, inputs=inputs, outputs=outputs)
        files.write_json(folder / MANIFEST, provenance)
    return target / ONNX, difference


def _is_export(folder: Path) -> bool:
    """Whether a folder holds an export as it was written, and nothing else."""
    record = read_record(folder / MANIFEST) or {}
    if not str(record.get("command", "")).startswith(_COMMAND):
        return False
    output_files = [path for path in folder.iterdir() if path.name != MANIFEST]
    return all(path.is_file() and is_written_by_hiertree(path) for path in output_files)


def _compared_images(model: TrainedModel, run: Path, images: str | os.PathLike[str] | None) -> Tensor:
    """(n, C, S, S) uint8: the first few images, prepared as the network takes them."""
    source = _test_images(run) if images is None else as_image_source(images)
    count = min(_COMPARED, len(source))
    views = ImageViews(source, model.image_settings())[keys_in_order(range(count), count)[0]].images
    return views if count > 1 else torch.cat([views, views.flip(-1)])


def _test_images(run: Path) -> ImageSource:
    problem, remedy, errors = "no images to compare on", "name others by --images", (HiertreeError, OSError)
    with raised_as(MissingResourceError, problem, expected="the recipe's", remedy=remedy, on=errors):
        return load_split(load_recipe(run / "recipe.yaml", trusted=False), "test").images
