"""``transformers:NAME``: image networks of Hugging Face transformers, by repository, folder or architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from math import isqrt
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from hiertree.errors import MissingResourceError, RecipeError, raised_as, require_package

from ...clip_model import silence_logs
from .pretrained_backbones import ImageView, read_renamed_weights

if TYPE_CHECKING:
    from ..recipe.settings import ModelSettings

TRANSFORMERS = "transformers:"
_RECORDS = ("architectures", "dtype", "model_type", "torch_dtype", "transformers_version")  # no options of a network
_CONVNEXT_SQUEEZED = 384  # pixels from which its images are not cropped


class TransformersNetwork(nn.Module):
    """A vision tower of transformers; square images go in."""

    def __init__(self, tower: nn.Module, features: int) -> None:
        super().__init__()
        self.tower, self.num_features = tower, features
        resizes = "interpolate_pos_encoding" in signature(tower.forward).parameters
        self._options = {"interpolate_pos_encoding": True} if resizes else {}
        # ViT's dense pooler comes from pretraining by classification; most weights leave it out.
        self._has_dense_pooler = hasattr(getattr(tower, "pooler", None), "dense")

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, H) images → (B, F): what the tower pools itself, else its CLS token, else the mean of tokens."""
        output = self.tower(images, **self._options)
        states: Tensor = output.last_hidden_state
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if pooled is not None and not self._has_dense_pooler:
            return pooled.flatten(1)
        return states[:, 0] if _grid_side(states) ** 2 < states.shape[1] else states.mean(dim=1)

    def forward_features(self, images: Tensor) -> Tensor:
        """(B, 3, H, H) images → (B, F, h, h) maps of the patches, without CLS and register tokens."""
        states: Tensor = self.tower(images, **self._options).last_hidden_state
        if states.ndim == 4:
            return states
        side = _grid_side(states)
        return states[:, -(side**2) :].transpose(1, 2).reshape(len(states), -1, side, side)

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Compute activations again in the backward pass, as timm's networks call it."""
        kind = "activation" if hasattr(self.tower, "activation_checkpointing_enable") else "gradient"
        if not self.tower.supports_gradient_checkpointing:
            raise AttributeError("gradient checkpointing")
        getattr(self.tower, f"{kind}_checkpointing_{'enable' if enable else 'disable'}")()


def transformers_options(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The architecture of a network and the options that build it without the hub."""
    config = _vision_config(name, options)
    content = {key: value for key, value in config.to_diff_dict().items() if key not in _RECORDS and key[0] != "_"}
    return TRANSFORMERS + config.model_type, content


def build_transformers_network(
    model: ModelSettings, *, channels: int, size: int | None, load_weights: bool
) -> nn.Module:
    """Build a vision tower; ``model.pretrained`` is true (the weights of its repository or folder), a file or false."""
    from transformers import AutoModel

    create: Any = AutoModel.from_config  # typed in part
    del size  # position embeddings are interpolated in the forward pass
    config = _vision_config(model.backbone, model.backbone_options)
    if channels != getattr(config, "num_channels", 3):
        raise RecipeError(f"images.channels={channels} with {model.backbone}", expected="images.channels=3")
    with silence_logs():
        tower = create(config)
        if model.pretrained and load_weights:
            tower = _load_weights(tower, model)
    if tower.main_input_name != "pixel_values":
        raise RecipeError(f"model.backbone={model.backbone}, a {type(tower).__name__}", expected="a network of images")
    features = getattr(config, "hidden_size", None) or config.hidden_sizes[-1]
    return TransformersNetwork(tower.float().train(), int(features))


def _load_weights(tower: Any, model: ModelSettings) -> Any:
    """The tower with weights of its repository or folder, or of a file; transformers knows their earlier names."""
    name = model.backbone.removeprefix(TRANSFORMERS)
    source: dict[str, Any] = {"config": tower.config, "output_loading_info": True}
    path = name
    if isinstance(model.pretrained, str):
        path, source["state_dict"] = "", read_renamed_weights(tower, model)
    loaded, report = _loaded(name, lambda: type(tower).from_pretrained(path or None, **source))
    if missing := [key for key in report["missing_keys"] if "pooler" not in key] + list(report["mismatched_keys"]):
        problem = f"the weights of {model.backbone} lack {len(missing)} tensors ({missing[0]}, …)"
        raise RecipeError(problem, expected=f"the weights of a {type(tower).__name__}, of the same shapes")
    return loaded


def transformers_view(name: str) -> ImageView:
    """How the images of a repository's or folder's weights are prepared, as its ``preprocessor_config.json`` says."""
    require_package("transformers", extra="transformers")
    from PIL.Image import Resampling
    from transformers import AutoImageProcessor

    load: Any = AutoImageProcessor.from_pretrained  # typed in part
    path = name.removeprefix(TRANSFORMERS)
    with silence_logs():
        processor = _loaded(path, lambda: load(path, trust_remote_code=False))
    resized, cropped = dict(processor.size or {}), dict(getattr(processor, "crop_size", None) or {})
    side = resized.get("shortest_edge") or resized.get("height")
    crop = cropped.get("height") if getattr(processor, "do_center_crop", False) else side
    if not side or not crop:
        raise RecipeError(f"{name} with images of size {resized}", expected="a network for square images")
    interpolation = Resampling(processor.resample).name.lower()
    share = getattr(processor, "crop_pct", None)  # ConvNeXT's, whose size is that after the crop
    squeezes = "shortest_edge" not in resized or (share is not None and side >= _CONVNEXT_SQUEEZED)
    side = side if squeezes or share is None else int(side / share)
    statistics = tuple(processor.image_mean), tuple(processor.image_std)
    return ImageView(crop, interpolation, *statistics, squeezes, crop / side)


def _vision_config(name: str, options: Mapping[str, Any]) -> Any:
    """The configuration of a network, of its vision tower where it has others."""
    require_package("transformers", extra="transformers")
    from transformers import AutoConfig

    path = name.removeprefix(TRANSFORMERS)
    if is_architecture(path):
        return _loaded(path, lambda: AutoConfig.for_model(path, **options))
    config = _loaded(path, lambda: AutoConfig.from_pretrained(path, trust_remote_code=False))
    vision = getattr(config, "vision_config", config)
    vision.update(dict(options))
    return vision


def is_architecture(name: str) -> bool:
    """Whether a name, ``dinov2`` for instance, is of an architecture without weights."""
    require_package("transformers", extra="transformers")
    from transformers import CONFIG_MAPPING

    return name.removeprefix(TRANSFORMERS) in CONFIG_MAPPING


def _loaded(name: str, load: Callable[[], Any]) -> Any:
    """What a loader of transformers returns; its errors name the network."""
    place = "a folder with config.json, or OWNER/NAME of the Hugging Face hub and a connection or its cache"
    remedy = f"where there is a connection, `hf download {name}` brings it"
    errors, expected = (ImportError, KeyError, RuntimeError, TypeError, ValueError), "an image network of transformers"
    with (
        raised_as(RecipeError, f"{TRANSFORMERS}{name}", expected=f"{expected}, its options and its weights", on=errors),
        raised_as(MissingResourceError, f"{TRANSFORMERS}{name}", expected=place, remedy=remedy, on=OSError),
    ):
        return load()


def _grid_side(states: Tensor) -> int:
    """The side of the square of patches at the end of (B, T, F) tokens."""
    return isqrt(states.shape[1])
