"""What the losses and the evaluation should take on a GPU, from the compiled kernels and from what they read and do.

Run ``python benchmarks/gpu_model.py`` anywhere: Triton compiles for GPUs that are not there. It prints each kernel's
registers, shared memory, spills and occupancy, and the milliseconds of each part, of which the largest is the bound.
``--kernels`` prints the kernels as JSON. ``gpu.py`` prints measured times beside these.

Peaks are those of the data sheets. A part takes the longer of its bytes and its operations, at the share of the peak
that such kernels commonly reach. Where pairs are evaluated is counted with random scores in the tiles of the kernels.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from hiertree.losses.kernels import triton_kernel, triton_rows
from hiertree.losses.kernels.triton_kernel import BLOCK, OWN, POINTS, SUMMED, TILE
from hiertree.metrics.engine import triton_counting

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
BYTES_REACHED, PRODUCT_REACHED, PAIRS_REACHED = 0.8, 0.8, 0.5  # of the peaks
SORT_BYTES = 100  # an item: four passes of a radix sort over 4 + 8 bytes, read and written
SMALL_BYTES = 160  # a score: masks, levels, zeros, ranks and quotients by torch's own operations, forward and backward
ALU, SPECIAL = {"forward": 16, "backward": 9}, 2  # instructions a pair: one exponential, one reciprocal
SPREAD, TAU, DELTA = 512**-0.5, 0.01, 0.01 * math.log(99)  # of the cosines of random vectors; of the step
POINTERS = {
    **dict.fromkeys(("items", "arranged_items", "own_items", "first", "own_first", "acting", "ahead"), "*i32"),
    **dict.fromkeys(("counts", "others"), "*i32"),
    **dict.fromkeys(("low", "high", "number", "key", "index"), "*i64"),
    **dict.fromkeys(("weight", "moment"), "*fp64"),
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

    @property
    def occupancy(self) -> float:
        """The share of the 64 warps of a multiprocessor that its 65,536 registers hold."""
        of_a_warp = math.ceil(self.registers * 32 / 256) * 256
        return min(65536 // (of_a_warp * self.warps) * self.warps / 64, 1.0)


def sources() -> Iterator[tuple[str, Any, dict[str, Any], int]]:
    """Every kernel with its constants, for three levels, and its warps."""
    tiles = {"TILE": TILE, "POINTS": POINTS, "GROUPS": 4}
    counting = {"BLOCK": triton_counting.BLOCK, "BLOCKS": triton_counting.BLOCKS, "BY_INDEX": False}
    yield "count_groups", triton_rows.count_groups, {"BLOCK": BLOCK}, 4
    yield "arrange", triton_rows.arrange, {"BLOCK": BLOCK}, 4
    yield "condense", triton_rows.condense, tiles, 1
    yield "accumulate", triton_rows.accumulate, {"BLOCK": SUMMED}, 4
    for way in ("forward", "backward"):
        yield f"sum_steps {way}", triton_rows.sum_steps, {**tiles, "OWN": OWN, "FORWARD": way == "forward"}, 4
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
        if name == "accumulate":
            signature["sums"] = "*fp64"
        places = {(kernel.arg_names.index(argument),): value for argument, value in constants.items()}
        options = {"enable_fp_fusion": True, "num_warps": warps}
        made = triton.compile(
            ASTSource(fn=kernel, signature=signature, constexprs=places),
            target=GPUTarget("cuda", capability, 32),
            options=options,
        )
        usage = resources(made.asm["cubin"])
        spilled = usage["STACK"] + usage["LOCAL"]
        found.append(Kernel(name, capability, scores, usage["REG"], made.metadata.shared, spilled, warps))
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


def evaluated_pairs(size: int, num_levels: int, *, forward: bool) -> float:
    """Pairs of destinations and sources, or of the points that replace these, that a row evaluates."""
    below = size - 4 if num_levels == 1 else size // 2
    counts = [below, *(size >> (level + 1) for level in range(1, num_levels - 1))]
    groups = [*counts, size - sum(counts) - 4, 3] if num_levels > 1 else [below, 3]
    random, total = np.random.default_rng(0), 0
    values = [-np.sort(-random.standard_normal(count) * SPREAD) for count in groups]
    accuracy = triton_kernel.ACCURACY[torch.float32]
    for own, mine in enumerate(values):
        for other in range(own) if forward else range(own + 1, len(groups)):
            tops, bottoms = edges(mine, OWN)
            highs, lows = edges(values[other], TILE)
            most, least = highs - bottoms[:, None], lows - tops[:, None]
            if not forward:
                most, least = tops[:, None] - lows, bottoms[:, None] - highs
            met = (most > -accuracy.reach * TAU) & (least <= DELTA)
            smooth = (most <= DELTA) & ((least >= 0) | (most < 0)) & (highs - lows <= accuracy.narrow * TAU)
            total += int(np.where(met, np.where(smooth, POINTS, TILE), 0).sum()) * OWN
    return float(total)


def edges(values: np.ndarray, tile: int) -> tuple[np.ndarray, np.ndarray]:
    """The highest and the lowest value of each tile."""
    begins = np.arange(0, len(values), tile)
    return values[begins], values[np.minimum(begins + tile, len(values)) - 1]


def loss_parts(card: Card, size: int, num_levels: int = 2) -> dict[str, float]:
    """Milliseconds of Sup-H-AP, forward and backward, on 512-d embeddings."""
    scores, products = size * size, 2 if size * size <= 1 << 26 else 3
    pairs = {way: scores / size * evaluated_pairs(size, num_levels, forward=way == "forward") for way in ALU}
    clocks = sum(pairs[way] * max(ALU[way] / card.lanes, SPECIAL / 16) for way in ALU)
    return {
        "products": 1e3 * products * 2 * scores * 512 / (flops(card) * PRODUCT_REACHED),
        "sort": by_bytes(card, scores * SORT_BYTES),
        "pairs": 1e3 * clocks / (card.multiprocessors * card.gigahertz * 1e9 * PAIRS_REACHED),
        "small operations": by_bytes(card, scores * SMALL_BYTES),
    }


def evaluation_parts(card: Card, items: int, dimensions: int, positives: int) -> dict[str, float]:
    """Milliseconds of a self-retrieval with so many positives a query."""
    scores, placed = items * items, items * positives
    lookups = scores * math.ceil(math.log2(positives + 1)) * 8 / card.lanes
    return {
        "product": 1e3 * 2 * scores * dimensions / (flops(card) * PRODUCT_REACHED),
        "counts": max(
            by_bytes(card, scores * 8),
            1e3 * lookups / (card.multiprocessors * card.gigahertz * 1e9 * PAIRS_REACHED),
        ),
        "positives put in order": by_bytes(card, placed * (SORT_BYTES + 40)),
        "copies to the processor": 1e3 * placed * 13 / (card.to_host * 1e9),
    }


def flops(card: Card) -> float:
    """Of float32, a second."""
    return 2 * card.lanes * card.multiprocessors * card.gigahertz * 1e9


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
    for kernel in kernels:
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
