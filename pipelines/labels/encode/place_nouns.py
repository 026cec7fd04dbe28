"""What a place-type label says, by the grammar of English noun phrases, and the encoder that needs no download.

"Washington state park" is headed by *state park*, "group of lakes" by *lake*, "school building" by *school* (because
*building* alone says little), "Rock formations in the United States" by *rock formation*. The head noun's sense is the
group it belongs to in ``place_nouns.yaml``.

The encoder has five kinds of features, each of unit length and then weighted so that a label's square norm divides
as in ``_WEIGHTS``: the sense of its head noun and the theme of that sense, the head noun itself, its words, and the
character 3- to 5-grams of its words; then SVD. So the cosine of two labels is a weighted mean of five agreements:
"lake" and "pond" agree in sense and theme, "road bridge" and "railway bridge" in head and a word as well, "theatre" and
"theater" in most characters. Words that say who owns, lists or locates a place ("national", "Washington") have little
weight.

The list makes up 75 % of a label's square norm. It was written with the labels of Washington State in view and knows
nearly all of them, but fewer of those of other regions; a label that it does not know is compared by its letters alone.
docs/label_quality.md measures both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .text_encoders import truncated_svd, unit_rows

NATURAL, HUMAN_MADE = KINDS = ("natural", "human-made")
NO_LANDMARK = "no landmark"  # theme of what says nothing of how a place looks
_WORD = re.compile(r"[^\W\d_]+(?:[.'’][^\W\d_]+)*")
_PREPOSITIONS = frozenset(
    ["of", "in", "at", "on", "to", "for", "from", "with", "by", "near", "under", "over", "between"]
)
_ARTICLES = frozenset(["a", "an", "the", "and", "or"])
_ID = re.compile(r"Q[0-9]+")
_LONGEST_NOUN = 5  # words
_WEIGHTS = {"theme": 0.15, "sense": 0.6, "head": 0.08, "words": 0.07, "characters": 0.1}
_LITTLE = 0.25  # weight of administrative words and proper names beside other words
_UNCERTAIN_SENSE = 0.5
_CAPITALIZED = re.compile(r"[^\W\d_a-z][^\W\d_]*")


@dataclass(frozen=True)
class Thesaurus:
    """The content of ``place_nouns.yaml``."""

    noun_of: dict[str, str]  # words, singular → the noun as it is written ("sport hall" → "sports hall")
    sense_of: dict[str, str]  # noun → its group
    theme_of: dict[str, str]  # group → its theme
    kind_of: dict[str, str]  # group → ``natural`` or ``human-made``
    administrative: frozenset[str]  # modifiers that say who owns or lists a place
    light: frozenset[str]  # head nouns that say little
    framing: frozenset[str]  # nouns before "of" that say little
    ambiguous: frozenset[str]  # nouns of both kinds
    no_landmark: frozenset[str]  # classes of what is no place, by name in the singular or by id

    def anchors(self, kind: str) -> list[str]:
        """All nouns of places of a kind, in the order of the file."""
        senses = {sense for sense, theme in self.theme_of.items() if theme != NO_LANDMARK}
        return [noun for noun, sense in self.sense_of.items() if sense in senses and self.kind_of[sense] == kind]


@dataclass(frozen=True)
class Phrase:
    """A label taken apart."""

    tokens: tuple[str, ...]  # its words, lower case and singular, without articles and prepositions
    head: str  # the head noun, perhaps of several words; the last word where none is known
    sense: str | None  # the group of the head noun, or of another noun of the label, or None
    certain: bool  # whether the sense is that of the head noun


@cache
def thesaurus() -> Thesaurus:
    """Read ``place_nouns.yaml``, once."""
    import yaml

    document = yaml.safe_load(files(__package__).joinpath("place_nouns.yaml").read_text(encoding="utf-8"))
    themes = [(kind, theme, senses) for kind in KINDS for theme, senses in document[kind].items()]
    groups = [(sense, nouns) for _, _, senses in themes for sense, nouns in senses.items()]
    return Thesaurus(
        noun_of={" ".join(words_of(noun)): noun for _, nouns in groups for noun in nouns},
        sense_of={noun: sense for sense, nouns in groups for noun in nouns},
        theme_of={sense: theme for _, theme, senses in themes for sense in senses},
        kind_of={sense: kind for kind, _, senses in themes for sense in senses},
        **{name: frozenset(document[name]) for name in ("administrative", "light", "framing", "ambiguous")},
        no_landmark=frozenset(map(class_key, document["no_landmark_classes"])),
    )


@cache
def parse(label: str) -> Phrase:
    """Take a label apart."""
    tokens = words_of(label)
    lexical = tuple(word for word in tokens if word not in _PREPOSITIONS and word not in _ARTICLES)
    for span in _head_parts(tokens):
        noun = _head_noun(span)
        if noun is not None:
            return Phrase(lexical, noun, thesaurus().sense_of[noun], certain=True)
    last = tokens[-1] if tokens else ""
    inner_noun = next(filter(None, (_noun_ending(tokens, end) for end in range(len(tokens), 0, -1))), None)
    return Phrase(lexical, last, None if inner_noun is None else thesaurus().sense_of[inner_noun], certain=False)


def singular(word: str) -> str:
    """An English noun's singular, by rule."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")) else word


def words_of(label: str) -> tuple[str, ...]:
    """The words of a label, lower case and singular; a hyphen separates them."""
    return tuple(singular(word) for word in _WORD.findall(label.casefold()))


def class_key(name: str) -> str:
    """What a class is called in lineages: its words in the singular; one without a name by its id.

    >>> class_key("Art museums"), class_key("Q5")
    ('art museum', 'Q5')
    """
    return name if _ID.fullmatch(name) else " ".join(words_of(name))


def head_endings(label: str) -> Iterator[tuple[str, ...]]:
    """What a label may be a kind of: all its words, then ever fewer of those that end in its head noun."""
    for span in _head_parts(words_of(label)):
        ends = 1 if any(word in _PREPOSITIONS for word in span) else len(span)
        yield from (tuple(span[start:]) for start in range(ends))


def _head_parts(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """Where the head noun is looked for: the whole, what follows "group of", what stands before a preposition."""
    yield tokens
    cut = next((index for index, word in enumerate(tokens) if index and word in _PREPOSITIONS), None)
    if cut is None:
        return
    if tokens[cut] == "of" and tokens[cut - 1] in thesaurus().framing:
        yield from _head_parts(tokens[cut + 1 :])
    yield tokens[:cut]


def _head_noun(tokens: Sequence[str]) -> str | None:
    """The longest known noun at the end of the words; before a light one, if there is such a noun there."""
    if any(word in _PREPOSITIONS for word in tokens):
        return thesaurus().noun_of.get(" ".join(tokens))
    last_noun = _noun_ending(tokens, len(tokens))
    if tokens and tokens[-1] in thesaurus().light and (last_noun is None or " " not in last_noun):
        return _head_noun(tokens[:-1]) or last_noun
    return last_noun


def _noun_ending(tokens: Sequence[str], end: int) -> str | None:
    endings = (" ".join(tokens[start:end]) for start in range(max(0, end - _LONGEST_NOUN), end))
    return next(filter(None, map(thesaurus().noun_of.get, endings)), None)


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
            "words": _tfidf([phrase.tokens for phrase in phrases], weight),
            "characters": _tfidf([list(_character_grams(phrase, weight)) for phrase in phrases]),
        }
        if self.senses:
            blocks["sense"] = _senses(phrases, {sense: sense for sense in thesaurus().theme_of})
            blocks["theme"] = _senses(phrases, thesaurus().theme_of)
        return normalize(hstack([np.sqrt(_WEIGHTS[name]) * block for name, block in blocks.items()]).tocsr())


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

    column = {text: index for index, text in enumerate(dict.fromkeys(name.values()))}
    entries = [(row, phrase.sense, phrase.certain) for row, phrase in enumerate(phrases) if phrase.sense is not None]
    values = [1.0 if certain else _UNCERTAIN_SENSE for _, _, certain in entries]
    cells = ([row for row, _, _ in entries], [column[name[sense]] for _, sense, _ in entries])
    return csr_matrix((values, cells), shape=(len(phrases), len(column)))


def _word_weights(texts: Sequence[str], phrases: Sequence[Phrase]) -> dict[str, float]:
    """The weight of each word; words that are never written in lower case count as proper names."""
    capitalized = {singular(word.casefold()) for text in texts for word in _CAPITALIZED.findall(text)}
    tokens = {word for text in texts for word in re.findall(r"[^\W\d_]+", text)}
    in_lower_case = {singular(word) for word in tokens if word == word.casefold()}
    nouns = {word for noun in thesaurus().noun_of for word in noun.split()}
    little = thesaurus().administrative | (capitalized - in_lower_case - nouns)
    return {word: _LITTLE if word in little else 1.0 for phrase in phrases for word in phrase.tokens}


def _character_grams(phrase: Phrase, weight: dict[str, float]) -> Iterable[str]:
    for word in phrase.tokens:
        if weight[word] == 1.0:
            padded = f" {word} "
            for size in (3, 4, 5):
                yield from (padded[start : start + size] for start in range(len(padded) - size + 1))
