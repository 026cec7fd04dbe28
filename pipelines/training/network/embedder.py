"""The network: backbone, pooling and head, from pixels to vectors of unit length."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d, normalize

from hiertree.errors import InputError

from ..recipe.settings import ModelSettings
from .backbones import build_backbone, input_statistics, is_batch_norm, portable


class GeM(nn.Module):
    r"""Generalized-mean pooling with a learned exponent.

    .. math:: f_c = \Bigl(\frac{1}{|X|} \sum_{x \in X} \max(x_c, \epsilon)^p\Bigr)^{1/p}

    Radenović et al., *Fine-tuning CNN Image Retrieval with No Human Annotation* (TPAMI 2018), Eq. 3.
    """

    def __init__(self, exponent: float = 3.0, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.exponent = nn.Parameter(torch.tensor([exponent]))
        self.epsilon = epsilon

    def forward(self, maps: Tensor) -> Tensor:
        """(B, F, h, w) maps → (B, F) vectors."""
        powers = maps.float().clamp(min=self.epsilon) ** self.exponent
        return powers.mean(dim=(2, 3)) ** (1.0 / self.exponent)


class UnitLength(nn.Module):
    """Scale vectors to unit length."""

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, F) → (B, F)."""
        return normalize(vectors.float(), dim=1)


class Embedder(nn.Module):
    """Backbone → pooling → LayerNorm → linear projection → unit length.

    Mean and standard deviation of the pixels are buffers of the network, so they are saved with its weights.

    Args:
        model: the recipe's section.
        channels: of the images, 1 or 3.
        size: their height and width; None for those that the backbone is made for.
        load_weights: False skips loading pretrained weights, when others will replace them.
        factory: builds the backbone in place of what the settings name.

    Raises:
        RecipeError: no such backbone, an option it does not have, or a size that it does not take.
        MissingResourceError: the pretrained weights are absent.

    >>> embedder = Embedder(ModelSettings(width=4, embedding_size=8), channels=1)
    >>> embedder(torch.zeros(2, 1, 28, 28, dtype=torch.uint8)).shape
    torch.Size([2, 8])
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: ModelSettings,
        *,
        channels: int,
        size: int | None = None,
        load_weights: bool = True,
        factory: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.settings, self.channels = portable(model), channels
        mean, std = input_statistics(model, channels=channels)
        self.register_buffer("mean", 255 * torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", 255 * torch.tensor(std).view(1, -1, 1, 1))
        backbone = build_backbone(model, channels=channels, size=size, load_weights=load_weights, factory=factory)
        self.backbone = backbone.to(memory_format=torch.channels_last)
        features = int(backbone.num_features)  # type: ignore[arg-type]  # both our backbones have it
        self.pooling = GeM() if model.pooling == "gem" else None
        projection = nn.Linear(features, model.embedding_size, bias=model.projection_bias)
        self.head = nn.Sequential(_normalization(model, features), projection)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) pixels in 0 … 255, uint8 or float → (B, embedding_size) float32 of unit norm."""
        return normalize(self.projection(self.pooled(images)).float(), dim=1)

    def pooled(self, images: Tensor) -> Tensor:
        """(B, C, H, W) pixels → (B, F) pooled and normalized features, the projection's input."""
        _refuse_fractions(images)
        pixels = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        features: Tensor = self.head[0](self._pool(self.backbone(pixels)))
        return features

    @property
    def projection(self) -> nn.Linear:
        """The last layer."""
        return cast(nn.Linear, self.head[1])

    def _pool(self, features: Tensor) -> Tensor:
        if self.pooling is not None:
            pooled: Tensor = self.pooling(features)
            return pooled
        if self.settings.pooling == "average":
            return adaptive_avg_pool2d(features, 1).flatten(1)
        if self.settings.pooling == "max":
            return adaptive_max_pool2d(features, 1).flatten(1)
        return features

    def head_parameters(self) -> list[nn.Parameter]:
        """The parameters outside the backbone."""
        return [parameter for name, parameter in self.named_parameters() if not name.startswith("backbone.")]

    def set_training(self, *, frozen_backbone: bool) -> None:
        """Switch to training mode; a frozen backbone keeps its weights and its BatchNorm statistics."""
        self.train()
        self.backbone.train(not frozen_backbone)
        self.backbone.requires_grad_(not frozen_backbone)
        if self.settings.freeze_batch_norm:
            for module in filter(is_batch_norm, self.backbone.modules()):
                module.eval()


def _refuse_fractions(images: Tensor) -> None:
    """Refuse images in [0, 1]; to this network they are all black."""
    if images.is_floating_point() and not torch.compiler.is_compiling() and 0 < images.max() <= 1:
        raise InputError(
            f"images with values up to {images.max():.3g}",
            expected="pixels from 0 to 255",
            remedy="multiply images in [0, 1] by 255, or use hiertree.load_model, which prepares images itself",
        )


def _normalization(model: ModelSettings, features: int) -> nn.Module:
    if model.layer_norm:
        return nn.LayerNorm(features, elementwise_affine=False)
    return UnitLength() if model.l2_norm else nn.Identity()
