"""Backbones from images to features: a small CNN, networks of timm, open_clip and transformers, the user's own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hiertree.errors import RecipeError, raised_as

from ..recipe.components import import_callable
from .pretrained_backbones import (
    CLIP,
    HUB,
    ImageView,
    build_clip_tower,
    build_timm_network,
    clip_view,
    find_timm_model,
    load_local_weights,
    timm_view,
)
from .transformers_networks import (
    TRANSFORMERS,
    build_transformers_network,
    is_architecture,
    transformers_options,
    transformers_view,
)

if TYPE_CHECKING:
    from ..recipe.settings import ModelSettings


class FeatureBackbone(nn.Module):
    """A network of timm, open_clip, transformers or the user, without a classifier."""

    def __init__(self, network: nn.Module, *, own_pooling: bool, features: int) -> None:
        super().__init__()
        self.network, self.own_pooling, self.num_features = network, own_pooling, features

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) images → (B, F) vectors or (B, F, h, w) maps."""
        compute = self.network if self.own_pooling else getattr(self.network, "forward_features", self.network)
        features: Tensor = compute(images)
        expected = 2 if self.own_pooling else 4
        if features.ndim != expected or features.shape[1] != self.num_features:
            raise RecipeError(
                f"model.pooling: this backbone returns features of shape {tuple(features.shape)}",
                expected=f"(B, {self.num_features}{'' if self.own_pooling else ', h, w'})",
                remedy=f"set model.pooling={'gem' if self.own_pooling and features.ndim == 4 else 'backbone'}",
            )
        return features


def count_features(network: nn.Module, *, channels: int, size: int) -> int:
    """The number of features that a network gives an image, found by giving it one."""
    was_training, shape = network.training, (1, channels, size, size)
    problem, expected = "model.backbone: the network fails", f"one that takes images of shape {shape}"
    with raised_as(RecipeError, problem, expected=expected, on=Exception), torch.inference_mode():
        features = network.eval()(torch.zeros(shape))
    network.train(was_training)
    if not isinstance(features, Tensor) or features.ndim not in (2, 4):
        form = getattr(features, "shape", type(features).__name__)
        raise RecipeError(f"model.backbone: features {form}", expected="vectors (B, F) or maps (B, F, h, w)")
    return features.shape[1]


class SmallCNN(nn.Sequential):
    """Four 3×3 convolutions with BatchNorm and ReLU, halving the map after the first three: for images of 16–64 px."""

    def __init__(self, channels: int, width: int) -> None:
        widths = [channels, width, 2 * width, 4 * width, 4 * width]
        layers: list[nn.Module] = []
        for in_channels, out_channels in pairwise(widths):
            convolution = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        super().__init__(*layers[:-1])
        self.num_features = widths[-1]


def build_backbone(
    model: ModelSettings,
    *,
    channels: int,
    size: int | None = None,
    load_weights: bool = True,
    factory: Callable[..., nn.Module] | None = None,
) -> nn.Module:
    """Build the backbone that a recipe asks for, for images of a size; ``factory`` in place of ``model.backbone``."""
    options: Any = {"channels": channels, "size": size, "load_weights": load_weights}
    if factory is not None or is_imported(model.backbone):
        factory = factory or import_callable(model.backbone, setting="model.backbone")
        network = _build_network(model, factory, load_weights=load_weights)
    elif model.backbone == "small_cnn":
        network = _small_cnn(model, channels)
    elif model.backbone.startswith(CLIP):
        network = build_clip_tower(model, **options)
    elif model.backbone.startswith(TRANSFORMERS):
        network = build_transformers_network(model, **options)
    else:
        network = build_timm_network(model, **options)
    if model.gradient_checkpointing:
        _recompute_activations(network, model)
    if isinstance(network, SmallCNN):
        return network
    pooled = "head_hidden_size" if model.pooling == "backbone" else ""  # of timm, where it differs from its maps
    names = (pooled, "num_features", "output_dim")
    features = next(filter(None, (getattr(network, name, None) for name in names)), None)
    if not isinstance(features, int):
        features = count_features(network, channels=channels, size=size or 224)
    return FeatureBackbone(network, own_pooling=model.pooling == "backbone", features=features)


def is_imported(backbone: str) -> bool:
    """Whether a name is ``module:attribute``."""
    return ":" in backbone and not backbone.startswith((CLIP, HUB, TRANSFORMERS))


def is_fetched(backbone: str) -> bool:
    """Whether a name is of a repository or folder that describes the network."""
    return backbone.startswith(HUB) or (backbone.startswith(TRANSFORMERS) and not is_architecture(backbone))


def input_statistics(model: ModelSettings, *, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation by which a backbone normalizes pixels in [0, 1]."""
    mean, std = _declared_statistics(model)
    if channels == 1 and len(mean) == 3:
        return (sum(mean) / 3,), (sum(std) / 3,)
    if model.backbone == "small_cnn" and len(mean) == 1:
        return mean * channels, std * channels
    if len(mean) != channels:
        raise RecipeError(f"model.mean of {len(mean)} values", expected=f"{channels}, one per channel")
    return mean, std


def portable(model: ModelSettings) -> ModelSettings:
    """Settings that build the same network without the hub."""
    if model.backbone.startswith(HUB):
        timm_model = find_timm_model(model.backbone)
        architecture, options = timm_model.architecture, {**timm_model.options, **model.backbone_options}
    elif model.backbone.startswith(TRANSFORMERS):
        architecture, options = transformers_options(model.backbone, model.backbone_options)
    else:
        return model
    statistics = dict(zip(("mean", "std"), _declared_statistics(model), strict=True))
    return model.model_copy(update={"backbone": architecture, "backbone_options": options, **statistics})


def _declared_statistics(model: ModelSettings) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if model.mean is not None and model.std is not None:
        return model.mean, model.std
    if model.backbone == "small_cnn":
        return (0.5,), (0.5,)
    if is_imported(model.backbone) or (model.backbone.startswith(TRANSFORMERS) and not is_fetched(model.backbone)):
        raise RecipeError(
            f"model.backbone={model.backbone} without model.mean and model.std",
            expected="those of the pixels in [0, 1] that it was trained with",
            remedy="set both; [0.485, 0.456, 0.406] and [0.229, 0.224, 0.225] are ImageNet's",
        )
    view = image_view(model)
    return view.mean, view.std


def image_view(model: ModelSettings) -> ImageView:
    """How the library of a backbone prepares images for its weights."""
    if model.backbone.startswith(CLIP):
        return clip_view(model.backbone.removeprefix(CLIP), model.pretrained)
    return transformers_view(model.backbone) if model.backbone.startswith(TRANSFORMERS) else timm_view(model.backbone)


def _small_cnn(model: ModelSettings, channels: int) -> SmallCNN:
    if model.pretrained or model.pooling == "backbone" or model.backbone_options:
        problem, expected = "model.backbone=small_cnn", "no weights, no options, and pooling gem, average or max"
        raise RecipeError(problem, expected=expected)
    return SmallCNN(channels, model.width)


def _build_network(model: ModelSettings, build: Callable[..., Any], *, load_weights: bool) -> nn.Module:
    if model.pretrained is True:
        expected = "a local file, or false: your own callable loads what it wants"
        raise RecipeError(f"model.pretrained=true with {model.backbone}", expected=expected)
    setting, expected = f"model.backbone={model.backbone}", "a callable of the options in model.backbone_options"
    with raised_as(RecipeError, setting, expected=expected, on=TypeError):
        network = build(**model.backbone_options)
    if not isinstance(network, nn.Module):
        raise RecipeError(f"{setting} returns {type(network).__name__}", expected="a torch.nn.Module")
    if model.pretrained and load_weights:
        load_local_weights(network, model)
    return network


def _recompute_activations(network: nn.Module, model: ModelSettings) -> None:
    """Turn on gradient checkpointing: most activations are computed again in the backward pass."""
    setting = f"model.gradient_checkpointing with {model.backbone}"
    if not model.freeze_batch_norm and any(map(is_batch_norm, network.modules())):
        problem, remedy = f"{setting}: BatchNorm would count each batch twice", "set model.freeze_batch_norm=true"
        raise RecipeError(problem, expected="a forward pass that can be repeated", remedy=remedy)
    expected, remedy = "a model that supports it, such as resnet50", "set training.accumulate=two_pass instead"
    with raised_as(RecipeError, setting, expected=expected, remedy=remedy, on=(AttributeError, AssertionError)):
        network.set_grad_checkpointing(True)  # type: ignore[operator]  # timm types no attributes


def is_batch_norm(module: nn.Module) -> bool:
    """Whether a module normalizes by batch statistics and keeps running ones."""
    return isinstance(module, nn.modules.batchnorm._BatchNorm)
