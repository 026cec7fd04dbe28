"""The decomposability gap of held-out Omniglot drawings after training with and without L_DG.

python benchmarks/decomposability.py data/omniglot  # which benchmarks/fetch.py fetches
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from hiertree.datasets.benchmarks.omniglot import read_drawings
from hiertree.losses import ROADMAP, Loss, SupAP, decomposability_gap
from hiertree.metrics import average_precision

DRAWINGS = 20  # of each character
LOSSES = {"Sup-AP": SupAP, "Sup-AP + L_DG": ROADMAP}


def characters(path: str) -> torch.Tensor:
    """(1623, 20, 784) drawings by character, in an order drawn once."""
    table, drawings = read_drawings(Path(path), image_size=28)
    order = np.argsort((table["alphabet"] + table["character"]).to_numpy(dtype=str), kind="stable")
    images = torch.from_numpy(drawings[order].reshape(-1, DRAWINGS, 28 * 28)).float()
    return images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))] / 255


def trained(loss: Loss, drawings: torch.Tensor, *, classes: int, steps: int, seed: int) -> torch.nn.Module:
    """A small network, trained in batches of ``classes`` characters × 4 drawings."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(28 * 28, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    labels = torch.arange(classes).repeat_interleave(4)
    for _ in range(steps):
        chosen = torch.randperm(len(drawings))[:classes, None]
        images = drawings[chosen, torch.rand(classes, DRAWINGS).argsort(dim=1)[:, :4]]
        optimizer.zero_grad()
        loss(network(images.flatten(0, 1)), labels).backward()
        optimizer.step()
    return network


def measured(network: torch.nn.Module, drawings: torch.Tensor, *, classes: int) -> tuple[float, float, float]:
    """Mean AP in batches of ``classes`` characters that hold the query's own, AP of the whole, and the gap."""
    with torch.no_grad():
        embeddings = torch.nn.functional.normalize(network(drawings.flatten(0, 1)), dim=1)
    labels = np.arange(len(drawings)).repeat(DRAWINGS)
    batches = np.tile(np.arange(DRAWINGS) // 4, len(drawings)) + DRAWINGS * (labels // classes)
    queries = np.arange(0, len(labels), 7)
    scores = (embeddings[queries] @ embeddings.T).double().numpy()
    valid = np.arange(len(labels)) != queries[:, None]
    positive = (labels[queries, None] == labels).astype(np.uint8)
    gap = float(decomposability_gap(scores, positive, batches, valid=valid).mean())
    whole = float(average_precision(scores, positive, valid=valid).mean())
    return whole + gap, whole, gap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--classes", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    drawings = characters(options.path)
    train, test = drawings[:1200], drawings[1200:1328]
    print("| batch | loss | AP of batches | AP of the whole | gap |\n|---:|---|---:|---:|---:|")
    for classes in options.classes:
        for name, make in LOSSES.items():
            values = np.array(
                [
                    measured(
                        trained(make(), train, classes=classes, steps=options.steps, seed=seed), test, classes=classes
                    )
                    for seed in options.seeds
                ]
            )
            columns = zip(100 * values.mean(axis=0), 100 * values.std(axis=0), strict=True)
            cells = " | ".join(f"{mean:.1f} ± {spread:.1f}" for mean, spread in columns)
            print(f"| {4 * classes} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
