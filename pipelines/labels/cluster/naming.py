"""Proposed names of clusters, and the levels of groups above them.

A cluster is named by a noun that its labels share: a short label itself, its head noun ("urban park" carries *urban
park* and *park*, "state park" does not: a park of another sense), the sense of that, or else the nearest class that
stands above them. A noun's *share* of a cluster is the mean of the parts of its labels and of its landmarks that
carry it. A noun names a cluster when its share is at least 0.55 and no other cluster has a greater share of it; where
there is none, the commonest head noun does. A group of clusters is named by the themes of its labels' senses, or by
what stands above the labels.

Within each kind, clusters are merged into groups two by two by Ward's method (Ward 1963), which grows groups of similar
size. Clusters of labels that share no word and no sense are all equally far apart, so half of a cluster's square norm
says which themes its landmarks' labels belong to. The levels are cuts of one tree of merges, so they nest. With m
clusters of a kind and N levels, level j (coarsest first) has from m^(j/(N+1)) groups to twice as many: it is cut where
the next merge costs most above the last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, pairwise

import numpy as np
from numpy.typing import NDArray

from hiertree.arrays import unit_rows
from hiertree.errors import OptionError

from ..encode.phrases import parse, thesaurus

Counts = Mapping[str, int]  # label → number of landmarks
Shares = Mapping[str, float]  # noun → its share of a cluster
Chains = Mapping[str, Sequence[str]]  # label → what stands above it, from the nearest on
Nouns = Callable[[str], Sequence[str]]  # by which a label may be called
_MAIN = 0.55
_SHORT = 2  # words
GENERAL = ("building", "natural region")  # senses of nouns that say hardly more than a kind


def propose_names(clusters: Sequence[Counts], *, chains: Chains | None = None) -> list[str]:
    """A readable name for each cluster, no two alike; the clusters of most landmarks choose first."""
    shares = [[_shares(counts, nouns) for counts in clusters] for nouns in (_nouns, _senses, _classes(chains))]
    greatest, names = list(map(_greatest, shares)), dict[int, str]()
    for place in _largest_first(clusters):
        fitting = [_fitting(part[place], maxima) for part, maxima in zip(shares, greatest, strict=True)]
        candidates = chain(*fitting, _fallbacks(clusters[place], next(iter(shares[0][place]))))
        names[place] = next(name for name in candidates if name not in names.values())
    return [names[place] for place in range(len(clusters))]


def name_groups(
    groups: Sequence[Sequence[int]], names: Sequence[str], clusters: Sequence[Counts], *, chains: Chains | None = None
) -> list[str]:
    """A name for each group of clusters, no two alike; a single cluster gives its group its name.

    A group that nothing else names is called by its largest cluster ("street and others").
    """
    group_counts = [{label: number for place in group for label, number in clusters[place].items()} for group in groups]
    of_themes = [_shares(counts, themes) for counts in group_counts]
    class_shares = [_shares(counts, _classes(chains)) for counts in group_counts]
    most_themes = _greatest(of_themes)
    group_names: dict[int, str] = {}
    for place in _largest_first(group_counts):
        largest = min(groups[place], key=lambda member: (-sum(clusters[member].values()), names[member]))
        is_union = len(groups[place]) > 1
        fallback = f"{names[largest]} and others" if is_union else names[largest]
        nouns = [*_fitting(of_themes[place], most_themes), *_rarest(class_shares[place], class_shares)]
        candidates = chain(nouns if is_union else [], [fallback], (f"{fallback} {number}" for number in count(2)))
        group_names[place] = next(name for name in candidates if name not in group_names.values())
    return [group_names[place] for place in range(len(groups))]


def themes(label: str) -> list[str]:
    """The theme of a label's sense, if any."""
    sense = parse(label).sense
    return [] if sense is None else [thesaurus().theme_of[sense]]


def _largest_first(clusters: Sequence[Counts]) -> list[int]:
    return sorted(range(len(clusters)), key=lambda place: (-sum(clusters[place].values()), place))


def _fallbacks(counts: Counts, noun: str) -> Iterator[str]:
    """Fallback names; since a label belongs to one cluster only, one is always free."""
    commonest = min(counts, key=lambda label: (-counts[label], label))
    yield from (noun, commonest, f"{noun} ({commonest})")
    yield from (f"{commonest} {number}" for number in count(2))


def _fitting(shares: Shares, greatest: Shares) -> list[str]:
    """The longest noun that names the cluster, if there is one."""
    main = [noun for noun, share in shares.items() if share >= max(_MAIN, greatest[noun])]
    return sorted(main, key=lambda noun: (-len(noun.split()), -shares[noun]))[:1]


def _rarest(shares: Shares, groups: Sequence[Shares]) -> list[str]:
    """The nouns that most of a group carry, those of the fewest groups first, as they are the most specific."""
    main = [noun for noun, share in shares.items() if share >= _MAIN]
    return sorted(main, key=lambda noun: sum(noun in group for group in groups))


def _shares(counts: Counts, nouns: Nouns) -> dict[str, float]:
    """The share of each noun, in decreasing order."""
    shares: defaultdict[str, float] = defaultdict(float)
    landmarks = sum(counts.values())
    for label, number in counts.items():
        for noun in nouns(label):
            shares[noun] += (1 / len(counts) + number / landmarks) / 2
    rounded = {noun: round(share, 9) for noun, share in shares.items()}
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], item[0])))


def _greatest(clusters: Sequence[Shares]) -> dict[str, float]:
    greatest: defaultdict[str, float] = defaultdict(float)
    for noun, share in chain.from_iterable(shares.items() for shares in clusters):
        greatest[noun] = max(share, greatest[noun])
    return greatest


def _senses(label: str) -> list[str]:
    sense = parse(label).sense
    return [] if sense is None or sense in GENERAL else [sense]


def _classes(chains: Chains | None) -> Nouns:
    """A function for the classes above a label that are more specific than a kind."""

    def classes(label: str) -> list[str]:
        parsed_names = ((name, parse(name)) for name in (chains or {}).get(label, ()))
        return [name for name, phrase in parsed_names if phrase.certain and phrase.sense not in GENERAL]

    return classes


def _nouns(label: str) -> list[str]:
    """A short label itself, its head noun and the nouns of its sense that end that."""
    phrase = parse(label)
    words = phrase.head.split()
    shorter = (" ".join(words[start:]) for start in range(1, len(words)))
    synonyms = [noun for noun in shorter if phrase.sense and thesaurus().sense_of.get(noun) == phrase.sense]
    short = [label] if len(label.split()) <= _SHORT and label.casefold().endswith(phrase.head) else []
    return list(dict.fromkeys([*short, phrase.head or label, *synonyms]))


def groups_above(
    centers: NDArray[np.float32],
    kinds: Sequence[str],
    names: Sequence[str],
    clusters: Sequence[Counts],
    *,
    levels: int,
    chains: Chains | None = None,
) -> list[tuple[str, ...]]:
    """Names of the groups above each cluster, coarse → fine; no two groups of a level are called alike."""
    if levels < 0:
        raise OptionError(f"levels={levels}", expected="0 or more")
    places = [np.flatnonzero(np.array(kinds) == kind) for kind in dict.fromkeys(kinds)]
    features = _append_themes(centers, clusters)
    cuts = [_cuts(features[members], levels) for members in places]
    group_names: list[list[str]] = [[] for _ in names]
    for level in range(levels):
        parts = [(members, cut[level]) for members, cut in zip(places, cuts, strict=True)]
        groups = [members[numbers == group].tolist() for members, numbers in parts for group in np.unique(numbers)]
        for group, name in zip(groups, name_groups(groups, names, clusters, chains=chains), strict=True):
            for place in group:
                group_names[place].append(name)
    return [tuple(groups) for groups in group_names]


def _append_themes(centers: NDArray[np.float32], clusters: Sequence[Counts]) -> NDArray[np.float64]:
    """(k, d) unit rows: half a cluster's center, half how many of its landmarks are of each theme."""
    names = sorted({theme for counts in clusters for label in counts for theme in themes(label)})
    of_themes = np.zeros((len(centers), len(names)))
    for row, counts in enumerate(clusters):
        for label, number in counts.items():
            for theme in themes(label):
                of_themes[row, names.index(theme)] += number
    norms = np.linalg.norm(of_themes, axis=1, keepdims=True)
    return unit_rows(np.hstack([centers, of_themes / np.where(norms > 0, norms, 1)]))


def _cuts(centers: NDArray[np.float64], levels: int) -> list[NDArray[np.int64]]:
    """The group of each cluster at each level, coarse → fine."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(centers) == 1:
        return [np.zeros(1, dtype=np.int64)] * levels
    merges = linkage(centers, method="ward")
    lower_bounds = [round(len(centers) ** (level / (levels + 1))) for level in range(1, levels + 1)]
    numbers = [_number(merges[:, 2], *ends) for ends in pairwise([*lower_bounds, len(centers) - 1])]
    return [fcluster(merges, number, criterion="maxclust").astype(np.int64) for number in numbers]


def _number(costs: NDArray[np.float64], lower_bound: int, upper_bound: int) -> int:
    """The number of groups, from the least to twice that, below which the cost of merging jumps the most."""
    numbers = range(max(lower_bound, 2), min(2 * lower_bound, upper_bound, len(costs)) + 1)
    return max(numbers, key=lambda number: costs[1 - number] - costs[-number], default=lower_bound)
