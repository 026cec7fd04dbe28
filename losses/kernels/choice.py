"""What evaluates the pairs of a batch, and how it is chosen.

A backend is ``"torch"`` (any device, every pair evaluated), ``"numba"`` (a CPU, compiled), ``"triton"`` (a GPU,
compiled) or ``"auto"``: numba on a CPU, triton on CUDA where it is installed, torch elsewhere.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from torch import Tensor

from hiertree.errors import OptionError

from ..pairs.checks import require

if TYPE_CHECKING:
    from ..pairs.pairs import Pairs
    from ..pairs.steps import Step

Backend: TypeAlias = Literal["auto", "torch", "numba", "triton"]
BACKENDS = ("auto", "torch", "numba", "triton")


class Blocks(NamedTuple):
    """How a kernel wants the queries of a batch to be shared out: so many at once, by so many threads."""

    rows: int
    threads: int


class PairKernel(Protocol):
    """Counts and sums over the pairs of one batch, or of some of its queries.

    Only valid candidates count. What stands at an item that is no positive (or no target) means nothing.
    """

    @staticmethod
    def plan(scores: Tensor) -> Blocks:
        """The blocks in which to take a batch of such scores."""

    def __init__(self, pairs: Pairs) -> None: ...

    def not_below(self) -> Tensor:
        """(B, M) rank⁺(k): candidates of its level or finer with s_j ≥ s_k, itself included; ≥ 1 everywhere."""

    def shared_relevance(self, table: Tensor) -> Tensor:
        """(B, M) H-rank⁺(k): Σ min(rel_j, rel_k) over the positives with s_j ≥ s_k, for a table (B, L+1)."""

    def forward(self, candidates: Tensor, targets: Tensor, step: Step) -> tuple[Tensor, Any]:
        """(B, M) sums of step(s_j − s_k) over candidates j ≠ k, 0 where there is no target, and what to save."""

    def backward(self, upstream: Tensor, saved: Any) -> Tensor:
        """(B, M) gradient with respect to the scores, for the gradient with respect to the sums."""


def check_backend(backend: str) -> None:
    """Refuse a backend that does not exist."""
    require(backend in BACKENDS, "backend", backend, f"one of {', '.join(map(repr, BACKENDS))}")


def kernel_for(pairs: Pairs) -> type[PairKernel]:
    """The kernel that the pairs ask for.

    Raises:
        OptionError: a compiled backend was asked for and the scores are not where it works.
    """
    device = pairs.scores.device.type
    backend = _automatic(device) if pairs.backend == "auto" else pairs.backend
    if backend == "torch":
        from .torch_kernel import TorchKernel

        return TorchKernel
    if backend == "triton":
        _refuse_unless(_triton_works_on(device), pairs, "CUDA scores, and triton, which comes with torch on Linux")
        from .triton.kernel import TritonKernel

        return TritonKernel
    _refuse_unless(device == "cpu", pairs, "scores on a CPU")
    from .numba.kernel import NumbaKernel

    return NumbaKernel


def _automatic(device: str) -> Backend:
    if device == "cpu":
        return "numba"
    return "triton" if _triton_works_on(device) else "torch"


def _triton_works_on(device: str) -> bool:
    """Whether triton is there and compiles for the device, or has been told to interpret, as tests do on a CPU."""
    interpreted = device == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    return (device == "cuda" or interpreted) and _triton_is_installed()


@cache
def _triton_is_installed() -> bool:
    return find_spec("triton") is not None


def _refuse_unless(holds: bool, pairs: Pairs, expected: str) -> None:
    if not holds:
        given = f"backend={pairs.backend!r} for scores on {pairs.scores.device}"
        raise OptionError(given, expected=expected, remedy="pass 'auto'")
