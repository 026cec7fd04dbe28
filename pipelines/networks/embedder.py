"""The network: backbone, pooling and head, from pixels to vectors of unit length."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d, interpolate, normalize

from hiertree.errors import EmbeddingError, InputError, RecipeError

from .backbones import build_backbone, input_statistics, is_batch_norm, portable
from .settings import ModelSettings
from .weights import first_line


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
    """Backbone → pooling → LayerNorm → linear projection, if any → unit length; mean and deviation are buffers.

    Vectors of texts, of ``text_size`` dimensions, have a linear projection of their own into the same space, unless
    images have none. ``factory`` builds the backbone in place of ``model.backbone``.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: ModelSettings,
        *,
        channels: int,
        size: int | None = None,
        text_size: int | None = None,
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
        self._learnable = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
        features = int(backbone.num_features)  # type: ignore[arg-type]  # both our backbones have it
        self.pooling = GeM() if model.pooling == "gem" else None
        self.embedding_size = model.embedding_size or features
        projection: nn.Module = nn.Identity()
        if model.embedding_size is not None:
            projection = nn.Linear(features, model.embedding_size, bias=model.projection_bias)
        self.head = nn.Sequential(_normalization(model, features), projection)
        self.text_size, self.text_projection = text_size, cast(nn.Module, nn.Identity())
        if text_size is not None and model.embedding_size is not None:
            self.text_projection = nn.Linear(text_size, model.embedding_size)
        elif text_size not in (None, features):
            problem, remedy = f"texts of {text_size} dimensions, images of {features}", "set model.embedding_size"
            raise RecipeError(problem, expected="two towers of one space, or projections", remedy=remedy)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) pixels in 0 … 255, uint8 or float → (B, embedding_size) float32 of unit norm."""
        return normalize(self.head[1](self.pooled(images)).float(), dim=1)

    def embed_texts(self, vectors: Tensor) -> Tensor:
        """(m, text_size) vectors of texts → (m, embedding_size) float32 of unit norm."""
        return normalize(self.text_projection(vectors).float(), dim=1)

    def pooled(self, images: Tensor) -> Tensor:
        """(B, C, H, W) pixels → (B, F) pooled and normalized features, the projection's input."""
        _refuse_fractions(images)
        pixels = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        features: Tensor = self.head[0](self._pool(self.backbone(pixels)))
        return features

    @property
    def projection(self) -> nn.Linear:
        """The last layer of a network that has one."""
        return cast(nn.Linear, self.head[1])

    def _pool(self, features: Tensor) -> Tensor:
        if self.pooling is not None:
            return cast(Tensor, self.pooling(features))
        pools: dict[str, Callable[..., Tensor]] = {"average": adaptive_avg_pool2d, "max": adaptive_max_pool2d}
        pool = pools.get(self.settings.pooling)
        return features if pool is None else pool(features, 1).flatten(1)

    def head_parameters(self) -> list[nn.Parameter]:
        """The parameters outside the backbone, but for the projection of texts."""
        others = ("backbone.", "text_projection.")
        return [parameter for name, parameter in self.named_parameters() if not name.startswith(others)]

    def set_training(self, *, frozen_backbone: bool) -> None:
        """Switch to training mode; a frozen backbone keeps its weights and its BatchNorm statistics.

        What a network of one's own has frozen itself stays so.
        """
        self.train()
        self.backbone.train(not frozen_backbone)
        for parameter in self._learnable:
            parameter.requires_grad_(not frozen_backbone)
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


def embed_at_scales(network: Callable[[Tensor], Tensor], images: Tensor, scales: Sequence[float]) -> Tensor:
    r"""Average the embeddings of each scale: :math:`e(x) = \sum_s f(x_s) / \lVert \sum_s f(x_s) \rVert`.

    Radenović et al. (TPAMI 2018): this mean after a projection, whose outputs have signs, else a power mean.
    """
    if all(scale == 1 for scale in scales):
        return network(images)
    return normalize(torch.stack([network(_resized(images, scale)) for scale in scales]).sum(dim=0), dim=1)


def require_finite(embeddings: Tensor) -> Tensor:
    """Refuse embeddings that no metric could rank: of weights, or in an arithmetic, that overflow."""
    if not embeddings.isfinite().all():
        raise EmbeddingError(
            "embeddings that are not finite",
            expected="finite numbers",
            remedy="check the weights, or set training.precision=32-true",
        )
    return embeddings


def require_sizes(embedder: Embedder, size: int, scales: Sequence[float]) -> None:
    """Check by embedding one image that the backbone takes this size at each scale, unless timm's maps take any."""
    settings, was_training = embedder.settings, embedder.training
    pretrained_config = getattr(getattr(embedder.backbone, "network", None), "pretrained_cfg", None)
    if settings.pooling != "backbone" and pretrained_config and not pretrained_config["fixed_input_size"]:
        return
    image = torch.zeros(1, embedder.channels, size, size, dtype=torch.uint8)
    embedder.eval()
    try:
        for scale in sorted({1.0, *scales}, key=lambda scale: scale != 1):
            with torch.inference_mode():
                embedder(_resized(image, scale))
    except RecipeError:
        raise
    except (RuntimeError, AssertionError, ValueError) as error:
        setting = f"images.size={size}" if scale == 1 else f"evaluation.scales={list(scales)}"
        raise RecipeError(
            f"{setting} with {settings.backbone} ({first_line(error)})",
            expected="a size that the backbone accepts" if scale == 1 else "[1.0]: it takes images of one size",
            remedy="change it, or choose another backbone",
        ) from error
    finally:
        embedder.train(was_training)


def warn_of_cut_images(embedder: Embedder, size: int) -> None:
    """Say how much of the images a vision transformer leaves out, whose patches do not divide their size."""
    first = next((module for module in embedder.backbone.modules() if isinstance(module, nn.Conv2d)), None)
    if first is None or first.kernel_size != first.stride or first.padding != (0, 0):
        return
    patch = first.kernel_size[0]
    if left := size % patch:
        text = f"warning: images.size={size} with {embedder.settings.backbone}: its patches of {patch} pixels leave "
        text += f"out the last {left} rows and columns; {size - left} or {size - left + patch} would leave out none"
        print(text, file=sys.stderr)


def _resized(images: Tensor, scale: float) -> Tensor:
    if scale == 1:
        return images
    size = [max(1, round(scale * length)) for length in images.shape[-2:]]
    return interpolate(images.float(), size=size, mode="bilinear", antialias=True)
