"""Weights of a backbone from a local file: safetensors, or a pickle of which only tensors are loaded."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

from hiertree.errors import MissingResourceError, RecipeError

_FORMATS = ".safetensors, .pth or .pt"
_WRAPPERS = ("state_dict", "model", "net_state")  # keys under which training scripts store weights


def load_local_weights(network: nn.Module, path: Path) -> None:
    """Load weights from a file, ignoring tensors that the network does not have, such as a classifier's.

    Raises:
        MissingResourceError: no such file.
        RecipeError: it is damaged, holds more than tensors, or lacks some that the network has.
    """
    weights, wanted = read_weights(path), network.state_dict()
    fitting = {key: value for key, value in weights.items() if key in wanted and value.shape == wanted[key].shape}
    missing = sorted(wanted.keys() - fitting.keys())
    if missing:
        raise RecipeError(
            f"model.pretrained={path} lacks {len(missing)} of {len(wanted)} tensors ({', '.join(missing[:3])}, …)",
            expected="the weights of the backbone named, of the same shapes",
        )
    network.load_state_dict(fitting)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file by name; from a pickle, only tensors are ever loaded.

    Raises:
        MissingResourceError: no such file.
        RecipeError: it is damaged, or holds more than tensors.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise MissingResourceError(f"model.pretrained={path}", expected=f"a {_FORMATS} file that exists")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise RecipeError(  # without torch's message, which proposes to load the file unsafely
            f"model.pretrained={path}",
            expected=f"a whole {_FORMATS} file that holds tensors only",
            remedy="convert it first: save the network's state_dict() alone",
        ) from error
    if isinstance(content, dict):
        content = next((content[key] for key in _WRAPPERS if isinstance(content.get(key), dict)), content)
    named = isinstance(content, dict) and all(isinstance(value, Tensor) for value in content.values())
    if not named:
        raise RecipeError(f"model.pretrained={path}", expected="tensors by name, as state_dict() gives them")
    return {str(name).removeprefix("module."): tensor for name, tensor in content.items()}
