"""Networks of timm and of open_clip, with pretrained weights from the hub or from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from hiertree.errors import MissingResourceError, OptionError, RecipeError, raised_as, require_package, some_of
from hiertree.io.reading import read_tensors, reading_file

from ...clip_model import load_clip, silence_logs
from ..recipe.components import import_callable

if TYPE_CHECKING:
    from ..recipe.settings import ModelSettings

HUB = "hf-hub:"  # prefix of names for which timm reads the config.json of a repository
CLIP = "open_clip:"
_FORMATS = ".safetensors, .pth or .pt"
_WRAPPERS = ("state_dict", "model", "net_state")  # keys under which training scripts store weights


def load_local_weights(network: nn.Module, model: ModelSettings) -> None:
    """Load weights from a file, ignoring tensors that the network does not have, such as a classifier's."""
    weights, targets = read_renamed_weights(network, model), network.state_dict()
    path = Path(str(model.pretrained))
    fitting = {key: value for key, value in weights.items() if key in targets and value.shape == targets[key].shape}
    if missing := sorted(targets.keys() - fitting.keys()):
        others = some_of(sorted(weights.keys() - fitting.keys()), 3) or "none"
        raise RecipeError(
            f"model.pretrained={path} lacks {len(missing)} of {len(targets)} tensors ({some_of(missing, 3)}); "
            f"what it has beside them: {others}",
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


def _are_tensors(content: Any) -> bool:
    return isinstance(content, dict) and all(isinstance(value, Tensor) for value in content.values())


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file by name; from a pickle, only tensors are ever loaded."""
    if not path.is_file():
        raise MissingResourceError(f"model.pretrained={path}", expected=f"a {_FORMATS} file that exists")
    expected, remedy = f"a whole {_FORMATS} file that holds tensors only", "save the network's state_dict() alone"
    if path.suffix == ".safetensors":
        return read_tensors(path, expected=expected, remedy=remedy, kind=RecipeError)
    with reading_file(path, expected=expected, remedy=remedy, kind=RecipeError):
        content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, dict):
        content = next((content[key] for key in _WRAPPERS if isinstance(content.get(key), dict)), content)
    if not _are_tensors(content):
        raise RecipeError(f"model.pretrained={path}", expected="tensors by name, as state_dict() gives them")
    return {str(name).removeprefix("module."): tensor for name, tensor in content.items()}


class ImageView(NamedTuple):
    """How a library prepares the images of a network."""

    size: int | Sequence[int]  # of the square after the crop, or its height and width
    interpolation: str
    mean: tuple[float, ...]  # of pixels in [0, 1], by channel
    std: tuple[float, ...]
    squeezes: bool  # the whole image to a square, before the central crop
    crop: float = 1.0  # size over the side before the central crop
    border: list[int] | None = None  # color that completes the square of the whole image


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
        libraries = "hf-hub:OWNER/NAME, open_clip:NAME, transformers:NAME or MODULE:ATTRIBUTE"
        close = timm.list_models(f"*{name[:6]}*")
        raise RecipeError(
            f"model.backbone={name!r}",
            expected=f"small_cnn, the name of a timm model, {libraries}",
            remedy=f"timm has {some_of(close)}" if close else None,
        )
    resolve: Callable[..., dict[str, Any]] = resolve_data_config
    view = resolve(pretrained_cfg=config or {"input_size": None})  # timm asserts that it is not empty
    return TimmModel(architecture, dict(options or {}), view, bool(config.get("fixed_input_size")))


def timm_view(name: str) -> ImageView:
    """How the images of a model's weights are prepared."""
    view = find_timm_model(name).view
    border = [round(255 * value) for value in view["mean"]] if view["crop_mode"] == "border" else None
    statistics = tuple(view["mean"]), tuple(view["std"])
    is_squashed = view["crop_mode"] == "squash"
    return ImageView(view["input_size"][-2:], view["interpolation"], *statistics, is_squashed, view["crop_pct"], border)


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


def first_line(error: BaseException) -> str:
    """The first line of a library's error message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def build_clip_tower(model: ModelSettings, *, channels: int, size: int | None, load_weights: bool) -> nn.Module:
    """Build the image tower of a CLIP model for images of a size; position embeddings are interpolated.

    ``model.pretrained`` is one of open_clip's names for weights of that model, a file of the whole model, or false.
    """
    require_package("open_clip", extra="clip")
    import open_clip

    name = model.backbone.removeprefix(CLIP)
    if model.pretrained is True:
        tags = ", ".join(open_clip.list_pretrained_tags_by_model(name))
        expected = f"the name of its weights{f', one of {tags}' if tags else ''}, or a file"
        remedy = "name them by --set model.pretrained=NAME"
        raise RecipeError(f"model.pretrained=true with {model.backbone}", expected=expected, remedy=remedy)
    if channels != 3 or model.backbone_options:
        wrong = f"images.channels={channels}" if channels != 3 else f"model.backbone_options={model.backbone_options}"
        raise RecipeError(f"{wrong} with {model.backbone}", expected="images.channels=3 and no options")
    with raised_as(RecipeError, f"model.backbone={model.backbone}", on=OptionError):
        clip = load_clip(name, model.pretrained or None if load_weights else None, "cpu", image_size=size)
    return cast(nn.Module, clip.visual.train())


def clip_view(name: str, weights: str | bool) -> ImageView:
    """How the images of named weights are prepared, as open_clip's ``PreprocessCfg`` says; its defaults for others."""
    require_package("open_clip", extra="clip")
    import open_clip
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    size = (open_clip.get_model_config(name) or {}).get("vision_cfg", {}).get("image_size", 224)
    tag = weights if isinstance(weights, str) else ""
    view = merge_preprocess_dict(PreprocessCfg(), open_clip.get_pretrained_cfg(name, tag))
    interpolation = "bilinear" if view["interpolation"] == "bilinear" else "bicubic"  # also of "random"
    border = [view["fill_color"]] * 3 if view["resize_mode"] == "longest" else None
    statistics = tuple(view["mean"]), tuple(view["std"])
    return ImageView(size, interpolation, *statistics, view["resize_mode"] == "squash", border=border)
