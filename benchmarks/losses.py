"""Time and memory of the rank losses, forward + backward: dense B×B×B, hiertree, bare products.

Run ``python benchmarks/losses.py``; about two minutes on two idle cores. One process a batch size runs all
implementations in turn, again and again, the dense one once; times are medians by the clock, and the ratio to the
products stands beside in processor time. Rounds that other processes disturb are repeated; where the machine is not
idle, the row says so instead of a ratio. *Products* are the three matrix products that no such loss can avoid:
s = e·eᵀ, and two back. Memory is the peak of one forward and backward beyond the imports and the inputs, in a process
of its own. Batches: 512-d float32 at random, four images a class, two super-categories (L = 2), each split in two
(L = 3). ``growth.py`` measures how the time grows with B.

``--each`` prints a table of all losses of pairs instead, with L = 3: the time at each size, and the errors of float32
against float64 from the same scores (embeddings, for losses of codes): of the value, and of the gradient in parts of
its largest entry.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idle_machine import Timing, in_turn, medians, ratio, timed

if TYPE_CHECKING:
    from torch import Tensor

DENSE_UP_TO = 256  # dense needs 4.4 GiB at 512
DIMENSIONS = 512
ROUNDS = 5
STATUS = Path("/proc/self/status")
Times = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--memory-items", type=int, default=0, help="candidates of a memory instead of the batch")
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--losses", nargs="+", default=["SupHAP", "SupNDCG"])
    parser.add_argument("--dense-up-to", type=int, default=DENSE_UP_TO)
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0 leaves its own number")
    parser.add_argument("--each", action="store_true", help="a table of all losses of pairs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(**json.loads(arguments.one))))
        return
    if arguments.each:
        print_each(arguments.batches)
        return
    print(
        "loss      L      B     dense s  hiertree s  dense/hiertree  hiertree/products  processor's      MiB  matrices"
    )
    for loss in arguments.losses:
        for num_levels in arguments.levels:
            print_growth({size: print_row(loss, num_levels, size, arguments) for size in arguments.batches})


def print_each(sizes: list[int]) -> None:
    """A table of the losses that compare pairs."""
    from hiertree import losses
    from hiertree.losses.base import PairLoss
    from hiertree.losses.hashing import CodeLoss

    public = {name: getattr(losses, name) for name in losses.__all__}
    classes = {name: each for name, each in public.items() if isinstance(each, type)}
    classes["HierarchicalTriplet"] = partial(losses.HierarchicalTriplet, (0.05, 0.1, 0.2))
    is_of_pairs = (PairLoss, CodeLoss)
    names = [name for name in classes if isinstance(public[name], type) and issubclass(public[name], is_of_pairs)]
    times = " | ".join(f"B = {size:,}, ms" for size in sizes)
    print(f"| loss | {times} | error of the value | of the gradient |\n|---|{'---:|' * (len(sizes) + 2)}")
    for name in names:
        clocks = [median_milliseconds(classes[name](), size) for size in sizes]
        errors = [f"{error:.0e}" for error in float32_errors(classes[name]())]
        print(f"| {' | '.join([name, *clocks, *errors])} |", flush=True)


def median_milliseconds(loss: Any, size: int) -> str:
    """Of forward and backward."""
    import torch

    embeddings, paths = torch.randn(size, DIMENSIONS, requires_grad=True), batch_paths(size, 3)
    found = in_turn({"loss": lambda: timed(lambda: loss(embeddings, paths).backward())}, ROUNDS, divisor="loss")
    return f"{medians(found['loss']).clock * 1e3:.1f}"


def float32_errors(loss: Any, size: int = 256) -> tuple[float, float]:
    """The relative error of the value, and the largest of the gradient in parts of its largest entry."""
    import torch

    from hiertree.losses.pairs.pairs import pairs_of

    torch.manual_seed(0)
    embeddings, paths = torch.randn(size, DIMENSIONS), batch_paths(size, 3)
    pairs = pairs_of(embeddings, paths).compared()
    results = []
    for dtype in (torch.float32, torch.float64):
        if hasattr(loss, "of_scores"):
            leaf = pairs.scores.to(dtype).requires_grad_()
            value = loss.of_scores(pairs._replace(scores=leaf))
        else:
            leaf = embeddings.to(dtype).requires_grad_()
            value = loss(leaf, paths)
        results.append((value.item(), *torch.autograd.grad(value, leaf)))
    (value, gradient), (exact, exact_gradient) = results
    largest = exact_gradient.abs().max().item()
    return abs(value / exact - 1), (gradient - exact_gradient).abs().max().item() / largest


def print_row(loss: str, num_levels: int, size: int, arguments: argparse.Namespace) -> Times:
    """One line of the table; the seconds of each implementation."""
    case = {"loss": loss, "num_levels": num_levels, "size": size, "memory_items": arguments.memory_items}
    case |= {"threads": arguments.threads}
    names = ["products", "hiertree"] + ["dense"] * (size <= arguments.dense_up_to)
    found = in_a_process(case | {"names": names, "rounds": ROUNDS})
    times: Times = found["seconds"]
    peak = in_a_process(case | {"names": ["hiertree"], "rounds": 0})["mebibytes"]
    matrix = size * (arguments.memory_items or size) / (1 << 18)
    shown = [f"{times[name]:>10.4f}" if name in times else "         —" for name in ("dense", "hiertree")]
    ratios = f"{found['dense / hiertree']:>14}  {found['hiertree / products']:>17}  {found['of the processor']:>11.1f}"
    start, memory = f"{loss:<9} {num_levels} {size:>6}", f"{peak:>9.1f}  {peak / matrix:>14.1f}"
    print(f"{start}   {' '.join(shown)}  {ratios}  {memory}", flush=True)
    return times


def print_growth(times: dict[int, Times]) -> None:
    """The exponent of B in the times, by least squares on logarithms."""
    if len(times) < 2:
        return
    logarithms = [math.log(size) for size in times], [math.log(found["hiertree"]) for found in times.values()]
    slope = statistics.linear_regression(*logarithms).slope
    print(f"          grows with B to the power {slope:.2f}", flush=True)


def in_a_process(case: dict[str, Any]) -> dict[str, Any]:
    """Measure in a fresh interpreter."""
    command = [sys.executable, __file__, "--one", json.dumps(case)]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def measure(
    *,
    names: list[str],
    rounds: int,
    loss: str,
    num_levels: int,
    size: int,
    memory_items: int,
    threads: int,
) -> dict[str, Any]:
    """Median seconds of each implementation, their ratios, and the peak MiB beyond the inputs."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    embeddings = torch.randn(size, DIMENSIONS, requires_grad=True)
    paths = batch_paths(size, num_levels)
    memory = (torch.randn(memory_items, DIMENSIONS), batch_paths(memory_items, num_levels)) if memory_items else ()
    runs = {name: implementation(name, loss, embeddings, paths, memory) for name in names}
    few = torch.randn(8, DIMENSIONS, requires_grad=True)
    for name in names:  # compile, and load what is loaded lazily
        implementation(name, loss, few, batch_paths(8, num_levels), ())()
    runs["hiertree"]()  # which loads what few rows do not need
    before = resident_mebibytes()
    runs["hiertree"]()
    peak = peak_mebibytes() - before
    if rounds == 0:
        return {"mebibytes": peak}
    works: dict[str, Callable[[], Timing]] = {name: partial(timed, run) for name, run in runs.items()}
    dense = {"dense": [works.pop("dense")()]} if "dense" in works else {}  # once: it takes as long as all else together
    found = in_turn(works, rounds, divisor="products") | dense
    middle = {name: medians(timings) for name, timings in found.items()}
    return {
        "seconds": {name: timing.clock for name, timing in middle.items()},
        "dense / hiertree": ratio(found["dense"], found["hiertree"], decimals=0) if dense else "—",
        "hiertree / products": ratio(found["hiertree"], found["products"], decimals=1),
        "of the processor": middle["hiertree"].processor / middle["products"].processor,
    }


def resident_mebibytes() -> float:
    """What the process holds now, from where its peak is counted anew; elsewhere than on Linux, its peak so far."""
    if not STATUS.exists():
        return peak_mebibytes()
    if give_back := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps what was freed
        give_back(0)
    (STATUS.parent / "clear_refs").write_text("5")
    return peak_mebibytes()


def peak_mebibytes() -> float:
    """The most the process has held."""
    if STATUS.exists():
        lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / (1 << 10)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)  # bytes, on macOS


def implementation(
    name: str, loss: str, embeddings: Tensor, paths: Tensor, memory: tuple[Tensor, Tensor] | tuple[()]
) -> Callable[[], None]:
    """One forward and backward pass."""
    from hiertree import losses

    module, detached = getattr(losses, loss)(), embeddings.detach()

    def hiertree() -> None:
        embeddings.grad = None
        module(embeddings, paths, *memory).backward()

    def products() -> None:
        candidates = memory[0] if memory else detached
        scores = detached @ candidates.T
        _ = scores @ candidates
        if not memory:
            _ = scores.T @ detached

    def dense() -> None:
        embeddings.grad = None
        dense_loss(embeddings, paths, loss).backward()

    return {"products": products, "dense": dense, "hiertree": hiertree}[name]


def batch_paths(size: int, num_levels: int) -> Tensor:
    """(B, L): two super-categories, each split in two per further level, then classes of four images."""
    import torch

    fine = torch.arange(size) // 4
    coarser = [torch.arange(size) * 2**level // size for level in range(1, num_levels)]
    return torch.stack([*coarser, fine], dim=1)


def dense_loss(embeddings: Tensor, paths: Tensor, loss: str) -> Tensor:
    """Sup-H-AP or Sup-NDCG as the papers' code writes them: every (query, positive, candidate) at once, autograd."""
    import torch

    from hiertree import level_counts, levels
    from hiertree.relevance import gain, hap

    unit = torch.nn.functional.normalize(embeddings, dim=1)
    scores, level = unit @ unit.T, levels(paths, paths)
    other = ~torch.eye(len(scores), dtype=torch.bool)
    counts = level_counts(level, paths.shape[1], valid=other)
    table = (hap(counts) if loss == "SupHAP" else gain(counts)).to(scores.dtype)
    relevance = table.gather(1, level.long()) * other
    differences = scores[:, None, :] - scores[:, :, None]  # (query, k, j)
    pair = other[:, None, :] & other[None]
    heaviside = (differences >= 0) * pair
    finer = level[:, None, :] >= level[:, :, None]
    rank = 1 + (heaviside * finer).sum(dim=2) + (h_minus(differences) * (pair & ~finer)).sum(dim=2)
    if loss == "SupNDCG":
        places = torch.arange(1, len(scores) + 1)
        ideal = (relevance.sort(dim=1, descending=True).values / torch.log2(1 + places)).sum(dim=1)
        return (1 - (relevance / torch.log2(1 + rank)).sum(dim=1) / ideal).mean()
    shared = torch.minimum(relevance[:, None, :], relevance[:, :, None])
    hierarchical_rank = relevance + (shared * heaviside).sum(dim=2)
    return (1 - (hierarchical_rank / rank).sum(dim=1) / relevance.sum(dim=1)).mean()


def h_minus(differences: Tensor, tau: float = 0.01, rho: float = 100.0) -> Tensor:
    """The step function with its default δ and offset."""
    import torch

    delta = tau * math.log(99)
    near = torch.sigmoid(differences / tau)
    tail = rho * (differences - delta) + 0.99 + 0.5
    return torch.where(differences < 0, near, torch.where(differences <= delta, near + 0.5, tail))


if __name__ == "__main__":
    main()
