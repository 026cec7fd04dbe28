"""Networks that turn a batch of images into feature maps: a small CNN, and those of timm."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from hiertree.errors import MissingResourceError, RecipeError

if TYPE_CHECKING:
    from ..recipe.settings import ModelSettings

_FORMATS = ".safetensors, .pth or .pt"
_WRAPPERS = ("state_dict", "model", "net_state")  # keys under which training scripts store weights
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class SmallCNN(nn.Sequential):
    """Four 3×3 convolutions with BatchNorm and ReLU, halving the map after the first three: for images of 16–64 px.

    Args:
        channels: of the images.
        width: channels of the first stage; the others have 2, 4 and 4 times as many.
    """

    def __init__(self, channels: int, width: int) -> None:
        widths = [channels, width, 2 * width, 4 * width, 4 * width]
        layers: list[nn.Module] = []
        for stage, (before, after) in enumerate(pairwise(widths)):
            convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
            if stage < 3:
                layers.append(nn.MaxPool2d(2))
        super().__init__(*layers)
        self.num_features = widths[-1]


class TimmBackbone(nn.Module):
    """A timm model without its classifier.

    Args:
        network: from ``timm.create_model(…, num_classes=0)``.
        own_pooling: return the network's own pooled vectors instead of maps.
    """

    def __init__(self, network: nn.Module, *, own_pooling: bool) -> None:
        super().__init__()
        self.network = network
        self.own_pooling = own_pooling
        self.num_features = int(network.num_features)  # type: ignore[arg-type]  # timm types no attributes

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) images → (B, F) vectors or (B, F, h, w) maps."""
        if self.own_pooling:
            features: Tensor = self.network(images)
            return features
        maps: Tensor = self.network.forward_features(images)  # type: ignore[operator]
        if maps.ndim != 4 or maps.shape[1] != self.num_features:
            raise RecipeError(
                f"model.pooling: this backbone returns features of shape {tuple(maps.shape)}",
                expected=f"maps (B, {self.num_features}, h, w)",
                remedy="set model.pooling=backbone",
            )
        return maps


def build_backbone(model: ModelSettings, *, channels: int, load_weights: bool = True) -> nn.Module:
    """Build the backbone that a recipe asks for.

    Args:
        model: the recipe's section.
        channels: of the images.
        load_weights: False skips loading pretrained weights, when others will replace them.

    Raises:
        RecipeError: no such model, or an option that this backbone does not have.
        MissingResourceError: the pretrained weights are absent.
    """
    if model.backbone != "small_cnn":
        backbone = _timm_backbone(model, channels=channels, load_weights=load_weights)
        if model.gradient_checkpointing:
            _recompute_activations(backbone.network, model)
        return backbone
    if model.gradient_checkpointing:
        raise _no_checkpointing(model)
    if model.pretrained or model.pooling == "backbone":
        raise RecipeError(
            f"model: small_cnn with pretrained={model.pretrained}, pooling={model.pooling}",
            expected="no pretrained weights and pooling gem, average or max",
        )
    return SmallCNN(channels, model.width)


def input_statistics(model: ModelSettings, *, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation by which a backbone normalizes pixels in [0, 1]."""
    if model.backbone == "small_cnn":
        return (0.5,) * channels, (0.5,) * channels
    import timm

    settings = timm.get_pretrained_cfg(model.backbone)
    mean, std = (settings.mean, settings.std) if settings is not None else (IMAGENET_MEAN, IMAGENET_STD)
    if channels == 1:
        return (sum(mean) / 3,), (sum(std) / 3,)
    return tuple(mean), tuple(std)


def _timm_backbone(model: ModelSettings, *, channels: int, load_weights: bool) -> TimmBackbone:
    import timm

    if not timm.is_model(model.backbone):
        close = timm.list_models(f"*{model.backbone[:6]}*")[:5]
        raise RecipeError(
            f"model.backbone={model.backbone!r}",
            expected="small_cnn or the name of a timm model" + (f", {', '.join(close)} for instance" if close else ""),
        )
    pretrained = model.pretrained is True and load_weights
    try:
        network = timm.create_model(model.backbone, pretrained=pretrained, num_classes=0, in_chans=channels)
    except (OSError, RuntimeError) as error:
        if not pretrained:
            raise
        raise MissingResourceError(
            f"weights of {model.backbone} ({error})".splitlines()[0],
            expected="a connection to the Hugging Face hub, or its cache",
            remedy=f"on a connected machine run `python -c \"import timm; timm.create_model('{model.backbone}', "
            'pretrained=True)"` and copy the cache, or set model.pretrained to a local file',
        ) from error
    if isinstance(model.pretrained, str) and load_weights:
        _load_local(network, Path(model.pretrained))
    return TimmBackbone(network, own_pooling=model.pooling == "backbone")


def _recompute_activations(network: nn.Module, model: ModelSettings) -> None:
    """Turn on gradient checkpointing: most activations are computed again in the backward pass."""
    if not model.freeze_batch_norm and any(map(is_batch_norm, network.modules())):
        raise RecipeError(
            "model.gradient_checkpointing with BatchNorm, whose statistics would count each batch twice",
            expected="a forward pass that can be repeated",
            remedy="set model.freeze_batch_norm=true",
        )
    try:
        network.set_grad_checkpointing(True)  # type: ignore[operator]  # timm types no attributes
    except (AttributeError, AssertionError) as error:
        raise _no_checkpointing(model) from error


def _no_checkpointing(model: ModelSettings) -> RecipeError:
    return RecipeError(
        f"model.gradient_checkpointing with {model.backbone}",
        expected="a timm model that supports gradient checkpointing, resnet50 or vit_base_patch16_224 for instance",
        remedy="set it to false; training.accumulate=two_pass needs less memory with any backbone",
    )


def is_batch_norm(module: nn.Module) -> bool:
    """Whether a module normalizes by batch statistics and keeps running ones."""
    return isinstance(module, nn.modules.batchnorm._BatchNorm)


def _load_local(network: nn.Module, path: Path) -> None:
    """Load weights from a file, ignoring tensors that the network does not have, such as a classifier's."""
    if not path.is_file():
        raise MissingResourceError(f"model.pretrained={path}", expected=f"a {_FORMATS} file that exists")
    weights, wanted = _read_weights(path), network.state_dict()
    fitting = {key: value for key, value in weights.items() if key in wanted and value.shape == wanted[key].shape}
    missing = sorted(wanted.keys() - fitting.keys())
    if missing:
        raise RecipeError(
            f"model.pretrained={path} lacks {len(missing)} of {len(wanted)} tensors ({', '.join(missing[:3])}, …)",
            expected="the weights of the backbone named, of the same shapes",
        )
    network.load_state_dict(fitting)


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file by name; from a pickle, only tensors are ever loaded."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

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
