"""The principal directions of features, from which the linear projection may start."""

from __future__ import annotations

import torch
from torch import Tensor

from hiertree.errors import RecipeError

_SMALLEST_VARIANCE = 1e-9  # relative to the largest; directions below it are rounding


def principal_projection(features: Tensor, size: int, *, whitened: bool = False) -> tuple[Tensor, Tensor]:
    r"""Compute weight and bias of the linear map to the first principal components.

    .. math:: y = W (x - \mu), \quad W = V^\top \text{ or } \Lambda^{-1/2} V^\top

    where the columns of V are the eigenvectors of the covariance and Λ holds their eigenvalues, largest first. Signs
    are chosen so that each direction's largest entry is positive, which makes the map unique.

    Args:
        features: (n, F).
        size: number of components, d ≤ F.
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
