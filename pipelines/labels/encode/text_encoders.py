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
        named = ", ".join(f"{texts[row][:40]!r}" for row in bad[:5]) + ", …" * (len(bad) > 5)
        raise EmbeddingError(
            f"no direction for {len(bad)} texts: {named}",
            expected="texts the encoder can read",
            remedy="correct these labels in the table, or empty their cells",
        )
    return np.ascontiguousarray(vectors / norms, dtype=np.float32)


def truncated_svd(features: Any, dimensions: int) -> NDArray[np.float64]:
    """(n, dimensions) the rows in the space of the largest singular values, the largest first: cosines change least.

    The eigenvectors of F Fᵀ, or of Fᵀ F if that is smaller, by ARPACK from a fixed start.

    Args:
        features: (n, m) sparse.
        dimensions: fewer than n and than m.

    >>> from scipy.sparse import csr_matrix
    >>> np.abs(truncated_svd(csr_matrix([[3.0, 0, 0], [0, 1, 0], [3, 0, 0.1]]), 1)).round(2).ravel()
    array([3., 0., 3.])
    """
    from scipy.sparse.linalg import LinearOperator, eigsh
    from threadpoolctl import threadpool_limits

    rows, columns = (matrix.tocsr().astype(np.float64) for matrix in (features, features.T))
    few = rows.shape[0] <= rows.shape[1]
    outer, inner = (rows, columns) if few else (columns, rows)
    side = min(rows.shape)
    gram = LinearOperator((side, side), matvec=lambda vector: outer @ (inner @ vector), dtype=np.float64)
    start = np.random.RandomState(0).uniform(-1, 1, side)
    basis = min(side, max(20, dimensions + dimensions // 4))  # of Lanczos vectors; more take longer
    with threadpool_limits(1):  # many small products: threads would only wait for each other
        values, vectors = (found[..., ::-1] for found in eigsh(gram, dimensions, v0=start, ncv=basis))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)) if few else rows @ vectors)


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
