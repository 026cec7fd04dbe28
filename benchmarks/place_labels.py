"""How well proposed clusters of place labels agree with the classes that data sets and gazetteers give the same labels.

``python benchmarks/place_labels.py ../shared/data`` clusters the raw types of Google Landmarks v2 (against the released
hierarchical labels), those of Washington State (against the clusters of all features), the labels of GeoNames (feature
class), OpenStreetMap's presets (top key) and Places365 (indoor or outdoor), and prints a table: by the list of place
nouns alone (a label belongs to its head noun's sense, unknown labels to one group), by words and letters, with the
list, and with Wikidata's "subclass of" (P279) as it comes along; at as many clusters as classes, at as many as are
proposed (means over five seeds), and by chance (labels put into as many groups of the same sizes at random: the mean of
20). ``--nouns wordnet.parent-child.txt`` adds place nouns of WordNet: those below *structure* and *geological
formation*, each in the group of its ancestor right below these, nouns of two groups left out. The edges are those of
github.com/cvjena/semantic-embeddings (folder ILSVRC), the nouns are in timm. The table has them all, then those that
the list knows, and those that it does not.
``--kinds`` prints instead how often natural or human-made is right for GeoNames', OpenStreetMap's and WordNet's labels,
and how often what is certain, and the probability of natural, come true.
``--members`` prints how often labels lie in a cluster most of whose labels have another released label, and how many of
those are marked: means over eight draws of 85 % of the labels, at as many clusters as classes and as are proposed.
``--groups`` prints how well groups of clusters (six labels a cluster on average, one level of groups) agree with the
classes of GeoNames, OpenStreetMap and WordNet.
``--part tuning`` and ``--part held-out`` take one half of the labels, by a hash; nothing was adjusted on the second.
``--speed 5700`` times the encoder and k-means (78 clusters, 10 restarts) on so many labels, and the choice of k.
``--scale 10000 100000`` makes so many labels of the lists' words, a landmark each or ``--landmarks`` together, in a
store as it is after scraping, and prints the time and the peak memory of ``status``, ``clean``, ``cluster`` and
``export``.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import chain, islice, pairwise, repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hiertree.io.tables import write_table
from hiertree.pipelines.labels import PlaceNounEncoder, propose, spherical_kmeans
from hiertree.pipelines.labels.cleaning import clean_landmarks
from hiertree.pipelines.labels.cluster.clustering import choose_k
from hiertree.pipelines.labels.cluster.embedding import LIKELY, embed, natural_probability
from hiertree.pipelines.labels.cluster.proposing import propose_for
from hiertree.pipelines.labels.cluster.quality import agreement, read_reference
from hiertree.pipelines.labels.encode.hypernyms import Hypernyms, read_hypernyms
from hiertree.pipelines.labels.encode.phrases import parse
from hiertree.pipelines.labels.label_texts import normalize_label
from hiertree.pipelines.labels.landmarks import InstanceValue, Landmark
from hiertree.pipelines.labels.scrape.facts import Item, Label, Page
from hiertree.pipelines.labels.scrape.store import LandmarkRow, Store

REFERENCES = {
    "GeoNames: feature class": "place_labels/geonames_feature_codes.csv:class",
    "OpenStreetMap: top key": "place_labels/osm_id_presets.csv:top_key",
    "Places365: indoor or outdoor": "place_labels/places365.csv:indoor_outdoor",
}
NO_EDGES = Hypernyms({}, {})
RELEASED = "gldv2_hierarchical/pairs.csv"
WASHINGTON = "commons_instance_of_washington.csv"
LISTS = {
    WASHINGTON: "instance_of",
    "geonames_feature_codes.csv": "label",
    "osm_id_presets.csv": "label",
    "places365.csv": "label",
    "wikidata_place_types.csv": "label",
}
KIND_OF_CLASS = {"H": "natural", "T": "natural", "V": "natural", "S": "human-made", "R": "human-made"}
KINDS_OF_KEY = dict.fromkeys(
    ["aeroway", "amenity", "building", "craft", "historic", "man_made", "office", "railway", "shop", "tourism"],
    "human-made",
) | {"natural": "natural", "waterway": "natural"}
MADE = re.compile(  # what these classes and keys hold beside what is natural
    r"\b(artificial|canals?|ditch(es)?|irrigat\w+|dock\w*|levees?|polders?|aqueducts?|reservoirs?|tanks?|vineyards?|orchards?"
    r"|cultivated|impoundments?|dams?|fishponds?|moats?|pipelines?|drains?|weirs?|locks?|boatyards?|waste|toilet|fuel)\b"
)
ROOTS = {"n04341686": "human-made", "n09287968": "natural"}  # structure; geological formation
SEEDS = range(5)
WITH_PEAK = """
import sys
from hiertree.pipelines.cli import main
try:
    main(sys.argv[1:])
finally:
    print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""
PROBABILITIES = (0, 0.02, 0.1, 0.5, 0.9, 1.01)


def in_part(label: str, part: str) -> bool:
    odd = hashlib.sha256(label.casefold().encode()).digest()[0] % 2 == 1
    return part == "all" or odd == (part == "held-out")


def wordnet_nouns(edges: Path) -> dict[str, tuple[str, str]]:
    """Noun → its kind and the synset that groups it; the roots stand for themselves."""
    import networkx as nx
    import timm

    graph = nx.read_edgelist(edges, create_using=nx.DiGraph)
    table = Path(timm.__file__).parent / "data" / "_info" / "imagenet_synset_to_lemma.txt"
    names = dict(line.split("\t") for line in table.read_text(encoding="utf-8").splitlines())
    groups: dict[str, set[tuple[str, str]]] = {}
    for root, kind in ROOTS.items():
        for synset, way in nx.single_source_shortest_path(graph, root).items():
            if synset in names:
                noun = normalize_label(names[synset].split(",")[0]).casefold()
                groups.setdefault(noun, set()).add((kind, way[:2][-1]))
    return {noun: own.pop() for noun, own in groups.items() if len(own) == 1}


def released_labels(table: Path) -> dict[str, str]:
    """The released label of each type, types cleaned as a build cleans them."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    landmarks = (Landmark(str(number), "", (InstanceValue(row["supercategory"]),)) for number, row in enumerate(rows))
    kept = clean_landmarks(landmarks).kept
    return {landmark.labels[0]: rows[int(landmark.landmark_id)]["hierarchical_label"] for landmark in kept}


def references(data: Path, part: str, nouns: Path | None) -> dict[str, dict[str, str]]:
    """The classes of labels, by the name of the reference."""
    found = {"Google Landmarks v2: released label": released_labels(data / RELEASED)}
    with (data / "place_labels" / WASHINGTON).open(encoding="utf-8-sig", newline="") as file:
        types = {normalize_label(row["instance_of"]): 1 for row in csv.DictReader(file)}
    built = propose({label: 1 for label in types if any(map(str.isalpha, label))}, PlaceNounEncoder()).cluster_of()
    found["Washington: clusters of this encoder"] = {label: cluster.name for label, cluster in built.items()}
    found |= {name: read_reference(f"{data}/{spec}")[1] for name, spec in REFERENCES.items()}
    if nouns is not None:
        groups = {noun: group for noun, (_, group) in wordnet_nouns(nouns).items()}
        known = {noun for noun in groups if parse(noun).sense is not None}
        found["WordNet: synset below the root"] = groups
        found["nouns the list knows"] = {noun: groups[noun] for noun in groups if noun in known}
        found["nouns it does not know"] = {noun: groups[noun] for noun in groups if noun not in known}
    return {
        name: {label: own for label, own in classes.items() if any(map(str.isalpha, label)) and in_part(label, part)}
        for name, classes in found.items()
    }


def compare(data: Path, part: str, nouns: Path | None) -> None:
    columns = ("reference", "labels", "known", "features", "clusters", "ARI", "NMI", "B³", "purity", "purity by chance")
    print(f"| {' | '.join(columns)} |\n|---|---:|---:|---|{'---:|' * 6}")
    hypernyms = read_hypernyms()
    for name, classes in references(data, part, nouns).items():
        labels = sorted(classes)
        senses = [parse(label).sense or "unknown" for label in labels]
        known = sum(sense != "unknown" for sense in senses) / len(labels)
        head = f"{name} ({len(set(classes.values()))}) | {len(labels)} | {100 * known:.0f} %"
        show(head, "list only", [senses], [classes[label] for label in labels])
        for features, encoder, above in (
            ("words", PlaceNounEncoder(senses=False), NO_EDGES),
            ("words, P279", PlaceNounEncoder(senses=False), hypernyms),
            ("words, list", PlaceNounEncoder(), NO_EDGES),
            ("words, list, P279", PlaceNounEncoder(), hypernyms),
        ):
            embedding = embed(labels, encoder, hypernyms=above)
            for k in (len(set(classes.values())), "auto"):
                options = {"clusters": min(k, int(embedding.known.sum())) if k != "auto" else k, "levels": 0}
                found = [propose_for(embedding, dict.fromkeys(labels, 1), **options, **runs(seed)) for seed in SEEDS]
                clusters = [proposal.cluster_of() for proposal in found]
                groupings = [[of[label].name for label in labels] for of in clusters]
                show(head, features, groupings, [classes[label] for label in labels])


def runs(seed: int) -> dict[str, int]:
    return {"seed": seed, "restarts": 5}


def groups(data: Path, part: str, nouns: Path | None) -> None:
    columns = ("reference", "labels", "P279", "groups", "ARI", "NMI", "B³", "purity", "purity by chance")
    print(f"| {' | '.join(columns)} |\n|---|---:|---|{'---:|' * 6}")
    for name, classes in references(data, part, nouns).items():
        if not name.startswith(("GeoNames", "OpenStreetMap", "WordNet")):
            continue
        for known, above in (("no", NO_EDGES), ("yes", read_hypernyms())):
            clusters = propose(
                dict.fromkeys(classes, 1),
                PlaceNounEncoder(),
                clusters=round(len(classes) / 6),
                restarts=5,
                levels=1,
                hypernyms=above,
            ).cluster_of()
            found = [(clusters[label].kind, clusters[label].above) for label in classes]
            show(f"{name} ({len(set(classes.values()))}) | {len(classes)}", known, [found], list(classes.values()))


def show(head: str, features: str, groupings: Sequence[Sequence[Hashable]], true: Sequence[str]) -> None:
    """A row of the table: means over groupings of the same labels."""
    values = np.mean([measured(groups, true) for groups in groupings], axis=0)
    numbers = sorted({len(set(groups)) for groups in groupings})
    clusters = " to ".join(map(str, numbers[:: max(1, len(numbers) - 1)]))
    print(f"| {head} | {features} | {clusters} | {' | '.join(f'{value:.3f}' for value in values)} |", flush=True)


def measured(groups: Sequence[Hashable], true: Sequence[str]) -> tuple[float, ...]:
    """ARI, NMI, B-cubed, purity, and the purity by chance."""
    found = agreement(groups, true)
    rng = np.random.default_rng(0)
    place = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    numbers = np.array([place[group] for group in groups])
    chance = np.mean([agreement(rng.permutation(numbers).tolist(), true)["purity"] for _ in range(20)])
    return found["ari"], found["nmi"], b_cubed(groups, true), found["purity"], float(chance)


def b_cubed(groups: Sequence[Hashable], true: Sequence[Hashable]) -> float:
    """F1 of B-cubed precision and recall (Bagga & Baldwin 1998)."""
    both = Counter(zip(groups, true, strict=True))
    precision, recall = (
        sum(count * count / sizes[pair[side]] for pair, count in both.items()) / len(true)
        for side, sizes in enumerate((Counter(groups), Counter(true)))
    )
    return 2 * precision * recall / (precision + recall)


def true_kinds(data: Path, part: str, nouns: Path | None) -> dict[str, dict[str, str]]:
    """Label → kind, by the name of the list."""
    known = (("GeoNames", REFERENCES["GeoNames: feature class"], KIND_OF_CLASS),)
    known += (("OpenStreetMap", REFERENCES["OpenStreetMap: top key"], KINDS_OF_KEY),)
    truths = {}
    for name, spec, kind_of in known:
        classes = read_reference(f"{data}/{spec}")[1]
        truths[name] = {
            label: "human-made" if MADE.search(label) else kind_of[own]
            for label, own in classes.items()
            if own in kind_of
        }
    if nouns is not None:
        truths["WordNet"] = {noun: kind for noun, (kind, _) in wordnet_nouns(nouns).items()}
    return {
        name: {label: kind for label, kind in truth.items() if any(map(str.isalpha, label)) and in_part(label, part)}
        for name, truth in truths.items()
    }


def kinds(data: Path, part: str, nouns: Path | None) -> None:
    print("| labels | P279 | number | right | balanced | always human-made |\n|---|---|---:|---:|---:|---:|")
    pairs: dict[str, list[tuple[float, bool]]] = {"no": [], "yes": []}
    for name, truth in true_kinds(data, part, nouns).items():
        for known, above in (("no", NO_EDGES), ("yes", read_hypernyms())):
            embedding = embed(truth, PlaceNounEncoder(), hypernyms=above)
            margins = zip(embedding.labels, embedding.margins.tolist(), strict=True)
            found = [(margin, truth[label] == "natural") for label, margin in margins]
            show_right(f"{name} | {known}", found)
            pairs[known] += found
    for known, found in pairs.items():
        show_right(f"all | {known}", found)
    print("\n| P279 | certain | of these wrong | wrong | of these marked |\n|---|---:|---:|---:|---:|")
    for known, found in pairs.items():
        wrong = np.array([(margin >= LIKELY) != natural for margin, natural in found])
        show_doubt(known, wrong, np.array([abs(margin) < 1 for margin, _ in found]))
    print("\n| probability of natural | labels | natural | labels, with P279 | natural |\n|---|---:|---:|---:|---:|")
    for low, high in pairwise(PROBABILITIES):
        inside = [
            [true for margin, true in found if low <= natural_probability(margin) < high] for found in pairs.values()
        ]
        cells = (f"{len(trues)} | {np.mean(trues) if trues else float('nan'):.3f}" for trues in inside)
        print(f"| {low} to {min(high, 1)} | {' | '.join(cells)} |")


def show_doubt(head: str, wrong: NDArray[np.bool_], marked: NDArray[np.bool_]) -> None:
    of_certain, of_wrong = wrong[~marked].mean(), marked[wrong].mean() if wrong.any() else float("nan")
    print(f"| {head} | {(~marked).mean():.3f} | {of_certain:.3f} | {wrong.mean():.3f} | {of_wrong:.3f} |", flush=True)


def members(data: Path, part: str, _: Path | None) -> None:
    classes = {label: own for label, own in released_labels(data / RELEASED).items() if in_part(label, part)}
    print("| clusters | certain | of these wrong | wrong | of these marked |\n|---|---:|---:|---:|---:|")
    for name in ("as many as classes", "as proposed"):
        found = []
        for seed in range(8):
            drawn = (
                np.random.default_rng(seed).choice(sorted(classes), round(0.85 * len(classes)), replace=False).tolist()
            )
            k = "auto" if name == "as proposed" else len({classes[label] for label in drawn})
            for cluster in propose(dict.fromkeys(drawn, 1), PlaceNounEncoder(), clusters=k, seed=seed).clusters:
                own = Counter(classes[place.label] for place in cluster.labels)
                most = min(own, key=lambda label: (-own[label], label))
                found += [(classes[place.label] != most, bool(place.doubt)) for place in cluster.labels]
        show_doubt(name, *np.array(found).T)


def show_right(head: str, pairs: Sequence[tuple[float, bool]]) -> None:
    natural, true = np.array([margin >= LIKELY for margin, _ in pairs]), np.array([true for _, true in pairs])
    right = natural == true
    balanced = np.mean([right[true].mean(), right[~true].mean()])
    values = (right.mean(), balanced, 1 - true.mean())
    print(f"| {head} | {len(pairs)} | {' | '.join(f'{value:.3f}' for value in values)} |", flush=True)


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
    choose_k(embed(known[:1300], PlaceNounEncoder()).vectors)
    clocks.append((time.perf_counter(), time.process_time()))
    parts = (f"embedding {count}", f"k-means of {count}", "choosing k for 1300")
    for name, begin, end in zip(parts, clocks[:-1], clocks[1:], strict=True):
        print(f"{name}: {end[0] - begin[0]:.1f} s, {end[1] - begin[1]:.1f} s of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of place_labels and gldv2_hierarchical")
    parser.add_argument("--part", choices=("all", "tuning", "held-out"), default="all")
    parser.add_argument("--nouns", type=Path, metavar="EDGES")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--members", action="store_true")
    parser.add_argument("--groups", action="store_true")
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
        chosen = [way for way in (kinds, members, groups) if getattr(arguments, way.__name__)]
        for way in chosen or [compare]:
            way(arguments.data, arguments.part, arguments.nouns)


if __name__ == "__main__":
    main()
