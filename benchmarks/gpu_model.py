"""What the losses and the evaluation should take on a GPU, from the compiled kernels and from what they read and do.

Run ``python benchmarks/gpu_model.py`` anywhere: Triton compiles for GPUs that are not there. It prints each kernel's
registers, shared memory, spills and occupancy, and the milliseconds of each part, of which the largest is the bound.
``--kernels`` prints the kernels as JSON. ``gpu.py`` prints measured times beside these.

Peaks are those of the data sheets. A part takes the longer of its bytes and its operations, at the share of the peak
that such kernels commonly reach. Where pairs are evaluated is counted with random scores in the tiles of the kernels,
and what a pair takes in the machine code (``cuobjdump -sass``).
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from hiertree.losses.kernels import triton_groups, triton_kernel, triton_rows
from hiertree.losses.kernels.triton_kernel import BLOCK, COUNTED, ONE_WARP, OWN, POINTS, SUMMED, TILE
from hiertree.metrics.engine import triton_counting

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
BYTES_REACHED, PRODUCT_REACHED, PAIRS_REACHED = 0.8, 0.8, 0.5  # of the peaks
SORT_BYTES = 100  # an item: four passes of a radix sort over 4 + 8 bytes, read and written
SMALL_BYTES = 160  # a score: masks, levels, zeros, ranks and quotients by torch's own operations, forward and backward
INSTRUCTIONS = {True: (17, 17, 72, 470), False: (14, 12, 54, 470)}  # of one warp in sm_90's code, by ``work``
TILE_INSTRUCTIONS, COUNT_INSTRUCTIONS = 480, 20  # of a tile that is condensed, of a step of counting
SPECIAL = 2  # of a pair: one exponential, one root
SPREAD, TAU, DELTA = 512**-0.5, 0.01, 0.01 * math.log(99)  # of the cosines of random vectors; of the step
POINTERS = {
    **dict.fromkeys(("items", "arranged_items", "own_items", "first", "own_first", "acting", "ahead"), "*i32"),
    **dict.fromkeys(("counts", "others", "runs"), "*i32"),
    **dict.fromkeys(("low", "high", "number", "key", "index"), "*i64"),
    **dict.fromkeys(("points", "weight", "moment"), "*fp64"),
    **dict.fromkeys(("width", "num_slots", "num_groups", "length", "stride", "most"), "i32"),
    "groups": "*i16",
}


class Card(NamedTuple):
    """A GPU by its data sheet."""

    name: str
    capability: int
    multiprocessors: int
    gigahertz: float
    lanes: int  # of float32, in a multiprocessor
    gigabytes: float  # a second, of its memory
    to_host: float = 12.0  # gigabytes a second, to memory that is not pinned


CARDS = (
    Card("H100", 90, 132, 1.83, 128, 3350),
    Card("H200", 90, 132, 1.83, 128, 4800),
    Card("A100", 80, 108, 1.41, 64, 2039),
)


class Kernel(NamedTuple):
    """A compiled kernel."""

    name: str
    capability: int
    scores: str
    registers: int
    shared: int  # bytes
    spilled: int  # bytes
    warps: int
    launched: bool  # so, or only tried

    @property
    def occupancy(self) -> float:
        """The share of the 64 warps of a multiprocessor that its 65,536 registers hold, in up to 32 programs."""
        of_a_warp = math.ceil(self.registers * 32 / 256) * 256
        return min(min(65536 // (of_a_warp * self.warps), 32) * self.warps / 64, 1.0)


def sources() -> Iterator[tuple[str, Any, dict[str, Any], int]]:
    """Every kernel with its constants, for three levels, and its warps; step sums with one warp and with two."""
    tiles = {"TILE": TILE, "POINTS": POINTS, "GROUPS": 4}
    counting = {"BLOCK": triton_counting.BLOCK, "BLOCKS": triton_counting.BLOCKS, "BY_INDEX": False}
    yield "count_groups", triton_groups.count_groups, {"BLOCK": BLOCK}, 4
    yield "arrange", triton_groups.arrange, {"BLOCK": BLOCK}, 4
    yield "condense", triton_rows.condense, tiles, 1
    for columns in (POINTS, 1):
        sizes = {"COLUMNS": columns, "BLOCK": SUMMED // columns}
        yield f"accumulate, {columns} wide", triton_rows.accumulate, sizes, 4
    yield "count_ahead", triton_rows.count_ahead, {"GROUPS": 4, "OWN": COUNTED}, 4
    for forward, warps in product((True, False), (1, 2)):
        name, constants = "sum_steps forward" if forward else "sum_steps backward", {**tiles, "OWN": OWN}
        yield name, triton_rows.sum_steps, {**constants, "FORWARD": forward}, warps
    yield "count_others, few", triton_counting.count_items, {**counting, "CELLS": triton_counting.MOST_CELLS}, 4
    yield "count_others, many", triton_counting.count_items, {**counting, "CELLS": 0}, 4


def compiled(capability: int, scores: str = "fp32") -> list[Kernel]:
    """Every kernel, compiled for a GPU that need not be here."""
    found = []
    for name, kernel, constants, warps in sources():
        signature = {
            argument: "constexpr" if argument in constants else POINTERS.get(argument, f"*{scores}")
            for argument in kernel.arg_names
        }
        if kernel is triton_rows.accumulate:
            signature["sums"] = "*fp64"
        places = {(kernel.arg_names.index(argument),): value for argument, value in constants.items()}
        made = triton.compile(
            ASTSource(fn=kernel, signature=signature, constexprs=places),
            target=GPUTarget("cuda", capability, 32),
            options={"enable_fp_fusion": True, "num_warps": warps},
        )
        usage = resources(made.asm["cubin"])
        single_warps = ONE_WARP[torch.float32 if scores == "fp32" else torch.float64]
        one = (capability // 10, constants.get("FORWARD")) in single_warps
        launched = "FORWARD" not in constants or (warps == 1) == one
        spilled = usage["STACK"] + usage["LOCAL"]
        found.append(Kernel(name, capability, scores, usage["REG"], made.metadata.shared, spilled, warps, launched))
    return found


def resources(cubin: bytes) -> dict[str, int]:
    """Registers, stack and local memory of a thread, as NVIDIA's own tool reads them, which comes with Triton."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(CUOBJDUMP), "--dump-resource-usage", file.name]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    line = next(line for line in shown.splitlines() if "REG:" in line)
    return {key: int(value) for key, value in (word.split(":")[:2] for word in line.split()) if value.isdigit()}


def work(size: int, num_levels: int, *, forward: bool) -> tuple[float, float, float, float]:
    """What a row takes: pairs with points, pairs with sources; of all lanes, steps of searches and programs."""
    random, done, groups = np.random.default_rng(0), np.zeros(4), group_sizes(size, num_levels)
    values = [-np.sort(-random.standard_normal(count) * SPREAD) for count in groups]
    reach = triton_kernel.ACCURACY[torch.float32].reach * TAU
    for own, mine in enumerate(values):
        tops, bottoms = edges(mine, OWN)
        sources = range(own) if forward else range(own + 1, len(groups))
        done[3] += len(tops) * 32 * bool(sources)
        for other in sources:
            highs, lows = edges(values[other], TILE)
            most, least = highs - bottoms[:, None], lows - tops[:, None]
            if not forward:
                most, least = tops[:, None] - lows, bottoms[:, None] - highs
            met, run = (most > -reach) & (least <= DELTA), runs(highs, lows)
            narrow = triton_kernel.ACCURACY[torch.float32].narrow * TAU
            is_far = (highs - lows <= 2 * narrow) & (most < -narrow)
            smooth = met & (most <= DELTA) & ((run > 0) | is_far)
            first = smooth & ~(
                np.pad(smooth, ((0, 0), (1, 0)))[:, :-1] & (np.arange(len(run)) % np.maximum(run, 1) > 0)
            )
            held = np.diff([*range(0, len(values[other]), TILE), len(values[other])])
            evaluated = ((met & ~smooth) @ (-(-held // POINTS) * POINTS)).sum()
            steps = len(tops) * 32 * (len(run).bit_length() + 1)
            done += first.sum() * POINTS * OWN, evaluated * OWN, steps, 0
    return done[0], done[1], done[2], done[3]


def group_sizes(size: int, num_levels: int) -> list[int]:
    """How many items of a row are at each level."""
    if num_levels == 1:
        return [size - 4, 3]
    counts = [size // 2, *(size >> (level + 1) for level in range(1, num_levels - 1))]
    return [*counts, size - sum(counts) - 4, 3]


def runs(highs: np.ndarray, lows: np.ndarray) -> np.ndarray:
    """How many tiles the run of each has."""
    tiles, found = np.arange(len(highs)), np.zeros(len(highs), int)
    for size in 2 ** np.arange(len(highs).bit_length() + 1):
        stop = np.minimum(tiles // size * size + size, len(tiles)) - 1
        narrow = highs[tiles // size * size] - lows[stop] <= triton_kernel.ACCURACY[torch.float32].narrow * TAU
        found[narrow] = size
    return found


def edges(values: np.ndarray, tile: int) -> tuple[np.ndarray, np.ndarray]:
    """The highest and the lowest value of each tile."""
    begins = np.arange(0, len(values), tile)
    return values[begins], values[np.minimum(begins + tile, len(values)) - 1]


def loss_parts(card: Card, size: int, num_levels: int = 2) -> dict[str, float]:
    """Milliseconds of Sup-H-AP, forward and backward, on 512-d embeddings."""
    scores, products = size * size, 2 if size * size <= 1 << 26 else 3
    done = {forward: work(size, num_levels, forward=forward) for forward in INSTRUCTIONS}
    lanes = sum(size * float(np.dot(done[forward], INSTRUCTIONS[forward])) for forward in INSTRUCTIONS)
    special = sum(size * SPECIAL * sum(done[forward][:2]) for forward in INSTRUCTIONS)
    groups = group_sizes(size, num_levels)
    counted = sum(groups[own] * sum(math.log2(other + 1) for other in groups[own:]) for own in range(1, len(groups)))
    tables = scores / TILE * (POINTS + 2) * 8 * 4 * 2  # cleared, written, read and written again; both ways
    return {
        "products": 1e3 * products * 2 * scores * 512 / (flops(card) * PRODUCT_REACHED),
        "sort": by_bytes(card, scores * SORT_BYTES),
        "counts": by_instructions(card, 2 * size * counted * COUNT_INSTRUCTIONS),
        "points": by_instructions(card, 2 * scores / TILE * 32 * TILE_INSTRUCTIONS) + by_bytes(card, tables),
        "pairs": max(by_instructions(card, lanes), by_instructions(card, special * card.lanes / 16)),
        "small operations": by_bytes(card, scores * SMALL_BYTES),
    }


def evaluation_parts(card: Card, items: int, dimensions: int, positives: int) -> dict[str, float]:
    """Milliseconds of a self-retrieval with so many positives a query."""
    scores, placed = items * items, items * positives
    lookups = scores * math.ceil(math.log2(positives + 1)) * 8
    return {
        "product": 1e3 * 2 * scores * dimensions / (flops(card) * PRODUCT_REACHED),
        "counts": max(by_bytes(card, scores * 8), by_instructions(card, lookups)),
        "positives put in order": by_bytes(card, placed * (SORT_BYTES + 40)),
        "copies to the processor": 1e3 * placed * 4 / (card.to_host * 1e9),
    }


def flops(card: Card) -> float:
    """Of float32, a second."""
    return 2 * card.lanes * card.multiprocessors * card.gigahertz * 1e9


def by_instructions(card: Card, number: float) -> float:
    """Milliseconds in which the lanes take so many."""
    return 1e3 * number / (card.lanes * card.multiprocessors * card.gigahertz * 1e9 * PAIRS_REACHED)


def by_bytes(card: Card, number: float) -> float:
    """Milliseconds in which so many bytes are read or written."""
    return 1e3 * number / (card.gigabytes * 1e9 * BYTES_REACHED)


def bound(parts: dict[str, float]) -> str:
    """The part that takes longest."""
    return max(parts, key=lambda name: parts[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", action="store_true", help="the compiled kernels alone, as JSON")
    parser.add_argument("--capabilities", type=int, nargs="+", default=[80, 90, 100])
    arguments = parser.parse_args()
    kernels = [kernel for capability in arguments.capabilities for kernel in compiled(capability)]
    if arguments.kernels:
        doubles = compiled(90, "fp64")
        print(json.dumps([{**kernel._asdict(), "occupancy": kernel.occupancy} for kernel in [*kernels, *doubles]]))
        return
    print("| kernel | sm | registers | shared, bytes | spilled | occupancy |\n|---|---:|---:|---:|---:|---:|")
    for kernel in filter(attrgetter("launched"), kernels):
        numbers = f"{kernel.registers} | {kernel.shared:,} | {kernel.spilled} | {kernel.occupancy:.0%}"
        print(f"| {kernel.name} | {kernel.capability} | {numbers} |")
    print(f"\n| Sup-H-AP, ms | {' | '.join(card.name for card in CARDS)} | bound |\n|---|{'---:|' * len(CARDS)}---|")
    for size in (1024, 2048, 4096, 8192, 16384):
        print(row(f"B = {size:,}", [loss_parts(card, size) for card in CARDS]))
    for positives in (50, 65_000):
        parts = [evaluation_parts(card, 136_000, 512, positives) for card in CARDS]
        print(row(f"evaluation of 136,000, {positives:,} positives", parts))


def row(name: str, parts: list[dict[str, float]]) -> str:
    """One line of a table: the milliseconds on each card, and what bounds them."""
    shown = " | ".join(f"{sum(each.values()):,.1f}" for each in parts)
    shares = ", ".join(f"{part} {value / sum(parts[0].values()):.0%}" for part, value in parts[0].items())
    return f"| {name} | {shown} | {bound(parts[0])} ({shares}) |"


if __name__ == "__main__":
    main()
