"""Every loss and metric on a GPU: does it equal the processor's, and how long does it take?

Run ``python benchmarks/gpu.py`` on a CUDA machine; some minutes. First each rank loss of the same float32 scores is
compared with float64 on the processor, each other loss with itself there, and an evaluation with the processor's. Then
Sup-H-AP, forward and backward on 512-d float32 embeddings (four images a class, two super-categories), an evaluation of
136,000 × 512, and the loss's share of a ResNet-50 step are timed. Times are medians by the clock; where other processes
use the processors the row says so. Memory is the peak beyond the inputs. ``--bytes`` prints instead what the operations
of a loss read and write, for which no card is needed. ``--dry-run`` takes the same way on a CPU, with few images.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from idle_machine import MOST_OF_OTHERS, in_turn, medians, timed
from torch.utils._python_dispatch import TorchDispatchMode

from hiertree import level_counts, levels, losses
from hiertree.losses import SupHAP, functional
from hiertree.losses.pairs import pairs
from hiertree.losses.pairs.blocks import SCORES_AT_ONCE
from hiertree.metrics import evaluate
from hiertree.relevance import hap
from losses import batch_paths

DIMENSIONS, CHECKED, ROUNDS = 512, 256, 5
OF_SCORES, OF_EMBEDDINGS, OF_METRICS = 5e-6, 1e-3, 1e-5  # the last two may see near scores in another order
RANK_LOSSES = [f"{family}_{name}" for family in ("sup", "smooth") for name in ("hap", "ndcg", "ap", "recall")]
PLAIN = ["PairDecomposability", "FastAP", "BlackboxAP", "SupCon", "TieAwareAP", "TieAwareNDCG", "ROADMAP"]
PLAIN += ["HashNet", "DPSH", "DTSH", "MIHash"]
WITH_PROXIES = ["HAPPIER", "RODNDCG", "RODRecall", "ProxyDecomposability"]
H100_BYTES = 3e12  # a second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--items", type=int, default=136_000)
    parser.add_argument("--network-chunk", type=int, default=128, help="images of a ResNet-50 step in memory at once")
    parser.add_argument("--bytes", action="store_true", help="what a loss moves, without a card")
    parser.add_argument("--dry-run", action="store_true", help="on a CPU, with few images")
    arguments = parser.parse_args()
    if arguments.bytes:
        print_bytes()
        return
    if arguments.dry_run:
        arguments.batches, arguments.items, arguments.network_chunk = [64], 64, 0
    elif not torch.cuda.is_available():
        raise SystemExit("no CUDA device: nothing to measure; --dry-run takes the same way on a CPU")
    device = "cpu" if arguments.dry_run else "cuda"
    print(f"{device if arguments.dry_run else torch.cuda.get_device_name()}, torch {torch.__version__}")
    check_rank_losses(device)
    check_losses(device)
    check_metrics(device)
    for size in arguments.batches:
        embeddings = torch.randn(size, DIMENSIONS, device=device, requires_grad=True)
        print_row(f"Sup-H-AP, B = {size:,}", partial(backward, SupHAP(), embeddings, batch_paths(size, 2)), device)
    for classes in (max(arguments.items // 50, 1), 2):  # few positives, or half the gallery
        print_evaluation(arguments.items, classes, device)
    if arguments.network_chunk:
        print_share_of_a_network(arguments.network_chunk)


def check_rank_losses(device: str) -> None:
    """Stop unless float32 on the device agrees with float64 on the processor, from the same scores."""
    torch.manual_seed(0)
    unit = torch.nn.functional.normalize(torch.randn(CHECKED, DIMENSIONS), dim=1)
    scores, paths = unit @ unit.T, batch_paths(CHECKED, 3)
    level, valid = levels(paths, paths), ~torch.eye(CHECKED, dtype=torch.bool)
    table = hap(level_counts(level, 3, valid=valid))
    for name in RANK_LOSSES:
        results = []
        for where, dtype in ((device, torch.float32), ("cpu", torch.float64)):
            leaf = scores.to(where, dtype, copy=True).requires_grad_()
            value = getattr(functional, name)(leaf, level.to(where), table.to(where), valid=valid.to(where))
            results.append([value.detach(), torch.autograd.grad(value, leaf)[0]])
        report(name, *results, tolerance=OF_SCORES)


def check_losses(device: str) -> None:
    """Stop unless a loss of embeddings, and its gradient by them and by its parameters, are those of the processor."""
    embeddings, paths = torch.randn(CHECKED, 64), batch_paths(CHECKED, 2)
    makers: dict[str, Callable[[], losses.Loss]] = {name: getattr(losses, name) for name in PLAIN}
    makers |= {name: partial(getattr(losses, name), CHECKED // 4, 64) for name in WITH_PROXIES}
    for name, make in makers.items():
        original, results = make(), []
        for where in (device, "cpu"):
            loss, leaf = copy.deepcopy(original).to(where), embeddings.to(where, copy=True).requires_grad_()
            torch.manual_seed(0)
            value = loss(leaf, paths)
            results.append([value.detach(), *torch.autograd.grad(value, [leaf, *loss.parameters()])])
        report(name, *results, tolerance=OF_EMBEDDINGS)


def report(name: str, device: list[torch.Tensor], processor: list[torch.Tensor], *, tolerance: float) -> None:
    """One line: the largest differences, in parts of the largest entry."""
    both = [(a.double().cpu(), b.double()) for a, b in zip(device, processor, strict=True)]
    errors = [float((a - b).abs().max() / b.abs().max()) for a, b in both]
    print(f"{name}: relative error {errors[0]:.0e} of the value, {max(errors[1:]):.0e} of gradients", flush=True)
    if not max(errors) < tolerance:
        raise SystemExit(f"{name}: wrong on this machine")


def check_metrics(device: str) -> None:
    """Stop unless the means of the default metrics are those of the processor."""
    random = np.random.default_rng(0)
    embeddings, paths = random.standard_normal((3000, 64), np.float32), batch_paths(3000, 3).numpy()
    on_device, expected = (evaluate(embeddings, paths, device=where).summary() for where in (device, None))
    for name, value in expected.items():
        print(f"{name}: {on_device[name]:.8f} on the device, {value:.8f} on the processor")
        if not abs(on_device[name] - value) < OF_METRICS:
            raise SystemExit(f"{name}: wrong on this machine")


def backward(loss: SupHAP, embeddings: torch.Tensor, paths: torch.Tensor) -> None:
    """A forward and a backward pass."""
    embeddings.grad = None
    loss(embeddings, paths).backward()


def print_row(name: str, work: Callable[[], object], device: str) -> float:
    """One line; the milliseconds."""

    def until_done() -> None:
        work()
        if device == "cuda":
            torch.cuda.synchronize()

    until_done()
    before, memory = 0, ""
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    timing = medians(in_turn({name: partial(timed, until_done)}, ROUNDS)[name])
    if device == "cuda":
        memory = f"; {(torch.cuda.max_memory_allocated() - before) / 2**20:,.0f} MiB"
    busy = "" if timing.others <= MOST_OF_OTHERS else f", busy ({timing.others:.1f} processors)"
    print(f"{name}: {timing.clock * 1e3:,.2f} ms{busy}{memory}", flush=True)
    return timing.clock * 1e3


def print_evaluation(items: int, classes: int, device: str) -> None:
    """A self-retrieval with so many classes."""
    random = np.random.default_rng(0)
    embeddings, labels = random.standard_normal((items, DIMENSIONS), np.float32), np.arange(items) % classes
    name = f"evaluation of {items:,} × {DIMENSIONS}, {max(items // classes - 1, 1):,} positives a query"
    print_row(name, partial(evaluate, embeddings, labels, device=device), device)


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

    embeddings = torch.randn(512, DIMENSIONS, device="cuda", requires_grad=True)
    loss = partial(backward, SupHAP(), embeddings, batch_paths(512, 2))
    alone = print_row("ResNet-50, 512 images", step, "cuda")
    print(f"Sup-H-AP is {print_row('its loss', loss, 'cuda') / alone:.1%} of it")


class MovedBytes(TorchDispatchMode):
    """What operations read and write: every tensor that they take and that they make, views aside."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        if not func.is_view and "empty" not in func.name():
            tensors, _ = torch.utils._pytree.tree_flatten((args, kwargs, result))
            self.total += sum(each.numel() * each.element_size() for each in tensors if isinstance(each, torch.Tensor))
        return result


def print_bytes() -> None:
    """The bytes of Sup-H-AP for a pair, and what they take on an H100, which knows only that scores are cosines."""
    pairs.waits_for_a_look = lambda _device: True
    SCORES_AT_ONCE["cpu"] = SCORES_AT_ONCE["cuda"]
    torch.set_num_threads(1)
    for size in (512, 1024, 2048):
        embeddings, paths = torch.randn(size, DIMENSIONS, requires_grad=True), batch_paths(size, 2)
        with MovedBytes() as moved:
            SupHAP()(embeddings, paths).backward()
        print(f"B = {size:,}: {moved.total / size**2:,.0f} bytes a pair, {moved.total / H100_BYTES * 1e3:,.1f} ms")


if __name__ == "__main__":
    main()
