"""The paper's cleaning rules: no page of Wikimedia's own, no landmark without a label, none with several.

Texts are put into one form first (:func:`normalise_label`), so that "Ferris wheel", "ferris  wheel" and the cut-off
"ferris wheel (" are one label. Each landmark left out is listed with its reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from hiertree.errors import OptionError

from .reading import NO_ORIGIN, Landmark, Origin, Value

Multi: TypeAlias = Literal["drop", "first", "all"]
Reason: TypeAlias = Literal["not scraped", "no label", "Wikimedia page", "several labels", "irrelevant label"]

WIKIMEDIA_ITEMS = {
    "Q4167836": "Wikimedia category",
    "Q4167410": "Wikimedia disambiguation page",
    "Q11266439": "Wikimedia template",
    "Q13406463": "Wikimedia list article",
    "Q14204246": "Wikimedia project page",
    "Q15184295": "Wikimedia module",
    "Q15623926": "Wikimedia set index article",
    "Q17362920": "Wikimedia duplicated page",
    "Q21286738": "Wikimedia permanent duplicate item",
    "Q22808320": "Wikimedia human name disambiguation page",
    "Q4663903": "Wikimedia portal",
}
_WIKIMEDIA_TEXT = re.compile(
    r"(wikimedia|wikipedia|wikidata|wikivoyage|wikinews|wikisource|wikispecies)\b.*\b"
    r"(category|page|template|list|article|module|portal|item|namespace|administration|redirect)\b"
    r"|(human name )?disambiguation page|list article|set index article",
    re.IGNORECASE,
)
_QUALIFIER = re.compile(r"\s*\([^()]*\)?$")
_ITEM_ID = re.compile(r"Q[0-9]+")
_NO_VALUE = {"unknown", "unknown value", "no value", "novalue", "somevalue"}


@dataclass(frozen=True)
class Kept:
    """A landmark with its label, or its labels under ``multi="all"``.

    Attributes:
        landmark_id: its id.
        category: its Commons category.
        labels: one or more.
        item_ids: their Wikidata ids, empty texts where not known.
        confidence: of a label that its images gave it, or None where it was scraped.
        origin: where the labels come from.
    """

    landmark_id: int
    category: str
    labels: tuple[str, ...]
    item_ids: tuple[str, ...] = ()
    confidence: float | None = None
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True)
class Dropped:
    """A landmark left out, why, and what was scraped for it."""

    landmark_id: int
    category: str
    values: tuple[str, ...]
    reason: Reason
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True)
class Cleaned:
    """The outcome: landmarks kept and dropped, and the texts that were mended (as scraped → label)."""

    kept: list[Kept]
    dropped: list[Dropped]
    mended: dict[str, str]


def normalise_label(text: str) -> str:
    """One form of a label: Unicode NFC, single spaces, no control characters, no qualifier in parentheses at the end.

    ``|``, which separates labels in files, becomes ``/``. Qualifiers are what the infobox adds to a label (a year, a
    place) and what scraping may cut off half-way.

    >>> normalise_label("county hall ("), normalise_label(" church  building (1909)"), normalise_label("cafe\u0301")
    ('county hall', 'church building', 'café')
    """
    plain = text.replace("|", "/")
    visible = "".join(" " if unicodedata.category(sign) in ("Cc", "Zs", "Zl", "Zp") else sign for sign in plain)
    label = " ".join(unicodedata.normalize("NFC", visible.replace("\u200b", "").replace("\ufeff", "")).split())
    while (shorter := _QUALIFIER.sub("", label)) != label:
        label = shorter
    return label


def is_wikimedia_page(value: Value) -> bool:
    """Whether a value says that the item is a page of Wikimedia's own (by Wikidata id, or by text) and not a place.

    >>> is_wikimedia_page(Value("Wikimedia category")), is_wikimedia_page(Value("Q-less", "Q4167410"))
    (True, True)
    >>> is_wikimedia_page(Value("waterfall", "Q34038"))
    False
    """
    return value.item_id in WIKIMEDIA_ITEMS or _WIKIMEDIA_TEXT.fullmatch(normalise_label(value.text)) is not None


def clean(landmarks: Iterable[Landmark], *, multi: Multi = "drop") -> Cleaned:
    """Apply the rules: Wikimedia's own pages go first, then landmarks without a label, then those with several.

    Spellings that differ in case alone are one label, written as it is most often.

    Args:
        landmarks: as read.
        multi: a landmark with several labels is ``"drop"``-ped as in the paper, keeps its ``"first"``, or ``"all"``.

    Raises:
        OptionError: another ``multi``.

    >>> cleaned = clean([Landmark(1, "A", (Value("lake"),)), Landmark(2, "B", ()), Landmark(3, "C", None)])
    >>> [kept.labels for kept in cleaned.kept], [dropped.reason for dropped in cleaned.dropped]
    ([('lake',)], ['no label', 'not scraped'])
    """
    if multi not in get_args(Multi):
        raise OptionError(f"multi={multi!r}", expected=f"one of {', '.join(map(repr, get_args(Multi)))}")
    read = list(landmarks)
    texts = [value.text for landmark in read for value in landmark.values or () if not is_wikimedia_page(value)]
    spelling = _common_spellings(texts)
    kept: list[Kept] = []
    dropped: list[Dropped] = []
    for landmark in read:
        labels = _labels(landmark.values or (), spelling)
        about = (landmark.landmark_id, landmark.category)
        if (reason := _reason(landmark, labels, multi)) is None:
            taken = list(labels.items()) if multi == "all" else list(labels.items())[:1]
            names, item_ids = zip(*taken, strict=True)
            kept.append(Kept(*about, names, item_ids, origin=landmark.origin))
        else:
            scraped = tuple(value.text for value in landmark.values or ())
            dropped.append(Dropped(*about, scraped, reason, landmark.origin))
    mended = {text: label for text in sorted(set(texts)) if (label := spelling[text]) and label != text}
    return Cleaned(kept, dropped, mended)


def relevant(kept: Iterable[Kept], irrelevant: Set[str]) -> tuple[list[Kept], list[Dropped]]:
    """Landmarks without the labels that people marked irrelevant; those that had no other are dropped.

    Args:
        kept: landmarks.
        irrelevant: labels.

    >>> kept, dropped = relevant([Kept(1, "A", ("lake", "event")), Kept(2, "B", ("event",))], {"event"})
    >>> [landmark.labels for landmark in kept], [drop.landmark_id for drop in dropped]
    ([('lake',)], [2])
    """
    left: list[Kept] = []
    dropped: list[Dropped] = []
    for landmark in kept:
        item_ids = landmark.item_ids or ("",) * len(landmark.labels)
        pairs = [pair for pair in zip(landmark.labels, item_ids, strict=True) if pair[0] not in irrelevant]
        if pairs:
            labels, ids = zip(*pairs, strict=True)
            left.append(replace(landmark, labels=labels, item_ids=ids))
        else:
            about = (landmark.landmark_id, landmark.category, landmark.labels)
            dropped.append(Dropped(*about, "irrelevant label", landmark.origin))
    return left, dropped


def _labels(values: Sequence[Value], spelling: dict[str, str]) -> dict[str, str]:
    """The different labels of a landmark with their Wikidata ids, in the order scraped."""
    labels: dict[str, str] = {}
    for value in values:
        label = "" if is_wikimedia_page(value) else spelling[value.text]
        if label and not labels.get(label):
            labels[label] = value.item_id
    return labels


def _reason(landmark: Landmark, labels: Mapping[str, str], multi: Multi) -> Reason | None:
    if landmark.values is None:
        return "not scraped"
    if not labels:
        return "Wikimedia page" if any(map(is_wikimedia_page, landmark.values)) else "no label"
    return "several labels" if multi == "drop" and len(labels) > 1 else None


def _common_spellings(texts: Sequence[str]) -> dict[str, str]:
    """Each scraped text with its label: the commonest spelling among those that differ in case alone, or nothing."""
    spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
    labels = {text: normalise_label(text) for text in set(texts)}
    for text in texts:
        spellings[labels[text].casefold()][labels[text]] += 1
    best = {key: min(counts, key=lambda label: (-counts[label], label)) for key, counts in spellings.items()}
    return {text: "" if _says_nothing(label) else best[label.casefold()] for text, label in labels.items()}


def _says_nothing(label: str) -> bool:
    return label.casefold() in _NO_VALUE or _ITEM_ID.fullmatch(label) is not None
