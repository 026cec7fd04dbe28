"""Labels whose classes, or kinds, others decided: what the benchmarks of labels compare proposals with."""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hiertree.pipelines.labels import PlaceNounEncoder
from hiertree.pipelines.labels.cleaning import clean_landmarks
from hiertree.pipelines.labels.cluster.step import agreement, read_reference
from hiertree.pipelines.labels.encode.hypernyms import Hypernyms, read_hypernyms
from hiertree.pipelines.labels.encode.place_nouns import parse
from hiertree.pipelines.labels.encode.text_encoders import SentenceEncoder, TextEncoder, VectorTable
from hiertree.pipelines.labels.landmarks import InstanceValue, Landmark
from hiertree.pipelines.labels.texts import normalize_label

Encoders: TypeAlias = "dict[str, TextEncoder]"
HYPERNYMS = {"": Hypernyms({}, {}), ", P279": read_hypernyms()}
REFERENCES = {
    "GeoNames: feature class": "place_labels/geonames_feature_codes.csv:class",
    "OpenStreetMap: top key": "place_labels/osm_id_presets.csv:top_key",
    "Places365: indoor or outdoor": "place_labels/places365.csv:indoor_outdoor",
}
RELEASED = "gldv2_hierarchical/pairs.csv"
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """The data, the part, and the encoders beside the list of place nouns."""
    parser.add_argument("data", type=Path, help="folder of place_labels and gldv2_hierarchical")
    parser.add_argument("--part", choices=("all", "tuning", "held-out"), default="all")
    parser.add_argument("--nouns", type=Path, metavar="EDGES")
    parser.add_argument("--sentence-model", metavar="FOLDER")
    parser.add_argument("--vectors", type=Path, metavar="TABLE")


def encoders_of(arguments: argparse.Namespace) -> Encoders:
    """The list of place nouns, and the encoders that the options name."""
    encoders: Encoders = {"words, list": PlaceNounEncoder()}
    encoders |= {"sentences": SentenceEncoder(arguments.sentence_model)} if arguments.sentence_model else {}
    return encoders | ({"vectors": VectorTable(arguments.vectors)} if arguments.vectors else {})


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
    classes_of = {"Google Landmarks v2: released label": released_labels(data / RELEASED)}
    classes_of |= {name: read_reference(f"{data}/{spec}")[1] for name, spec in REFERENCES.items()}
    if nouns is not None:
        groups = {noun: group for noun, (_, group) in wordnet_nouns(nouns).items()}
        known = {noun for noun in groups if parse(noun).sense is not None}
        classes_of["WordNet: synset below the root"] = groups
        classes_of["nouns the list knows"] = {noun: groups[noun] for noun in groups if noun in known}
        classes_of["nouns it does not know"] = {noun: groups[noun] for noun in groups if noun not in known}
    return {
        name: {label: own for label, own in classes.items() if any(map(str.isalpha, label)) and in_part(label, part)}
        for name, classes in classes_of.items()
    }


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


def measured(groups: Sequence[Hashable], true: Sequence[str]) -> tuple[float, ...]:
    """ARI, NMI, B-cubed, purity, and the purity by chance."""
    values = agreement(groups, true)
    rng = np.random.default_rng(0)
    place = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    numbers = np.array([place[group] for group in groups])
    chance = np.mean([agreement(rng.permutation(numbers).tolist(), true)["purity"] for _ in range(20)])
    return values["ari"], values["nmi"], b_cubed(groups, true), values["purity"], float(chance)


def b_cubed(groups: Sequence[Hashable], true: Sequence[Hashable]) -> float:
    """F1 of B-cubed precision and recall (Bagga & Baldwin 1998)."""
    both = Counter(zip(groups, true, strict=True))
    precision, recall = (
        sum(count * count / sizes[pair[side]] for pair, count in both.items()) / len(true)
        for side, sizes in enumerate((Counter(groups), Counter(true)))
    )
    return 2 * precision * recall / (precision + recall)
