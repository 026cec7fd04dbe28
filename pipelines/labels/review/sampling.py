"""Certainty is checked on site: certain labels are drawn, a person says which are wrong, and that puts others in doubt.

Of N certain labels n are drawn, as many of a cluster as its size asks for. With k of them wrong, at most as many are
wrong in all as would leave k or fewer in such a draw with a probability of 5 % (the hypergeometric bound). Unless it is
given, n is the least with which that bound reaches the target where none is wrong: 25 of 40, 41 of 120, 59 of 10,000.
Where the bound exceeds the target, the verdicts refit how probably a label is wrong: a logistic regression on the
fraction of the cluster that vouches for it, on whether the list's sense is that of most of the cluster, and on the
cluster's size and purity, drawn towards the coefficients of a public list. The labels that are most probably wrong
lose their certainty until at most the target is expected among the others, and a new sample is drawn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..cluster.proposing import Proposal
from ..encode.place_nouns import parse
from .actions import Sample
from .state import State

TARGET = 0.05
_RARE = 0.05 - 1e-12  # the probability of what is called impossible; one draw in twenty itself is not
# constant, vouched, sense, size and purity: benchmarks/label_doubt.py --fit
SHIPPED = (-0.42, -0.94, -1.33, -0.46, -0.66)
_SPREAD = 3.0  # of the coefficients about those


@dataclass(frozen=True)
class SampleResult:
    """What a sample of the certain labels shows so far."""

    size: int  # how many were drawn
    checked: int  # how many of these a person looked at
    wrong: int  # how many of these were moved or left out
    certain: int  # how many labels are certain

    @property
    def bound(self) -> float:
        """The fraction of the certain labels that is wrong at most, at 95 %, if those checked are a random sample."""
        return upper_bound(self.wrong, self.checked, self.certain)

    @property
    def is_complete(self) -> bool:
        """Whether all that were drawn were looked at."""
        return self.checked == self.size > 0

    def __str__(self) -> str:
        if not self.checked:
            at_best = 100 * upper_bound(0, self.size, self.certain)
            return f"{self.size} certain labels to check; if none is wrong, at most {at_best:.0f} % are (95 %)"
        verdict = f"{self.wrong or 'none'} {'was' if self.wrong <= 1 else 'were'} wrong"
        if not self.is_complete:  # those that were looked at may be no random sample
            return f"of {self.checked} certain labels looked at {verdict}; {self.size - self.checked} are left to check"
        fractions = f"{100 * self.wrong / self.checked:.0f} %, at most {100 * self.bound:.0f} % (95 %)"
        return f"of {self.checked} certain ones {verdict}: {fractions}"


def upper_bound(wrong: int, checked: int, certain: int) -> float:
    """The greatest fraction of ``certain`` labels with which so few of those checked are wrong in one draw of twenty.

    >>> upper_bound(6, 40, 100_000), upper_bound(0, 40, 40), upper_bound(0, 0, 40)
    (0.27472, 0.0, 1.0)
    """
    from scipy.stats import hypergeom

    counts = range(wrong, certain - (checked - wrong) + 1)
    first_rare = bisect_left(
        counts, True, key=lambda count: bool(hypergeom.cdf(wrong, certain, count, checked) < _RARE)
    )
    return counts[first_rare - 1] / certain if certain else 1.0


def sample_size(certain: int) -> int:
    """How many of so many certain labels show, where none is wrong, that at most the target is.

    >>> sample_size(120), upper_bound(0, 41, 120) <= TARGET < upper_bound(0, 40, 120)
    (41, True)
    """
    from scipy.stats import hypergeom

    of_many = int(np.ceil(np.log(_RARE) / np.log(1 - TARGET)))
    too_many, sizes = min(int(TARGET * certain) + 1, certain), np.arange(min(certain, of_many) + 1)
    return int(np.argmax(hypergeom.cdf(0, certain, too_many, sizes) < _RARE))


def certain_labels(proposal: Proposal, state: State) -> frozenset[str]:
    """The labels that were certain, and that no sample has put in doubt; those looked at stay among them."""
    members = (member for cluster in proposal.clusters for member in cluster.labels)
    return frozenset(member.label for member in members if not member.doubt) - state.marked("doubted")


def seen_labels(state: State) -> frozenset[str]:
    """The labels that a person said something of."""
    return state.marked("checked") | state.marked("moved") | state.marked("irrelevant")


def sample_result(proposal: Proposal, state: State) -> SampleResult:
    """What the last sample shows: a verdict is the first that happens to a label, left where it is or not."""
    sampled, right = state.marked("sampled"), state.marked("checked")
    wrong = (sampled - right) & (state.marked("moved") | state.marked("irrelevant"))
    return SampleResult(len(sampled), len((sampled & right) | wrong), len(wrong), len(certain_labels(proposal, state)))


def draw(
    proposal: Proposal, state: State, *, seed: int, size: int | None = None, but: Iterable[str] = ()
) -> tuple[str, ...]:
    """Certain labels that nobody has looked at, by cluster size: every n-th from a random one on."""
    certain = certain_labels(proposal, state) - set(but)
    size, candidates = sample_size(len(certain)) if size is None else size, certain - seen_labels(state)
    generator = np.random.default_rng(seed)
    clusters = sorted(state.clusters.values(), key=lambda cluster: cluster.number)
    members = [sorted(cluster.labels & candidates) for cluster in clusters]
    ordered = [labels[index] for labels in members for index in generator.permutation(len(labels))]
    step = max(len(ordered) / max(size, 1), 1)
    start = generator.uniform(0, step)
    picks = ordered if step == 1 else [ordered[int(start + index * step)] for index in range(size)]
    return tuple(picks[index] for index in generator.permutation(len(picks)))


def next_sample(proposal: Proposal, state: State, *, seed: int) -> Sample | None:
    """The sample after a complete one whose bound exceeds the target, if its verdicts put other labels in doubt."""
    result = sample_result(proposal, state)
    if not result.is_complete or result.bound <= TARGET:
        return None
    certain, seen_by_people = certain_labels(proposal, state), seen_labels(state)
    verdicts = {label: label not in state.marked("checked") for label in sorted(certain & seen_by_people)}
    probabilities = refit(features(proposal), verdicts)
    left = sorted(certain - seen_by_people, key=lambda label: (probabilities[label], label))
    expected = np.cumsum([probabilities[label] for label in left]) / np.arange(1, len(left) + 1)
    doubted = left[int((expected <= TARGET).sum()) :]
    if not doubted:
        return None
    doubted += [label for label, is_wrong in verdicts.items() if is_wrong]  # the next bound is of the others
    return Sample(labels=draw(proposal, state, seed=seed, but=doubted), doubted=tuple(doubted))


def features(proposal: Proposal) -> dict[str, NDArray[np.float64]]:
    """What is known of each label: 1, vouched, whether its sense is that of most, log of the size, purity."""
    rows = {}
    for cluster in proposal.clusters:
        sense_of = {member.label: parse(member.label).sense or "" for member in cluster.labels}
        senses = Counter(sense_of.values())
        commonest = max(senses, key=lambda sense: (senses[sense], sense))
        purity = sum(not member.doubt for member in cluster.labels) / len(cluster.labels)
        for member in cluster.labels:
            witness = member.vouched if member.hypernyms else member.silhouette
            has_sense = sense_of[member.label] == commonest != ""
            rows[member.label] = np.array([1, witness, has_sense, np.log(len(cluster.labels)), purity])
    return rows


def refit(rows: Mapping[str, NDArray[np.float64]], wrong: Mapping[str, bool]) -> dict[str, float]:
    """How probably each label is wrong, by a logistic regression on verdicts, with the shipped fit as prior."""
    from scipy.optimize import minimize
    from scipy.special import expit

    mean = np.array(SHIPPED)
    design = np.array([rows[label] for label in wrong]).reshape(-1, len(mean))
    truth = np.array(list(wrong.values()), dtype=np.float64)

    def loss(coefficients: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits, offsets = design @ coefficients, (coefficients - mean) / _SPREAD
        value = np.logaddexp(0, logits).sum() - truth @ logits + offsets @ offsets / 2
        return float(value), design.T @ (expit(logits) - truth) + offsets / _SPREAD

    coefficients = minimize(loss, mean, jac=True).x
    return {label: float(expit(row @ coefficients)) for label, row in rows.items()}
