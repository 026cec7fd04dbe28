"""What an experiment is: one frozen, fully checked value, the same whether it came from a file or from Python.

A recipe has plain sections (:mod:`.settings`) and three *components* (``data``, ``sampler``, ``loss``) whose keys are
the keyword options of the function or class they name (:mod:`.components`).

>>> recipe = Recipe.model_validate({
...     "name": "example", "data": {"name": "synthetic"},
...     "sampler": {"name": "ClassBalancedSampler", "batch_size": 64, "images_per_class": 4},
...     "loss": {"name": "HAPPIER", "alpha": 3.0}, "training": {"epochs": 10},
... })
>>> recipe.loss.options()["alpha"], recipe.optimizer.lr
(3.0, 0.001)
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

from hiertree.errors import RecipeError

from ...settings import Section
from .components import Component, component
from .settings import (
    EvaluationSettings,
    ImageSettings,
    ModelSettings,
    OptimizerSettings,
    ScheduleSettings,
    TrainingSettings,
    ValidationSettings,
)

# What a resumed run may change: where and how fast it runs, how often it is saved and measured, when it gives up.
_FREE = (
    *(("data", "root"), ("images", "workers"), ("images", "cache_folder")),
    *(("training", "device"), ("training", "devices"), ("training", "checkpoint_every_steps"), ("training", "on_nan")),
    *(("training", "logger"), ("images", "max_pixels")),
    *(("evaluation", "every"), ("evaluation", "batch_size"), ("validation", "patience")),
)


class Recipe(Section):
    """One experiment."""

    name: str = Field(description="what tables call it; a file's own name unless given")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="the only source of randomness")
    data: SerializeAsAny[Annotated[Component, BeforeValidator(component("data"))]] = Field(
        description="`name` of a data set and the options of its loader"
    )
    images: ImageSettings = Field(ImageSettings(), description="how images become tensors")
    sampler: SerializeAsAny[Annotated[Component, BeforeValidator(component("sampler"))]] = Field(
        description="`name` of a batch sampler and its options"
    )
    model: ModelSettings = Field(ModelSettings(), description="the network")
    loss: SerializeAsAny[Annotated[Component, BeforeValidator(component("loss"))]] = Field(
        description="`name` of a loss and its options"
    )
    optimizer: OptimizerSettings = Field(OptimizerSettings(), description="how weights move")
    schedule: ScheduleSettings = Field(ScheduleSettings(), description="how learning rates change")
    training: TrainingSettings = Field(description="how long and on what")
    evaluation: EvaluationSettings = Field(EvaluationSettings(), description="when the test split is measured")
    validation: ValidationSettings | None = Field(
        None, description="what picks the best epoch; null: nothing does, and the last epoch is reported"
    )

    def as_dict(self) -> dict[str, Any]:
        """Every setting, defaults included, as plain values that YAML and JSON can hold."""
        return self.model_dump(mode="json", by_alias=True)

    def experiment(self, *, defaults: bool = True) -> dict[str, Any]:
        """The settings that change what is learned or measured, with or without those at their defaults."""
        values = self.model_dump(mode="json", by_alias=True, exclude_defaults=not defaults)
        del values["name"]
        free, images = list(_FREE), self.images
        if self.training.accumulate == "none":
            free.append(("training", "chunk_size"))
        crops = images.augmentation.name == "photo"
        if not images.cache or (not crops and images.cache_size in (None, images.size)):
            free += [("images", "cache"), ("images", "cache_size")]  # the same pixels as without a cache
        for section, name in free:
            (values.get(section) or {}).pop(name, None)
        if "augmentation" in values.get("images", {}):
            values["images"]["augmentation"]["name"] = images.augmentation.name  # which is each kind's default
        return values

    def fingerprint(self) -> str:
        """SHA-256 of :meth:`experiment`: two recipes of one fingerprint are the same experiment.

        Defaults are left out, so that it stays the same when a key is added whose default does what was done before.
        """
        return _hash(self.experiment(defaults=False))

    def goes_on_from(self, earlier: Recipe) -> bool:
        """Whether this is the earlier experiment with more epochs, or more patience, from where that one ended."""
        now, before = self.experiment(), earlier.experiment()
        now["training"]["epochs"] = before["training"]["epochs"]
        if now != before or self.training.epochs < earlier.training.epochs:
            return False
        more = self.training.epochs > earlier.training.epochs
        if more and self.schedule.name == "cosine":
            raise RecipeError(
                f"training.epochs: {earlier.training.epochs} there, {self.training.epochs} here, with a cosine that "
                "falls to its end in the last epoch: more epochs would have had other learning rates from the start",
                expected="the same number, or schedule.name constant or step",
                remedy="start a new run from that one's weights, by training.start_from",
            )
        return more or _patience(self) > _patience(earlier)

    def accepts(self, fingerprint: str) -> bool:
        """Whether a checkpoint is of this experiment, or of the same with fewer epochs, from which it goes on."""
        if fingerprint == self.fingerprint():
            return True
        values = self.experiment(defaults=False)
        lengths = range(1, self.training.epochs) if self.schedule.name != "cosine" else ()
        return any(_hash(values | {"training": {**values["training"], "epochs": n}}) == fingerprint for n in lengths)


def _hash(values: dict[str, Any]) -> str:
    stated = {key: value for key, value in values.items() if value != {}}
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()


def _patience(recipe: Recipe) -> float:
    settings = recipe.validation
    return math.inf if settings is None or settings.patience is None else settings.patience
