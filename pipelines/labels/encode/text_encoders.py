"""What an encoder of label texts must do, and what several of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hiertree.errors import EmbeddingError, OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TextEncoder(Protocol):
    """Texts → unit vectors whose cosine says how alike the texts are in meaning.

    Attributes:
        name: as given on the command line.
        kind_margin: the difference of cosines below which a text is not clearly nearer to one set than to another.
        independent: whether a text's vector is the same whatever other texts it is encoded with.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def kind_margin(self) -> float: ...  # noqa: D102

    @property
    def independent(self) -> bool: ...  # noqa: D102

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm; encoders may learn from the texts, so encode together what is compared."""

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest."""


def unit_rows(vectors: NDArray[Any], texts: Sequence[str]) -> NDArray[np.float32]:
    """The rows divided by their norms.

    Raises:
        EmbeddingError: a row is zero or not finite; the message names its text.

    >>> unit_rows(np.array([[3.0, 4.0]]), ["lake"])
    array([[0.6, 0.8]], dtype=float32)
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if len(bad):
        raise EmbeddingError(
            f"no direction for {len(bad)} texts, the first {texts[bad[0]]!r}", expected="texts the encoder can read"
        )
    return np.ascontiguousarray(vectors / norms, dtype=np.float32)


def check_prompts(prompts: Sequence[str], *, example: str) -> None:
    """Refuse templates that no label can enter.

    Raises:
        OptionError: no template, or one without ``{label}``.
    """
    if not prompts or any("{label}" not in prompt for prompt in prompts):
        raise OptionError(f"prompts={list(prompts)}", expected=f"templates with {{label}}, such as {example!r}")


def mean_direction(
    texts: Sequence[str], prompts: Sequence[str], encode: Callable[[list[str]], NDArray[np.float64]]
) -> NDArray[np.float32]:
    """(n, d) float32 unit rows: each text in every template, encoded, averaged.

    Args:
        texts: n labels.
        prompts: templates that hold ``{label}``.
        encode: n sentences → (n, d) unit rows.
    """
    sums = sum(encode([prompt.replace("{label}", text) for text in texts]) for prompt in prompts)
    return unit_rows(np.asarray(sums), texts)
