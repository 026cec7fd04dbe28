"""How well clusters of place labels agree with the classes that gazetteers and data sets give the same labels.

``python benchmarks/place_labels.py ../shared/data/place_labels`` clusters the labels of GeoNames (by their feature
class), OpenStreetMap's presets (by their top key) and Places365 (indoor or outdoor) and prints a table: as many
clusters as classes, as many as there are by silhouette, and what chance gives (labels put into as many groups of the
same sizes at random: the mean of 20). ``--letters`` leaves the thesaurus out.
``python benchmarks/place_labels.py ../shared/data/place_labels --speed 5700`` times the tfidf encoder and k-means (78
clusters, 10 restarts) on so many labels.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from hiertree.pipelines.labels import TfidfEncoder, spherical_kmeans
from hiertree.pipelines.labels.cluster.agreement_measures import against, agreement, read_reference
from hiertree.pipelines.labels.cluster.clustering import choose_k
from hiertree.pipelines.labels.cluster.proposing import embed

REFERENCES = {
    "GeoNames: feature class": "geonames_feature_codes.csv:class",
    "OpenStreetMap: top key": "osm_id_presets.csv:top_key",
    "Places365: indoor or outdoor": "places365.csv:indoor_outdoor",
}
LISTS = {
    "commons_instance_of_washington.csv": "instance_of",
    "geonames_feature_codes.csv": "label",
    "osm_id_presets.csv": "label",
    "places365.csv": "label",
    "wikidata_place_types.csv": "label",
}
MEASURES = ("ari", "nmi", "v_measure", "purity")


def compare(folder: Path, *, senses: bool) -> None:
    print("| reference | labels | classes | clusters | ARI | NMI | V-measure | purity | purity by chance |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, spec in REFERENCES.items():
        classes = read_reference(f"{folder}/{spec}")[1]
        classes = {label: own for label, own in classes.items() if any(sign.isalpha() for sign in label)}
        embedding = embed(classes, TfidfEncoder(senses=senses))
        for k in (len(set(classes.values())), choose_k(embedding.vectors, restarts=5)[0]):
            assignment = spherical_kmeans(embedding.vectors, k).assignment
            found = against(classes, dict(zip(embedding.labels, assignment.tolist(), strict=True)))
            numbers = " | ".join(f"{found[measure]:.3f}" for measure in MEASURES)
            luck = by_chance(assignment, [classes[label] for label in embedding.labels])
            print(f"| {name} | {found['labels']} | {found['classes']} | {k} | {numbers} | {luck:.3f} |", flush=True)


def by_chance(assignment: np.ndarray, classes: list[str]) -> float:
    rng = np.random.default_rng(0)
    return float(np.mean([agreement(rng.permutation(assignment).tolist(), classes)["purity"] for _ in range(20)]))


def speed(folder: Path, count: int) -> None:
    labels = set()
    for name, column in LISTS.items():
        with (folder / name).open(encoding="utf-8-sig", newline="") as file:
            labels |= {row[column].strip() for row in csv.DictReader(file)}
    known = sorted(label for label in labels if any(sign.isalpha() for sign in label))
    texts = [*known, *(f"{word} {label.lower()}" for word in ("historic", "former", "small") for label in known)][
        :count
    ]
    embed(known[:50], TfidfEncoder())  # libraries are loaded
    started = time.perf_counter(), time.process_time()
    embedding = embed(texts, TfidfEncoder())
    embedded = time.perf_counter(), time.process_time()
    spherical_kmeans(embedding.vectors, 78, restarts=10)
    ended = time.perf_counter(), time.process_time()
    print(f"{len(embedding.labels)} labels, {len(known)} of them from the lists")
    for name, begin, end in (("embedding", started, embedded), ("k-means", embedded, ended), ("both", started, ended)):
        print(f"{name}: {end[0] - begin[0]:.1f} s, {end[1] - begin[1]:.1f} s of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--letters", action="store_true")
    parser.add_argument("--speed", type=int, metavar="LABELS")
    arguments = parser.parse_args()
    if arguments.speed:
        speed(arguments.folder, arguments.speed)
    else:
        compare(arguments.folder, senses=not arguments.letters)


if __name__ == "__main__":
    main()
