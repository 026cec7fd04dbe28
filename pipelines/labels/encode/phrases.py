"""What a place-type label says, by the grammar of English noun phrases: its head noun, its modifiers, its sense.

"Washington state park" is headed by *state park*, "group of lakes" by *lake*, "school building" by *school* (because
*building* alone says little), "Rock formations in the United States" by *rock formation*. The head noun's sense is the
group it belongs to in ``place_nouns.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

NATURAL, HUMAN_MADE = KINDS = ("natural", "human-made")
NO_LANDMARK = "no landmark"  # theme of what says nothing of how a place looks
_WORD = re.compile(r"[^\W\d_]+(?:[.'’][^\W\d_]+)*")
_PREPOSITIONS = frozenset(
    ["of", "in", "at", "on", "to", "for", "from", "with", "by", "near", "under", "over", "between"]
)
_ARTICLES = frozenset(["a", "an", "the", "and", "or"])
_LONGEST_NOUN = 5  # words


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

    def anchors(self, kind: str) -> list[str]:
        """All nouns of places of a kind, in the order of the file."""
        senses = {sense for sense, theme in self.theme_of.items() if theme != NO_LANDMARK}
        return [noun for noun, sense in self.sense_of.items() if sense in senses and self.kind_of[sense] == kind]


@dataclass(frozen=True)
class Phrase:
    """A label taken apart."""

    words: tuple[str, ...]  # its words, lower case and singular, without articles and prepositions
    head: str  # the head noun, perhaps of several words; the last word where none is known
    sense: str | None  # the group of the head noun, or of another noun of the label, or None
    certain: bool  # whether the sense is that of the head noun


@cache
def thesaurus() -> Thesaurus:
    """Read ``place_nouns.yaml``, once."""
    import yaml

    content = yaml.safe_load(files(__package__).joinpath("place_nouns.yaml").read_text(encoding="utf-8"))
    themes = [(kind, theme, senses) for kind in KINDS for theme, senses in content[kind].items()]
    groups = [(sense, nouns) for _, _, senses in themes for sense, nouns in senses.items()]
    return Thesaurus(
        noun_of={" ".join(words_of(noun)): noun for _, nouns in groups for noun in nouns},
        sense_of={noun: sense for sense, nouns in groups for noun in nouns},
        theme_of={sense: theme for _, theme, senses in themes for sense in senses},
        kind_of={sense: kind for kind, _, senses in themes for sense in senses},
        **{name: frozenset(content[name]) for name in ("administrative", "light", "framing", "ambiguous")},
    )


@cache
def parse(label: str) -> Phrase:
    """Take a label apart."""
    words = words_of(label)
    content = tuple(word for word in words if word not in _PREPOSITIONS and word not in _ARTICLES)
    for part in _head_parts(words):
        noun = _head_noun(part)
        if noun is not None:
            return Phrase(content, noun, thesaurus().sense_of[noun], certain=True)
    last = words[-1] if words else ""
    inner_noun = next(filter(None, (_noun_ending(words, end) for end in range(len(words), 0, -1))), None)
    return Phrase(content, last, None if inner_noun is None else thesaurus().sense_of[inner_noun], certain=False)


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


def head_endings(label: str) -> Iterator[tuple[str, ...]]:
    """What a label may be a kind of: all its words, then ever fewer of those that end in its head noun."""
    for part in _head_parts(words_of(label)):
        ends = 1 if any(word in _PREPOSITIONS for word in part) else len(part)
        yield from (tuple(part[start:]) for start in range(ends))


def _head_parts(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Where the head noun is looked for: the whole, what follows "group of", what stands before a preposition."""
    yield words
    cut = next((place for place, word in enumerate(words) if place and word in _PREPOSITIONS), None)
    if cut is None:
        return
    if words[cut] == "of" and words[cut - 1] in thesaurus().framing:
        yield from _head_parts(words[cut + 1 :])
    yield words[:cut]


def _head_noun(words: Sequence[str]) -> str | None:
    """The longest known noun at the end of the words; before a light one, if there is such a noun there."""
    if any(word in _PREPOSITIONS for word in words):
        return thesaurus().noun_of.get(" ".join(words))
    last_noun = _noun_ending(words, len(words))
    if words and words[-1] in thesaurus().light and (last_noun is None or " " not in last_noun):
        return _head_noun(words[:-1]) or last_noun
    return last_noun


def _noun_ending(words: Sequence[str], end: int) -> str | None:
    endings = (" ".join(words[start:end]) for start in range(max(0, end - _LONGEST_NOUN), end))
    return next(filter(None, map(thesaurus().noun_of.get, endings)), None)
