"""The schema of an experiment: one frozen, fully checked value, from a file or from Python.

It has plain sections (:mod:`.settings`) and components (``data``, ``loss`` and others) that name a callable.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

from hiertree.errors import RecipeError

from ...networks.settings import ModelSettings
from ...settings import Section
from .components import Component
from .settings import (
    DATA,
    LOSS,
    OPTIMIZER,
    SAMPLER,
    SCHEDULE,
    AnySchedule,
    DataSection,
    EvaluationSettings,
    GlyphAugmentation,
    ImageSettings,
    NoAugmentation,
    OptimizerSettings,
    ScheduleSettings,
    TextSettings,
    TrainingSettings,
    ValidationSettings,
)

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
