"""Proposed names of clusters, and the levels of groups above them.

A cluster is named by a noun of the list, or a class above its labels, that at least half of its labels are: a short
label itself, its head noun ("urban park" carries *urban park* and *park*, "state park" does not: a park of another
sense), the sense of that, or else the nearest class that stands above them. A noun's *weight* is the mean of the
fractions of the cluster's labels and of its landmarks that carry it; no other cluster may have a greater one of it.
Where there is no such noun, the commonest label names the cluster. A group of clusters is named by the themes of its
labels' senses, or by what stands above the labels.

Within each kind, clusters are merged into groups two by two by Ward's method (Ward 1963), which grows groups of similar
size. Clusters of labels that share no word and no sense are all equally far apart, so half of a cluster's square norm
says which themes its landmarks' labels belong to. The levels are cuts of one tree of merges, so they nest. With m
clusters of a kind and N levels, level j (coarsest first) has from m^(j/(N+1)) groups to twice as many: it is cut where
the next merge costs most above the last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, pairwise

import numpy as np
from numpy.typing import NDArray

from hiertree.arrays import unit_rows
from hiertree.errors import OptionError

from ..encode.place_nouns import Phrase, parse, thesaurus

Counts = Mapping[str, int]  # label → number of landmarks
Weights = Mapping[str, tuple[float, float]]  # noun → its weight in a cluster, and the fraction of labels that carry it
Chains = Mapping[str, Sequence[str]]  # label → what stands above it, from the nearest on
Texts = Mapping[str, str]  # label → what the list knows it by, where that is not the label itself
Nouns = Callable[[str], Sequence[str]]  # by which a label may be called
_MAIN, _HALF = 0.55, 0.5  # the weight and the fraction of labels from which a noun names a cluster
_SHORT = 2  # words
GENERAL = ("building", "natural region")  # senses of nouns that say hardly more than a kind


@dataclass(frozen=True)
class _Nouns:
    """By what labels may be called."""

    texts: Texts
    chains: Chains = field(default_factory=dict)

    def own(self, label: str) -> list[str]:
        """A short label itself, its head noun and the nouns of its sense that end that, if it is listed."""
        phrase = self._phrase(label)
        if not phrase.certain:
            return []
        ending = phrase.head.split()
        shorter = (" ".join(ending[start:]) for start in range(1, len(ending)))
        synonyms = [noun for noun in shorter if thesaurus().sense_of.get(noun) == phrase.sense]
        short = [label] if len(label.split()) <= _SHORT and label.casefold().endswith(phrase.head) else []
        return list(dict.fromkeys([*short, phrase.head, *synonyms]))

    def senses(self, label: str) -> list[str]:
        """Its sense, if that is no general one."""
        sense = self._phrase(label).sense
        return [] if sense is None or sense in GENERAL else [sense]

    def themes(self, label: str) -> list[str]:
        """The theme of its sense."""
        sense = self._phrase(label).sense
        return [] if sense is None else [thesaurus().theme_of[sense]]

    def classes(self, label: str) -> list[str]:
        """The classes above it that are more specific than a kind."""
        parsed_names = ((name, parse(name)) for name in self.chains.get(label, ()))
        return [name for name, phrase in parsed_names if phrase.certain and phrase.sense not in GENERAL]

    def _phrase(self, label: str) -> Phrase:
        return parse(self.texts.get(label, label))


def propose_names(clusters: Sequence[Counts], *, chains: Chains | None = None, texts: Texts | None = None) -> list[str]:
    """A readable name for each cluster, no two alike; the clusters of most landmarks choose first."""
    nouns_of = _Nouns(texts or {}, chains or {})
    weights = [
        [_weights(counts, nouns) for counts in clusters] for nouns in (nouns_of.own, nouns_of.senses, nouns_of.classes)
    ]
    greatest, names = list(map(_greatest, weights)), dict[int, str]()
    for index in _largest_first(clusters):
        fitting = [_fitting(rows[index], maxima) for rows, maxima in zip(weights, greatest, strict=True)]
        candidates = chain(*fitting, _fallbacks(clusters[index]))
        names[index] = next(name for name in candidates if name not in names.values())
    return [names[index] for index in range(len(clusters))]


def name_groups(
    groups: Sequence[Sequence[int]],
    names: Sequence[str],
    clusters: Sequence[Counts],
    *,
    chains: Chains | None = None,
    texts: Texts | None = None,
) -> list[str]:
    """A name for each group of clusters, no two alike; a single cluster gives its group its name.

    A group that nothing else names is called by its largest cluster ("street and others").
    """
    group_counts = [{label: n for index in group for label, n in clusters[index].items()} for group in groups]
    nouns_of = _Nouns(texts or {}, chains or {})
    of_themes = [_weights(counts, nouns_of.themes) for counts in group_counts]
    class_weights = [_weights(counts, nouns_of.classes) for counts in group_counts]
    most_themes = _greatest(of_themes)
    group_names: dict[int, str] = {}
    for index in _largest_first(group_counts):
        largest = min(groups[index], key=lambda member: (-sum(clusters[member].values()), names[member]))
        is_union = len(groups[index]) > 1
        fallback = f"{names[largest]} and others" if is_union else names[largest]
        nouns = [*_fitting(of_themes[index], most_themes), *_rarest(class_weights[index], class_weights)]
        candidates = chain(nouns if is_union else [], [fallback], (f"{fallback} {suffix}" for suffix in count(2)))
        group_names[index] = next(name for name in candidates if name not in group_names.values())
    return [group_names[index] for index in range(len(groups))]


def _largest_first(clusters: Sequence[Counts]) -> list[int]:
    return sorted(range(len(clusters)), key=lambda index: (-sum(clusters[index].values()), index))


def _fallbacks(counts: Counts) -> Iterator[str]:
    """The commonest label; since a label belongs to one cluster only, one is always free."""
    commonest = min(counts, key=lambda label: (-counts[label], label))
    yield commonest
    yield from (f"{commonest} {suffix}" for suffix in count(2))


def _names_it(noun: str, weights: Weights) -> bool:
    weight, labels = weights[noun]
    return weight >= _MAIN and labels >= _HALF


def _fitting(weights: Weights, greatest: Mapping[str, float]) -> list[str]:
    """The longest noun that names the cluster, if there is one."""
    main = [noun for noun, (weight, _) in weights.items() if _names_it(noun, weights) and weight >= greatest[noun]]
    return sorted(main, key=lambda noun: (-len(noun.split()), -weights[noun][0]))[:1]


def _rarest(weights: Weights, groups: Sequence[Weights]) -> list[str]:
    """The nouns that most of a group carry, those of the fewest groups first, as they are the most specific."""
    main = [noun for noun in weights if _names_it(noun, weights)]
    return sorted(main, key=lambda noun: sum(noun in group for group in groups))


def _weights(counts: Counts, nouns: Nouns) -> dict[str, tuple[float, float]]:
    """The weight of each noun and the fraction of labels that carry it, in decreasing order of weight."""
    carriers = Counter(noun for label in counts for noun in nouns(label))
    landmarks, total = Counter[str](), sum(counts.values())
    for label, landmark_count in counts.items():
        landmarks.update(dict.fromkeys(nouns(label), landmark_count))
    fractions = {noun: carrier_count / len(counts) for noun, carrier_count in carriers.items()}
    weights = {
        noun: (round((fraction + landmarks[noun] / total) / 2, 9), fraction) for noun, fraction in fractions.items()
    }
    return dict(sorted(weights.items(), key=lambda item: (-item[1][0], item[0])))


def _greatest(clusters: Sequence[Weights]) -> dict[str, float]:
    greatest: defaultdict[str, float] = defaultdict(float)
    for noun, (weight, _) in chain.from_iterable(weights.items() for weights in clusters):
        greatest[noun] = max(weight, greatest[noun])
    return greatest


def groups_above(
    centers: NDArray[np.float32],
    kinds: Sequence[str],
    names: Sequence[str],
    clusters: Sequence[Counts],
    *,
    levels: int,
    chains: Chains | None = None,
    texts: Texts | None = None,
) -> list[tuple[str, ...]]:
    """Names of the groups above each cluster, coarse → fine; no two groups of a level are called alike."""
    if levels < 0:
        raise OptionError(f"levels={levels}", expected="0 or more")
    kind_members = [np.flatnonzero(np.array(kinds) == kind) for kind in dict.fromkeys(kinds)]
    features = _append_themes(centers, clusters, _Nouns(texts or {}).themes)
    cuts = [_cuts(features[members], levels) for members in kind_members]
    group_names: list[list[str]] = [[] for _ in names]
    for level in range(levels):
        level_cuts = [(members, cut[level]) for members, cut in zip(kind_members, cuts, strict=True)]
        groups = [members[labels == group].tolist() for members, labels in level_cuts for group in np.unique(labels)]
        for group, name in zip(groups, name_groups(groups, names, clusters, chains=chains, texts=texts), strict=True):
            for index in group:
                group_names[index].append(name)
    return [tuple(path) for path in group_names]


def _append_themes(centers: NDArray[np.float32], clusters: Sequence[Counts], themes: Nouns) -> NDArray[np.float64]:
    """(k, d) unit rows: half a cluster's center, half how many of its landmarks are of each theme."""
    names = sorted({theme for counts in clusters for label in counts for theme in themes(label)})
    of_themes = np.zeros((len(centers), len(names)))
    for row, counts in enumerate(clusters):
        for label, landmarks in counts.items():
            for theme in themes(label):
                of_themes[row, names.index(theme)] += landmarks
    norms = np.linalg.norm(of_themes, axis=1, keepdims=True)
    return unit_rows(np.hstack([centers, of_themes / np.where(norms > 0, norms, 1)]))


def _cuts(centers: NDArray[np.float64], levels: int) -> list[NDArray[np.int64]]:
    """The group of each cluster at each level, coarse → fine."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(centers) == 1:
        return [np.zeros(1, dtype=np.int64)] * levels
    merges = linkage(centers, method="ward")
    lower_bounds = [round(len(centers) ** (level / (levels + 1))) for level in range(1, levels + 1)]
    counts = [_group_count(merges[:, 2], *ends) for ends in pairwise([*lower_bounds, len(centers) - 1])]
    return [fcluster(merges, groups, criterion="maxclust").astype(np.int64) for groups in counts]


def _group_count(costs: NDArray[np.float64], lower_bound: int, upper_bound: int) -> int:
    """The number of groups, from the least to twice that, below which the cost of merging jumps the most."""
    counts = range(max(lower_bound, 2), min(2 * lower_bound, upper_bound, len(costs)) + 1)
    return max(counts, key=lambda groups: costs[1 - groups] - costs[-groups], default=lower_bound)
