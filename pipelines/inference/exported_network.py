"""A trained network as ONNX or TorchScript, each compared with the network itself before it is kept."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, normalize

import hiertree
from hiertree.errors import ExportError
from hiertree.io import files

from ..training.network.embedder import Embedder
from .trained_model import TrainedModel

ONNX_TOLERANCE, TORCHSCRIPT_TOLERANCE = 1e-5, 1e-6
_LARGEST = 2**31 - 2**20  # bytes of an ONNX file


class FixedSizeNetwork(nn.Module):
    """Pixels → embeddings at all scales of the model, as operations that every runtime has.

    Args:
        embedder: the network.
        size: height and width of the images.
        scales: as for :func:`hiertree.pipelines.training.network.scales.embed_at_scales`.
    """

    def __init__(self, embedder: Embedder, *, size: int, scales: Sequence[float]) -> None:
        super().__init__()
        self.embedder, self._count = embedder, len(scales)
        for number, scale in enumerate(scales):
            self.register_buffer(f"resizing_{number}", None if scale == 1 else _resizing(size, scale))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) pixels in 0 … 255 → (B, d) of unit norm."""
        matrices = [getattr(self, f"resizing_{number}") for number in range(self._count)]
        if all(matrix is None for matrix in matrices):
            embeddings: Tensor = self.embedder(images)
            return embeddings
        resized = [images if each is None else each @ images.float() @ each.T for each in matrices]
        return normalize(torch.stack([self.embedder(each) for each in resized]).sum(dim=0), dim=1)


def describe_model(model: TrainedModel) -> dict[str, Any]:
    """What an exported network needs to be used: preprocessing, sizes, and the levels of the classes it has learned."""
    tree = model.tree
    return {
        "preprocessing": model.preprocessing.model_dump(mode="json"),
        "embedding_size": model.embedding_size,
        "levels": [] if tree is None else list(tree.level_names),
        "level_sizes": [] if tree is None else list(tree.level_sizes),
        "hiertree": hiertree.__version__,
    }


def write_onnx(model: TrainedModel, images: Tensor, path: Path) -> float:
    """Write a network as ONNX: ``images`` (batch, C, S, S) uint8 → ``embeddings`` (batch, d) float32 of unit norm.

    What :func:`describe_model` says is in the file's ``metadata_props``, each value as JSON.

    Args:
        model: on the CPU.
        images: (n, C, S, S) uint8, n ≥ 2, on which the file must give the network's own embeddings.
        path: of the file.

    Returns:
        The largest difference in any dimension of their embeddings.

    Raises:
        ExportError: it is above 1e-5, or the network cannot be written so.
    """
    import onnxruntime

    network = _fixed(model)
    if sum(tensor.nbytes for tensor in network.state_dict().values()) > _LARGEST:
        raise ExportError(
            "a network of more than 2 GB", expected="at most 2 GB, as ONNX files hold", remedy="--torchscript"
        )
    with files.replacing(path) as temporary, _without_warnings():
        try:
            program: Any = torch.onnx.export(
                network,
                (images[:2],),
                input_names=["images"],
                output_names=["embeddings"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                verbose=False,
            )
        except (RuntimeError, TypeError) as error:
            raise _refused("ONNX", model, error) from error
        program.model.metadata_props.update({key: json.dumps(value) for key, value in describe_model(model).items()})
        program.save(str(temporary), external_data=False)
        session = onnxruntime.InferenceSession(str(temporary), providers=["CPUExecutionProvider"])
        return _compare(
            "ONNX",
            network,
            lambda batch: torch.from_numpy(session.run(["embeddings"], {"images": batch.numpy()})[0]),
            images,
            ONNX_TOLERANCE,
        )


def write_torchscript(model: TrainedModel, images: Tensor, path: Path) -> float:
    """Write a network as TorchScript, with :func:`describe_model` in its extra file ``hiertree.json``.

    Arguments and errors are those of :func:`write_onnx`; the largest difference allowed is 1e-6.
    """
    network, extra = _fixed(model), {"hiertree.json": json.dumps(describe_model(model))}
    with files.replacing(path) as temporary, _without_warnings(), torch.inference_mode():
        try:
            traced = torch.jit.trace(network, images[:2], check_trace=False)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise _refused("TorchScript", model, error) from error
        torch.jit.save(traced, str(temporary), _extra_files=extra)
        loaded = torch.jit.load(str(temporary))  # type: ignore[no-untyped-call]
        return _compare("TorchScript", network, loaded, images, TORCHSCRIPT_TOLERANCE)


def _refused(name: str, model: TrainedModel, error: BaseException) -> ExportError:
    problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ExportError(f"{name} of {model!r} ({problem})", expected="a network that torch can export so")


def _fixed(model: TrainedModel) -> FixedSizeNetwork:
    settings = model.preprocessing
    return FixedSizeNetwork(model.network, size=settings.size, scales=settings.scales).cpu().eval()


def _compare(
    name: str, network: nn.Module, exported: Callable[[Tensor], Tensor], images: Tensor, tolerance: float
) -> float:
    """The largest difference of the embeddings of batches of different sizes.

    Raises:
        ExportError: it is above the tolerance, or not finite.
    """
    largest = 0.0
    with torch.inference_mode():
        for batch in (images, images[:1]):
            difference = float((exported(batch) - network(batch)).abs().max())
            if not difference <= tolerance:
                raise ExportError(
                    f"{name} embeddings that differ by {difference:.2g} from the network's",
                    expected=f"at most {tolerance:g}",
                    remedy="nothing was written",
                )
            largest = max(largest, difference)
    return largest


def _resizing(size: int, scale: float) -> Tensor:
    """(S', S) matrix M: M X Mᵀ is the image X resized with antialiasing."""
    scaled = max(1, round(scale * size))
    square = torch.eye(size)[None, None]
    return interpolate(square, size=[scaled, size], mode="bilinear", antialias=True)[0, 0]


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without those of torch, which is about to replace TorchScript, and of tracing, whose result is compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
