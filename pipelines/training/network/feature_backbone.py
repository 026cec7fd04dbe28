"""A network as a backbone: what it returns for a batch of images, checked."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hiertree.errors import RecipeError


class FeatureBackbone(nn.Module):
    """A network of timm, of open_clip or of one's own, without a classifier.

    Args:
        network: images → features; of a network with ``forward_features``, as timm's have it, this gives the maps.
        own_pooling: return the network's own pooled vectors instead of maps.
        features: dimensions of a vector, or channels of a map.
    """

    def __init__(self, network: nn.Module, *, own_pooling: bool, features: int) -> None:
        super().__init__()
        self.network, self.own_pooling, self.num_features = network, own_pooling, features

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) images → (B, F) vectors or (B, F, h, w) maps."""
        compute = self.network if self.own_pooling else getattr(self.network, "forward_features", self.network)
        features: Tensor = compute(images)
        expected = 2 if self.own_pooling else 4
        if features.ndim != expected or features.shape[1] != self.num_features:
            raise RecipeError(
                f"model.pooling: this backbone returns features of shape {tuple(features.shape)}",
                expected=f"{'vectors' if self.own_pooling else 'maps'} (B, {self.num_features}"
                + (")" if self.own_pooling else ", h, w)"),
                remedy="set model.pooling=" + ("gem" if self.own_pooling and features.ndim == 4 else "backbone"),
            )
        return features


def count_features(network: nn.Module, *, channels: int, size: int) -> int:
    """The number of features that a network gives an image, found by giving it one."""
    was_training = network.training
    try:
        with torch.inference_mode():
            features = network.eval()(torch.zeros(1, channels, size, size))
    except Exception as error:  # whatever a network of the user's raises
        raise RecipeError(
            f"model.backbone: the network fails ({type(error).__name__}: {error})",
            expected=f"one that takes images of shape (B, {channels}, {size}, {size})",
        ) from error
    network.train(was_training)
    if not isinstance(features, Tensor) or features.ndim not in (2, 4):
        shape = f"of shape {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        raise RecipeError(f"model.backbone: features {shape}", expected="vectors (B, F) or maps (B, F, h, w)")
    return features.shape[1]
