"""The network that is trained: images in, vectors of unit length out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d, normalize

from hiertree.errors import CheckpointError
from hiertree.io import files

from ..recipe.settings import ModelSettings
from .backbones import build_backbone, input_statistics, is_batch_norm


class GeM(nn.Module):
    r"""Generalised-mean pooling with a learnt exponent.

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
    """Vectors divided by their norm."""

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, F) → (B, F)."""
        return normalize(vectors.float(), dim=1)


class Embedder(nn.Module):
    """Backbone → pooling → LayerNorm → linear projection → unit length.

    The statistics of the pixels are buffers of the network, so that saved weights bring their own preprocessing.

    Args:
        model: the recipe's section.
        channels: of the images, 1 or 3.
        load_weights: False leaves out pretrained weights, when others are about to take their place.

    Raises:
        RecipeError: no such backbone, or options it does not have.
        MissingResourceError: pretrained weights that are not there.

    >>> embedder = Embedder(ModelSettings(width=4, embedding_size=8), channels=1)
    >>> embedder(torch.zeros(2, 1, 28, 28, dtype=torch.uint8)).shape
    torch.Size([2, 8])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: ModelSettings, *, channels: int, load_weights: bool = True) -> None:
        super().__init__()
        self.settings, self.channels = model, channels
        mean, std = input_statistics(model, channels=channels)
        self.register_buffer("mean", 255 * torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", 255 * torch.tensor(std).view(1, -1, 1, 1))
        backbone = build_backbone(model, channels=channels, load_weights=load_weights)
        self.backbone = backbone.to(memory_format=torch.channels_last)
        features = int(backbone.num_features)  # type: ignore[arg-type]  # both our backbones have it
        self.pooling = GeM() if model.pooling == "gem" else None
        projection = nn.Linear(features, model.embedding_size, bias=model.projection_bias)
        self.head = nn.Sequential(_normalisation(model, features), projection)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) pixels in 0 … 255, uint8 or float → (B, embedding_size) float32 of unit norm."""
        return normalize(self.projection(self.pooled(images)).float(), dim=1)

    def pooled(self, images: Tensor) -> Tensor:
        """(B, C, H, W) pixels → (B, F) pooled and normalised features, which the projection takes."""
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
        """What is learnt after the backbone."""
        return [parameter for name, parameter in self.named_parameters() if not name.startswith("backbone.")]

    def set_training(self, *, frozen_backbone: bool) -> None:
        """Go to training mode; a frozen backbone learns nothing and keeps its statistics.

        Args:
            frozen_backbone: whether only the head learns now.
        """
        self.train()
        self.backbone.train(not frozen_backbone)
        self.backbone.requires_grad_(not frozen_backbone)
        if self.settings.freeze_batch_norm:
            for module in filter(is_batch_norm, self.backbone.modules()):
                module.eval()


def _normalisation(model: ModelSettings, features: int) -> nn.Module:
    if model.layer_norm:
        return nn.LayerNorm(features, elementwise_affine=False)
    return UnitLength() if model.l2_norm else nn.Identity()


def save_embedder(embedder: Embedder, folder: str | os.PathLike[str]) -> list[Path]:
    """Write ``model.safetensors`` and ``model.json``, from which :func:`load_embedder` rebuilds the network."""
    from safetensors.torch import save_file

    weights, settings = Path(folder) / "model.safetensors", Path(folder) / "model.json"
    with files.replacing(weights) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in embedder.state_dict().items()}, temporary)
    files.write_json(settings, {"model": embedder.settings.model_dump(mode="json"), "channels": embedder.channels})
    return [weights, settings]


def load_embedder(folder: str | os.PathLike[str]) -> Embedder:
    """The trained network of a run folder, in evaluation mode on the CPU.

    Raises:
        CheckpointError: the folder holds no model, or the two files do not fit together.
    """
    import json

    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        settings = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))
        model = ModelSettings.model_validate(settings["model"])
        embedder = Embedder(model, channels=settings["channels"], load_weights=False)
        embedder.load_state_dict(load_file(Path(folder) / "model.safetensors"))
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"{folder} ({error})", expected="model.json and model.safetensors of one model"
        ) from error
    return embedder.eval()
