"""The paper's cleaning rules: no page of Wikimedia's own, no landmark without a label, none with several.

Texts are put into one form first (:mod:`hiertree.pipelines.labels.label_texts`), so that "Ferris wheel",
"ferris  wheel" and the cut-off "ferris wheel (" are one label. Each landmark left out is listed with its reason.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from hiertree.errors import OptionError

from ..label_texts import is_wikimedia_page, normalize_label, spelling_key
from ..landmarks import NO_ORIGIN, InstanceValue, Landmark, Origin

Multi: TypeAlias = Literal["drop", "first", "all"]
Reason: TypeAlias = Literal["not scraped", "no label", "Wikimedia page", "several labels", "irrelevant label"]

_ITEM_ID = re.compile(r"Q[0-9]+")
_NO_VALUE = {"unknown", "unknown value", "no value", "novalue", "somevalue", "nan", "none", "null", "na", "n/a"}


@dataclass(frozen=True)
class KeptLandmark:
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
class DroppedLandmark:
    """A landmark left out, why, and what was scraped for it."""

    landmark_id: int
    category: str
    values: tuple[str, ...]
    reason: Reason
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True)
class Cleaned:
    """The outcome: landmarks kept and dropped, and the texts that were corrected (as scraped → label)."""

    kept: list[KeptLandmark]
    dropped: list[DroppedLandmark]
    mended: dict[str, str]


def clean_landmarks(landmarks: Iterable[Landmark], *, multi: Multi = "drop") -> Cleaned:
    """Apply the rules: Wikimedia's own pages go first, then landmarks without a label, then those with several.

    Spellings that differ in case, or in British and American use, are one label, written as it is most often.

    Args:
        landmarks: as read.
        multi: a landmark with several labels is ``"drop"``-ped as in the paper, keeps its ``"first"``, or ``"all"``.

    Raises:
        OptionError: another ``multi``.

    >>> scraped = [Landmark(1, "A", (InstanceValue("lake"),)), Landmark(2, "B", ()), Landmark(3, "C", None)]
    >>> cleaned = clean_landmarks(scraped)
    >>> [kept.labels for kept in cleaned.kept], [dropped.reason for dropped in cleaned.dropped]
    ([('lake',)], ['no label', 'not scraped'])
    """
    if multi not in get_args(Multi):
        raise OptionError(f"multi={multi!r}", expected=f"one of {', '.join(map(repr, get_args(Multi)))}")
    read = list(landmarks)
    texts = [value.text for landmark in read for value in landmark.values or () if not is_wikimedia_page(value)]
    spelling = _common_spellings(texts)
    kept: list[KeptLandmark] = []
    dropped: list[DroppedLandmark] = []
    for landmark in read:
        labels = _labels(landmark.values or (), spelling)
        about = (landmark.landmark_id, landmark.category)
        if (reason := _reason(landmark, labels, multi)) is None:
            taken = list(labels.items()) if multi == "all" else list(labels.items())[:1]
            names, item_ids = zip(*taken, strict=True)
            kept.append(KeptLandmark(*about, names, item_ids, origin=landmark.origin))
        else:
            scraped = tuple(value.text for value in landmark.values or ())
            dropped.append(DroppedLandmark(*about, scraped, reason, _with_cause(landmark.origin, scraped)))
    mended = {text: label for text in sorted(set(texts)) if (label := spelling[text]) and label != text}
    return Cleaned(kept, dropped, mended)


def relevant(kept: Iterable[KeptLandmark], irrelevant: Set[str]) -> tuple[list[KeptLandmark], list[DroppedLandmark]]:
    """Landmarks without the labels that people marked irrelevant; those that had no other are dropped.

    Args:
        kept: landmarks.
        irrelevant: labels.

    >>> kept, dropped = relevant([KeptLandmark(1, "A", ("lake", "event")), KeptLandmark(2, "B", ("event",))], {"event"})
    >>> [landmark.labels for landmark in kept], [drop.landmark_id for drop in dropped]
    ([('lake',)], [2])
    """
    left: list[KeptLandmark] = []
    dropped: list[DroppedLandmark] = []
    for landmark in kept:
        item_ids = landmark.item_ids or ("",) * len(landmark.labels)
        pairs = [pair for pair in zip(landmark.labels, item_ids, strict=True) if pair[0] not in irrelevant]
        if pairs:
            labels, ids = zip(*pairs, strict=True)
            left.append(replace(landmark, labels=labels, item_ids=ids))
        else:
            about = (landmark.landmark_id, landmark.category, landmark.labels)
            dropped.append(DroppedLandmark(*about, "irrelevant label", landmark.origin))
    return left, dropped


def label_counts(kept: Iterable[KeptLandmark]) -> Counter[str]:
    """Distinct labels, and how many landmarks carry each."""
    return Counter(label for landmark in kept for label in landmark.labels)


def label_items(kept: Iterable[KeptLandmark]) -> dict[str, tuple[str, ...]]:
    """The Wikidata ids of labels, for those that have any.

    >>> label_items([KeptLandmark(1, "A", ("lake",), ("Q23397",)), KeptLandmark(2, "B", ("pond",))])
    {'lake': ('Q23397',)}
    """
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for landmark in kept:
        for label, item in zip(landmark.labels, landmark.item_ids, strict=False):
            found[label] |= {item: None} if item else {}
    return {label: tuple(sorted(items)) for label, items in found.items() if items}


def _labels(values: Sequence[InstanceValue], spelling: dict[str, str]) -> dict[str, str]:
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
    """Each scraped text with its label, the commonest spelling (else in lower case) of the same meaning, or nothing."""
    spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
    labels = {text: normalize_label(text) for text in set(texts)}
    for text in texts:
        spellings[spelling_key(labels[text])][labels[text]] += 1
    best = {
        key: min(counts, key=lambda label: (-counts[label], sum(map(str.isupper, label)), label))
        for key, counts in spellings.items()
    }
    return {text: "" if _says_nothing(label) else best[spelling_key(label)] for text, label in labels.items()}


def _with_cause(origin: Origin, scraped: Sequence[str]) -> Origin:
    """The origin, with the reason that there is no label where the values themselves say it: no word among them."""
    texts = [text.strip() for text in scraped]
    if texts and all(map(_ITEM_ID.fullmatch, texts)):
        return origin._replace(reason="only a Wikidata id")
    return origin._replace(reason="no letter") if any(texts) and not any(map(str.isalpha, "".join(texts))) else origin


def _says_nothing(label: str) -> bool:
    named = any(map(str.isalpha, label)) and _ITEM_ID.fullmatch(label) is None
    return not named or label.casefold() in _NO_VALUE
