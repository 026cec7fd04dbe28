"""Step functions of a score difference t = s_j − s_k: "is j ahead of k?", made differentiable.

* Heaviside H(t) = 1 for t ≥ 0, else 0: exact, without gradient; counted by sorting.
* :class:`SupStep`, H⁻: never below H, steep while j is ahead, so that losses built on it are upper bounds.
* :class:`Sigmoid`, σ(t/τ): no bound, and no gradient where it matters most; the Smooth family, for comparison.

A step is applied to detached tensors and knows its own slope: no graph is built over pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from hiertree.options import check_number

from ..kernels.base import StepParameters

EPSILON = 0.01  # where the default δ stops the sigmoid: σ(δ/τ) = 1 − ε


@dataclass(frozen=True)
class Sigmoid:
    """σ(t/τ) [Brown et al., Smooth-AP, ECCV 2020, Eq. 6]."""

    tau: float = 0.01

    def __post_init__(self) -> None:
        check_number("tau", self.tau, above=0)

    @property
    def parameters(self) -> StepParameters:
        """One piece: the margin is infinite."""
        return StepParameters(float(self.tau), rho=0.0, margin=math.inf, start=0.0, offset=0.0)

    def value(self, differences: Tensor) -> Tensor:
        """σ(t/τ)."""
        return torch.sigmoid(differences * (1 / self.tau))

    def slope(self, differences: Tensor) -> Tensor:
        """σ(t/τ)·(1 − σ(t/τ))/τ."""
        sigmoid = self.value(differences)
        return sigmoid.addcmul_(sigmoid, sigmoid, value=-1.0).mul_(1 / self.tau)


class StepOptions(TypedDict, total=False):
    r"""Options of H⁻, the step function of the Sup losses (Ramzi et al., TPAMI 2025, Eq. 4).

    For a score difference t, H⁻ is σ(t/τ) for t < 0; σ(t/τ) + start for 0 ≤ t ≤ δ; ρ·(t − δ) + offset for t > δ. With
    start ≥ 0.5 and offset ≥ 1, H⁻ is nowhere below the Heaviside step, and the losses are upper bounds.

    * ``tau``: temperature τ > 0 of the sigmoid. Default 0.01.
    * ``rho``: slope ρ ≥ 0 beyond δ; a larger one moves grave errors more. Default 100.
    * ``delta``: δ ≥ 0, where the slope begins. Default None: τ·ln(99) ≈ 0.046, where σ(δ/τ) = 0.99.
    * ``start``: added to the sigmoid for 0 ≤ t ≤ δ. Default 0.5.
    * ``offset``: the value just past δ. Default None: σ(δ/τ) + start, which makes H⁻ continuous there.

    The authors trained with ``delta=0.05`` and (start, offset) = (0.5, 1.44) on SOP, (0, 1) on iNaturalist.
    """

    tau: float
    rho: float
    delta: float | None
    start: float
    offset: float | None


@dataclass(frozen=True, kw_only=True)
class SupStep:
    """H⁻ of Ramzi et al. (TPAMI 2025, Eq. 4), with the defaults of :class:`StepOptions`."""

    tau: float = 0.01
    rho: float = 100.0
    delta: float | None = None
    start: float = 0.5
    offset: float | None = None

    def __post_init__(self) -> None:
        check_number("tau", self.tau, above=0)
        check_number("rho", self.rho, least=0)
        check_number("start", self.start, least=0)
        for name, value in (("delta", self.delta), ("offset", self.offset)):
            if value is not None:
                check_number(name, value, least=0)

    @property
    def margin(self) -> float:
        """δ; by default where σ(δ/τ) = 1 − ε."""
        return self.tau * math.log((1 - EPSILON) / EPSILON) if self.delta is None else self.delta

    @property
    def parameters(self) -> StepParameters:
        """τ, ρ, δ, start, and the value just past δ."""
        just_past = _logistic(self.margin / self.tau) + self.start if self.offset is None else self.offset
        return StepParameters(float(self.tau), float(self.rho), float(self.margin), float(self.start), float(just_past))

    @property
    def _jump_at_margin(self) -> float:
        """How far H⁻ leaps at δ, beyond being continuous; 0 unless an offset is given."""
        return 0.0 if self.offset is None else self.offset - self.start - _logistic(self.margin / self.tau)

    def value(self, differences: Tensor) -> Tensor:
        """H⁻(t) = σ(min(t, δ)/τ) + start·[t ≥ 0] + ρ·max(t − δ, 0) + (offset − start − σ(δ/τ))·[t > δ]."""
        value = differences.clamp(max=self.margin).mul_(1 / self.tau).sigmoid_()
        value.add_((differences - self.margin).clamp_(min=0), alpha=self.rho)
        value.add_(differences.clone().ge_(0), alpha=self.start)  # in place: a boolean result is far slower on a CPU
        if self._jump_at_margin:
            value.add_(differences.clone().gt_(self.margin), alpha=self._jump_at_margin)
        return value

    def slope(self, differences: Tensor) -> Tensor:
        """σ·(1 − σ)/τ for t ≤ δ, ρ beyond; the jumps of H⁻ have none."""
        sigmoid = differences.clamp(max=self.margin).mul_(1 / self.tau).sigmoid_()
        at_margin = _logistic(self.margin / self.tau)
        slope = sigmoid.addcmul_(sigmoid, sigmoid, value=-1.0).mul_(1 / self.tau)
        beyond = differences.clone().gt_(self.margin)
        return slope.add_(beyond, alpha=self.rho - at_margin * (1 - at_margin) / self.tau)


def _logistic(t: float) -> float:
    return 1 / (1 + math.exp(-t))
