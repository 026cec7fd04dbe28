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
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

from .components import Component, RecipeSection, component
from .settings import (
    EvaluationSettings,
    ImageSettings,
    ModelSettings,
    OptimizerSettings,
    ScheduleSettings,
    TrainingSettings,
)


class Recipe(RecipeSection):
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

    def as_dict(self) -> dict[str, Any]:
        """Every setting, defaults included, as plain values that YAML and JSON can hold."""
        return self.model_dump(mode="json", by_alias=True)

    def experiment(self) -> dict[str, Any]:
        """Every setting except those of where it runs: these change nothing that is learned, so a resumed run may."""
        values = self.as_dict()
        for section, name in (("training", "devices"), ("images", "workers"), ("images", "cache_folder")):
            del values[section][name]
        return values

    def fingerprint(self) -> str:
        """SHA-256 of :meth:`experiment`: two recipes of one fingerprint are the same experiment."""
        return hashlib.sha256(json.dumps(self.experiment(), sort_keys=True).encode()).hexdigest()
