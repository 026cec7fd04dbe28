"""Rank losses on a GPU, forward + backward: triton backend, torch backend, dense B×B×B, and the floor.

Run ``python benchmarks/losses_gpu.py`` on a CUDA machine; some minutes, most of them for the largest batch and for the
network. Values and gradients are checked first, against the torch backend in float64. Batches: 512-d float32 at random,
four images a class, two super-categories (L = 2), each split in two (L = 3). Times are medians, by CUDA events, from
embeddings to their gradient. The floor is that of a kernel that evaluates every pair of a target and a candidate,
forward and backward: each takes an exponential and a division, which the special-function units of a multiprocessor do
for 32 pairs in 4 cycles. Memory is the peak beyond the inputs.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
from collections.abc import Callable

import torch
from torch import Tensor

from hiertree import level_counts, levels, losses
from hiertree.losses import functional
from hiertree.losses.base import PairLoss
from hiertree.losses.kernels.base import Backend
from hiertree.losses.pairs.blocks import in_chunks
from hiertree.losses.pairs.pairs import pairs_of
from hiertree.relevance import hap

DIMENSIONS, ROUNDS, TOLERANCE = 512, 7, 1e-5
TORCH_UP_TO, DENSE_UP_TO = 2048, 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[512, 1024, 4096, 16384])
    parser.add_argument("--network-chunk", type=int, default=128, help="images of a ResNet-50 step in memory at once")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device: nothing to measure")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for num_levels in (2, 3):
        check(num_levels)
    print("loss      L       B   candidates  triton ms   torch ms   dense ms  floor ms  triton/floor       MiB")
    for name in ("SupHAP", "SupNDCG"):
        for num_levels in (2, 3):
            for size in arguments.batches:
                print_row(name, num_levels, size)
    print_row("SupHAP", 2, 2048, memory=16384)
    print_share_of_a_network(arguments.network_chunk)


def check(num_levels: int) -> None:
    """Stop unless float32 in triton agrees with float64 in torch, from the same scores."""
    torch.manual_seed(0)
    unit = torch.nn.functional.normalize(torch.randn(256, DIMENSIONS, device="cuda"), dim=1)
    scores, paths = unit @ unit.T, batch_paths(256, num_levels)
    level, valid = levels(paths, paths), ~torch.eye(256, dtype=torch.bool, device="cuda")
    table = hap(level_counts(level, num_levels, valid=valid))
    for name in ("sup_hap", "sup_ndcg", "sup_ap", "sup_recall", "smooth_hap", "smooth_ndcg", "smooth_ap"):
        loss, found = getattr(functional, name), []
        for dtype, backend in ((torch.float32, "triton"), (torch.float64, "torch")):
            leaf = scores.to(dtype, copy=True).requires_grad_()
            value = loss(leaf, level, table, valid=valid, backend=backend)
            found.append((value.detach().double(), torch.autograd.grad(value, leaf)[0].double()))
        errors = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(*found, strict=True)]
        print(f"{name}, L = {num_levels}: relative error {errors[0]:.0e} of the value, {errors[1]:.0e} of the gradient")
        if not max(errors) < TOLERANCE:
            raise SystemExit(f"{name}: the triton backend is wrong on this machine")


def print_row(name: str, num_levels: int, size: int, *, memory: int = 0) -> None:
    """One line of the table."""
    torch.manual_seed(0)
    module: PairLoss = getattr(losses, name)()
    embeddings, paths = torch.randn(size, DIMENSIONS, device="cuda", requires_grad=True), batch_paths(size, num_levels)
    others = (torch.randn(memory, DIMENSIONS, device="cuda"), batch_paths(memory, num_levels)) if memory else ()

    def run(backend: Backend) -> None:
        in_chunks(module.query_losses, pairs_of(embeddings, paths, *others)._replace(backend=backend)).mean().backward()

    triton, mebibytes = milliseconds(lambda: run("triton"))
    candidates = memory or size
    torch_time = milliseconds(lambda: run("torch"))[0] if candidates <= TORCH_UP_TO else math.nan
    dense = math.nan
    if name == "SupHAP" and candidates <= DENSE_UP_TO:
        dense, _ = milliseconds(lambda: dense_sup_hap(embeddings, paths).backward())
    floor = floor_milliseconds(paths, others[1] if others else paths, num_levels, own=not memory)
    start = f"{name:<9} {num_levels} {size:>7} {candidates:>12}"
    times = f"{triton:>10.2f} {torch_time:>10.1f} {dense:>10.1f} {floor:>9.2f}"
    print(f"{start} {times} {triton / floor:>13.1f} {mebibytes:>9.0f}", flush=True)


def milliseconds(run: Callable[[], object]) -> tuple[float, float]:
    """The median time, after two rounds that compile and warm up, and the peak memory beyond what was there."""
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times), (torch.cuda.max_memory_allocated() - before) / 2**20


def floor_milliseconds(paths: Tensor, candidate_paths: Tensor, num_levels: int, *, own: bool) -> float:
    """Every target with every candidate of a lower level, forward and backward."""
    pairs = 0
    for rows in paths.split(1024):
        counts = level_counts(levels(rows, candidate_paths), num_levels).double()
        counts[:, -1] -= int(own)  # a query is not its own candidate
        pairs += float((counts.cumsum(dim=1)[:, :-1] * counts[:, 1:]).sum())
    clock = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits", "--id=0"]
    megahertz = float(subprocess.run(clock, check=True, capture_output=True, text=True).stdout)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    return 2 * pairs * 4 / 32 / multiprocessors / (megahertz * 1e3)


def print_share_of_a_network(chunk: int) -> None:
    """The loss compared with a forward and backward pass of ResNet-50, 512 images of 224 × 224, bfloat16."""
    from torchvision.models import resnet50

    network = resnet50(num_classes=DIMENSIONS).cuda().to(memory_format=torch.channels_last)
    images = torch.randn(chunk, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)

    def step() -> None:
        for _ in range(512 // chunk):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                embeddings = network(images)
            embeddings.float().sum().backward()

    embeddings, paths = torch.randn(512, DIMENSIONS, device="cuda", requires_grad=True), batch_paths(512, 2)
    loss, network_time = losses.SupHAP(), milliseconds(step)[0]
    loss_time, _ = milliseconds(lambda: loss(embeddings, paths).backward())
    print(f"ResNet-50, 512 images: {network_time:.0f} ms; SupHAP {loss_time:.2f} ms, {loss_time / network_time:.1%}")


def batch_paths(size: int, num_levels: int) -> Tensor:
    """(B, L): two super-categories, each split in two per further level, then classes of four images."""
    fine = torch.arange(size, device="cuda") // 4
    coarser = [torch.arange(size, device="cuda") * 2**level // size for level in range(1, num_levels)]
    return torch.stack([*coarser, fine], dim=1)


def dense_sup_hap(embeddings: Tensor, paths: Tensor, tau: float = 0.01, rho: float = 100.0) -> Tensor:
    """Sup-H-AP as the papers' code writes it: every (query, positive, candidate) at once, and autograd."""
    unit = torch.nn.functional.normalize(embeddings, dim=1)
    scores, level = unit @ unit.T, levels(paths, paths)
    other = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    table = hap(level_counts(level, paths.shape[1], valid=other)).to(scores.dtype)
    relevance = table.gather(1, level.long()) * other
    t = scores[:, None, :] - scores[:, :, None]  # (query, k, j)
    pair, finer = other[:, None, :] & other[None], level[:, None, :] >= level[:, :, None]
    ahead, delta = (t >= 0) * pair, tau * math.log(99)
    near = torch.sigmoid(t / tau)
    step = torch.where(t < 0, near, torch.where(t <= delta, near + 0.5, rho * (t - delta) + 0.99 + 0.5))
    rank = 1 + (ahead * finer).sum(dim=2) + (step * (pair & ~finer)).sum(dim=2)
    shared = torch.minimum(relevance[:, None, :], relevance[:, :, None])
    hierarchical_rank = relevance + (shared * ahead).sum(dim=2)
    return (1 - (hierarchical_rank / rank).sum(dim=1) / relevance.sum(dim=1)).mean()


if __name__ == "__main__":
    main()
