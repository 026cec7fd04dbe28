"""Backbones from images to features: a small CNN, networks of timm and open_clip, the user's own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from hiertree.errors import MissingResourceError, OptionError, RecipeError, raised_as, require_package, some_of

from .clip import CLIP, HUB, LOCAL, is_described, load_clip, read_description, silence_logs
from .settings import ModelSettings, import_callable
from .weights import first_line, load_local_weights, read_weights

_CONFIG = "config"  # of an open_clip model whose options say all


class FeatureBackbone(nn.Module):
    """A network of timm, open_clip or the user, without a classifier."""

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
        if model.unlocked_groups is not None:
            lock: Any = network.lock
            with raised_as(RecipeError, "model.unlocked_groups", expected="as its lock takes", on=AssertionError):
                lock(unlocked_groups=model.unlocked_groups, freeze_bn_stats=True)
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
    return ":" in backbone and not backbone.startswith((CLIP, HUB))


def is_fetched(backbone: str) -> bool:
    """Whether a name is of a repository or folder that describes the network."""
    return backbone.startswith(HUB) or (backbone.startswith(CLIP) and is_described(backbone))


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
    elif is_fetched(model.backbone):
        architecture, description = f"{CLIP}{_CONFIG}", read_description(model.backbone.removeprefix(CLIP))["model_cfg"]
        options = {key: description[key] for key in ("embed_dim", "vision_cfg", "quick_gelu") if key in description}
    else:
        return model
    statistics = dict(zip(("mean", "std"), _declared_statistics(model), strict=True))
    return model.model_copy(update={"backbone": architecture, "backbone_options": options, **statistics})


def _declared_statistics(model: ModelSettings) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if model.mean is not None and model.std is not None:
        return model.mean, model.std
    if model.backbone == "small_cnn":
        return (0.5,), (0.5,)
    if is_imported(model.backbone):
        raise RecipeError(
            f"model.backbone={model.backbone} without model.mean and model.std",
            expected="those of the pixels in [0, 1] that it was trained with",
            remedy="set both; [0.485, 0.456, 0.406] and [0.229, 0.224, 0.225] are ImageNet's",
        )
    view = image_view(model)
    return tuple(view["mean"]), tuple(view["std"])


def image_view(model: ModelSettings) -> Mapping[str, Any]:
    """How the library of a backbone prepares images for its weights, as timm resolves it; ``fill`` colors a border."""
    if model.backbone.startswith(CLIP):
        return clip_view(model.backbone.removeprefix(CLIP), model.pretrained)
    view = find_timm_model(model.backbone).view
    return {**view, "fill": tuple(round(255 * value) for value in view["mean"])}


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


class TimmModel(NamedTuple):
    """A model of timm by name."""

    architecture: str  # its name in timm, perhaps with a tag of weights
    options: dict[str, Any]  # keyword options of that architecture
    view: Mapping[str, Any]  # input_size, interpolation, mean, std, crop_pct and crop_mode, as timm resolves them
    fixed: bool = False  # whether it takes images of its size only, unless built for another

    @property
    def size(self) -> int:
        """Height and width that it is made for."""
        return int(self.view["input_size"][-1])


def find_timm_model(name: str) -> TimmModel:
    """Look up a model in timm; for one on the hub, its ``config.json``."""
    import timm
    from timm.data.config import resolve_data_config

    architecture: str = name
    options: dict[str, Any] = {}
    if name.startswith(HUB):
        from timm.models import load_model_config_from_hf

        try:
            config, architecture, options = load_model_config_from_hf(name.removeprefix(HUB))
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise _unreachable(f"model.backbone={name} ({first_line(error)})", name) from error
    elif timm.is_model(name):
        pretrained_config = timm.get_pretrained_cfg(name)
        config = {} if pretrained_config is None else vars(pretrained_config)
    else:
        libraries = "hf-hub:OWNER/NAME, open_clip:NAME or MODULE:ATTRIBUTE"
        close = get_close_matches(name, timm.list_models(), n=5)
        raise RecipeError(
            f"model.backbone={name!r}",
            expected=f"small_cnn, the name of a timm model, {libraries}",
            remedy=f"timm has {some_of(close)}" if close else None,
        )
    resolve: Callable[..., dict[str, Any]] = resolve_data_config
    view = resolve(pretrained_cfg=config or {"input_size": None})  # timm asserts that it is not empty
    return TimmModel(architecture, dict(options or {}), view, bool(config.get("fixed_input_size")))


def build_timm_network(model: ModelSettings, *, channels: int, size: int | None, load_weights: bool) -> nn.Module:
    """Build a network of timm without its classifier, for images of a size; position embeddings are interpolated."""
    import timm

    timm_model = find_timm_model(model.backbone)
    options = {**timm_model.options, **model.backbone_options}
    _refuse_options_of_timm(options)
    resized = timm_model.fixed and size is not None and size != timm_model.size and "img_size" not in options
    if resized:
        options["img_size"] = size
    create: Callable[..., nn.Module] = partial(timm.create_model, num_classes=0, in_chans=channels, **options)
    pretrained = model.pretrained is True and load_weights
    file = Path(model.pretrained) if isinstance(model.pretrained, str) and load_weights else None
    try:
        if file and resized and not model.weights_names:  # timm itself interpolates what depends on the size
            weights = {"state_dict": read_weights(file), "source": ""}
            return create(timm_model.architecture, pretrained=True, pretrained_cfg_overlay=weights)
        with silence_logs():
            network = create(model.backbone if pretrained else timm_model.architecture, pretrained=pretrained)
    except (TypeError, ValueError, AssertionError, KeyError, OSError, RuntimeError) as error:
        reason = first_line(error)
        if pretrained and isinstance(error, (OSError, RuntimeError)) and "state_dict" not in str(error):
            raise _unreachable(f"weights of {model.backbone} ({reason})", model.backbone) from error
        setting = f"images.size={size} with {model.backbone}" if resized else f"model.backbone={model.backbone}"
        raise RecipeError(
            f"{setting} ({reason})",
            expected=f"its own size, {timm_model.size}, or another backbone"
            if resized
            else "options that the model has",
        ) from error
    if file:
        load_local_weights(network, model)
    return network


def _refuse_options_of_timm(options: dict[str, Any]) -> None:
    """Refuse options of timm's builder, not of the network: ``checkpoint_path`` would read any file, even pickles."""
    import timm

    if refused := sorted(signature(timm.create_model).parameters & options.keys()):
        problem, remedy = f"model.backbone_options: {', '.join(refused)}", "weights are named by model.pretrained"
        raise RecipeError(problem, expected="options of the network itself", remedy=remedy)


def _unreachable(problem: str, name: str) -> MissingResourceError:
    return MissingResourceError(
        problem,
        expected="a connection to the Hugging Face hub, or its cache",
        remedy=f"on a connected machine run `python -c \"import timm; timm.create_model('{name}', "
        'pretrained=True)"` and copy the cache, or name a local file: timm:NAME/FILE, or model.pretrained of a recipe',
    )


def build_clip_tower(model: ModelSettings, *, channels: int, size: int | None, load_weights: bool) -> nn.Module:
    """Build the image tower of a CLIP model for images of a size; position embeddings are interpolated.

    ``model.pretrained`` is one of open_clip's names for weights of that model, a file of the whole model, true for the
    weights of a repository or a folder, or false.
    """
    name, weights = model.backbone.removeprefix(CLIP), model.pretrained or None
    if name == _CONFIG:
        return _clip_tower_of(model.backbone_options, size)
    if weights is True and not is_described(name):
        require_package("open_clip", extra="clip")
        import open_clip

        tags = ", ".join(open_clip.list_pretrained_tags_by_model(name))
        expected = f"the name of its weights{f', one of {tags}' if tags else ''}, or a file"
        remedy = "name them by --set model.pretrained=NAME"
        raise RecipeError(f"model.pretrained=true with {model.backbone}", expected=expected, remedy=remedy)
    if isinstance(weights, str) and is_described(name):
        remedy = "set model.pretrained=true"
        raise RecipeError(f"model.pretrained={weights} with {model.backbone}", expected="its weights", remedy=remedy)
    if channels != 3 or model.backbone_options:
        wrong = f"images.channels={channels}" if channels != 3 else f"model.backbone_options={model.backbone_options}"
        raise RecipeError(f"{wrong} with {model.backbone}", expected="images.channels=3 and no options")
    with raised_as(RecipeError, f"model.backbone={model.backbone}", on=OptionError):
        if is_described(name) and not (weights and load_weights):
            return _clip_tower_of(read_description(name)["model_cfg"], size)
        clip = load_clip(name, str(weights) if weights and load_weights else None, "cpu", image_size=size)
    return cast(nn.Module, clip.visual.train())


def _clip_tower_of(options: Mapping[str, Any], size: int | None) -> nn.Module:
    """The image tower, without weights, of a model that is not one of open_clip's: of a repository or a folder."""
    require_package("open_clip", extra="clip")
    import open_clip

    architecture = dict(options.get("vision_cfg") or {})
    if any(isinstance(value, str) and value.startswith((HUB, LOCAL)) for value in architecture.values()):
        raise OptionError(f"vision_cfg {architecture}", expected="an architecture, which is fetched from nowhere")
    text = {"context_length": 8, "vocab_size": 8, "width": 8, "heads": 1, "layers": 1}  # which is left out
    config = {"embed_dim": options.get("embed_dim"), "vision_cfg": architecture, "text_cfg": text}
    config["quick_gelu"] = bool(options.get("quick_gelu", False))
    expected = "embed_dim and vision_cfg of open_clip"
    with tempfile.TemporaryDirectory() as folder, silence_logs(), raised_as(OptionError, expected, on=Exception):
        Path(folder, "open_clip_config.json").write_text(json.dumps({"model_cfg": config}), encoding="utf-8")
        clip = open_clip.create_model(
            f"{LOCAL}{folder}", load_weights=False, pretrained_text=False, force_image_size=size
        )
    return cast(nn.Module, clip.visual.train())


def clip_view(name: str, weights: str | bool) -> dict[str, Any]:
    """:func:`image_view` of a model's weights, as its ``PreprocessCfg`` says; by the defaults of others."""
    require_package("open_clip", extra="clip")
    import open_clip
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    if is_described(name):
        description = read_description(name)
        config, stated = description["model_cfg"], description.get("preprocess_cfg", {})
    else:
        config = open_clip.get_model_config(name) or {}
        stated = open_clip.get_pretrained_cfg(name, weights if isinstance(weights, str) else "")
    size = config.get("vision_cfg", {}).get("image_size", 224)
    view = merge_preprocess_dict(PreprocessCfg(), stated)
    interpolation = "bilinear" if view["interpolation"] == "bilinear" else "bicubic"  # also of "random"
    crop_mode = {"longest": "border"}.get(view["resize_mode"], view["resize_mode"])
    view |= {"input_size": (size, size) if isinstance(size, int) else size, "interpolation": interpolation}
    return {**view, "crop_pct": 1.0, "crop_mode": crop_mode, "fill": (view["fill_color"],) * 3}
