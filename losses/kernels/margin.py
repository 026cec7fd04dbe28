r"""What a step has beyond its margin δ in place of its sigmoid, for every item of sorted rows, by running sums.

Over the candidates with t = s_j − s_k > δ: Σ_j m_j·(ρ·(t − δ) + offset − start − σ(t/τ)). They are the first of the
row, so that running sums hold all of it: Σ m_j, Σ m_j·s_j, and 1 − σ(t/τ) as a polynomial in e^{−t/τ}, each of whose
powers is a factor of j and a factor of k. These are taken relative to the middle of a window of scores, in which none
overflows: what vanishes there is too far away to count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor

from hiertree.jit import Floats

from .base import StepParameters

LARGEST_POWER = 350.0  # e to this power, squared, is finite
ERROR = {torch.float32: 1e-6, torch.float64: 1e-14}  # of a sigmoid
MOST_TERMS = 40


class BeyondMargin:
    """The pairs of sorted rows whose scores differ by more than a margin.

    Args:
        negated_scores: (B, M) −s in rising order; infinite for items that have no mass.
        step: the step function, with a finite margin.
        span: how much the scores of a row differ at most.
    """

    def __init__(self, negated_scores: Tensor, step: StepParameters, span: float) -> None:
        self._step, self._span, self._dtype = step, span, negated_scores.dtype
        self._sigmoid, self._bell = decay_series(step.margin / step.tau, ERROR[negated_scores.dtype])
        self._num_above = torch.searchsorted(
            negated_scores, negated_scores - step.margin
        )  # items with t > δ, for each as a target
        depth = negated_scores.double() - negated_scores[:, :1].double()
        self._depth = torch.where(negated_scores < torch.inf, depth, span)

    def sums(self, masses: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(B, M) the sum and its slope; target k reads row ``rows[b, k]`` of the masses (B, R, M) of candidates."""
        step, masses, running_sum = self._step, masses.double(), reader(rows, self._num_above)
        number = running_sum(masses)
        line = number * (self._depth - step.margin) - running_sum(masses * self._depth[:, None])
        rest, bells = self._decayed(masses, self._depth, running_sum, (self._sigmoid, self._bell))
        value = step.rho * line + (step.offset - step.start - 1) * number + rest
        return value.to(self._dtype), (step.rho * number - bells / step.tau).to(self._dtype)

    def slopes(self, masses: Tensor, rows: Tensor) -> Tensor:
        """(B, M) the slope; candidate j reads row ``rows[b, j]`` of the masses (B, R, M) of targets, from the end."""
        masses, height = masses.double().flip(2), (self._span - self._depth).flip(1)
        num_below = torch.zeros_like(rows).scatter_add_(
            1, (self._num_above - 1).clamp_(min=0), (self._num_above > 0).long()
        )
        running_sum = reader(rows.flip(1), num_below.flip(1).cumsum(dim=1))
        (bells,) = self._decayed(masses, height, running_sum, (self._bell,))
        slopes = self._step.rho * running_sum(masses) - bells / self._step.tau
        return slopes.flip(1).to(self._dtype)

    def _decayed(
        self,
        masses: Tensor,
        depth: Tensor,
        running_sum: Callable[[Tensor], Tensor],
        series: tuple[tuple[float, ...], ...],
    ) -> list[Tensor]:
        """Σ_j m_j·Σ_n c_n·e^{−n·t/τ} for the coefficients c of each series, at every item."""
        half = LARGEST_POWER / len(series[0])  # of a window, in τ
        totals = [torch.zeros_like(depth) for _ in series]
        num_windows = int(1.001 * self._span / (2 * half * self._step.tau)) + 1
        for window in range(num_windows):
            place = depth / self._step.tau - (2 * window + 1) * half
            growth, decay = place.clamp(max=half).exp_(), place.clamp(min=-half).neg_().exp_()
            powers, factor, parts = masses.clone(), torch.ones_like(decay), [torch.zeros_like(depth) for _ in series]
            for coefficients in zip(*series, strict=True):
                term = running_sum(powers.mul_(growth[:, None])).mul_(factor.mul_(decay))
                for part, coefficient in zip(parts, coefficients, strict=True):
                    part.add_(term, alpha=coefficient)
            if num_windows == 1:
                return parts
            is_inside = place.abs() <= half
            totals = [torch.where(is_inside, part, total) for part, total in zip(parts, totals, strict=True)]
        return totals


def reader(rows: Tensor, ends: Tensor) -> Callable[[Tensor], Tensor]:
    """From values (B, R, M) to (B, M): for each item, the sum of those of its row before its end."""
    index, has_any = rows * rows.shape[1] + (ends - 1).clamp_(min=0), ends > 0
    return lambda values: values.cumsum(dim=2).flatten(1).gather(1, index).mul_(has_any)


def _inverse_power(z: Floats, power: int) -> Floats:
    return (1 + z) ** -power


@cache
def decay_series(margin: float, error: float) -> list[tuple[float, ...]]:
    """The coefficients of z, z², … in 1 − σ(t) and in σ·(1 − σ)(t), for z = e^{−t} and every t beyond a margin."""
    largest = max(math.exp(-margin), 1e-9)
    z = np.linspace(0, largest, 999)
    for terms in range(1, MOST_TERMS):
        series = []
        for power in (1, 2):
            exact = _inverse_power(z, power)
            fit = Chebyshev.interpolate(_inverse_power, terms - 1, domain=[0, largest], args=(power,))
            polynomial = fit.convert(kind=Polynomial)
            if np.abs(z * (polynomial(z) - exact)).max() > error:
                break
            series.append(tuple(np.pad(polynomial.coef, (0, terms - len(polynomial.coef))).tolist()))
        else:
            break
    return series
