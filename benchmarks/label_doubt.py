"""Whether proposals know what they do not know: ``python benchmarks/label_doubt.py data``.

For each list of labels whose classes others decided, with Wikidata's "subclass of" (P279): *certain* is the fraction of
labels that are not in doubt, *of these wrong* how many of those stand in a cluster most of whose labels have another
class, *of wrong marked* how many of the wrong ones are in doubt. What is merely finer is not wrong: a label in a
cluster that is called by a class above it, unless that is a catch-all ("building"). ``region_labels.csv`` has types of
the Andes and of other regions (Japan, the Balkans, the Nordic countries, Central Asia, Africa, India), with groups and
chains written down for this purpose; *second* is a group in which a label is no mistake either.

Then a reviewer who knows the classes answers the rows of the page's queue, over 20 draws of the sample: *keys* until
nothing is left, *keys to 3 %* until at most 3 % of the labels are wrong, *wrong after*, and in how many of the draws
the stated bound held. Means, but for the last. A row is one key (y, h or o), one more for each label taken out of it,
two for the class that is suggested (e, Enter) and five for another (e, three letters, Enter).

``--agreement`` compares clusters of Google's types with the annotators' classes, all of which are human-made.
``--draws`` counts what is certain, wrong and marked over 20 draws of 85 % of each list, clustered with other seeds.
``--second FOLDER`` counts it with a sentence-transformers model as second encoder, too. ``--kinds`` prints how many
labels stand in clusters of the wrong kind, and how many of these are in doubt. ``--fit`` prints the coefficients that
:data:`hiertree.pipelines.labels.review.sampling.SHIPPED` has, fitted to Google's types, and the fractions of wrong
labels in each list's quarters by them, from the most certain quarter on.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from label_references import HYPERNYMS, RELEASED, in_part, references, released_labels, true_kinds

from hiertree.pipelines.labels import PlaceNounEncoder, Proposal, propose
from hiertree.pipelines.labels.cluster.certainty import are_catch_alls, bears_names
from hiertree.pipelines.labels.cluster.step import agreement
from hiertree.pipelines.labels.encode.hypernyms import Hypernyms, read_hypernyms
from hiertree.pipelines.labels.encode.place_nouns import class_key, words_of
from hiertree.pipelines.labels.encode.text_encoders import SentenceEncoder
from hiertree.pipelines.labels.review import sampling
from hiertree.pipelines.labels.review.actions import Check, MarkLabels, Move, Sample
from hiertree.pipelines.labels.review.results import doubt_of
from hiertree.pipelines.labels.review.sampling import seen_labels
from hiertree.pipelines.labels.review.state import ReviewCluster, State, initial_state

REGIONS = Path(__file__).with_name("region_labels.csv")
SEEDS, SUGGESTED, TYPED, ENOUGH, DRAWN = 20, 2, 5, 0.03, 0.85
LONGEST_ROW = 9
MEMBERS = ("certain", "of these wrong", "of wrong marked")
COLUMNS = ("list", "labels", *MEMBERS, "keys", "keys to 3 %", "wrong after", "held")
UNFIT, STAY = "no landmark", "it stays"
NATURAL_GROUPS = ("beach", "cave", "coast", "dune", "forest", "glacier", "island", "lake", "mountain", "mountain pass")
NATURAL_GROUPS += ("nature reserve", "peninsula", "river", "salt flat", "spring", "valley", "volcano", "waterfall")
NATURAL_GROUPS += ("wetland",)
PARTS, FITTED = ("tuning", "held-out", "all"), "Google, all"


@dataclass
class Truth:
    """Labels with their classes, the second class of some, and what stands above them."""

    classes: dict[str, str]
    second: dict[str, str]
    hypernyms: Hypernyms
    lineages: dict[str, frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.lineages = {label: self.hypernyms.lineage(label) for label in self.classes}

    def rights(self, label: str) -> tuple[str | None, str | None]:
        """The classes in which a label is no mistake."""
        return self.classes[label], self.second.get(label)

    def wrong(self, clusters: Mapping[str, frozenset[str]], catch_alls: frozenset[str]) -> set[str]:
        """The labels in clusters most of whose labels have another class, and that are not merely finer."""
        wrong = set()
        for name, labels in clusters.items():
            commonest, ordered = self.commonest(labels), sorted(labels)
            finer = bears_names([self.lineages[label] for label in ordered], ordered, [name])[:, 0]
            is_exempt = dict(zip(ordered, finer & (name not in catch_alls), strict=True))
            wrong |= {label for label in labels if commonest not in self.rights(label) and not is_exempt[label]}
        return wrong

    def commonest(self, labels: frozenset[str]) -> str:
        """The class of most labels."""
        counts = Counter(self.classes[label] for label in labels)
        return min(counts, key=lambda name: (-counts[name], name))


def regions(data: Path = REGIONS) -> dict[str, Truth]:
    """The lists of ``region_labels.csv``; a class that the shipped graph lacks has an id of its own."""
    with data.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lists = {name: [row for row in rows if row["list"] == name] for name in dict.fromkeys(row["list"] for row in rows)}
    return {name: _region(own) for name, own in {**lists, "all regions": rows}.items()}


def _region(rows: list[dict[str, str]]) -> Truth:
    shipped, ids = read_hypernyms(), dict[str, str]()
    id_of_name = {words_of(name): item for item, name in reversed(shipped.names.items())}

    def item(name: str) -> str:
        return id_of_name.get(words_of(name)) or ids.setdefault(name, f"Q9{len(ids):07d}")

    chains = [[row["label"], *map(str.strip, row["chain"].split(">"))] for row in rows]
    edges = [(item(a), a, item(b), b, "") for chain in chains for a, b in pairwise(chain)]
    items = {row["label"]: (item(row["label"]),) for row in rows}
    classes = {row["label"]: row["group"] for row in reversed(rows)}
    hypernyms = read_hypernyms([edge for edge in edges if edge[0] != edge[2]], items=items)
    return Truth(classes, {row["label"]: row["second"] for row in reversed(rows) if row["second"]}, hypernyms)


def truths(data: Path) -> dict[str, Truth]:
    """Every list, by its name."""
    hypernyms = read_hypernyms(data / "wikidata_p279" / "edges.csv")
    google = released_labels(data / RELEASED)
    halves = {part: {label: own for label, own in google.items() if in_part(label, part)} for part in PARTS}
    lists = {f"Google, {part}": Truth(classes, {}, hypernyms) for part, classes in halves.items()}
    others = {name.split(":")[0]: classes for name, classes in references(data, "all", None).items()}
    return lists | {"GeoNames": Truth(others["GeoNames"], {}, hypernyms)} | regions()


def proposed(truth: Truth, labels: list[str] | None = None, seed: int = 0) -> Proposal:
    counts = dict.fromkeys(truth.classes if labels is None else labels, 1)
    return propose(counts, PlaceNounEncoder(), hypernyms=truth.hypernyms, seed=seed)


def clusters_of(proposal: Proposal) -> dict[str, frozenset[str]]:
    return {cluster.name: frozenset(member.label for member in cluster.labels) for cluster in proposal.clusters}


def catch_alls_of(proposal: Proposal, truth: Truth) -> frozenset[str]:
    """The names of the clusters that hold anything."""
    clusters = clusters_of(proposal)
    names = list(clusters)
    labels, assignment = zip(*[(label, names.index(name)) for name in names for label in clusters[name]], strict=True)
    bears = bears_names([truth.lineages[label] for label in labels], labels, names)
    return frozenset(np.array(names)[are_catch_alls(names, bears, np.array(assignment))].tolist())


class Reviewer:
    """One who knows the classes and answers the rows of the queue."""

    def __init__(self, proposal: Proposal, truth: Truth, seed: int) -> None:
        self.proposal, self.truth, self.seed, self.keys = proposal, truth, seed, 0
        self.catch_alls = catch_alls_of(proposal, truth)
        self.members = {member.label: member for cluster in proposal.clusters for member in cluster.labels}
        self.state, self.held, self.keys_to_enough = initial_state(proposal), True, None
        self.excepted: frozenset[str] = frozenset()
        self.probabilities = sampling.refit(sampling.features(proposal), {})
        self._do(Sample(labels=sampling.draw(proposal, self.state, seed=seed)))

    def review(self) -> Reviewer:
        """Answer until nothing is left."""
        while rows := sorted(self._rows(), key=self._order):
            if self.keys_to_enough is None and self.wrong() <= ENOUGH:
                self.keys_to_enough = self.keys
            was_complete = sampling.sample_result(self.proposal, self.state).is_complete
            self._answer(rows[0][1][:LONGEST_ROW])
            result = sampling.sample_result(self.proposal, self.state)
            if result.is_complete and not was_complete:
                self._check_bound(result.bound)
                if more := sampling.next_sample(self.proposal, self.state, seed=self.seed + self.keys):
                    self._do(more)
        return self

    def wrong(self) -> float:
        """The fraction of labels that are left in a wrong cluster."""
        clusters = {cluster.name: cluster.relevant for cluster in self.state.clusters.values() if cluster.relevant}
        return len(self.truth.wrong(clusters, self.catch_alls)) / len(self.truth.classes)

    def _rows(self) -> list[tuple[int, list[str]]]:
        """Labels with one question, and when it is asked: as ``queue.js`` has it."""
        rows: defaultdict[tuple[int, int, str], list[str]] = defaultdict(list)
        seen = seen_labels(self.state)
        for number, cluster in self.state.clusters.items():
            for label in sorted(cluster.relevant):
                doubt = doubt_of(self.members[label], cluster)
                proposal = self._proposal(label, cluster) if doubt else STAY
                rank = 1 if proposal != STAY else 2 if doubt != "kind" else 3
                if label in cluster.sampled and label not in seen:
                    rank, proposal = 0, STAY
                elif not doubt:
                    continue
                rows[-1 if label in self.excepted else rank, number, proposal].append(label)
        return [(rank, labels) for (rank, *_), labels in rows.items()]

    def _order(self, row: tuple[int, list[str]]) -> tuple[int, float]:
        return row[0], -sum(self.probabilities[label] for label in row[1])

    def _proposal(self, label: str, home: ReviewCluster) -> str:
        member = self.members[label]
        if member.doubt.startswith(UNFIT):
            return UNFIT
        return member.target if member.target not in ("", home.name) else STAY

    def _answer(self, labels: list[str]) -> None:
        verdicts: defaultdict[str, list[str]] = defaultdict(list)
        for label in labels:
            verdicts[self._verdict(label)].append(label)
        verdict, agreed = max(verdicts.items(), key=lambda item: len(item[1]))
        home, proposal = self._home(agreed[0]), self._proposal(agreed[0], self._home(agreed[0]))
        self.excepted = frozenset(labels) - frozenset(agreed)
        self.keys += len(self.excepted)
        if verdict in (STAY, UNFIT, proposal):
            self.keys += 1
        else:
            suggestion = next(iter(self.members[agreed[0]].hypernyms), "")
            self.keys += SUGGESTED if class_key(suggestion) == class_key(verdict) else TYPED
        if verdict == UNFIT:
            self._do(MarkLabels(labels=tuple(agreed), irrelevant=True))
        elif verdict == STAY:
            self._do(Check(labels=tuple(agreed)))
        else:
            numbers = {cluster.name: cluster.number for cluster in self.state.clusters.values()}
            to = {"to": numbers[verdict]} if verdict in numbers else {"name": verdict, "kind": home.kind}
            self._do(Move(labels=tuple(agreed), **to))

    def _verdict(self, label: str) -> str:
        """That a label stays, is left out, or the name of the cluster where it belongs."""
        home, rights = self._home(label), self.truth.rights(label)
        if rights[0] == UNFIT:
            return UNFIT
        own = {home.name: home.relevant}
        if label not in self.truth.wrong(own, self.catch_alls):
            return STAY
        named = {
            cluster.name
            for cluster in self.state.clusters.values()
            if self.truth.commonest(cluster.relevant or cluster.labels) == rights[0] and cluster != home
        }
        target = self.members[label].target
        known = target if target in named else min(named, default="")
        names = {cluster.name for cluster in self.state.clusters.values()}
        return known or (rights[0] if rights[0] not in names else f"{rights[0]} {label}")

    def _home(self, label: str) -> ReviewCluster:
        return next(cluster for cluster in self.state.clusters.values() if label in cluster.labels)

    def _check_bound(self, bound: float) -> None:
        certain = sampling.certain_labels(self.proposal, self.state)
        wrong = self.truth.wrong(clusters_of(self.proposal), self.catch_alls) & certain
        self.held &= len(wrong) <= bound * len(certain) + 1e-9

    def _do(self, action: Check | Move | MarkLabels | Sample) -> None:
        self.state: State = self.state.changed(action.change(self.state))


def counted(proposal: Proposal, truth: Truth) -> list[int]:
    """The labels, the certain ones, the wrong ones of these, and all wrong ones."""
    clusters = clusters_of(proposal)
    certain = sampling.certain_labels(proposal, initial_state(proposal))
    placed = {name: labels for name, labels in clusters.items() if name != "unknown"}
    wrong = truth.wrong(placed, catch_alls_of(proposal, truth))
    return [sum(map(len, clusters.values())), len(certain), len(wrong & certain), len(wrong)]


def fractions(labels: int, certain: int, certain_wrong: int, wrong: int) -> Iterator[str]:
    for dividend, divisor in ((certain, labels), (certain_wrong, certain), (wrong - certain_wrong, wrong)):
        yield f"{dividend / divisor:.3f}" if divisor else ""


def write_draws(lists: dict[str, Truth]) -> None:
    """What is certain, wrong and marked, over draws of the labels."""
    write_row("list", "labels", *MEMBERS, "wrong in all")
    for name, truth in lists.items():
        labels, sums = sorted(truth.classes), np.zeros(4, dtype=int)
        for seed in range(SEEDS):
            drawn = np.random.default_rng(seed).choice(labels, round(DRAWN * len(labels)), replace=False).tolist()
            sums += counted(proposed(truth, drawn, seed), truth)
        write_row(name, round(DRAWN * len(labels)), *fractions(*sums.tolist()), sums[3])


def write_members(lists: dict[str, Truth]) -> None:
    """A row for each list."""
    write_row(*COLUMNS)
    for name, truth in lists.items():
        proposal = proposed(truth)
        reviews = [Reviewer(proposal, truth, seed).review() for seed in range(SEEDS)]
        keys = np.mean([review.keys for review in reviews])
        enough = np.mean([review.keys_to_enough or review.keys for review in reviews])
        after, held = np.mean([review.wrong() for review in reviews]), sum(review.held for review in reviews)
        values = (f"{keys:.0f}", f"{enough:.0f}", f"{after:.3f}", f"{held} of {SEEDS}")
        write_row(name, len(truth.classes), *fractions(*counted(proposal, truth)), *values)


def write_kinds(data: Path) -> None:
    """How many labels are in clusters of the wrong kind, without and with P279."""
    write_row("list", "labels", "P279", "wrong", "of wrong marked")
    lists = {name: (kinds, HYPERNYMS[", P279"]) for name, kinds in true_kinds(data, "held-out", None).items()}
    for name, truth in truths(data).items():
        if name in (FITTED, *regions()):
            kinds = {
                label: NATURAL_GROUPS.get(own, "human-made") for label, own in truth.classes.items() if own != UNFIT
            }
            lists[name] = (kinds, truth.hypernyms)
    for name, (kinds, known) in lists.items():
        for above, hypernyms in (("no", Hypernyms({}, {})), ("yes", known)):
            proposal = propose(dict.fromkeys(kinds, 1), PlaceNounEncoder(), hypernyms=hypernyms)
            placed = [(member, cluster.kind) for cluster in proposal.clusters for member in cluster.labels]
            wrong = [each for each, kind in placed if kind != kinds[each.label] and not each.either]
            marked = np.mean([bool(member.doubt) for member in wrong]) if wrong else np.nan
            write_row(name, len(kinds), above, f"{len(wrong) / len(kinds):.3f}", f"{marked:.3f}")


def write_second(lists: dict[str, Truth], folder: str) -> None:
    """What is certain, wrong and marked with a sentence encoder as another witness, with P279 and without."""
    write_row("list", "P279", "second", *MEMBERS)
    for name in (FITTED, "Andes", "other regions"):
        counts = dict.fromkeys(lists[name].classes, 1)
        for above, hypernyms in (("scraped", lists[name].hypernyms), ("shipped", read_hypernyms())):
            for second in (None, SentenceEncoder(folder)):
                proposal = propose(counts, PlaceNounEncoder(), hypernyms=hypernyms, second=second)
                write_row(name, above, "yes" if second else "no", *fractions(*counted(proposal, lists[name])))


def write_agreement(lists: dict[str, Truth]) -> None:
    """How clusters of Google's types agree with the annotators' classes, at their number and at the proposed one."""
    write_row("list", "labels", "clusters", "ARI", "NMI", "of the right kind")
    for name, truth in lists.items():
        if name.startswith("Google"):
            for number in (len(set(truth.classes.values())), "auto"):
                counts = dict.fromkeys(truth.classes, 1)
                proposal = propose(counts, PlaceNounEncoder(), hypernyms=truth.hypernyms, clusters=number)
                placed = [(cluster, member.label) for cluster in proposal.clusters for member in cluster.labels]
                found = agreement([c.name for c, _ in placed], [truth.classes[label] for _, label in placed])
                right = np.mean([cluster.kind == "human-made" for cluster, _ in placed])
                head = (name, len(placed), len(proposal.clusters))
                write_row(*head, f"{found['ari']:.3f}", f"{found['nmi']:.3f}", f"{right:.3f}")


def write_fit(lists: dict[str, Truth]) -> None:
    """The coefficients fitted to one list, and the fractions of wrong labels in each list's quarters by them."""
    from sklearn.linear_model import LogisticRegression

    rows, wrong = {}, {}
    for name, truth in lists.items():
        proposal = proposed(truth)
        misplaced = truth.wrong(clusters_of(proposal), catch_alls_of(proposal, truth))
        own = sampling.features(proposal)
        rows[name] = np.array(list(own.values()))
        wrong[name] = np.array([label in misplaced for label in own])
    model = LogisticRegression().fit(rows[FITTED][:, 1:], wrong[FITTED])
    coefficients = np.array([*model.intercept_, *model.coef_[0]])
    write_row(FITTED, *(f"{value:.2f}" for value in coefficients))
    for name, own in rows.items():
        quarters = np.array_split(wrong[name][np.argsort(own @ coefficients, kind="stable")], 4)
        write_row(name, *(f"{quarter.mean():.3f}" for quarter in quarters))


def write_row(*cells: object) -> None:
    csv.writer(sys.stdout, lineterminator="\n").writerow(cells)
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of place_labels, gldv2_hierarchical and wikidata_p279")
    parser.add_argument("--kinds", action="store_true")
    tables = {"agreement": write_agreement, "draws": write_draws, "fit": write_fit}
    for name in tables:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--second", metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.kinds:
        write_kinds(arguments.data)
        return
    lists = truths(arguments.data)
    if arguments.second:
        write_second(lists, arguments.second)
        return
    for name, write in tables.items():
        if getattr(arguments, name):
            write(lists)
            return
    write_members(lists)


if __name__ == "__main__":
    main()
