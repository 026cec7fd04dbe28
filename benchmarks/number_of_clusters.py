"""How steady the proposed number of clusters is: ``python benchmarks/number_of_clusters.py data``.

From each reference of :mod:`place_labels` eight times 85 % of the labels are drawn, embedded with hypernyms, and
clustered at the number that is proposed for them, with another seed each time. The table has the numbers, the standard
deviation of their logarithms (0.1: a tenth more or less), and how well the clusters agree with the classes.
``--part`` and ``--nouns`` as there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from label_references import b_cubed, references

from hiertree.pipelines.labels import PlaceNounEncoder, choose_k, spherical_kmeans
from hiertree.pipelines.labels.cluster.embedding import embed
from hiertree.pipelines.labels.cluster.step import agreement
from hiertree.pipelines.labels.encode.hypernyms import Hypernyms, read_hypernyms

DRAWS, SHARE = 8, 0.85


def one_draw(classes: dict[str, str], hypernyms: Hypernyms, seed: int) -> tuple[float, ...]:
    """The number of clusters, ARI, NMI and B-cubed F1."""
    labels = sorted(classes)
    drawn = np.random.default_rng(seed).choice(labels, round(SHARE * len(labels)), replace=False)
    embedding = embed(drawn.tolist(), PlaceNounEncoder(), hypernyms=hypernyms)
    k, _ = choose_k(embedding.vectors, seed=seed)
    clusters = spherical_kmeans(embedding.vectors, k, seed=seed).tolist()
    true = [classes[label] for label in embedding.labels]
    found = agreement(clusters, true)
    return k, found["ari"], found["nmi"], b_cubed(clusters, true)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of place_labels and gldv2_hierarchical")
    parser.add_argument("--part", choices=("all", "tuning", "held-out"), default="all")
    parser.add_argument("--nouns", type=Path, metavar="EDGES")
    arguments = parser.parse_args()
    print(f"| reference | labels | clusters | deviation | ARI | NMI | B³ |\n|---|{'---:|' * 6}")
    hypernyms = read_hypernyms()
    for name, classes in references(arguments.data, arguments.part, arguments.nouns).items():
        draws = np.array([one_draw(classes, hypernyms, seed) for seed in range(DRAWS)])
        ks = draws[:, 0]
        spread = f"{ks.min():.0f} to {ks.max():.0f} | {np.log(ks).std():.3f}"
        values = " | ".join(f"{value:.3f}" for value in draws[:, 1:].mean(axis=0))
        print(f"| {name} | {round(SHARE * len(classes))} | {spread} | {values} |", flush=True)


if __name__ == "__main__":
    main()
