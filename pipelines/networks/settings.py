"""The settings of a network: how an image becomes its input, of what it is made, and code of one's own by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from hiertree.errors import MissingResourceError, RecipeError, raised_as

from ..settings import Section, custom_error

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Statistics = tuple[Annotated[float, Field(allow_inf_nan=False)], ...]
LARGEST_SIDE = 8192  # pixels; an RGB image of this side takes 200 MB
Side = Annotated[int, Field(ge=1, le=LARGEST_SIDE)]
Byte = Annotated[int, Field(ge=0, le=255)]
Interpolation: TypeAlias = Literal["bilinear", "bicubic"]
Precision: TypeAlias = Literal["32-true", "bf16-mixed", "16-mixed"]


class ViewSettings(Section):
    """How an image becomes the square that a network sees."""

    size: Side = 32
    """height and width in pixels"""
    channels: Literal[1, 3] = 3
    """1 (gray) or 3 (RGB)"""
    resize: Side | tuple[Side, Side] | None = None
    """at evaluation: shorter side, or height and width, before the central crop; null squeezes the whole image into the
    square"""
    interpolation: Interpolation = "bilinear"
    """at evaluation: how images are resized, `bilinear` or `bicubic`; always antialiased, as by Pillow"""
    border: tuple[Byte, ...] | None = None
    """at evaluation: color, by channel from 0 to 255, that completes the square; `resize` is then the longer side; null
    adds no border"""
    exif_orientation: bool = False
    """turn photographs upright as their EXIF says; false reads the pixels as stored, as the papers' code does"""

    @model_validator(mode="after")
    def _check_border(self) -> ViewSettings:
        if self.border is not None and (len(self.border) != self.channels or not isinstance(self.resize, int)):
            problem = f"a border needs {self.channels} numbers, one per channel, and resize, the longer side"
            raise custom_error("border", problem)
        return self

    @property
    def mode(self) -> Literal["L", "RGB"]:
        """Pillow's name of the channels."""
        return "L" if self.channels == 1 else "RGB"

    @property
    def resized_sides(self) -> tuple[int, ...]:
        """The shorter side, or height and width, before the central crop; none where there is no crop."""
        return self.resize if isinstance(self.resize, tuple) else tuple(filter(None, [self.resize]))


class Preprocessing(ViewSettings):
    """The path of an image to a trained network, and of the network's output to an embedding."""

    size: Side
    """height and width in pixels"""
    channels: Literal[1, 3]
    """1 (gray) or 3 (RGB)"""
    resize: Side | tuple[Side, Side] | None
    """shorter side, or height and width, before the central crop; null squeezes it into the square"""
    antialias: Literal[True] = True
    """whether resizing averages over all pixels, as Pillow does"""
    mean: Statistics
    """subtracted from pixels in [0, 1], by channel"""
    std: tuple[Positive, ...]
    """by which they are then divided"""
    scales: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """factors of the size whose embeddings are averaged"""
    precision: Precision
    """of the network's arithmetic, as Lightning Fabric names it"""

    @model_validator(mode="after")
    def _check_statistics(self) -> Preprocessing:
        if not len(self.mean) == len(self.std) == self.channels:
            raise custom_error("statistics", f"expected {self.channels} values in mean and in std, one per channel")
        return self


class ModelSettings(Section):
    """Backbone → pooling → LayerNorm → linear projection → unit length."""

    backbone: str = "small_cnn"
    """`small_cnn` (built in, for tiny images), the name of a timm model, `hf-hub:OWNER/NAME` of one on the hub,
    `open_clip:NAME` of an image tower, `open_clip:hf-hub:OWNER/NAME` or `open_clip:local-dir:FOLDER` of one on the hub
    or in a folder, or `module:attribute` of your own"""
    backbone_options: dict[str, Any] = Field(default={})
    """keyword options of a timm model or your own callable"""
    width: Count = 32
    """channels of the first stage of `small_cnn`"""
    pretrained: bool | str = False
    """timm's weights or those of the repository or folder (true), open_clip's by name, a local `.safetensors`, `.pth`
    or `.pt` file, or none (false)"""
    weights_names: str | None = None
    """`module:attribute`, a function of (tensors by name, network) that gives the tensors of a local file the names of
    the network: your own, `timm.models:remap_state_dict`, which goes by their order, or a `checkpoint_filter_fn` of
    timm"""
    mean: Statistics | None = None
    """of pixels in [0, 1], by channel, subtracted from them; null: as the weights were trained"""
    std: tuple[Positive, ...] | None = None
    """by which they are then divided"""
    pooling: Literal["gem", "average", "max", "backbone"] = "gem"
    """`gem`, `average` or `max` over the feature map, or `backbone`: what the network does itself"""
    layer_norm: bool = True
    """normalize the pooled features, without affine parameters"""
    l2_norm: bool = False
    """instead scale the pooled features to unit length, as networks for landmarks do"""
    embedding_size: Count | None = 128
    """dimensions of an embedding; null: the features as they are, without a projection"""
    projection_bias: bool = True
    """whether the linear projection adds a bias"""
    projection_init: Literal["random", "pca", "pca_whitened"] = "random"
    """`random`, or the principal directions of the features of training images before the first step (`pca`), each
    scaled to unit variance with `pca_whitened`; the mean of the features goes into the bias if there is one"""
    projection_images: Count = 20_000
    """training images for that PCA, drawn with the seed; all of them if there are fewer"""
    freeze_backbone_epochs: Annotated[int, Field(ge=0)] = 0
    """epochs at the start in which only head and loss learn"""
    unlocked_groups: Annotated[int, Field(ge=0)] | None = None
    """groups of layers of an open_clip tower that learn, counted from its end as by its `lock`: 1 its projection, 2 its
    last block, too; null: all"""
    gradient_checkpointing: bool = False
    """compute most activations of the backbone again in the backward pass instead of keeping them: less memory for one
    more forward pass. BatchNorm must be frozen"""
    freeze_batch_norm: bool = False
    """use the backbone's stored BatchNorm statistics in training too"""
    sync_batch_norm: bool = False
    """with several processes, normalize over the whole batch and not over each process's part; GPUs only"""

    @field_validator("backbone")
    @classmethod
    def _without_timm(cls, backbone: str) -> str:
        """The name as timm has it, which ``embed`` and ``load_model`` write with the library's name before it."""
        return backbone.removeprefix("timm:")

    @model_validator(mode="after")
    def _check(self) -> ModelSettings:
        if self.layer_norm and self.l2_norm:
            raise custom_error("two_norms", "layer_norm and l2_norm exclude each other: set one to false")
        if self.embedding_size is None and (self.projection_init != "random" or self.freeze_backbone_epochs):
            problem = "projection_init and freeze_backbone_epochs are for a projection: set an embedding_size"
            raise custom_error("no_projection", problem)
        if len(self.mean or ()) != len(self.std or ()) or (self.mean is not None and len(self.mean) not in (1, 3)):
            raise custom_error("statistics", "mean and std go together, with one value per channel each")
        if self.unlocked_groups is not None and not self.backbone.startswith("open_clip:"):
            raise custom_error("unlocked_groups", "unlocked_groups is for a backbone of open_clip")
        if self.weights_names and (self.pretrained is True or self.backbone.startswith("open_clip:")):
            problem = "weights_names is for a local file, named by pretrained, of another backbone than open_clip's"
            raise custom_error("weights_names", problem)
        return self


def import_callable(name: str, *, setting: str) -> Callable[..., Any]:
    """Import ``module:attribute``. This runs code, so the name must come from the user, never from a folder."""
    module, _, attribute = name.partition(":")
    if not (all(name.isidentifier() for name in module.split(".")) and attribute.isidentifier()):
        raise RecipeError(f"{setting}={name!r}", expected="module:attribute, such as my_networks:tower")
    expected = f"a module {module} that Python can import"
    remedy = "install it, or put its folder on the path: PYTHONPATH=FOLDER hiertree …"
    errors = (ImportError, SyntaxError)
    with raised_as(MissingResourceError, f"{setting}={name}", expected=expected, remedy=remedy, on=errors):
        imported = import_module(module)
    function: Callable[..., Any] | None = getattr(imported, attribute, None)
    if not callable(function):
        source = getattr(imported, "__file__", None) or "built into Python"
        problem = f"{setting}={name}, where {module} ({source}) has no callable {attribute}"
        raise RecipeError(problem, expected="a class or a function")
    return function
