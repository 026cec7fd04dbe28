"""Proposed names of clusters: the head noun that its labels share, else the sense, else the two commonest nouns.

A noun's *share* of a cluster is the mean of the share of labels and the share of landmarks that carry it. "urban park"
carries both *urban park* and *park*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hiertree.pipelines.labels.phrases import parse, thesaurus

Counts = Mapping[str, int]  # label → number of landmarks
_MAIN, _SECOND = 0.5, 0.3  # least shares of the noun that names a cluster, and of one worth naming beside it


def propose_names(clusters: Sequence[Counts]) -> list[str]:
    """A readable name for each cluster, no two alike; the clusters of most landmarks choose first.

    >>> propose_names([{"park": 3, "urban park": 2}, {"lake": 4, "pond": 1}, {"road bridge": 2, "arch bridge": 1}])
    ['park', 'lake', 'bridge']
    """
    names: dict[int, str] = {}
    for place in sorted(range(len(clusters)), key=lambda place: (-sum(clusters[place].values()), place)):
        names[place] = next(name for name in _candidates(clusters[place]) if name not in names.values())
    return [names[place] for place in range(len(clusters))]


def _candidates(counts: Counts) -> Iterator[str]:
    """Names from the best to one that cannot be taken (a label belongs to one cluster only)."""
    heads = _shares(counts, {label: _nouns(label) for label in counts})
    senses = _shares(counts, {label: [sense] if (sense := parse(label).sense) else [] for label in counts})
    commonest = min(counts, key=lambda label: (-counts[label], label))
    yield from (name for shares in (heads, senses) if (name := _name(shares)))
    ranked = list(heads)
    yield from ranked[:1]
    yield from (f"{ranked[0]} and {noun}" for noun in ranked[1:3] if not _nested(ranked[0], noun))
    yield commonest
    yield from (f"{noun} ({commonest})" for noun in [*ranked, commonest])
    number = 2
    while True:
        yield f"{commonest} {number}"
        number += 1


def _name(shares: Mapping[str, float]) -> str | None:
    """The longest noun of a sufficient share, and a second one if it is common too."""
    main = [noun for noun, share in shares.items() if share >= _MAIN]
    if not main:
        return None
    first = max(main, key=lambda noun: (len(noun.split()), shares[noun]))
    second = [noun for noun, share in shares.items() if share >= _SECOND and not _nested(first, noun)]
    return f"{first} and {second[0]}" if second else first


def _shares(counts: Counts, nouns_of: Mapping[str, Iterable[str]]) -> dict[str, float]:
    """The share of each noun, in decreasing order."""
    landmarks = sum(counts.values())
    shares: defaultdict[str, float] = defaultdict(float)
    for label, count in counts.items():
        for noun in nouns_of[label]:
            shares[noun] += (1 / len(counts) + count / landmarks) / 2
    return dict(sorted(shares.items(), key=lambda item: (-round(item[1], 9), item[0])))


def _nouns(label: str) -> list[str]:
    """The head noun and the known nouns that end it; the label itself where it has none."""
    head = parse(label).head
    words = head.split()
    shorter = (" ".join(words[start:]) for start in range(1, len(words)))
    known = thesaurus()
    return [head or label, *(n for n in shorter if n in known.sense_of and n not in known.light)]


def _nested(one: str, other: str) -> bool:
    return f" {one}".endswith(f" {other}") or f" {other}".endswith(f" {one}")
