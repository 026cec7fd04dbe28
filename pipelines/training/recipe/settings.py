"""The schema of an experiment, one frozen, checked value: each key is declared once, with type, default and meaning.

It has plain sections, and components (``data``, ``loss`` and others) that name a callable.

``scripts/recipe_keys.py`` writes them into docs/recipe_keys.csv.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, model_validator

from hiertree.errors import RecipeError
from hiertree.evaluation_options import Conventions

from ...networks.clip import TEMPLATES
from ...networks.settings import Count, ModelSettings, Positive, Precision, Side, ViewSettings
from ...settings import Section, custom_error
from .components import Component, ComponentKind, loaders, losses, optimizers, samplers, schedules, transforms

Fraction = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


_METRICS: Any = Conventions.__dataclass_fields__["metrics"]


class DataSection(Component):
    """A data set, and perhaps another tree over its finest classes."""

    above: str | None = None
    """levels above the finest classes: a table whose last column is the class, or a ready tree, such as
    `order-family` of `cub`"""


DATA = ComponentKind(
    loaders,
    {"split"},
    required={"split"},
    base=DataSection,
    guarded={"huggingface"},  # which may download
    renamed={"split_column": "split"},
)
SAMPLER = ComponentKind(samplers, {"paths", "seed"}, required={"paths"})
LOSS = ComponentKind(
    losses,
    {"num_classes", "embedding_size", "level_sizes", "num_levels", "class_paths"},
    arguments=frozenset({"embeddings", "paths"}),
)


class GlyphAugmentation(Section):
    """Small rotations, scalings, shears and shifts, as handwriting varies. Never a flip."""

    name: Literal["glyph"] = "glyph"
    degrees: NonNegative = 10.0
    """largest rotation, either way"""
    scale: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """largest change of size, as a fraction"""
    shear: NonNegative = 0.1
    """largest shear, as a fraction of the side"""
    shift: Fraction = 0.08
    """largest shift, as a fraction of the side"""


class PhotoAugmentation(Section):
    """A random crop of random area and aspect ratio, resized, and a left-right flip."""

    name: Literal["photo"] = "photo"
    smallest_area: Annotated[float, Field(gt=0, le=1)] = 0.2
    """smallest area of the crop, as a fraction"""
    widest_aspect: Annotated[float, Field(ge=1)] = 4 / 3
    """largest width over height, or height over width"""
    flip: bool = True
    """mirror every second image"""


class NoAugmentation(Section):
    """Train on the evaluation's view of each image."""

    name: Literal["none"] = "none"


_DECLARED: dict[str, type[Section]] = {"glyph": GlyphAugmentation, "photo": PhotoAugmentation, "none": NoAugmentation}
_TRANSFORM = ComponentKind(transforms, arguments=frozenset({"image"}))
_AUGMENTATION = ComponentKind(transforms, arguments=_TRANSFORM.arguments, declared=_DECLARED)
Transforms: TypeAlias = tuple[SerializeAsAny[Section], ...]


def _augmentation(value: Any, info: ValidationInfo) -> Section | Transforms:
    """The section of one augmentation, or of each of a list of transforms."""
    if isinstance(value, (list, tuple)):
        return tuple(_TRANSFORM.validate(transform, info) for transform in value)
    return _AUGMENTATION.validate(value, info)


class ImageSettings(ViewSettings):
    """How an image file becomes a tensor."""

    cache: bool = True
    """decode every image once and keep the evaluation's view of it, in memory or in `cache_folder`"""
    cache_folder: str | None = None
    """folder of memory-mapped files with those views, which runs share; null keeps them in memory, for tiny images"""
    cache_size: Side | None = None
    """height and width of the views kept; null means `size`. Larger views keep detail for crops"""
    augmentation: Annotated[SerializeAsAny[Section] | Transforms, BeforeValidator(_augmentation)] = GlyphAugmentation()
    """what training does to an image: `name` is `glyph`, `photo`, `none`, a transform of torchvision's v2,
    RandomResizedCrop for instance, with its options, or `module:attribute`; or a list of transforms"""
    max_pixels: Count | None = None
    """width × height above which an image is refused, for it may fill the memory; null: 89 million, as Pillow"""
    workers: Annotated[int, Field(ge=0)] = 0
    """processes that decode; 0 decodes in the training process"""
    on_bad_image: Literal["error", "skip"] = "error"
    """`error` if an image does not decode, or `skip`: every image is decoded once before the run, and those that fail
    are left out and listed in `metrics.json`"""

    @property
    def largest_view(self) -> int:
        """The side of the largest view that is made of an image."""
        return max(self.size, *self.resized_sides, self.cache_size or 0)


class TextSettings(Section):
    """Labels as texts, which stand beside the images of each batch and are embedded into the same space."""

    encoder: str
    """what embeds them and does not learn: `open_clip:NAME/WEIGHTS` or another name of such a model, or
    `sentence-transformers:NAME`, a folder or a model of the hub. Unless `model.embedding_size` is null, a linear
    projection of its vectors learns"""
    templates: tuple[str, ...] = TEMPLATES
    """texts with `{}`, where the label goes; the mean direction over them counts"""
    levels: tuple[str, ...] | None = None
    """levels whose labels are texts; null: all"""


class OptimizerSettings(Component):
    """One optimizer for backbone, head, projection of texts, and what the loss learns (its proxies)."""

    name: str = "adam"
    """an optimizer of `torch.optim` in lower case, with its options (`sgd` has momentum 0.9, Nesterov's), or
    `module:attribute`"""
    lr: Positive = 1e-3
    """learning rate of the backbone, and of the others unless they have their own"""
    head_lr: Positive | None = None
    """learning rate of the head; null means `lr`"""
    texts_lr: Positive | None = None
    """learning rate of the projection of texts; null means `lr`"""
    proxies_lr: Positive | None = None
    """learning rate of the loss's parameters; null means `lr`"""
    weight_decay: NonNegative = 0.0
    """of backbone and head"""
    proxies_weight_decay: NonNegative = 0.0
    """of the loss's parameters"""
    clip_norm: Positive | None = None
    """largest norm of the gradient; null does not clip"""


OPTIMIZER = ComponentKind(
    optimizers,
    {"params", "lr", "weight_decay", "foreach", "fused", "maximize", "capturable", "differentiable"},
    required={"params", "lr"},
    base=OptimizerSettings,
    default="adam",
)


class AnySchedule(Component):
    """How learning rates change, step by step."""

    name: str = "cosine"
    """`cosine` falls to `final` along half a cosine, `step` falls at the milestones, `constant` stays; a class of
    `torch.optim.lr_scheduler` with its options; or `module:attribute`"""
    warmup_epochs: NonNegative = 0.0
    """epochs in which the rates first rise linearly from 0"""
    hold_epochs: NonNegative = 0.0
    """epochs in which the rates stand still before the schedule begins; it keeps its length and is cut at the end"""

    @property
    def ends_with_the_run(self) -> bool:
        """Whether the learning rates depend on the number of epochs."""
        return self.name == "cosine" or self.takes("total_steps")


class TorchSchedule(AnySchedule):
    """A schedule of torch, or the user's own of that kind."""

    name: str
    unit: Literal["epoch", "step"] = "epoch"
    """of torch's schedules: what they count"""


class ScheduleSettings(AnySchedule):
    """A factor on the learning rates."""

    name: Literal["cosine", "step", "constant"] = "cosine"
    final: Fraction = 0.0
    """fraction of the learning rate at the end"""
    head_final: Fraction | None = None
    """the same for the head; null means `final`"""
    proxies_final: Fraction | None = None
    """the same for the loss's parameters; null means `final`"""
    milestones: tuple[Positive, ...] = ()
    """of `step`: after each of these epochs every learning rate is multiplied by `factor`; twice if listed twice"""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """of `step`"""

    @model_validator(mode="after")
    def _require_milestones_of_steps(self) -> ScheduleSettings:
        if (self.name == "step") != bool(self.milestones):
            raise custom_error("milestones", "name: step and milestones, [40, 70] for instance, go together")
        return self


SCHEDULE = ComponentKind(
    schedules,
    {"optimizer", "last_epoch", "total_steps", "epochs", "steps_per_epoch"},
    required={"optimizer"},
    declared=dict.fromkeys(("cosine", "step", "constant"), ScheduleSettings),
    base=TorchSchedule,
    default="cosine",
)


class TrainingSettings(Section):
    """How long, on what, and how often a checkpoint is kept."""

    epochs: Annotated[int, Field(ge=0)]
    """passes over the sampler; 0 measures the network untrained"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes a GPU if there is one; `cuda` requires one"""
    devices: Count | Literal["auto"] = 1
    """processes that share every batch, one GPU of this machine each (without GPUs, that many CPU processes); `auto`
    takes all GPUs. Under torchrun, `fabric run` or SLURM, the number of processes started counts instead"""
    precision: Precision = "32-true"
    """as Lightning Fabric names it; the loss is always computed in float32"""
    checkpoint_every_steps: Count | None = None
    """steps between checkpoints; null keeps one at the end of each epoch only"""
    accumulate: Literal["none", "two_pass"] = "none"
    """`two_pass` embeds a batch twice, a chunk at a time, and computes the loss once in between: the gradient of the
    whole batch in the memory of a chunk. BatchNorm must be frozen"""
    chunk_size: Count = 64
    """images of a chunk"""
    compile: bool = False
    """translate the network with `torch.compile` at the first step, which takes minutes and needs a C++ compiler"""
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    """measure and keep the exponential moving average of the weights: after each step, this fraction of the average
    plus the rest of the new weights; null keeps the last weights"""
    start_from: str | None = None
    """folder of an earlier run, or its `best/`, whose weights the network starts with; a head of another size, the
    loss, the optimizer and the schedule start anew"""
    logger: Literal["tensorboard", "wandb", "mlflow", "none"] = "tensorboard"
    """what logs losses and metrics step by step, besides `history.jsonl`; `wandb` and `mlflow` need the extra `interop`
    and that package"""
    on_nan: Literal["stop", "skip"] = "stop"
    """`stop` if a loss or its gradient is not finite, or `skip` the batch; the tenth in a row stops"""


class EvaluationSettings(Section):
    """When the test split is measured, and how its images are embedded."""

    every: Count | None = None
    """epochs between evaluations; null evaluates after the last epoch only"""
    batch_size: Count = 512
    """images embedded at once"""
    scales: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    """image sizes, as factors of `images.size`, over whose embeddings the mean is taken"""
    metrics: tuple[str, ...] | None = Field(default=_METRICS.default, description=_METRICS.metadata["help"])
    select: str = "H-AP"
    """metric that names the best epoch; without a `validation` it is that of the test split, is only noted, and the
    results reported are those of the last epoch all the same"""


class ValidationSettings(Section):
    """Images that pick the best epoch and may end the run; the test split then picks nothing. `split` or `classes`."""

    split: str | None = None
    """a split of the data set, `val` for instance"""
    classes: Annotated[float, Field(gt=0, lt=1)] | None = None
    """share of the finest training classes, drawn by the seed, that is held out of training with all its images"""
    every: Count = 1
    """epochs between evaluations; the last epoch is evaluated in any case"""
    select: str | None = None
    """metric that picks the best epoch, any name that `evaluate` takes; null means `evaluation.select`"""
    direction: Literal["up", "down"] | None = None
    """where that metric goes as it improves; null: down for distances and coarse `first-error[l]`, else up"""
    patience: Count | None = None
    """evaluations without improvement after which the run stops; null never stops it"""

    @model_validator(mode="after")
    def _require_one_source(self) -> ValidationSettings:
        if (self.split is None) == (self.classes is None):
            raise custom_error("validation", "give either split, such as val, or classes, such as 0.2")
        if self.split in ("train", "test"):
            problem = f"split {self.split}: no validation, whose images are neither learned from nor tested on"
            raise custom_error("validation", problem)
        return self


# What a resumed run may change: where and how fast it runs, how often it is saved and measured, when it gives up.
_FREE = (
    *(("data", "root"), ("images", "workers"), ("images", "cache_folder")),
    *(("images", "cache"), ("images", "cache_size")),
    *(("training", "device"), ("training", "devices"), ("training", "checkpoint_every_steps"), ("training", "on_nan")),
    *(("training", "logger"), ("images", "max_pixels")),
    *(("evaluation", "every"), ("evaluation", "batch_size"), ("validation", "patience")),
)


class Recipe(Section):
    """One experiment."""

    name: str
    """what tables call it; a file's own name unless given"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """the only source of randomness"""
    data: SerializeAsAny[Annotated[DataSection, BeforeValidator(DATA.validate)]]
    """`name` of a data set and the options of its loader"""
    images: ImageSettings = ImageSettings()
    """how images become tensors"""
    sampler: SerializeAsAny[Annotated[Component, BeforeValidator(SAMPLER.validate)]]
    """`name` of a batch sampler and its options"""
    texts: TextSettings | None = None
    """labels as texts beside the images of a batch; null: images alone"""
    model: ModelSettings = ModelSettings()
    """the network"""
    loss: SerializeAsAny[Annotated[Component, BeforeValidator(LOSS.validate)]]
    """`name` of a loss and its options"""
    optimizer: SerializeAsAny[Annotated[OptimizerSettings, BeforeValidator(OPTIMIZER.validate)]] = Field(
        {}, validate_default=True
    )
    """how weights move"""
    schedule: SerializeAsAny[Annotated[AnySchedule, BeforeValidator(SCHEDULE.validate)]] = ScheduleSettings()
    """how learning rates change"""
    training: TrainingSettings
    """how long and on what"""
    evaluation: EvaluationSettings = EvaluationSettings()
    """when the test split is measured"""
    validation: ValidationSettings | None = None
    """what picks the best epoch; null: nothing does, and the last epoch is reported"""

    def as_dict(self) -> dict[str, Any]:
        """Every setting, defaults included, as plain values that YAML and JSON can hold."""
        return self.model_dump(mode="json", by_alias=True)

    def experiment(self, *, defaults: bool = True) -> dict[str, Any]:
        """The settings that change what is learned or measured, with or without those at their defaults."""
        values = self.model_dump(mode="json", by_alias=True, exclude_defaults=not defaults)
        del values["name"]
        images, chunks = self.images, self.training.accumulate == "two_pass"
        for section, name in (*_FREE, *(() if chunks else (("training", "chunk_size"),))):
            (values.get(section) or {}).pop(name, None)
        is_view = isinstance(images.augmentation, (GlyphAugmentation, NoAugmentation))  # that is augmented
        if images.cache and not (is_view and images.cache_size in (None, images.size)):  # else the pixels are the same
            values.setdefault("images", {})["cache_size"] = images.cache_size or images.size
        stated = values.get("images", {}).get("augmentation")
        if isinstance(stated, dict):
            stated["name"] = getattr(images.augmentation, "name", None)  # which is the default of each of ours
        return values

    def fingerprint(self) -> str:
        """SHA-256 of :meth:`experiment` without defaults: a key that is added and changes nothing keeps it."""
        return _hash(self.experiment(defaults=False))

    def goes_on_from(self, earlier_recipe: Recipe) -> bool:
        """Whether this is the earlier experiment with more epochs, or more patience, from where that one ended."""
        settings, earlier_settings = self.experiment(), earlier_recipe.experiment()
        settings["training"]["epochs"] = earlier_settings["training"]["epochs"]
        if settings != earlier_settings or self.training.epochs < earlier_recipe.training.epochs:
            return False
        has_more_epochs = self.training.epochs > earlier_recipe.training.epochs
        if has_more_epochs and self.schedule.ends_with_the_run:
            problem = f"training.epochs: {earlier_recipe.training.epochs} there, {self.training.epochs} here"
            raise RecipeError(
                f"{problem}, with a {self.schedule.name} that ends in the last epoch: more would have had other rates",
                expected="the same number, or another schedule, such as constant or step",
                remedy="start a new run from that one's weights, by training.start_from",
            )
        return has_more_epochs or _patience(self) > _patience(earlier_recipe)

    def accepts(self, fingerprint: str) -> bool:
        """Whether a checkpoint is of this experiment, or of the same with fewer epochs, from which it goes on."""
        if fingerprint == self.fingerprint():
            return True
        values = self.experiment(defaults=False)
        lengths = range(1, self.training.epochs) if not self.schedule.ends_with_the_run else ()
        return any(_hash(values | {"training": {**values["training"], "epochs": n}}) == fingerprint for n in lengths)


def _hash(values: dict[str, Any]) -> str:
    stated = {key: value for key, value in values.items() if value != {}}
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()


def _patience(recipe: Recipe) -> float:
    settings = recipe.validation
    return math.inf if settings is None or settings.patience is None else settings.patience
