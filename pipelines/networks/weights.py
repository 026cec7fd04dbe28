"""Weights from files: tensors only, of the network's shapes and finite, perhaps under other names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hiertree.errors import MissingResourceError, RecipeError, raised_as, some_of
from hiertree.io.reading import read_tensors, reading_file

from .settings import ModelSettings, import_callable

_FORMATS = ".safetensors, .pth or .pt"
_WRAPPERS = ("state_dict", "model", "net_state")  # keys under which training scripts store weights


def load_local_weights(network: nn.Module, model: ModelSettings) -> None:
    """Load weights from a file, ignoring tensors that the network does not have, such as a classifier's."""
    weights, targets = read_renamed_weights(network, model), network.state_dict()
    path = Path(str(model.pretrained))
    fitting = {key: value for key, value in weights.items() if key in targets and value.shape == targets[key].shape}
    if missing := sorted(targets.keys() - fitting.keys()):
        unused = some_of(sorted(weights.keys() - fitting.keys()), 3) or "none"
        raise RecipeError(
            f"model.pretrained={path} lacks {len(missing)} of {len(targets)} tensors ({some_of(missing, 3)}); "
            f"what it has beside them: {unused}",
            expected="weights of that backbone, with the same shapes",
            remedy="where only the names differ, rename them by model.weights_names=module:function; "
            "timm.models:remap_state_dict goes by the order of the tensors",
        )
    with reading_file(path, expected="finite weights", kind=RecipeError):
        require_finite_weights(fitting)
    network.load_state_dict(fitting)


def require_finite_weights(weights: Mapping[str, Tensor]) -> None:
    """Raise a ValueError that names the first tensor with a NaN or an infinity."""
    if name := next((name for name, tensor in weights.items() if not tensor.isfinite().all()), None):
        raise ValueError(f"{name} is not finite")


def read_renamed_weights(network: nn.Module, model: ModelSettings) -> dict[str, Tensor]:
    """The tensors of the file ``model.pretrained``, under the names that ``model.weights_names`` gives them."""
    weights = read_weights(Path(str(model.pretrained)))
    if model.weights_names is None:
        return weights
    rename: Callable[..., Any] = import_callable(model.weights_names, setting="model.weights_names")
    problem = f"model.weights_names={model.weights_names}"
    fails, expected = f"{problem}, which fails on {model.pretrained}", "a function of the tensors and the network"
    with raised_as(RecipeError, fails, expected=expected, on=Exception):  # whatever a function of the user's raises
        renamed = rename(weights, network)
    if not _are_tensors(renamed):
        raise RecipeError(f"{problem} returns {type(renamed).__name__}", expected="a dictionary of tensors by name")
    return dict(renamed)


def _are_tensors(tensors: Any) -> bool:
    return isinstance(tensors, dict) and all(isinstance(value, Tensor) for value in tensors.values())


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file by name; from a pickle, only tensors are ever loaded."""
    if not path.is_file():
        raise MissingResourceError(f"model.pretrained={path}", expected=f"a {_FORMATS} file that exists")
    expected, remedy = f"a whole {_FORMATS} file that holds tensors only", "save the network's state_dict() alone"
    if path.suffix == ".safetensors":
        return read_tensors(path, expected=expected, remedy=remedy, kind=RecipeError)
    with reading_file(path, expected=expected, remedy=remedy, kind=RecipeError):
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(tensors, dict):
        tensors = next((tensors[key] for key in _WRAPPERS if isinstance(tensors.get(key), dict)), tensors)
    if not _are_tensors(tensors):
        raise RecipeError(f"model.pretrained={path}", expected="tensors by name, as state_dict() gives them")
    return {str(name).removeprefix("module."): tensor for name, tensor in tensors.items()}


def first_line(error: BaseException) -> str:
    """The first line of a library's error message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
