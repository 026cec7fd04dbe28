"""Time and memory of the rank losses, forward + backward, against the dense B×B×B formulation.

Run ``python benchmarks/losses.py``; about two minutes on two cores. Each measurement is a process of its own, so that
its peak memory (beyond the imports and the inputs) is its own. Batches: 512-d float32, four images a class, two
super-categories (L = 2) that have two branches each at L = 3. Times are medians; the ratio is dense / ours.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

DENSE_UP_TO = 512  # 768 would need more than 10 GiB
SECONDS, MOST_RUNS = 2.0, 9  # a measurement runs again until either is reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 256, 512, 1024])
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)  # implementation, loss, batch, levels
    arguments = parser.parse_args()
    if arguments.one:
        implementation, loss, size, num_levels = arguments.one
        print(json.dumps(measure(implementation, loss, int(size), int(num_levels), arguments.threads)))
        return
    print(f"{'loss':<9} L     B    dense s     ours s   ratio  dense MiB   ours MiB  gradients differ by")
    for loss in ("SupHAP", "SupNDCG"):
        for num_levels in arguments.levels:
            for size in arguments.batches:
                print(row(loss, num_levels, size, arguments.threads), flush=True)


def row(loss: str, num_levels: int, size: int, threads: int) -> str:
    """One line of the table."""
    ours = in_a_process("ours", loss, size, num_levels, threads)
    start = f"{loss:<9} {num_levels} {size:>5}"
    if size > DENSE_UP_TO:
        return f"{start}          —  {ours['seconds']:>9.4f}       —          —  {ours['mebibytes']:>9.1f}"
    dense = in_a_process("dense", loss, size, num_levels, threads)
    ratio = dense["seconds"] / ours["seconds"]
    difference = max(abs(a - b) for a, b in zip(dense["gradient"], ours["gradient"], strict=True))
    largest = max(map(abs, dense["gradient"]))
    return (
        f"{start}  {dense['seconds']:>9.3f}  {ours['seconds']:>9.4f}  {ratio:>6.1f}"
        f"  {dense['mebibytes']:>9.1f}  {ours['mebibytes']:>9.1f}  {difference / largest:.1e} of the largest"
    )


def in_a_process(implementation: str, loss: str, size: int, num_levels: int, threads: int) -> dict[str, Any]:
    """Measure in a fresh interpreter."""
    command = [sys.executable, __file__, "--threads", str(threads)]
    command += ["--one", implementation, loss, str(size), str(num_levels)]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def measure(implementation: str, loss: str, size: int, num_levels: int, threads: int) -> dict[str, Any]:
    """Median seconds, peak MiB beyond the inputs, and the first row of the gradient."""
    import torch

    from hiertree import losses

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    paths = batch_paths(size, num_levels)
    embeddings = torch.randn(size, 512, requires_grad=True)
    ours = getattr(losses, loss)()

    def run() -> float:
        embeddings.grad = None
        begin = time.perf_counter()
        value = ours(embeddings, paths) if implementation == "ours" else dense_loss(embeddings, paths, loss)
        value.backward()
        return time.perf_counter() - begin

    ours(torch.randn(8, 512, requires_grad=True), batch_paths(8, num_levels)).backward()  # load what is loaded lazily
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = [run()]
    while sum(times) < SECONDS and len(times) < MOST_RUNS:
        times.append(run())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if embeddings.grad is None:
        raise RuntimeError("no gradient reached the embeddings")
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return {"seconds": statistics.median(times), "mebibytes": peak / unit, "gradient": embeddings.grad[0].tolist()}


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
