"""What texts of training gain over texts that are fitted to a finished run: image → text, by level.

``python benchmarks/text_gain.py RUN … --encoder MODEL --levels alphabet --template "a letter of the {} alphabet"``:
MODEL is one of sentence-transformers, or a folder. A run with texts has its own projection of them. For one without, a
ridge regression (λ = 1) leads from the texts' vectors to the mean proxies of their labels in training.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

import hiertree as ht
from hiertree.metrics import Rules, evaluate
from hiertree.pipelines.labels.encode.text_encoders import SentenceEncoder

RIDGE = 1.0


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of unit norm."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fitted(run: Path, labels: list[tuple[str, ...]], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The texts as the ridge regression maps them; it learns from those whose labels were in training."""
    state = load_file(sorted((run / "checkpoints").glob("step-*"))[-1] / "tensors.safetensors")
    proxies = unit(next(value for name, value in state.items() if name.startswith("loss") and "prox" in name))
    tree = ht.LabelTree.from_json(run / "tree-train.json")
    leaves = sorted(np.asarray(tree.paths(tree.leaves)).tolist(), key=lambda path: path[-1])
    paths = [tuple(map(str, tree.labels_of(leaf))) for leaf in leaves]
    rows_of = [[row for row, path in enumerate(paths) if path[: len(label)] == label] for label in labels]
    is_known = np.array([bool(rows) for rows in rows_of])
    targets = unit(np.array([proxies[rows].mean(axis=0) for rows in rows_of if rows]))
    center, mean = vectors[is_known].mean(axis=0), targets.mean(axis=0)
    design = vectors[is_known] - center
    weights = np.linalg.solve(design.T @ design + RIDGE * np.eye(design.shape[1]), design.T @ (targets - mean))
    return (vectors - center) @ weights + mean


def main() -> None:
    """Print a row a run: accuracy by level and H-AP, percent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--levels", nargs="+", required=True)
    parser.add_argument("--template", default="a photo of a {}")
    arguments = parser.parse_args()
    encoder = SentenceEncoder(arguments.encoder)
    for run in arguments.runs:
        saved, tree = np.load(run / "embeddings.npz"), ht.LabelTree.from_json(run / "tree.json")
        depths = [tree.level_names.index(level) + 1 for level in arguments.levels]
        parts = [np.unique(saved["paths"][:, :depth], axis=0) for depth in depths]
        nodes = np.concatenate(
            [np.pad(part, ((0, 0), (0, tree.num_levels - part.shape[1])), constant_values=-1) for part in parts]
        )
        labels = [tuple(map(str, tree.labels_of([node for node in path if node >= 0]))) for path in nodes.tolist()]
        vectors = encoder.encode([arguments.template.replace("{}", label[-1]) for label in labels]).astype(np.float64)
        weights = load_file(run / "model.safetensors")
        if "text_projection.weight" in weights:
            texts = vectors @ weights["text_projection.weight"].T + weights["text_projection.bias"]
        else:
            texts = fitted(run, labels, vectors)
        texts = unit(texts).astype(np.float32)
        scores, depth_of = saved["embeddings"] @ texts.T, (nodes >= 0).sum(axis=1)
        row = [str(run)]
        for level, depth in zip(arguments.levels, depths, strict=True):
            candidates = np.flatnonzero(depth_of == depth)
            best = nodes[candidates[scores[:, candidates].argmax(axis=1)], depth - 1]
            row.append(f"{level} {100 * np.mean(best == saved['paths'][:, depth - 1]):.1f}")
        result = evaluate(
            saved["embeddings"], saved["paths"], texts, nodes, metrics=["H-AP"], compat=Rules(gallery="nodes")
        )
        print(", ".join([*row, f"H-AP {100 * result['H-AP']:.1f}"]))


if __name__ == "__main__":
    main()
