"""Label texts as vectors without any download: a list of place nouns, words and letters, then SVD.

Five kinds of features, each of unit length and then weighted so that a label's square norm divides as in ``_SHARES``:
the sense of its head noun and the theme of that sense, both from the hand-made list ``place_nouns.yaml``
(:mod:`hiertree.pipelines.labels.encode.phrases`), the head noun itself, its words, and the character 3- to 5-grams of
its words. So the cosine of two labels is a weighted mean of five agreements: "lake" and "pond" agree in sense and
theme, "road bridge" and "railway bridge" in head and a word as well, "theatre" and "theater" in most characters. Words
that say who owns, lists or locates a place ("national", "Washington") have little weight.

The list makes up 75 % of a label's square norm. It was written with the labels of Washington State in view and knows
nearly all of them, but fewer of those of other regions; a label that it does not know is compared by its letters alone.
docs/label_quality.md measures both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .phrases import Phrase, parse, singular, thesaurus
from .text_encoders import truncated_svd, unit_rows

_SHARES = {"theme": 0.15, "sense": 0.6, "head": 0.08, "words": 0.07, "characters": 0.1}
_LITTLE = 0.25  # weight of administrative words and proper names beside other words
_UNCERTAIN_SENSE = 0.5
_CAPITALIZED = re.compile(r"[^\W\d_a-z][^\W\d_]*")


@dataclass(frozen=True)
class PlaceNounEncoder:
    """A list of place nouns, words and letters; it learns from the texts given, so encode together what is compared.

    Args:
        dimensions: how many dimensions the SVD keeps, at most.
        senses: whether head nouns are looked up in ``place_nouns.yaml``; without, only words and letters count.

    >>> encoder = PlaceNounEncoder()
    >>> road, railway, lake, pond = encoder.encode(["road bridge", "railway bridge", "lake", "pond"])
    >>> bool(road @ railway > lake @ pond > road @ lake)
    True
    """

    dimensions: int = 256
    senses: bool = True

    name: ClassVar[str] = "place-nouns"
    kind_margin: ClassVar[float] = 0.0  # what the list does not know is compared by its letters
    independent: ClassVar[bool] = False  # rare words weigh more, and the dimensions are those of all texts

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest."""
        return {"encoder": self.name, "dimensions": self.dimensions, "senses": self.senses}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm.

        Raises:
            EmbeddingError: a text without a single letter.
        """
        features = self._features(texts)
        num_phrases = len({parse(text) for text in texts})  # further dimensions would be left to chance
        dimensions = min(self.dimensions, num_phrases, *features.shape)
        return unit_rows(truncated_svd(features, dimensions), texts)

    def _features(self, texts: Sequence[str]) -> Any:
        """The blocks of features side by side, as a sparse matrix."""
        from scipy.sparse import hstack
        from sklearn.preprocessing import normalize

        phrases = [parse(text) for text in texts]
        weight = _word_weights(texts, phrases)
        blocks = {
            "head": _tfidf([[phrase.head] if phrase.head else [] for phrase in phrases]),
            "words": _tfidf([phrase.words for phrase in phrases], weight),
            "characters": _tfidf([list(_character_grams(phrase, weight)) for phrase in phrases]),
        }
        if self.senses:
            blocks["sense"] = _senses(phrases, {sense: sense for sense in thesaurus().theme_of})
            blocks["theme"] = _senses(phrases, thesaurus().theme_of)
        return normalize(hstack([np.sqrt(_SHARES[name]) * block for name, block in blocks.items()]).tocsr())


def _tfidf(documents: Sequence[Iterable[str]], weight: dict[str, float] | None = None) -> Any:
    """Unit TF-IDF rows, each term multiplied by its weight."""
    from scipy.sparse import csr_matrix, diags
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    if not any(documents):
        return csr_matrix((len(documents), 1))
    vectorizer = TfidfVectorizer(analyzer=list, norm=None, sublinear_tf=True)
    counts = vectorizer.fit_transform(documents)
    if weight is not None:
        counts = counts @ diags([weight[term] for term in vectorizer.get_feature_names_out()])
    return normalize(counts)


def _senses(phrases: Sequence[Phrase], name: dict[str, str]) -> Any:
    """A column per name of senses: 1 where the head noun has that sense, 0.5 where another noun of the label has."""
    from scipy.sparse import csr_matrix

    column = {text: place for place, text in enumerate(dict.fromkeys(name.values()))}
    entries = [(row, phrase.sense, phrase.certain) for row, phrase in enumerate(phrases) if phrase.sense is not None]
    values = [1.0 if certain else _UNCERTAIN_SENSE for _, _, certain in entries]
    places = ([row for row, _, _ in entries], [column[name[sense]] for _, sense, _ in entries])
    return csr_matrix((values, places), shape=(len(phrases), len(column)))


def _word_weights(texts: Sequence[str], phrases: Sequence[Phrase]) -> dict[str, float]:
    """The weight of each word; words that are never written in lower case count as proper names."""
    capitalized = {singular(word.casefold()) for text in texts for word in _CAPITALIZED.findall(text)}
    words = {word for text in texts for word in re.findall(r"[^\W\d_]+", text)}
    in_lower_case = {singular(word) for word in words if word == word.casefold()}
    nouns = {word for noun in thesaurus().noun_of for word in noun.split()}
    little = thesaurus().administrative | (capitalized - in_lower_case - nouns)
    return {word: _LITTLE if word in little else 1.0 for phrase in phrases for word in phrase.words}


def _character_grams(phrase: Phrase, weight: dict[str, float]) -> Iterable[str]:
    for word in phrase.words:
        if weight[word] == 1.0:
            padded = f" {word} "
            for size in (3, 4, 5):
                yield from (padded[start : start + size] for start in range(len(padded) - size + 1))
