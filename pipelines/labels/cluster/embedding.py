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
from ..encode.place_nouns import HUMAN_MADE, NATURAL, NO_LANDMARK, parse, thesaurus
from ..encode.text_encoders import TextEncoder
from .clustering import Floats, Integers, Vectors

PLACES_OF_ANY_LOOK = ("administrative unit", "heritage designation")  # senses that say nothing of how a place looks
LIKELY = 0.5  # the margin from which a label is rather natural
_SIGN = {NATURAL: 1, HUMAN_MADE: -1}
_LISTED, _PARTLY = 1.2, 0.6  # margins that the list gives to a label, and to one of which it has another noun
_SUPPORTED = 2.4  # margin that the graph gives to a label right below a class whose kind is known
_SAME = 1 - 1e-6  # the cosine of nouns that an encoder cannot tell apart
_MISREAD, _ROWS = 0.95, 8192  # how many nouns are farther from those of other senses than a label from its noun
_READILY = 2.5  # so many times less makes a label human-made
CERTAIN_MARGIN, _UNCERTAIN = 2.0, 0.9  # what margins are cut to, and those of which sources or meanings disagree


@dataclass(frozen=True)
class Embedding:
    """Distinct labels as vectors."""

    labels: tuple[str, ...]  # n, sorted
    texts: tuple[str, ...]  # what was encoded for them
    vectors: Vectors  # (n, d) float32 of unit norm
    margins: Floats  # (n,) positive for natural, negative for human-made (:func:`known_margin`)
    known: NDArray[np.bool_]  # (n,) whether a label's vector says more than its letters
    parents: Integers  # (n,) the row of the label right above a label; its own where there is none
    chains: tuple[tuple[str, ...], ...]  # what stands above labels in the source; empty where that is not known
    lineages: tuple[frozenset[str], ...]  # the classes of labels and all above them; empty where that is not known
    senses: NDArray[Any]  # (n,) the sense of each text, "" where there is none
    readings: tuple[str, ...]  # the place noun as which a label was read, "" where there is none
    unfit: tuple[str, ...]  # why a label is of no landmark, "" where it may be one
    either: NDArray[np.bool_]  # (n,) whether what stands above a label is natural as well as human-made
    second: Vectors | None = None  # (n, e) of a second encoder


def embed(
    labels: Iterable[str],
    encoder: TextEncoder,
    *,
    hypernyms: Hypernyms | None = None,
    reader: TextEncoder | None = None,
    second: TextEncoder | None = None,
) -> Embedding:
    """Encode labels, and find how near each is to either kind; hypernyms are by default those that come with it.

    A label of which nothing is known is read as the place noun that is nearest to it by the reader, if one is near.
    The second encoder embeds all labels anew, as another witness of which belong together.
    """
    names, graph = tuple(sorted(labels)), read_hypernyms() if hypernyms is None else hypernyms
    noun_of = {} if reader is None else _nearest_nouns(names, graph, reader)
    texts = tuple(noun_of.get(name) or graph.text(name) for name in names)
    pairs = [*zip(names, texts, strict=True)]
    vectors = graph.join([noun_of.get(name, name) for name in names], encoder.encode(texts))
    margins = [known_margin(name, graph) for name in names]
    for row, name in enumerate(names):
        if name in noun_of:
            margins[row] = np.clip(known_margin(noun_of[name], graph) or 0, -_UNCERTAIN, _UNCERTAIN)
    senses = [parse(text).sense or "" for text in texts]
    return Embedding(
        labels=names,
        texts=texts,
        vectors=vectors,
        margins=_margins(texts, margins, encoder),
        known=np.array([margin is not None for margin in margins]) | (encoder.kind_margin > 0),
        parents=_parents(names, graph),
        chains=tuple(map(graph.chain, names)),
        lineages=tuple(map(graph.lineage, names)),
        senses=np.array(senses, dtype=object),
        readings=tuple(noun_of.get(name, "") for name in names),
        unfit=tuple(graph.no_landmark(name) or _unfit_sense(sense) for name, sense in zip(names, senses, strict=True)),
        either=np.array([graph.is_either(name) and not parse(text).certain for name, text in pairs]),
        second=None if second is None else second.encode(texts),
    )


def _unfit_sense(sense: str) -> str:
    is_place = sense in PLACES_OF_ANY_LOOK
    return sense if thesaurus().theme_of.get(sense) == NO_LANDMARK and not is_place else ""


def _nearest_nouns(names: Sequence[str], graph: Hypernyms, reader: TextEncoder) -> dict[str, str]:
    """The place noun nearest to each label of which nothing is known, where it stands out among all nouns.

    How far it does, in standard deviations of the label's cosines to all nouns, is compared with how far the nearest
    noun of another sense does for the nouns themselves: that is what a misreading looks like to this encoder.
    """
    labels = [name for name in names if known_margin(name, graph) is None]
    if not labels:
        return {}
    nouns = sorted([*thesaurus().anchors(NATURAL), *thesaurus().anchors(HUMAN_MADE)], key=len)  # of equals the shortest
    encoded_labels, encoded_nouns = np.split(reader.encode([*labels, *nouns]), [len(labels)])
    # on the last axis lies what a table of vectors does not know
    encoded_nouns = np.where(encoded_nouns[:, -1:] == 1, 0, encoded_nouns)
    senses = np.array([thesaurus().sense_of[noun] for noun in nouns])
    is_embedded = encoded_nouns.any(axis=1)
    nouns, senses = np.array(nouns)[is_embedded].tolist(), senses[is_embedded]
    encoded_nouns = encoded_nouns[is_embedded]
    cosines = encoded_nouns @ encoded_nouns.T
    misread = np.ma.masked_array(cosines, (senses[:, None] == senses) | (cosines > _SAME))
    limit = np.quantile(((misread.max(axis=1) - misread.mean(axis=1)) / misread.std(axis=1)).filled(0), _MISREAD)
    noun_of = {}
    for start in range(0, len(labels), _ROWS):
        cosines = encoded_labels[start : start + _ROWS] @ encoded_nouns.T
        nearest, spread = cosines.argmax(axis=1), np.maximum(cosines.std(axis=1), 1e-9)
        scores = (cosines.max(axis=1) - cosines.mean(axis=1)) / spread
        for row in np.flatnonzero(scores > limit):
            noun_of[labels[start + row]] = nouns[nearest[row]]
    return noun_of


def _margins(texts: Sequence[str], known_margins: Sequence[float | None], encoder: TextEncoder) -> Floats:
    """Margins from known facts; of other labels from their cosines to place nouns, if these are informative."""
    margins = np.array([margin or 0 for margin in known_margins], dtype=np.float64)
    unknown_rows = [row for row, margin in enumerate(known_margins) if margin is None]
    if unknown_rows and encoder.kind_margin > 0:
        natural, human_made = (thesaurus().anchors(kind) for kind in (NATURAL, HUMAN_MADE))
        encoded = encoder.encode([*(texts[row] for row in unknown_rows), *natural, *human_made])
        anchor_margins = kind_margins(*np.split(encoded, np.cumsum([len(unknown_rows), len(natural)])))
        margins[unknown_rows] = np.clip(LIKELY * anchor_margins / encoder.kind_margin, -CERTAIN_MARGIN, _UNCERTAIN)
    return margins


def _parents(labels: Sequence[str], hypernyms: Hypernyms) -> Integers:
    row_of_item = {item: row for row, label in enumerate(labels) for item in hypernyms.items_of(label)}
    parent_items = ((item for item in hypernyms.parents(label) if item in row_of_item) for label in labels)
    return np.array([row_of_item.get(next(items, ""), row) for row, items in enumerate(parent_items)])


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
    limit = _UNCERTAIN if ambiguous or disagree else CERTAIN_MARGIN
    return float(np.clip(margin if margin > 0 else margin * _READILY, -limit, limit))


def kind_margins(vectors: Vectors, natural: Vectors, human_made: Vectors) -> Floats:
    """(n,) cosines to the nearest natural anchor less those to the nearest human-made one, positive for natural."""
    return np.asarray((vectors @ natural.T).max(axis=1) - (vectors @ human_made.T).max(axis=1), dtype=np.float64)


def kind_of(margin: float) -> str:
    """The kind that a margin indicates; zero is human-made."""
    return NATURAL if margin > 0 else HUMAN_MADE
