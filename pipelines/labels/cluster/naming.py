"""Proposed names of clusters, and the levels of groups above them.

Names are made of nouns: the labels' head nouns ("urban park" carries *urban park* and *park*, "state park" does not: a
park of another sense), then the senses of those. A noun's *share* of a cluster is the mean of the part of its labels
and the part of its landmarks that carry it. A noun names a cluster when its share is at least 0.55 and no other cluster
has a greater share of it; beside it another noun is *prominent* when at least three landmarks in ten carry that one. A
group of clusters is named likewise: by the themes of its labels' senses, or by what stands above the labels.

Within each kind, clusters are merged into groups two by two by Ward's method (Ward 1963), which grows groups of similar
size. Clusters of labels that share no word and no sense are all equally far apart, so half of a cluster's square norm
says which themes its landmarks' labels belong to. The levels are cuts of one tree of merges, so they nest. With m
clusters of a kind and N levels, level j (coarsest first) has from m^(j/(N+1)) groups to twice as many: it is cut where
the next merge costs most above the last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, pairwise

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import OptionError

from ..encode.phrases import parse, thesaurus

Counts = Mapping[str, int]  # label → number of landmarks
Chains = Mapping[str, Sequence[str]]  # label → what stands above it, from the nearest on
_MAIN, _PROMINENT = 0.55, 0.3
_STEPS_UP = 2  # further hypernyms say too little
_NAMED = 3  # clusters in the name of a group that nothing else names


@dataclass(frozen=True)
class _Share:
    whole: float
    of_landmarks: float


def propose_names(clusters: Sequence[Counts], *, chains: Chains | None = None) -> list[str]:
    """A readable name for each cluster, no two alike; the clusters of most landmarks choose first."""
    heads = [_shares(counts, {label: _nouns(label) for label in counts}) for counts in clusters]
    senses = [_shares(counts, {label: _sense(label, chains or {}) for label in counts}) for counts in clusters]
    most_heads, most_senses = _greatest(heads), _greatest(senses)
    names: dict[int, str] = {}
    for place in _largest_first(clusters):
        fitting = [_fitting(heads[place], most_heads), _fitting(senses[place], most_senses)]
        single = [nouns[0] for nouns in fitting if len(nouns) == 1]
        double = [_joined(*nouns) for nouns in fitting if len(nouns) == 2]
        candidates = chain(single, double, _fallbacks(clusters[place], list(heads[place])))
        names[place] = next(name for name in candidates if name not in names.values())
    return [names[place] for place in range(len(clusters))]


def name_groups(
    groups: Sequence[Sequence[int]], names: Sequence[str], clusters: Sequence[Counts], *, chains: Chains | None = None
) -> list[str]:
    """A name for each group of clusters, no two alike; a single cluster gives its group its name.

    A group that nothing else names is called by its three largest clusters ("street / park / festival …").
    """
    whole = [{label: number for place in group for label, number in clusters[place].items()} for group in groups]
    known = chains or {}
    of_themes = [_shares(counts, {label: themes(label) for label in counts}) for counts in whole]
    above = [_shares(counts, {label: known.get(label, ()) for label in counts}) for counts in whole]
    most_themes = _greatest(of_themes)
    found: dict[int, str] = {}
    for place in _largest_first(whole):
        largest = sorted(groups[place], key=lambda own: (-sum(clusters[own].values()), names[own]))
        plain = " / ".join(names[own] for own in largest[:_NAMED]) + (" …" if len(largest) > _NAMED else "")
        shared = [*_fitting(of_themes[place], most_themes)[:1], *_rarest(above[place], above)] if largest[1:] else []
        candidates = chain(shared, [plain], (f"{plain} {number}" for number in count(2)))
        found[place] = next(name for name in candidates if name not in found.values())
    return [found[place] for place in range(len(groups))]


def themes(label: str) -> list[str]:
    """The theme of a label's sense, or none."""
    sense = parse(label).sense
    return [] if sense is None else [thesaurus().theme_of[sense]]


def _largest_first(clusters: Sequence[Counts]) -> list[int]:
    return sorted(range(len(clusters)), key=lambda place: (-sum(clusters[place].values()), place))


def _fallbacks(counts: Counts, nouns: Sequence[str]) -> Iterator[str]:
    """Less good names, without end; a label belongs to one cluster only, so that one is always free."""
    commonest = min(counts, key=lambda label: (-counts[label], label))
    yield from (_joined(nouns[0], noun) for noun in nouns[1:3] if not _nested(nouns[0], noun))
    yield from (nouns[0], commonest, f"{nouns[0]} ({commonest})")
    yield from (f"{commonest} {number}" for number in count(2))


def _fitting(shares: Mapping[str, _Share], greatest: Mapping[str, float]) -> list[str]:
    """The longest noun that names the cluster, and the most prominent other one, if there are such."""
    main = [noun for noun, share in shares.items() if share.whole >= max(_MAIN, greatest[noun])]
    if not main:
        return []
    first = max(main, key=lambda noun: (len(noun.split()), shares[noun].whole))
    others = (noun for noun, share in shares.items() if share.of_landmarks >= _PROMINENT and not _nested(first, noun))
    return [first, *others][:2]


def _rarest(shares: Mapping[str, _Share], groups: Sequence[Mapping[str, _Share]]) -> list[str]:
    """The nouns that most of a group carry, those that fewest groups know first: they say most."""
    main = [noun for noun, share in shares.items() if share.whole >= _MAIN]
    return sorted(main, key=lambda noun: sum(noun in group for group in groups))


def _joined(first: str, second: str) -> str:
    """The two with one "and", before the last: "square, street and tunnel"."""
    parts = f"{first} and {second}".split(" and ")
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _shares(counts: Counts, nouns_of: Mapping[str, Sequence[str]]) -> dict[str, _Share]:
    """The share of each noun, in decreasing order."""
    labels: defaultdict[str, int] = defaultdict(int)
    landmarks: defaultdict[str, int] = defaultdict(int)
    for label, number in counts.items():
        for noun in nouns_of[label]:
            labels[noun] += 1
            landmarks[noun] += number
    parts = {noun: (labels[noun] / len(counts), landmarks[noun] / sum(counts.values())) for noun in labels}
    shares = {noun: _Share(round(sum(part) / 2, 9), part[1]) for noun, part in parts.items()}
    return dict(sorted(shares.items(), key=lambda item: (-item[1].whole, item[0])))


def _greatest(clusters: Sequence[Mapping[str, _Share]]) -> dict[str, float]:
    greatest: defaultdict[str, float] = defaultdict(float)
    for noun, share in chain.from_iterable(shares.items() for shares in clusters):
        greatest[noun] = max(share.whole, greatest[noun])
    return greatest


def _sense(label: str, chains: Chains) -> list[str]:
    sense = parse(label).sense
    return [*chains.get(label, ())][:_STEPS_UP] if sense is None else [sense]


def _nouns(label: str) -> list[str]:
    """The head noun and the nouns of its sense that end it; the label itself where it has none."""
    phrase = parse(label)
    words = phrase.head.split()
    shorter = (" ".join(words[start:]) for start in range(1, len(words)))
    same = [noun for noun in shorter if phrase.sense and thesaurus().sense_of.get(noun) == phrase.sense]
    return [phrase.head or label, *same]


def _nested(one: str, other: str) -> bool:
    return f" {one}".endswith(f" {other}") or f" {other}".endswith(f" {one}")


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
    places = [np.array([place for place, own in enumerate(kinds) if own == kind]) for kind in dict.fromkeys(kinds)]
    described = _with_themes(centers, clusters)
    cuts = [_cuts(described[own], levels) for own in places]
    above: list[list[str]] = [[] for _ in names]
    for level in range(levels):
        groups = [
            own[cut[level] == group].tolist()
            for own, cut in zip(places, cuts, strict=True)
            for group in np.unique(cut[level])
        ]
        for group, name in zip(groups, name_groups(groups, names, clusters, chains=chains), strict=True):
            for place in group:
                above[place].append(name)
    return [tuple(groups) for groups in above]


def _with_themes(centers: NDArray[np.float32], clusters: Sequence[Counts]) -> NDArray[np.float64]:
    """(k, d) unit rows: half a cluster's center, half how many of its landmarks are of each theme."""
    found = [[(theme, number) for label, number in counts.items() for theme in themes(label)] for counts in clusters]
    column = {theme: place for place, theme in enumerate(sorted({theme for own in found for theme, _ in own}))}
    of_themes = np.zeros((len(centers), len(column)))
    for row, own in enumerate(found):
        np.add.at(of_themes[row], [column[theme] for theme, _ in own], [number for _, number in own])
    norms = np.linalg.norm(of_themes, axis=1, keepdims=True)
    joined = np.hstack([centers, of_themes / np.where(norms > 0, norms, 1)])
    return np.asarray(joined / np.linalg.norm(joined, axis=1, keepdims=True))


def _cuts(centers: NDArray[np.float64], levels: int) -> list[NDArray[np.int64]]:
    """The group of each cluster at each level, coarse → fine."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(centers) == 1:
        return [np.zeros(1, dtype=np.int64)] * levels
    merges = linkage(centers, method="ward")
    least = [round(len(centers) ** (level / (levels + 1))) for level in range(1, levels + 1)]
    numbers = [_number(merges[:, 2], *ends) for ends in pairwise([*least, len(centers) - 1])]
    return [fcluster(merges, number, criterion="maxclust").astype(np.int64) for number in numbers]


def _number(costs: NDArray[np.float64], least: int, most: int) -> int:
    """Of the numbers of groups from the least to twice as many, the one below which merging becomes dearest at once."""
    numbers = range(max(least, 2), min(2 * least, most, len(costs)) + 1)
    return max(numbers, key=lambda number: costs[1 - number] - costs[-number], default=least)
