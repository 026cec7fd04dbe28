"""How an image must be prepared for a trained network; saved with its weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...settings import Section
from ..recipe.schema import Recipe
from ..recipe.settings import ImageSettings
from .backbones import input_statistics


class Preprocessing(Section):
    """The path of an image to a trained network, and of the network's output to an embedding."""

    size: int = Field(description="height and width in pixels")
    channels: Literal[1, 3] = Field(description="1 (gray) or 3 (RGB)")
    resize: int | None = Field(
        description="shorter side before the central crop; null squeezes the whole image into the square"
    )
    mean: tuple[float, ...] = Field(description="subtracted from pixels in [0, 1], by channel")
    std: tuple[float, ...] = Field(description="by which they are then divided")
    scales: Annotated[tuple[float, ...], Field(min_length=1)] = Field(
        description="factors of the size whose embeddings are averaged"
    )
    precision: str = Field(description="of the network's arithmetic, as Lightning Fabric names it")

    @classmethod
    def of_recipe(cls, recipe: Recipe) -> Preprocessing:
        """The preprocessing of a recipe's evaluation."""
        images = recipe.images
        mean, std = input_statistics(recipe.model, channels=images.channels)
        return cls(
            size=images.size,
            channels=images.channels,
            resize=images.resize,
            mean=mean,
            std=std,
            scales=recipe.evaluation.scales,
            precision=recipe.training.precision,
        )

    def image_settings(self) -> ImageSettings:
        """The same as a recipe's section ``images``, without a cache."""
        return ImageSettings(size=self.size, channels=self.channels, resize=self.resize, cache=False)
