"""The losses and the evaluation on a GPU: are they right, and how long do they take beside the model of ``gpu_model``?

Run ``python benchmarks/gpu.py`` on a CUDA machine; under ten minutes. Values and gradients are checked first, against
the torch backend in float64. Then Sup-H-AP, forward and backward on 512-d float32 embeddings (four images a class, two
super-categories), an evaluation of 136,000 × 512, and the loss's share of a ResNet-50 step. Times are medians by the
clock; where other processes use the processors, or are on the GPU, the row says so. Memory is the peak beyond the
inputs. ``--dry-run`` takes the same way on a CPU, with few images, and prints no time worth reading.
"""

from __future__ import annotations

import argparse
import math
import subprocess
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from gpu_model import CARDS, Card, bound, evaluation_parts, loss_parts
from idle_machine import MOST_OF_OTHERS, in_turn, medians, timed

from hiertree import level_counts, levels
from hiertree.losses import SupHAP, functional
from hiertree.metrics import evaluate
from hiertree.relevance import hap
from losses import batch_paths

DIMENSIONS, ROUNDS, TOLERANCE = 512, 5, 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--items", type=int, default=136_000)
    parser.add_argument("--network-chunk", type=int, default=128, help="images of a ResNet-50 step in memory at once")
    parser.add_argument("--dry-run", action="store_true", help="on a CPU, with 64 images")
    arguments = parser.parse_args()
    if arguments.dry_run:
        arguments.batches, arguments.items, arguments.network_chunk = [64], 64, 0
    elif not torch.cuda.is_available():
        raise SystemExit("no CUDA device: nothing to measure; --dry-run takes the same way on a CPU")
    device, card = ("cpu", CARDS[0]) if arguments.dry_run else ("cuda", card_of(torch.cuda.get_device_name()))
    where = "a CPU" if arguments.dry_run else f"{torch.cuda.get_device_name()}, {others_on_gpu()}"
    print(f"{where}, torch {torch.__version__}; the model is of an {card.name}")
    check(device)
    for size in arguments.batches:
        embeddings = torch.randn(size, DIMENSIONS, device=device, requires_grad=True)
        step = partial(backward, SupHAP(), embeddings, batch_paths(size, 2))
        print_row(f"Sup-H-AP, B = {size:,}", step, device, loss_parts(card, size))
    for classes in (max(arguments.items // 50, 1), 2):  # few positives, or half the gallery
        print_evaluation(arguments.items, classes, device, card)
    if arguments.network_chunk:
        print_share_of_a_network(arguments.network_chunk)


def card_of(name: str) -> Card:
    """The card of that name in the model, or the first for another."""
    return next((card for card in CARDS if card.name in name), CARDS[0])


def others_on_gpu() -> str:
    """Whether other processes are on the GPU."""
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader", "--id=0"]
    number = len(subprocess.run(query, check=True, capture_output=True, text=True).stdout.split())
    return "idle" if number <= 1 else f"with {number} processes on it"


def check(device: str) -> None:
    """Stop unless float32 by the device's own backend agrees with float64 in torch, from the same scores."""
    torch.manual_seed(0)
    unit = torch.nn.functional.normalize(torch.randn(256, DIMENSIONS, device=device), dim=1)
    scores, paths = unit @ unit.T, batch_paths(256, 3).to(device)
    level, valid = levels(paths, paths), ~torch.eye(256, dtype=torch.bool, device=device)
    table = hap(level_counts(level, 3, valid=valid))
    for name in ("sup_hap", "sup_ndcg", "sup_ap", "sup_recall", "smooth_hap", "smooth_ndcg", "smooth_ap"):
        loss, found = getattr(functional, name), []
        for dtype, backend in ((torch.float32, "auto"), (torch.float64, "torch")):
            leaf = scores.to(dtype, copy=True).requires_grad_()
            value = loss(leaf, level, table, valid=valid, backend=backend)
            found.append((value.detach().double(), torch.autograd.grad(value, leaf)[0].double()))
        errors = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(*found, strict=True)]
        print(f"{name}: relative error {errors[0]:.0e} of the value, {errors[1]:.0e} of the gradient")
        if not max(errors) < TOLERANCE:
            raise SystemExit(f"{name}: wrong on this machine")


def backward(loss: SupHAP, embeddings: torch.Tensor, paths: torch.Tensor) -> None:
    """A forward and a backward pass."""
    embeddings.grad = None
    loss(embeddings, paths).backward()


def print_row(name: str, work: Callable[[], object], device: str, parts: dict[str, float]) -> float:
    """One line: measured, and by the model; the milliseconds."""

    def finished() -> None:
        work()
        if device == "cuda":
            torch.cuda.synchronize()

    finished()  # compiles
    before = 0
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    timing = medians(in_turn({name: partial(timed, finished)}, ROUNDS)[name])
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20 if device == "cuda" else math.nan
    busy = "" if timing.others <= MOST_OF_OTHERS else f", busy ({timing.others:.1f} processors)"
    model = f"model {sum(parts.values()):,.1f} ms, bound by {bound(parts)}"
    print(f"{name}: {timing.clock * 1e3:,.2f} ms{busy}; {model}; {peak:,.0f} MiB", flush=True)
    return timing.clock * 1e3


def print_evaluation(items: int, classes: int, device: str, card: Card) -> None:
    """A self-retrieval with so many classes."""
    random = np.random.default_rng(0)
    embeddings, labels = random.standard_normal((items, DIMENSIONS), np.float32), np.arange(items) % classes
    positives = max(items // classes - 1, 1)
    parts = evaluation_parts(card, items, DIMENSIONS, positives)
    name = f"evaluation of {items:,} × {DIMENSIONS}, {positives:,} positives a query"
    print_row(name, partial(evaluate, embeddings, labels, device=device), device, parts)


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
    alone = print_row("ResNet-50, 512 images", step, "cuda", {"no model": math.nan})
    print(f"Sup-H-AP is {print_row('its loss', loss, 'cuda', loss_parts(CARDS[0], 512)) / alone:.1%} of it")


if __name__ == "__main__":
    main()
