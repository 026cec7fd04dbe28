"""The first weights of the linear projection: random, or a PCA of the training images' features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hiertree.datasets import ImageDataset
from hiertree.errors import RecipeError
from hiertree.io.progress import track

from ..data.batches import batch_loader, keys_in_order
from ..data.views import ImageViews
from ..network.embedder import Embedder
from ..network.projection import principal_projection
from ..recipe.schema import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def initialize_projection(embedder: Embedder, dataset: ImageDataset, recipe: Recipe, fabric: Fabric) -> None:
    """Set the projection as ``model.projection_init`` asks; "random" leaves it unchanged.

    The images are drawn by the recipe's seed, and embedded in their evaluation view and in float32 at any precision.

    Args:
        embedder: on the device of ``fabric``, before the first step.
        dataset: the training split.
        recipe: the experiment.
        fabric: the device.

    Raises:
        RecipeError: more dimensions than features, too few images, or features without that many directions.
        ImageError: an image does not decode.
    """
    model = recipe.model
    if model.projection_init == "random":
        return
    count = min(len(dataset), model.projection_images)
    _require_enough(model.embedding_size, features=embedder.projection.in_features, images=count)
    chosen = np.sort(np.random.default_rng(recipe.seed).choice(len(dataset), count, replace=False))
    features = _pooled_features(embedder, dataset, recipe, chosen.tolist(), fabric)
    whitened = model.projection_init == "pca_whitened"
    weight, bias = principal_projection(features, model.embedding_size, whitened=whitened)
    with torch.no_grad():
        embedder.projection.weight.copy_(weight)
        if model.projection_bias:
            embedder.projection.bias.copy_(bias)


def _require_enough(size: int, *, features: int, images: int) -> None:
    """Refuse an impossible PCA before any image is read."""
    if size > features:
        raise RecipeError(
            f"model.embedding_size={size} with a projection initialized by a PCA of {features} features",
            expected=f"at most {features}",
            remedy="lower it, or set model.projection_init=random",
        )
    if images <= size:
        raise RecipeError(
            f"a PCA of {images} images for model.embedding_size={size}",
            expected=f"more than {size} images",
            remedy="raise model.projection_images, or set model.projection_init=random",
        )


@torch.inference_mode()
def _pooled_features(
    embedder: Embedder, dataset: ImageDataset, recipe: Recipe, rows: list[int], fabric: Fabric
) -> Tensor:
    """(n, F) features before the projection, on the CPU."""
    views = ImageViews(dataset, recipe.images.model_copy(update={"cache": False}))
    keys = keys_in_order(rows, recipe.evaluation.batch_size)
    batches = batch_loader(views, keys, workers=recipe.images.workers)
    embedder.eval()
    tracked = track(batches, description="features for the PCA of the projection")
    return torch.cat([embedder.pooled(fabric.to_device(images)).float().cpu() for _, images in tracked])
