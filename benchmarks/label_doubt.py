"""Whether proposals know what they do not know: ``python benchmarks/label_doubt.py ../shared/data``.

For each encoder, without and with Wikidata's "subclass of" (P279), and each part of the data, one list of labels whose
truth is known, two tables as CSV: *kinds*, natural or human-made, and *members*, labels in a cluster most of whose
labels have another class. *Certain* is the share of labels that are not marked, *of these wrong* how many of those are
wrong, *of wrong marked* how many of the wrong ones are marked. *Left out* chooses the size of a measure from which a
label is certain on the other parts, the least there at which at most one certain label in twenty is wrong, and says how
that carries over to this part; the measure is the margin for kinds, and for members without any doubt the silhouette.
*Actions* are those of a reviewer who knows the truth and looks at marked labels alone: he moves the wrong ones, those
of one cluster and class at once, and merges the clusters of a class; *wrong after* is what he leaves. The half of the
labels and the encoders are chosen as for :mod:`place_labels`.
``--probabilities`` prints how often the probability of natural comes true, for the list of place nouns.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from label_references import HYPERNYMS, Encoders, add_options, encoders_of, references, true_kinds
from numpy.typing import NDArray

from hiertree.pipelines.labels import PlaceNounEncoder
from hiertree.pipelines.labels.cluster.embedding import LIKELY, Embedding, embed, natural_probability
from hiertree.pipelines.labels.cluster.proposing import propose_for

PARTS = ("Google", "GeoNames", "OpenStreetMap", "WordNet")
MOST_WRONG = 0.05
PROBABILITIES = (0, 0.02, 0.1, 0.5, 0.9, 1.01)
COLUMNS = ("encoder", "part", "labels", "wrong", "certain", "of these wrong", "of wrong marked")
LEFT_OUT = ("left out: certain", "left out: of these wrong", "left out: of wrong marked", "actions", "wrong after")


class Answers(NamedTuple):
    """Of the labels of a part: wrong or not, marked or not, the size of the measure; and a reviewer's actions."""

    wrong: NDArray[np.bool_]
    marked: NDArray[np.bool_]
    size: NDArray[np.float64]
    actions: int


def members(embedding: Embedding, classes: dict[str, str]) -> Answers:
    """The labels in the proposed clusters."""
    counts = dict.fromkeys(embedding.labels, 1)
    proposal = propose_for(embedding, counts, clusters="auto", levels=0, seed=0, restarts=5)
    rows, actions, commonest_classes = [], 0, set()
    for cluster in proposal.clusters:
        class_counts = Counter(classes[place.label] for place in cluster.labels)
        commonest = min(class_counts, key=lambda name: (-class_counts[name], name))
        classes_to_move = {classes[place.label] for place in cluster.labels if place.doubt} - {commonest}
        actions += len(classes_to_move) + (commonest in commonest_classes)
        commonest_classes.add(commonest)
        for place in cluster.labels:
            size = 0 if place.doubt else place.silhouette
            rows.append((classes[place.label] != commonest, bool(place.doubt), size))
    wrong, marked, size = zip(*rows, strict=True)
    return Answers(np.array(wrong), np.array(marked), np.array(size), actions)


def kinds(embedding: Embedding, kind_of: dict[str, str]) -> Answers:
    """The labels by their margins."""
    natural = np.array([kind_of[label] == "natural" for label in embedding.labels])
    sizes = np.abs(embedding.margins)
    wrong = (embedding.margins >= LIKELY) != natural
    return Answers(wrong, sizes < 1, sizes, int((wrong & (sizes < 1)).sum()))


def doubt(answers: Answers) -> list[float]:
    """The share of certain labels, that of wrong ones among them, and that of marked ones among the wrong."""
    wrong, marked = answers.wrong, answers.marked
    certain_wrong = wrong[~marked].mean() if not marked.all() else np.nan
    return [(~marked).mean(), certain_wrong, marked[wrong].mean() if wrong.any() else np.nan]


def smallest_size(parts: list[Answers]) -> float:
    """The least size from which at most one label in twenty is wrong, over all parts; infinite without one."""
    wrong, size = (np.concatenate([getattr(part, name) for part in parts]) for name in ("wrong", "size"))
    sizes = np.unique(size[size > 0])
    return next((least for least in sizes.tolist() if wrong[size >= least].mean() <= MOST_WRONG), np.inf)


def write_doubt(truths: dict[str, dict[str, str]], encoders: Encoders, *, of_kinds: bool) -> None:
    """A table: a row for each encoder and part."""
    write_row("of", *COLUMNS, *LEFT_OUT)
    for name, encoder in encoders.items():
        for above, edges in HYPERNYMS.items():
            answers = {
                part: (kinds if of_kinds else members)(embed(truth, encoder, hypernyms=edges), truth)
                for part, truth in truths.items()
            }
            for part, part_answers in answers.items():
                least = smallest_size([rest for other, rest in answers.items() if other != part])
                left_out = doubt(part_answers._replace(marked=part_answers.size < least))
                numbers = (part_answers.wrong.mean(), *doubt(part_answers), *left_out)
                head = ("kinds" if of_kinds else "members", name + above, part, len(truths[part]))
                wrong_after = (part_answers.wrong & ~part_answers.marked).mean()
                review = (part_answers.actions, f"{wrong_after:.3f}")
                write_row(*head, *(f"{number:.3f}" for number in numbers), *review)


def write_probabilities(truths: dict[str, dict[str, str]]) -> None:
    """How many labels of each probability of natural are natural."""
    write_row("P279", "probability of natural", "labels", "natural")
    for above, edges in HYPERNYMS.items():
        pairs = []
        for truth in truths.values():
            embedding = embed(truth, PlaceNounEncoder(), hypernyms=edges)
            margins = zip(embedding.labels, embedding.margins.tolist(), strict=True)
            pairs += [(natural_probability(margin), truth[label] == "natural") for label, margin in margins]
        for low, high in pairwise(PROBABILITIES):
            trues = [natural for probability, natural in pairs if low <= probability < high]
            share = f"{np.mean(trues):.3f}" if trues else ""
            write_row("yes" if above else "no", f"{low} to {min(high, 1)}", len(trues), share)


def write_row(*cells: object) -> None:
    csv.writer(sys.stdout, lineterminator="\n").writerow(cells)
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--probabilities", action="store_true")
    arguments = parser.parse_args()
    where = (arguments.data, arguments.part, arguments.nouns)
    if arguments.probabilities:
        write_probabilities(true_kinds(*where))
        return
    encoders = encoders_of(arguments)
    write_doubt(true_kinds(*where), encoders, of_kinds=True)
    classes = {name.split()[0].rstrip(":"): truth for name, truth in references(*where).items()}
    write_doubt({part: classes[part] for part in PARTS if part in classes}, encoders, of_kinds=False)


if __name__ == "__main__":
    main()
