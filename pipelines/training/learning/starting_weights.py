"""Starting weights: those of an earlier run, or a projection from a PCA of the training images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hiertree.datasets import ImageDataset
from hiertree.errors import CheckpointError, RecipeError
from hiertree.io.progress import track
from hiertree.io.provenance import describe_file

from ..data.batches import batch_loader, keys_in_order
from ..data.views import ImageViews
from ..network.embedder import Embedder
from ..network.model_files import WEIGHTS, load_weights
from ..recipe.schema import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_HEAD = "head."
_SMALLEST_VARIANCE = 1e-9  # relative to the largest; directions below it are rounding


def start_from_earlier(embedder: Embedder, recipe: Recipe) -> dict[str, Any] | None:
    """Load the weights that ``training.start_from`` names, all but those of a head of another size."""
    if recipe.training.start_from is None:
        return None
    folder = Path(recipe.training.start_from)
    try:
        weights = load_weights(folder)
    except CheckpointError as error:
        problem = f"training.start_from: {error.given}"
        raise CheckpointError(problem, expected=error.expected, remedy=error.remedy) from error
    network_weights = embedder.state_dict()
    file_shapes, network_shapes = (
        {(name, tensor.shape) for name, tensor in state.items()} for state in (weights, network_weights)
    )
    differing = sorted({name for name, _ in file_shapes ^ network_shapes})
    mismatches = [name for name in differing if not name.startswith(_HEAD)]
    if mismatches:
        examples = ", ".join(mismatches[:3]) + (", …" if len(mismatches) > 3 else "")
        raise RecipeError(
            f"training.start_from={folder} has another network ({len(mismatches)} tensors differ: {examples})",
            expected=f"the backbone, pooling and channels of this recipe ({recipe.model.backbone})",
            remedy=f"copy the section model from {folder / 'recipe.yaml'}",
        )
    matching_weights = {name: tensor for name, tensor in weights.items() if not (differing and name.startswith(_HEAD))}
    embedder.load_state_dict(matching_weights, strict=False)
    if differing:
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
    size = embedder.projection.out_features
    _require_enough(size, features=embedder.projection.in_features, images=count)
    rows = np.sort(np.random.default_rng(recipe.seed).choice(len(dataset), count, replace=False))
    views = ImageViews(dataset.images, recipe.images.model_copy(update={"cache": False}))
    keys = keys_in_order(rows.tolist(), recipe.evaluation.batch_size)
    batches = batch_loader(views, keys, workers=recipe.images.workers)
    tracked = track(batches, description="features for the PCA of the projection")
    with torch.inference_mode():
        embedder.eval()
        features = torch.cat([embedder.pooled(fabric.to_device(images)).float().cpu() for _, images in tracked])
    whitened = model.projection_init == "pca_whitened"
    weight, bias = principal_projection(features, size, whitened=whitened)
    with torch.no_grad():
        embedder.projection.weight.copy_(weight)
        if model.projection_bias:
            embedder.projection.bias.copy_(bias)


def _require_enough(size: int, *, features: int, images: int) -> None:
    """Refuse an impossible PCA before any image is read."""
    if size > features:
        problem = f"model.embedding_size={size} with a projection initialized by a PCA of {features} features"
        raise RecipeError(
            problem, expected=f"at most {features}", remedy="lower it, or set model.projection_init=random"
        )
    if images <= size:
        remedy = "raise model.projection_images, or set model.projection_init=random"
        problem = f"a PCA of {images} images for model.embedding_size={size}"
        raise RecipeError(problem, expected=f"more than {size} images", remedy=remedy)
