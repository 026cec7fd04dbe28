"""Load CLIP models by open_clip name or from this machine, or say why that is impossible."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hiertree.errors import DeviceError, MissingResourceError, OptionError, require_package
from hiertree.io.provenance import sha256

LOCAL = "local-dir:"
_DAMAGED = (  # what open_clip and torch raise for files that are broken or of another model
    *(RuntimeError, OSError, ValueError, KeyError, EOFError, pickle.UnpicklingError),
    *(AssertionError, AttributeError, TypeError),
)


def clip_identity(model: str, weights: str) -> dict[str, Any]:
    """What the vectors depend on, as JSON values: names, and the SHA-256 of local files."""
    if model.startswith(LOCAL):
        folder = Path(model.removeprefix(LOCAL))
        paths = sorted(path for path in folder.glob("open_clip_*") if path.is_file())
        return {"model": f"{LOCAL}{folder.name}", "weights": {path.name: sha256(path) for path in paths}}
    file = Path(weights)
    return {"model": model, "weights": {file.name: sha256(file)} if file.is_file() else weights}


def load_clip(model: str, weights: str | None, device: str, *, image_size: int | None = None) -> Any:
    """The model with its weights, on a device, for inference.

    The model is an open_clip name, or ``local-dir:FOLDER`` with ``open_clip_config.json`` and weights in it; the
    weights are one of open_clip's names, a file, or None. Position embeddings are interpolated for other sizes.
    """
    require_package("open_clip", "safetensors", "torch", extra="clip")
    import open_clip
    import torch
    from safetensors import SafetensorError

    _check_known(open_clip, model, weights)
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise DeviceError(f"device={device!r}", expected="a CUDA GPU", remedy="use device='cpu'")
    is_named = not model.startswith(LOCAL)
    damaged = (*_DAMAGED, SafetensorError)
    try:
        with silence_logs():
            options = {
                "pretrained": weights if is_named else None,
                "require_pretrained": not is_named or weights is not None,
            }
            loaded = open_clip.create_model(model, **options, force_image_size=image_size, device=device)
    except damaged as error:
        if weights is None:
            raise OptionError(f"model={model!r} ({_reason(error)})", expected="a model and size that build") from error
        if is_named and not Path(weights).is_file():
            raise _unreachable(open_clip, model, weights) from error
        problem = f"weights {weights if is_named else model!r} do not load into {model!r} ({_reason(error)})"
        raise OptionError(problem, expected="weights of that model") from error
    return loaded.eval()


@contextmanager
def silence_logs() -> Iterator[None]:
    """Silence the logs of libraries, whose warnings are errors here or of no interest."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)


def _check_known(open_clip: Any, model: str, weights: str | None) -> None:
    if model.startswith(LOCAL):
        return
    if model not in open_clip.list_models():
        close = get_close_matches(model, open_clip.list_models(), n=3)
        raise OptionError(f"model={model!r}", expected=f"an open_clip model, perhaps {close}")
    tags = open_clip.list_pretrained_tags_by_model(model)
    if weights is not None and weights not in tags and not Path(weights).is_file():
        raise OptionError(f"weights={weights!r}", expected=f"an existing file or one of {tags}")


def _unreachable(open_clip: Any, model: str, weights: str) -> MissingResourceError:
    hub = str(open_clip.get_pretrained_cfg(model, weights).get("hf_hub", "")).strip("/")
    fetch = f"`hf download {hub}`" if hub else "open_clip's list of pretrained weights"
    return MissingResourceError(
        f"the weights {weights!r} of {model!r} are not on this machine and could not be downloaded",
        remedy=f"get them where there is a network ({fetch}) and pass the file as the weights",
    )


def _reason(error: BaseException) -> str:
    """The first line of an error, without torch's advice to load pickled code."""
    if "weights" in str(error).lower() and "only" in str(error):
        return "it holds more than tensors"
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
