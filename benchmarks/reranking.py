"""H-AP before and after each of ``hiertree.metrics.rerank``, on the digits of scikit-learn.

Run ``python benchmarks/reranking.py``; a minute. The 1,797 images of 8 × 8 pixels are their own embeddings; the first
half learns the whitening, the second half is retrieved in itself. Labels are odd or even → digit.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import hiertree as ht
from hiertree.metrics import evaluate_scores, rerank


def main() -> None:
    digits = load_digits()
    half = len(digits.data) // 2
    training, test = digits.data[:half], digits.data[half:] / np.linalg.norm(digits.data[half:], axis=1, keepdims=True)
    paths = np.c_[digits.target[half:] % 2, digits.target[half:]]
    levels, valid = ht.levels(paths, paths), ~np.eye(len(paths), dtype=np.bool_)
    white, augmented = rerank.pca_whitening(test, training), rerank.database_augmentation(test)
    ways = {
        "cosine of the pixels": test @ test.T,
        "PCA whitening, all 61 directions": white @ white.T,
        "PCA whitening, 16 directions": (few := rerank.pca_whitening(test, training, dimensions=16)) @ few.T,
        "α-query expansion, k = 10, α = 3": rerank.alpha_query_expansion(test, test) @ test.T,
        "database augmentation, k = 10": augmented @ augmented.T,
        "both": rerank.alpha_query_expansion(augmented, augmented) @ augmented.T,
        "k-reciprocal, k₁ = 20, k₂ = 6, λ = 0.3": rerank.k_reciprocal(test),
    }
    print("| scores | H-AP | AP | R@1 |\n|---|---:|---:|---:|")
    for name, scores in ways.items():
        found = evaluate_scores(scores, levels, valid=valid, metrics=["H-AP", "AP", "R@1"]).summary()
        print(f"| {name} | {' | '.join(f'{100 * found[metric]:.2f}' for metric in found.index)} |")


if __name__ == "__main__":
    main()
