"""Binary codes: relaxed during training, packed into bytes for retrieval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hiertree.options import check_integer, check_number

from ..pairs.inputs import finite_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray


def relaxed_codes(embeddings: Any, *, alpha: float, name: str = "embeddings") -> Tensor:
    """tanh(α·f), in float32 or better: between −1 and 1, nearer to −1 or 1 the larger α is.

    Raises:
        EmbeddingError: NaN or infinite embeddings; the message names the rows.
    """
    return torch.tanh(alpha * finite_vectors(embeddings, name=name))


def binary_codes(embeddings: Any) -> NDArray[np.uint8]:
    """The codes of learned embeddings: bit i of an item is 1 where its i-th number is positive.

    Args:
        embeddings: (n, b) floats, as given to the hashing losses.

    Returns:
        (n, ⌈b/8⌉) bytes, the first bit being the highest of the first byte, as in ``numpy.packbits`` and faiss; what
        :func:`hiertree.metrics.evaluate_codes` takes. Bits beyond b are 0.

    Raises:
        ShapeError: not (n, b) with n, b ≥ 1.
        EmbeddingError: NaN or infinite embeddings; the message names the rows.

    >>> binary_codes(torch.tensor([[0.3, -1.0, 2.0, 0.0, -0.1, 0.2, 0.1, 0.4, 5.0]]))
    array([[167, 128]], dtype=uint8)
    """
    positive = relaxed_codes(embeddings, alpha=1.0) > 0
    return np.packbits(positive.cpu().numpy(), axis=1)


@dataclass(frozen=True)
class GrowingAlpha:
    """α by epoch, initial·factor^⌊epoch/every⌋: codes become more binary as training goes on.

    Args:
        initial: α of the first epochs.
        factor: α is multiplied by it after every ``every`` epochs.
        every: epochs between two growths.

    Raises:
        OptionError: an option outside its range.

    >>> growth = GrowingAlpha(initial=1.0, factor=2.0, every=10)
    >>> [growth(epoch) for epoch in (0, 9, 10, 35)]
    [1.0, 1.0, 2.0, 8.0]
    """

    initial: float = 1.0
    factor: float = 2.0
    every: int = 10

    def __post_init__(self) -> None:
        check_number("initial", self.initial, above=0)
        check_number("factor", self.factor, least=1)
        check_integer("every", self.every)

    def __call__(self, epoch: int) -> float:
        """α of an epoch, counted from 0."""
        return self.initial * self.factor ** (epoch // self.every)
