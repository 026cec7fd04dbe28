"""Timings that know whether the machine was idle: of a busy one, no ratio is printed."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MOST_OF_OTHERS = 0.1  # processors that others may use meanwhile
MOST_SPREAD = 0.1  # of what is divided by, about its median
SHORTEST = 0.6  # seconds of one timing; the kernel accounts for hundredths on each processor
_STAT = Path("/proc/stat")


class Timing(NamedTuple):
    """Of one run, in seconds for each of the units of work that it did.

    Attributes:
        clock: seconds by the clock.
        processor: of all threads of this process.
        others: how many processors other processes kept busy meanwhile.
    """

    clock: float
    processor: float
    others: float


def timed(work: Callable[[], object], units: int = 1) -> Timing:
    """Run ``work`` once, or again and again where it is shorter than the kernel's accounts can tell."""
    begin, runs, clock = (time.perf_counter(), time.process_time(), _busy_seconds()), 0, 0.0
    while clock < SHORTEST:
        work()
        runs, clock = runs + 1, time.perf_counter() - begin[0]
    processor = time.process_time() - begin[1]
    others = max(_busy_seconds() - begin[2] - processor, 0.0) / clock
    return Timing(clock / (units * runs), processor / (units * runs), others)


def in_turn(
    works: dict[str, Callable[[], Timing]], repeats: int, *, divisor: str | None = None
) -> dict[str, list[Timing]]:
    """Run all works so often, in turn; disturbed rounds are repeated, as many again at most.

    Args:
        works: what is timed.
        repeats: rounds that are wanted.
        divisor: the work by whose time others will be divided; rounds in which it stands out are repeated too.
    """
    rounds: list[dict[str, Timing]] = []
    kept: list[dict[str, Timing]] = []
    while len(kept) < repeats and len(rounds) < 2 * repeats:
        rounds.append({name: work() for name, work in works.items()})
        kept = [found for found in rounds if max(timing.others for timing in found.values()) <= MOST_OF_OTHERS]
        if divisor is not None:
            usual = statistics.median(found[divisor].clock for found in rounds)
            kept = [found for found in kept if abs(found[divisor].clock / usual - 1) <= MOST_SPREAD]
    return {name: [found[name] for found in (kept or rounds)] for name in works}


def medians(timings: list[Timing]) -> Timing:
    """The median of each."""
    return Timing(*(statistics.median(values) for values in zip(*timings, strict=True)))


def ratio(numerator: list[Timing], denominator: list[Timing], decimals: int = 2) -> str:
    """How many times as long by the clock, or what kept the machine from being idle."""
    others = max(timing.others for timing in numerator + denominator)
    if others > MOST_OF_OTHERS:
        return f"busy ({others:.1f} processors)"
    middle = medians(denominator).clock
    spread = max(abs(timing.clock / middle - 1) for timing in denominator)
    if spread > MOST_SPREAD:
        return f"uneven (± {spread:.0%})"
    return f"{medians(numerator).clock / middle:.{decimals}f}"


def _busy_seconds() -> float:
    """What all processes of the machine have used so far, the kernel included (Linux; elsewhere others are unseen)."""
    if not _STAT.exists():
        return time.process_time()
    user, nice, system, _idle, _waiting, interrupts, soft, stolen = map(int, _STAT.read_text().split()[1:9])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")
