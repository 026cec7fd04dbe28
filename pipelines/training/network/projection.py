"""The first weights of the linear projection: principal directions of what the starting backbone gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hiertree.datasets import ImageDataset
from hiertree.errors import RecipeError
from hiertree.io.progress import track

from ..data.loading import BatchKey, Views, loader_of
from ..recipe.schema import Recipe
from .embedder import Embedder

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from numpy.typing import NDArray

_SMALLEST_VARIANCE = 1e-9  # of the largest: below it, a direction is rounding


def initialise_projection(embedder: Embedder, dataset: ImageDataset, recipe: Recipe, fabric: Fabric) -> None:
    """Start the projection as ``model.projection_init`` asks; "random" leaves it as it is.

    The images are drawn by the recipe's seed and seen as evaluation sees them, in float32 whatever the precision.

    Args:
        embedder: on the device of ``fabric``, its backbone as training starts with it.
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
    features = _pooled_features(embedder, dataset, recipe, chosen, fabric)
    whitened = model.projection_init == "pca_whitened"
    weight, bias = principal_projection(features, model.embedding_size, whitened=whitened)
    with torch.no_grad():
        embedder.projection.weight.copy_(weight)
        if model.projection_bias:
            embedder.projection.bias.copy_(bias)


def principal_projection(features: Tensor, size: int, *, whitened: bool = False) -> tuple[Tensor, Tensor]:
    r"""Weight and bias of the linear map to the first principal components.

    .. math:: y = W (x - \mu), \quad W = V^\top \text{ or } \Lambda^{-1/2} V^\top

    with the eigenvectors V of the covariance and their eigenvalues Λ, largest first. Each direction's largest entry is
    positive, so that the map does not depend on how the eigenvectors were found.

    Args:
        features: (n, F).
        size: components, d ≤ F.
        whitened: give each component unit variance, as Jégou & Chum (ECCV 2012) do.

    Returns:
        (d, F) weight and (d,) bias, float64.

    Raises:
        RecipeError: the features are not finite, or vary along fewer than d directions.

    >>> line = torch.tensor([[0.0, 1.0], [3.0, 5.0], [6.0, 9.0]])
    >>> weight, bias = principal_projection(line, 1)
    >>> (line.double() @ weight.T + bias).flatten().round(decimals=6).tolist()
    [-5.0, 0.0, 5.0]
    """
    features = features.double()
    if not features.isfinite().all():
        raise RecipeError("features of the starting backbone that are not finite", expected="finite features")
    variances, directions = torch.linalg.eigh(torch.cov(features.T))
    variances, directions = variances.flip(0)[:size], directions.flip(1).T[:size]
    varying = int((variances > _SMALLEST_VARIANCE * variances[0]).sum())
    if varying < size:
        raise RecipeError(
            f"model.embedding_size={size} for features that vary along {varying} directions",
            expected="as many directions as dimensions of an embedding",
            remedy="lower model.embedding_size, raise model.projection_images or set model.projection_init=random",
        )
    largest = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True))
    weight = directions * largest.sign()
    if whitened:
        weight = weight / variances.sqrt()[:, None]
    return weight, -weight @ features.mean(dim=0)


def _require_enough(size: int, *, features: int, images: int) -> None:
    """Refuse what cannot work before any image is read."""
    if size > features:
        raise RecipeError(
            f"model.embedding_size={size} with a projection that starts from a PCA of {features} features",
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
    embedder: Embedder, dataset: ImageDataset, recipe: Recipe, rows: NDArray[np.int64], fabric: Fabric
) -> Tensor:
    """(n, F) features before the projection, on the CPU."""
    views = Views(dataset, recipe.images.model_copy(update={"cache": False}))
    size = recipe.evaluation.batch_size
    keys = [BatchKey(0, start, rows[start : start + size].tolist()) for start in range(0, len(rows), size)]
    batches = loader_of(views, keys, workers=recipe.images.workers, pin_memory=False)
    embedder.eval()
    tracked = track(batches, description="features for the PCA of the projection")
    return torch.cat([embedder.pooled(fabric.to_device(images)).float().cpu() for _, images in tracked])
