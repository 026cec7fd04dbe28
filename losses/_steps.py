"""Step functions of a score difference t = s_j − s_k: "is j ahead of k?", made differentiable.

* Heaviside H(t) = 1 for t ≥ 0, else 0: exact, without gradient; counted by sorting (``_exact_counts``).
* :class:`SupStep`, H⁻: never below H, steep while j is ahead, so that losses built on it are upper bounds.
* :class:`Sigmoid`, σ(t/τ): neither bound nor gradient where it matters most; the Smooth family, for comparison.

A step is applied to detached tensors and knows its own slope: no graph is built over pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hiertree.errors import OptionError

EPSILON = 0.01  # where the default δ stops the sigmoid: σ(δ/τ) = 1 − ε


class Step(Protocol):
    """A step function and its derivative."""

    def value(self, differences: Tensor) -> Tensor:
        """Step of each difference; 0 at −∞."""

    def slope(self, differences: Tensor) -> Tensor:
        """Derivative at each difference; 0 at −∞."""


@dataclass(frozen=True)
class Sigmoid:
    """σ(t/τ) [Brown et al., Smooth-AP, ECCV 2020, Eq. 6]."""

    tau: float = 0.01

    def __post_init__(self) -> None:
        _require(self.tau > 0 and math.isfinite(self.tau), "tau", self.tau, "a finite number > 0")

    def value(self, differences: Tensor) -> Tensor:
        """σ(t/τ)."""
        return torch.sigmoid(differences / self.tau)

    def slope(self, differences: Tensor) -> Tensor:
        """σ(t/τ)·(1 − σ(t/τ))/τ."""
        sigmoid = self.value(differences)
        return torch.addcmul(sigmoid, sigmoid, sigmoid, value=-1.0).div_(self.tau)


@dataclass(frozen=True)
class SupStep:
    """H⁻ of Ramzi et al. (TPAMI 2025, Eq. 4), piecewise.

    * σ(t/τ) for t < 0;
    * σ(t/τ) + start for 0 ≤ t ≤ δ;
    * ρ·(t − δ) + offset for t > δ.

    ``delta=None`` is τ·ln((1 − ε)/ε) with ε = 0.01; ``offset=None`` is σ(δ/τ) + start, which makes H⁻ continuous at δ.
    With start ≥ 0.5 and offset ≥ 1, H⁻ ≥ H everywhere.
    """

    tau: float = 0.01
    rho: float = 100.0
    delta: float | None = None
    start: float = 0.5
    offset: float | None = None

    def __post_init__(self) -> None:
        Sigmoid(self.tau)
        for name, value in (("rho", self.rho), ("delta", self.margin), ("start", self.start), ("offset", self.jump)):
            _require(value >= 0 and math.isfinite(value), name, value, "a finite number ≥ 0")

    @property
    def margin(self) -> float:
        """δ as used."""
        return self.tau * math.log((1 - EPSILON) / EPSILON) if self.delta is None else self.delta

    @property
    def jump(self) -> float:
        """The offset as used: the value just past δ."""
        return 1 / (1 + math.exp(-self.margin / self.tau)) + self.start if self.offset is None else self.offset

    def value(self, differences: Tensor) -> Tensor:
        """H⁻(t)."""
        near = torch.sigmoid(differences / self.tau).add_(differences >= 0, alpha=self.start)
        tail = (differences - self.margin).mul_(self.rho).add_(self.jump)
        return torch.where(differences > self.margin, tail, near)

    def slope(self, differences: Tensor) -> Tensor:
        """The derivative of H⁻ (of its right-hand branch where H⁻ jumps)."""
        return Sigmoid(self.tau).slope(differences).masked_fill_(differences > self.margin, self.rho)


def _require(holds: bool, name: str, value: float, expected: str) -> None:
    if not holds:
        raise OptionError(f"{name}={value}", expected=expected)
