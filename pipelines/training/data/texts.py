"""Labels as texts beside images: embedded by an encoder that does not learn, further rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from hiertree.datasets import GradedDataset, ImageDataset
from hiertree.errors import RecipeError
from hiertree.level_columns import UNKNOWN

from ...labels.encode.text_encoders import SentenceEncoder, mean_direction
from ...networks.clip import CLIP, TextTower, check_templates
from ...networks.loading import load_network
from ..recipe.settings import TextSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

SENTENCES = "sentence-transformers:"


class SentenceTower:
    """A model of sentence-transformers, with the methods of :class:`TextTower`."""

    def __init__(self, model: str) -> None:
        self._encoder = SentenceEncoder(model)

    def to(self, device: Any) -> None:
        """Compute on a device; call it before the first text."""
        self._encoder = SentenceEncoder(self._encoder.model, device=str(device))

    def encode(self, texts: Sequence[str], *, templates: Sequence[str] = ("{}",), **_: Any) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm: the mean direction of each text over the templates, which hold ``{}``."""
        check_templates(templates)
        prompts = [template.replace("{}", "{label}") for template in templates]
        return mean_direction(texts, prompts, self._encoder.encode)


AnyTextTower: TypeAlias = TextTower | SentenceTower


def load_text_tower(name: str) -> AnyTextTower:
    """The text tower of a model of open_clip, or a model of sentence-transformers."""
    if name.startswith(SENTENCES):
        return SentenceTower(name.removeprefix(SENTENCES))
    if not name.startswith(CLIP):
        raise RecipeError(f"texts.encoder={name!r}", expected=f"{CLIP}NAME/WEIGHTS or {SENTENCES}NAME")
    return cast(TextTower, load_network(name).texts)


class TextRows(NamedTuple):
    """Texts of a batch."""

    vectors: Tensor  # (m, t) of unit norm, as the encoder gives them
    paths: Tensor  # (m, L) int64, −1 below the level of the label


class LabelTexts:
    """The labels of a data set's nodes at some levels, each embedded once.

    A batch brings the text of each node above its images once. An image whose path ends above a level has none there.
    """

    def __init__(self, dataset: ImageDataset, settings: TextSettings) -> None:
        names = dataset.tree.level_names
        levels = names if settings.levels is None else settings.levels
        if isinstance(dataset, GradedDataset) or not set(levels) <= set(names):
            problem = "graded pairs" if isinstance(dataset, GradedDataset) else f"texts.levels={', '.join(levels)}"
            raise RecipeError(f"{problem} with texts", expected=f"levels among {', '.join(map(str, names))}")
        ending = np.repeat(dataset.paths[None].astype(np.int64), len(levels), axis=0)  # (levels, n, L)
        for paths, level in zip(ending, map(names.index, levels), strict=True):
            paths[:, level + 1 :] = UNKNOWN
            paths[paths[:, level] == UNKNOWN] = UNKNOWN
        nodes, rows = np.unique(ending.reshape(-1, len(names)), axis=0, return_inverse=True)
        count = int((nodes[:, 0] == UNKNOWN).sum())  # 1 where some images have no text; it sorts first
        self._rows = rows.reshape(len(levels), -1) - count
        self.paths = torch.from_numpy(nodes[count:])
        labels = [str(dataset.tree.labels_of(path)[-1]) for path in self.paths.tolist()]
        vectors = load_text_tower(settings.encoder).encode(labels, templates=settings.templates)
        self.vectors = torch.from_numpy(vectors)

    @property
    def size(self) -> int:
        """Dimensions of the encoder's vectors."""
        return self.vectors.shape[1]

    def of_batch(self, indices: Tensor) -> TextRows:
        """The texts of the nodes above some images, by index in the data set."""
        rows = torch.from_numpy(np.unique(self._rows[:, indices.cpu().numpy()]))
        return TextRows(self.vectors[rows[rows >= 0]], self.paths[rows[rows >= 0]])
