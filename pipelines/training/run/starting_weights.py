"""Starting weights: those of an earlier run, or a projection from a PCA of the training images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hiertree.datasets import ImageDataset
from hiertree.errors import CheckpointError, RecipeError, raised_as, some_of
from hiertree.io.progress import track
from hiertree.io.provenance import describe_file

from ...networks.embedder import Embedder
from ...networks.loading import WEIGHTS, load_weights
from ..data.batches import batch_loader, keys_in_order
from ..data.views import ImageViews
from ..recipe.settings import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_HEADS = ("head.", "text_projection.")
_SMALLEST_VARIANCE = 1e-9  # relative to the largest; directions below it are rounding


def start_from_earlier(embedder: Embedder, recipe: Recipe) -> dict[str, Any] | None:
    """Load the weights that ``training.start_from`` names, all but those of a head of another size."""
    if recipe.training.start_from is None:
        return None
    folder = Path(recipe.training.start_from)
    with raised_as(CheckpointError, "training.start_from", on=CheckpointError):
        weights = load_weights(folder)
    network_weights = embedder.state_dict()
    file_shapes, network_shapes = (
        {(name, tensor.shape) for name, tensor in state.items()} for state in (weights, network_weights)
    )
    differing = sorted({name for name, _ in file_shapes ^ network_shapes})
    if mismatches := [name for name in differing if not name.startswith(_HEADS)]:
        raise RecipeError(
            f"training.start_from={folder} has another network ({len(mismatches)} tensors differ: "
            f"{some_of(mismatches, 3)})",
            expected=f"the backbone, pooling and channels of this recipe ({recipe.model.backbone})",
            remedy=f"copy the section model from {folder / 'recipe.yaml'}",
        )
    new_heads = tuple(head for head in _HEADS if any(name.startswith(head) for name in differing))
    matching_weights = {name: tensor for name, tensor in weights.items() if not name.startswith(new_heads)}
    embedder.load_state_dict(matching_weights, strict=False)
    if _HEADS[0] in new_heads:
        size = embedder.embedding_size
        print(f"{folder}: its head is not used: here embeddings have {size} dimensions", file=sys.stderr)
    return {"path": str(folder / WEIGHTS), **describe_file(folder / WEIGHTS)}


def principal_projection(features: Tensor, size: int, *, whitened: bool = False) -> tuple[Tensor, Tensor]:
    r"""Compute weight (d, F) and bias of :math:`y = W (x - \mu)`, W the first principal directions of (n, F) features.

    Whitened, each component has unit variance (Jégou & Chum, ECCV 2012). The largest entry of a direction is positive.
    """
    features = features.double()
    if not features.isfinite().all():
        raise RecipeError("features of the untrained backbone that are not finite", expected="finite features")
    variances, directions = torch.linalg.eigh(torch.cov(features.T))
    variances, directions = variances.flip(0)[:size], directions.flip(1).T[:size]
    varying = int((variances > _SMALLEST_VARIANCE * variances[0]).sum())
    if varying < size:
        raise RecipeError(
            f"model.embedding_size={size} for features that vary along {varying} directions",
            expected="at most as many dimensions as directions",
            remedy="lower model.embedding_size, raise model.projection_images or set model.projection_init=random",
        )
    largest = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True))
    weight = directions * largest.sign()
    if whitened:
        weight = weight / variances.sqrt()[:, None]
    return weight, -weight @ features.mean(dim=0)


def initialize_projection(embedder: Embedder, dataset: ImageDataset, recipe: Recipe, fabric: Fabric) -> None:
    """Set the projection by the PCA that ``model.projection_init`` asks for, of images that the recipe's seed draws."""
    model = recipe.model
    if model.projection_init == "random":
        return
    count = min(len(dataset), model.projection_images)
    features, size = embedder.projection.in_features, embedder.projection.out_features
    if size > min(features, count - 1):
        raise RecipeError(
            f"model.embedding_size={size} with a projection by a PCA of {count} images and {features} features",
            expected="at most as many dimensions as features, and fewer than images",
            remedy="lower it, raise model.projection_images, or set model.projection_init=random",
        )
    rows = np.sort(np.random.default_rng(recipe.seed).choice(len(dataset), count, replace=False))
    views = ImageViews(dataset.images, recipe.images.model_copy(update={"cache": False}))
    keys = keys_in_order(rows.tolist(), recipe.evaluation.batch_size)
    batches = batch_loader(views, keys, workers=recipe.images.workers)
    tracked = track(batches, description="features for the PCA of the projection")
    with torch.inference_mode():
        embedder.eval()
        pooled = torch.cat([embedder.pooled(fabric.to_device(images)).float().cpu() for _, images in tracked])
    weight, bias = principal_projection(pooled, size, whitened=model.projection_init == "pca_whitened")
    with torch.no_grad():
        embedder.projection.weight.copy_(weight)
        if model.projection_bias:
            embedder.projection.bias.copy_(bias)
