"""How well proposed clusters of place labels agree with the classes that data sets and gazetteers give the same labels.

``python benchmarks/place_labels.py data`` clusters the raw types of Google Landmarks v2 (against the released
hierarchical labels), the labels of GeoNames (feature class), OpenStreetMap's presets (top key) and Places365 (indoor or
outdoor), and prints a table as CSV: the plainest ways (:mod:`label_baselines`); words and letters, then with the list
of place nouns, each without and with Wikidata's "subclass of" (P279) as it comes along; at as many clusters as classes,
at as many as are proposed (means over three seeds), and by chance (labels put into as many groups of the same sizes at
random: the mean of 20). ``--sentence-model FOLDER`` and ``--vectors TABLE`` add the encoders of those names.
``--nouns data/place_labels/wordnet.parent-child.txt`` adds place nouns of WordNet: those below *structure* and
*geological formation*, each in the group of its ancestor right below these, nouns of two groups left out. The nouns are
in timm. The table has them all, then those that
the list knows, and those that it does not.
``--groups`` prints how well groups of clusters (six labels a cluster on average, one level of groups) agree with the
classes of GeoNames, OpenStreetMap and WordNet.
``--ward`` compares whole proposals of joined k-means with those of Ward's tree over the same vectors.
``--part tuning`` and ``--part held-out`` take one half of the labels, by a hash; nothing was adjusted on the second.
``--speed 5700`` times the encoder, k-means (78 clusters, 10 restarts) and Ward on so many labels, and the choice of k.
``--scale 10000 100000`` makes so many labels of the lists' words, a landmark each or ``--landmarks`` together, in a
store as it is after scraping, and prints the time and the peak memory of ``status``, ``clean``, ``cluster`` and
``export``.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable, Sequence
from itertools import chain, islice, product, repeat
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
from label_baselines import ancestors_by_ward, greedy_ancestors, lookup, ward
from label_references import HYPERNYMS, Encoders, add_options, encoders_of, measured, references
from scipy.cluster.hierarchy import fcluster, linkage

from hiertree.io.tables import write_table
from hiertree.pipelines.labels import PlaceNounEncoder, spherical_kmeans
from hiertree.pipelines.labels.cluster import clustering, proposing
from hiertree.pipelines.labels.cluster.clustering import Integers, Vectors, choose_k
from hiertree.pipelines.labels.cluster.embedding import Embedding, embed
from hiertree.pipelines.labels.cluster.proposing import Cluster, propose_for
from hiertree.pipelines.labels.encode.place_nouns import parse
from hiertree.pipelines.labels.scrape.store import Item, Label, LandmarkRow, Page, Store

LISTS = {
    "commons_instance_of_washington.csv": "instance_of",
    "geonames_feature_codes.csv": "label",
    "osm_id_presets.csv": "label",
    "places365.csv": "label",
    "wikidata_place_types.csv": "label",
}
SEEDS = range(3)
WITH_PEAK = """
import sys
from hiertree.pipelines.cli import main
try:
    main(sys.argv[1:])
finally:
    print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""


def compare(data: Path, part: str, nouns: Path | None, encoders: Encoders) -> None:
    columns = ("reference", "labels", "known", "features", "clusters", "ARI", "NMI", "B³", "purity", "purity by chance")
    write_row(*columns)
    for name, classes in references(data, part, nouns).items():
        labels, number = sorted(classes), len(set(classes.values()))
        true = [classes[label] for label in labels]
        known_share = sum(parse(label).sense is not None for label in labels) / len(labels)
        head = (f"{name} ({number})", len(labels), f"{100 * known_share:.0f} %")
        for features, groups in plain_groups(labels, number).items():
            write_measures(*head, features, groupings=[groups], true=true)
        for features, encoder in encoders.items():
            for above, edges in HYPERNYMS.items():
                embedding = embed(labels, encoder, hypernyms=edges)
                for k in (min(number, int(embedding.known.sum())), "auto"):
                    proposals = [proposal_of(embedding, k, seed) for seed in SEEDS]
                    groupings = [[of[label].name for label in labels] for of in proposals]
                    write_measures(*head, features + above, groupings=groupings, true=true)


def plain_groups(labels: Sequence[str], number: int) -> dict[str, Sequence[Hashable]]:
    """The groups of each plain way."""
    edges = HYPERNYMS[", P279"]
    return {
        "list only": [parse(label).sense or "unknown" for label in labels],
        "list, or else P279": lookup(labels, edges),
        "P279 by Ward": ancestors_by_ward(labels, edges, number),
        "greedy P279": greedy_ancestors(labels, edges, number),
        "words, list, P279 by Ward": ward(embed(labels, PlaceNounEncoder(), hypernyms=edges).vectors, number),
    }


def proposal_of(embedding: Embedding, k: int | Literal["auto"], seed: int) -> dict[str, Cluster]:
    """The cluster of each label; all weigh the same."""
    counts = dict.fromkeys(embedding.labels, 1)
    return propose_for(embedding, counts, clusters=k, levels=0, seed=seed, restarts=5).cluster_of()


def groups(data: Path, part: str, nouns: Path | None, _: Encoders) -> None:
    write_row("reference", "labels", "P279", "groups", "ARI", "NMI", "B³", "purity", "purity by chance")
    for name, classes in references(data, part, nouns).items():
        if not name.startswith(("GeoNames", "OpenStreetMap", "WordNet")):
            continue
        for above, edges in HYPERNYMS.items():
            embedding, counts = embed(classes, PlaceNounEncoder(), hypernyms=edges), dict.fromkeys(classes, 1)
            k = round(len(classes) / 6)
            clusters = propose_for(embedding, counts, clusters=k, levels=1, seed=0, restarts=5).cluster_of()
            pairs = [(clusters[label].kind, clusters[label].above) for label in classes]
            head = (f"{name} ({len(set(classes.values()))})", len(classes), "yes" if above else "no")
            write_measures(*head, groupings=[pairs], true=list(classes.values()))


def joined_or_ward(data: Path, part: str, nouns: Path | None, encoders: Encoders) -> None:
    write_row("reference", "features", "k", "way", "clusters", "ARI", "NMI", "B³", "purity", "purity by chance")
    ways = {
        "joined": {"spherical_kmeans": spherical_kmeans, "choose_k": choose_k},
        "Ward": {"spherical_kmeans": ward_clustering, "choose_k": choose_k_of_ward},
    }
    for name, classes in references(data, part, nouns).items():
        labels, true = map(list, zip(*sorted(classes.items()), strict=True))
        number = len(set(true))
        for (features, encoder), (above, edges) in product(encoders.items(), HYPERNYMS.items()):
            embedding = embed(labels, encoder, hypernyms=edges)
            for k in (min(number, int(embedding.known.sum())), "auto"):
                for way, functions in ways.items():
                    with patch.multiple(proposing, **functions):
                        proposals = [proposal_of(embedding, k, seed) for seed in (SEEDS if way == "joined" else [0])]
                    groupings = [[of[label].name for label in labels] for of in proposals]
                    write_measures(name, features + above, k, way, groupings=groupings, true=true)


def ward_clustering(vectors: Vectors, k: int, **_: Any) -> Integers:
    return np.array(ward(vectors, k)) - 1


def choose_k_of_ward(vectors: Vectors, **_: Any) -> tuple[int, dict[int, float]]:
    """As :func:`choose_k` does it, over cuts of one tree."""
    tree = linkage(vectors, "ward")
    cuts = {k: fcluster(tree, k, "maxclust") for k in clustering._numbers_to_try(vectors)}
    scores = {k: float(clustering.silhouettes(vectors, cut).mean()) for k, cut in cuts.items()}
    return max(scores, key=lambda k: clustering._mean_of_neighbors(scores, k)), scores


def write_measures(*head: object, groupings: Sequence[Sequence[Hashable]], true: Sequence[str]) -> None:
    """A row of the table: means over groupings of the same labels."""
    values = np.mean([measured(groups, true) for groups in groupings], axis=0)
    numbers = sorted({len(set(groups)) for groups in groupings})
    write_row(*head, " to ".join(map(str, numbers[:: max(1, len(numbers) - 1)])), *(f"{value:.3f}" for value in values))


def write_row(*cells: object) -> None:
    csv.writer(sys.stdout, lineterminator="\n").writerow(cells)
    sys.stdout.flush()


def known_labels(data: Path) -> list[str]:
    labels = set()
    for name, column in LISTS.items():
        with (data / "place_labels" / name).open(encoding="utf-8-sig", newline="") as file:
            labels |= {row[column].strip() for row in csv.DictReader(file)}
    return sorted(label for label in labels if any(map(str.isalpha, label)))


def scale(data: Path, count: int, landmarks: int) -> None:
    """Rows of the table: labels are those of the lists, then those after a first word of another, shuffled.

    Every twentieth landmark has no label, every fiftieth was not asked for, and every ninth has two labels.
    """
    known = known_labels(data)
    words = sorted({label.split()[0].lower() for label in known if " " in label and label.isascii()})
    pairs = np.random.default_rng(0).permutation(len(words) * len(known))
    made = (f"{words[pair // len(known)]} {known[pair % len(known)].lower()}" for pair in pairs.tolist())
    labels = list(islice(dict.fromkeys(chain(map(str.lower, known), made)), count))
    with tempfile.TemporaryDirectory() as folder:
        table, store = Path(folder) / "table.csv", Path(folder) / "store.sqlite"
        listed = [LandmarkRow(str(number), *[f"Category:Place {number}"] * 2, None) for number in range(landmarks)]
        write_table(table, ("landmark_id", "category"), (row[:2] for row in listed))
        fill_store(store, labels, listed)
        last = table
        for step in ("status", "clean", "cluster", "export"):
            out = Path(folder) / step
            begin = time.perf_counter()
            given = [str(store)] if step == "status" else [str(last), "--out", str(out)]
            given += ["--store", str(store)] if step == "clean" else []
            command = [sys.executable, "-c", WITH_PEAK, "labels", step, *given]
            found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds, peak = time.perf_counter() - begin, int(found.split()[-1]) / 1000
            print(f"| {step} | {count} | {landmarks} | {seconds:.0f} | {peak:.0f} |", flush=True)
            last = last if step == "status" else out


def fill_store(path: Path, labels: Sequence[str], listed: Sequence[LandmarkRow]) -> None:
    """A store as ``labels scrape`` leaves it: a page and an item of each landmark, with revision and time."""
    with Store(path) as store:
        store.add_landmarks(listed)
        store.save((Label(f"Q{number}", label, "en") for number, label in enumerate(labels)), source="api", time=0)
        for part in range(0, len(listed), 20_000):
            asked = [row for row in listed[part : part + 20_000] if int(row.landmark_id) % 50]
            items = [f"Q{len(labels) + int(row.landmark_id)}" for row in asked]
            pages = (Page(str(row.key), "found", item=item) for row, item in zip(asked, items, strict=True))
            store.save(pages, source="api", time=part)
            store.save(map(item_of, asked, items, repeat(len(labels))), source="api", time=part)


def item_of(row: LandmarkRow, key: str, count: int) -> Item:
    """The item of a landmark, with one label of so many, none or two."""
    number = int(row.landmark_id)
    classes = (f"Q{number % count}", f"Q{(number + 1) % count}")[: 2 if number % 9 == 2 else number % 20 != 1]
    return Item(key, "found", instances=classes, revision=10**9 + number, modified=f"2026-01-{number % 28 + 1:02}")


def speed(data: Path, count: int) -> None:
    known = known_labels(data)
    texts = [*known, *(f"{word} {label.lower()}" for word in ("historic", "former", "small") for label in known)]
    embed(known[:50], PlaceNounEncoder())  # libraries are loaded
    clocks = [(time.perf_counter(), time.process_time())]
    embedding = embed(texts[:count], PlaceNounEncoder())
    clocks.append((time.perf_counter(), time.process_time()))
    spherical_kmeans(embedding.vectors, 78, restarts=10)
    clocks.append((time.perf_counter(), time.process_time()))
    ward(embedding.vectors, 78)
    clocks.append((time.perf_counter(), time.process_time()))
    choose_k(embed(known[:1300], PlaceNounEncoder()).vectors)
    clocks.append((time.perf_counter(), time.process_time()))
    parts = (f"embedding {count}", f"k-means of {count}", f"Ward's tree of {count}", "choosing k for 1300")
    for name, begin, end in zip(parts, clocks[:-1], clocks[1:], strict=True):
        print(f"{name}: {end[0] - begin[0]:.1f} s, {end[1] - begin[1]:.1f} s of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--groups", action="store_true")
    parser.add_argument("--ward", action="store_true")
    parser.add_argument("--speed", type=int, metavar="LABELS")
    parser.add_argument("--scale", type=int, nargs="+", metavar="LABELS")
    parser.add_argument("--landmarks", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.scale:
        print("| step | labels | landmarks | seconds | peak MB |\n|---|---:|---:|---:|---:|")
        for count in arguments.scale:
            scale(arguments.data, count, max(count, arguments.landmarks))
    elif arguments.speed:
        speed(arguments.data, arguments.speed)
    else:
        way = groups if arguments.groups else joined_or_ward if arguments.ward else compare
        encoders: Encoders = {"words": PlaceNounEncoder(senses=False)}
        way(arguments.data, arguments.part, arguments.nouns, encoders | encoders_of(arguments))


if __name__ == "__main__":
    main()
