"""What evaluates the pairs of a batch, and how it is chosen.

A backend is ``"torch"`` (any device, every pair evaluated), ``"numba"`` (a CPU, compiled) or ``"auto"``: numba on a
CPU, torch elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from torch import Tensor

from hiertree.errors import OptionError
from hiertree.losses._options import require

if TYPE_CHECKING:
    from hiertree.losses._pairs import Pairs
    from hiertree.losses._steps import Step

Backend: TypeAlias = Literal["auto", "torch", "numba"]
BACKENDS = ("auto", "torch", "numba")


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
        OptionError: numba was asked for and the scores are not on a CPU.
    """
    on_cpu = pairs.scores.device.type == "cpu"
    if pairs.backend == "numba" and not on_cpu:
        raise OptionError(
            f"backend='numba' for scores on {pairs.scores.device}", expected="scores on a CPU", remedy="pass 'auto'"
        )
    if pairs.backend == "torch" or not on_cpu:
        from hiertree.losses._torch_kernel import TorchKernel

        return TorchKernel
    from hiertree.losses._numba_kernel import NumbaKernel

    return NumbaKernel
