"""CLIP models of open_clip, by its names, from the Hugging Face hub or from a folder: both towers, and their tokenizer.

A model is an open_clip name, ``hf-hub:OWNER/NAME``, or ``local-dir:FOLDER`` with ``open_clip_config.json`` and weights
in it. open_clip itself loads it; no code of a repository runs.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiertree.errors import DeviceError, MissingResourceError, OptionError, raised_as, require_package
from hiertree.io.progress import track
from hiertree.io.provenance import sha256
from hiertree.io.reading import read_json_object

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CLIP, HUB, LOCAL = "open_clip:", "hf-hub:", "local-dir:"  # how names of networks begin
TEMPLATES = ("a photo of a {}",)
_CONFIG = "open_clip_config.json"
_DAMAGED = (  # what open_clip and torch raise for files that are broken or of another model
    *(RuntimeError, OSError, ValueError, KeyError, EOFError, pickle.UnpicklingError, ImportError),
    *(AssertionError, AttributeError, TypeError),
)


def is_described(model: str) -> bool:
    """Whether a repository or a folder describes the model and holds its weights."""
    return model.removeprefix(CLIP).startswith((HUB, LOCAL))


def split_weights(name: str) -> tuple[str, str | None]:
    """The model and the weights of ``MODEL/WEIGHTS``; of a model with one set of weights, that."""
    name = name.removeprefix(CLIP)
    if is_described(name):
        return name, None
    require_package("open_clip", extra="clip")
    import open_clip

    model, _, weights = name.partition("/")
    tags = open_clip.list_pretrained_tags_by_model(model)
    return model, weights or (tags[0] if len(tags) == 1 else None)


def clip_identity(model: str, weights: str) -> dict[str, Any]:
    """What the vectors depend on, as JSON values: names, and the SHA-256 of local files."""
    model = model.removeprefix(CLIP)
    if model.startswith(LOCAL):
        folder = Path(model.removeprefix(LOCAL))
        paths = sorted(path for path in folder.glob("open_clip_*") if path.is_file())
        return {"model": f"{LOCAL}{folder.name}", "weights": {path.name: sha256(path) for path in paths}}
    if model.startswith(HUB):
        return {"model": model, "weights": sha256(described_file(model))}
    file = Path(weights)
    return {"model": model, "weights": {file.name: sha256(file)} if file.is_file() else weights}


def described_file(model: str, *, name: str | None = None) -> Path:
    """A file of a repository or a folder: its weights, unless another is named."""
    require_package("open_clip", extra="clip")
    from open_clip.pretrained import download_pretrained_from_hf

    if model.startswith(LOCAL):
        return Path(model.removeprefix(LOCAL)) / (name or "")
    repository = model.removeprefix(HUB)
    problem, remedy = f"{CLIP}{model}", f"where there is a connection, `hf download {repository}` brings it"
    expected = "a model of open_clip on the Hugging Face hub, and a connection or the hub's cache"
    with raised_as(MissingResourceError, problem, expected=expected, remedy=remedy, on=Exception):
        return Path(download_pretrained_from_hf(repository, filename=name))


def read_description(model: str) -> dict[str, Any]:
    """The ``open_clip_config.json`` of a repository or a folder: ``model_cfg``, and perhaps ``preprocess_cfg``."""
    file = described_file(model, name=_CONFIG)
    if not file.is_file():
        raise OptionError(f"{CLIP}{model}", expected=f"a folder with {_CONFIG} and weights, as open_clip saves them")
    description = read_json_object(file, expected="a model of open_clip", kind=OptionError)
    if not (isinstance(description.get("model_cfg"), dict) and isinstance(description.get("preprocess_cfg", {}), dict)):
        raise OptionError(f"{file}", expected="model_cfg and preprocess_cfg, as open_clip writes them")
    return description


def load_clip(model: str, weights: str | None, device: str, *, image_size: int | None = None) -> Any:
    """The model with its weights, on a device, for inference.

    The weights are one of open_clip's names, a file, or None, for a model without; those of a repository or a folder
    are its own. Position embeddings are interpolated for other image sizes.
    """
    require_package("open_clip", "safetensors", "torch", extra="clip")
    import open_clip
    import torch
    from safetensors import SafetensorError

    model = model.removeprefix(CLIP)
    if is_described(model):
        weights = str(described_file(model))
        read_description(model)
    else:
        _check_known(open_clip, model, weights)
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise DeviceError(f"device={device!r}", expected="a CUDA GPU", choose={"device": ["cpu"]})
    options = {"pretrained": None if is_described(model) else weights, "require_pretrained": weights is not None}
    try:
        with silence_logs():
            loaded = open_clip.create_model(model, **options, force_image_size=image_size, device=device)
    except (*_DAMAGED, SafetensorError) as error:
        if weights is None:
            raise OptionError(f"model={model!r} ({_reason(error)})", expected="a model and size that build") from error
        if not is_described(model) and not Path(weights).is_file():
            raise _unreachable(open_clip, model, weights) from error
        source = model if is_described(model) else weights
        problem = f"weights {source!r} do not load into {model!r} ({_reason(error)})"
        raise OptionError(problem, expected="weights of that model") from error
    return loaded.eval()


class TextTower:
    """The text tower of a CLIP model and its tokenizer.

    Args:
        clip: the model, as :func:`load_clip` gives it.
        name: of the model, by which open_clip knows its tokenizer.
    """

    def __init__(self, clip: Any, name: str) -> None:
        self._clip, self._name = clip, name.removeprefix(CLIP)
        self._device: Any = "cpu"
        self._tokenizer: Any = None  # made at the first text

    def to(self, device: Any) -> None:
        """Move it to a device."""
        self._clip.to(device)
        self._device = device

    def encode(
        self, texts: Sequence[str], *, templates: Sequence[str] = ("{}",), batch_size: int = 128, progress: bool = True
    ) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm: the mean direction of each text over the templates, which hold ``{}``.

        Raises:
            OptionError: no template, or one without ``{}``.
            MissingResourceError: the tokenizer is neither here nor within reach.
        """
        import torch
        from torch.nn.functional import normalize

        check_templates(templates)
        tokens = [self._tokens([template.replace("{}", text) for text in texts]) for template in templates]
        batches = [batch for rows in tokens for batch in rows.split(batch_size)]
        with torch.inference_mode():
            tracked = track(batches, description="texts, in batches", enabled=progress and len(batches) > 1)
            rows = [self._clip.encode_text(batch.to(self._device), normalize=True).float().cpu() for batch in tracked]
            means = torch.cat(rows).view(len(templates), len(texts), -1).mean(dim=0)
            directions: NDArray[np.float32] = normalize(means, dim=1).numpy()
        return directions

    def _tokens(self, sentences: list[str]) -> Any:
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(self._name)
        return self._tokenizer(sentences)


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a model, as open_clip makes it."""
    import open_clip

    model = model.removeprefix(CLIP)
    is_of_transformers = is_described(model) and "hf_tokenizer_name" in read_description(model)["model_cfg"].get(
        "text_cfg", {}
    )
    options = {"trust_remote_code": False} if is_of_transformers else {}
    remedy = "where there is a connection, `hf download` brings the repository that text_cfg names"
    with (
        silence_logs(),
        raised_as(
            MissingResourceError,
            f"the tokenizer of {model}",
            expected="one of open_clip, or of transformers and a connection or the hub's cache",
            remedy=remedy,
            on=_DAMAGED,
        ),
    ):
        return open_clip.get_tokenizer(model, **options)


def check_templates(templates: Sequence[str]) -> None:
    """Refuse templates without a place for the text."""
    if isinstance(templates, str) or not templates or not all("{}" in template for template in templates):
        raise OptionError(f"templates={templates!r}", expected="a list of texts with {}, such as 'a photo of a {}'")


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
    if model not in open_clip.list_models():
        close = get_close_matches(model, open_clip.list_models(), n=3)
        expected = f"a model of open_clip{f', perhaps {close}' if close else ''}, {HUB}OWNER/NAME or {LOCAL}FOLDER"
        raise OptionError(f"model={model!r}", expected=expected)
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
