"""Distinct labels as vectors, with the known facts of each: its kind, its sense, and the classes above it.

A label's *margin* is positive for natural, and *certain* from a size of 1 on. It adds what the list of place nouns says
of its head noun to what stands above its class. Where both are silent, it is the label's cosine to the nearest natural
noun less that to the nearest human-made one, in units of the encoder's ``kind_margin``, if its cosines say anything;
they are never certain of *natural*, since of what is not known one label in twenty is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encode.hypernyms import Hypernyms, read_hypernyms
from ..encode.phrases import HUMAN_MADE, NATURAL, parse, thesaurus
from ..encode.text_encoders import TextEncoder
from .clustering import Floats, Integers, Vectors
from .naming import GENERAL

LIKELY = 0.5  # the margin from which a label is rather natural
_SIGN = {NATURAL: 1, HUMAN_MADE: -1}
_LISTED, _PARTLY = 1.2, 0.6  # margins that the list gives to a label, and to one of which it has another noun
_SUPPORTED = 2.4  # margin that the graph gives to a label right below a class whose kind is known
_READ, _ROWS = 0.66, 8192  # the cosine from which a label is read as a place noun; labels at a time
_READILY = 2.5  # so many times less makes a label human-made
_MOST, _UNCERTAIN = 2.0, 0.9  # what margins are cut to, and those of which sources or meanings disagree
_NATURAL = (-1, 0, LIKELY, 1), (0.01, 0.05, 0.5, 0.93)  # margins, shares of natural labels


@dataclass(frozen=True)
class Embedding:
    """Distinct labels as vectors."""

    labels: tuple[str, ...]  # n, sorted
    texts: tuple[str, ...]  # what was encoded for them
    vectors: Vectors  # (n, d) float32 of unit norm
    margins: Floats  # (n,) positive for natural, negative for human-made (:func:`known_margin`)
    known: NDArray[np.bool_]  # (n,) whether a label's vector says more than its letters
    parents: Integers  # (n,) the place of the label right above a label; its own where there is none
    chains: tuple[tuple[str, ...], ...]  # what stands above labels in the source; empty where that is not known
    senses: NDArray[Any]  # (n,) the sense of each text, "" where there is none
    others: tuple[str | None, ...]  # the nearest noun above a label that is of another sense than its own
    readings: tuple[str, ...]  # the place noun as which a label was read, "" where there is none


def embed(
    labels: Iterable[str],
    encoder: TextEncoder,
    *,
    hypernyms: Hypernyms | None = None,
    reader: TextEncoder | None = None,
) -> Embedding:
    """Encode labels, and find how near each is to either kind; hypernyms are by default those that come with it.

    A label of which nothing is known is read as the place noun that is nearest to it by the reader, if one is near.
    """
    names, graph = tuple(sorted(labels)), read_hypernyms() if hypernyms is None else hypernyms
    noun_of = {} if reader is None else _nearest_nouns(names, graph, reader)
    texts = tuple(noun_of.get(name) or graph.text(name) for name in names)
    vectors = graph.join([noun_of.get(name, name) for name in names], encoder.encode(texts))
    margins = [known_margin(name, graph) for name in names]
    for place, name in enumerate(names):
        if name in noun_of:
            margins[place] = np.clip(known_margin(noun_of[name], graph) or 0, -_UNCERTAIN, _UNCERTAIN)
    is_known = np.array([margin is not None for margin in margins]) | (encoder.kind_margin > 0)
    chains, nouns_above = tuple(map(graph.chain, names)), tuple(_find_noun_above(name, graph) for name in names)
    senses = np.array([parse(text).sense or "" for text in texts], dtype=object)
    margin, parents = _margins(texts, margins, encoder), _parents(names, graph)
    readings = tuple(noun_of.get(name, "") for name in names)
    return Embedding(names, texts, vectors, margin, is_known, parents, chains, senses, nouns_above, readings)


def _nearest_nouns(names: Sequence[str], graph: Hypernyms, reader: TextEncoder) -> dict[str, str]:
    """The place noun nearest to each label of which nothing is known, where one is near."""
    labels = [name for name in names if known_margin(name, graph) is None]
    if not labels:
        return {}
    nouns = sorted([*thesaurus().anchors(NATURAL), *thesaurus().anchors(HUMAN_MADE)], key=len)  # of equals the shortest
    encoded_labels, encoded_nouns = np.split(reader.encode([*labels, *nouns]), [len(labels)])
    # on the last axis lies what a table of vectors does not know
    encoded_nouns = np.where(encoded_nouns[:, -1:] == 1, 0, encoded_nouns)
    noun_of = {}
    for first in range(0, len(labels), _ROWS):
        cosines = encoded_labels[first : first + _ROWS] @ encoded_nouns.T
        for row, (place, cosine) in enumerate(zip(cosines.argmax(axis=1), cosines.max(axis=1), strict=True)):
            if cosine >= _READ:
                noun_of[labels[first + row]] = nouns[place]
    return noun_of


def _find_noun_above(label: str, hypernyms: Hypernyms) -> str | None:
    noun, sense = hypernyms.noun_above(label), parse(hypernyms.text(label)).sense
    return None if noun is None or parse(noun).sense in (sense, *GENERAL) else noun


def _margins(texts: Sequence[str], known_margins: Sequence[float | None], encoder: TextEncoder) -> Floats:
    """Margins from known facts; of other labels from their cosines to place nouns, if these are informative."""
    margins = np.array([margin or 0 for margin in known_margins], dtype=np.float64)
    unknown_places = [place for place, margin in enumerate(known_margins) if margin is None]
    if unknown_places and encoder.kind_margin > 0:
        natural, human_made = (thesaurus().anchors(kind) for kind in (NATURAL, HUMAN_MADE))
        encoded = encoder.encode([*(texts[place] for place in unknown_places), *natural, *human_made])
        anchor_margins = kind_margins(*np.split(encoded, np.cumsum([len(unknown_places), len(natural)])))
        margins[unknown_places] = np.clip(LIKELY * anchor_margins / encoder.kind_margin, -_MOST, _UNCERTAIN)
    return margins


def _parents(labels: Sequence[str], hypernyms: Hypernyms) -> Integers:
    place_of_item = {item: place for place, label in enumerate(labels) for item in hypernyms.items_of(label)}
    parent_items = ((item for item in hypernyms.parents(label) if item in place_of_item) for label in labels)
    return np.array([place_of_item.get(next(items, ""), place) for place, items in enumerate(parent_items)])


def known_margin(label: str, hypernyms: Hypernyms) -> float | None:
    """The margin from the known facts of a label; None if there are none."""
    phrase, list_margin = parse(hypernyms.name(label)), 0.0
    if phrase.sense is not None:
        list_margin = _SIGN[thesaurus().kind_of[phrase.sense]] * (_LISTED if phrase.certain else _PARTLY)
    elif not hypernyms.classes(label):
        return None
    graph_margin = _SUPPORTED * hypernyms.support(label)
    margin, disagree = list_margin + graph_margin, list_margin * graph_margin < 0
    ambiguous = phrase.head in thesaurus().ambiguous and label not in hypernyms.items
    limit = _UNCERTAIN if ambiguous or disagree else _MOST
    return float(np.clip(margin if margin > 0 else margin * _READILY, -limit, limit))


def kind_margins(vectors: Vectors, natural: Vectors, human_made: Vectors) -> Floats:
    """(n,) cosines to the nearest natural anchor less those to the nearest human-made one, positive for natural."""
    return np.asarray((vectors @ natural.T).max(axis=1) - (vectors @ human_made.T).max(axis=1), dtype=np.float64)


def natural_probability(margin: float) -> float:
    """The probability that a label of this margin is natural: a half where it starts to count as natural.

    Shares of natural labels among those whose kind is known from elsewhere, interpolated; docs/label_quality.md
    shows how often they come true on others.
    """
    return float(np.interp(margin, *_NATURAL))


def kind_of(margin: float) -> str:
    """The kind that a margin indicates; zero is human-made."""
    return NATURAL if margin > 0 else HUMAN_MADE
