"""``hiertree labels clean``: landmarks and their scraped values → those that have one label and are places.

Texts are put into one form first (:mod:`hiertree.pipelines.labels.texts`), so that "Ferris wheel",
"ferris  wheel" and the cut-off "ferris wheel (" are one label. docs/labels.md lists the files of the folder.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple
from unicodedata import normalize

from hiertree.errors import OptionError, TableError
from hiertree.io.files import AnyPath, write_json
from hiertree.io.reading import reading_json
from hiertree.io.tables import is_empty, write_table

from .encode.hypernyms import EDGE_COLUMNS, read_hypernyms
from .encode.place_nouns import parse
from .landmarks import (
    DROPPED,
    GLDV2_COLUMNS,
    LANDMARKS,
    SEPARATOR,
    DroppedLandmark,
    InstanceValue,
    KeptLandmark,
    Landmark,
    Origin,
    Reason,
    Values,
    label_counts,
    read_landmarks,
    write_dropped,
    write_kept,
)
from .scrape.outcomes import read_stored, stored_hypernyms
from .settings import CleanSettings, ColumnNames, Multi, Unnamed
from .steps import HYPERNYMS, LABELS, REPORT, LabelStep, StepRecord
from .texts import is_wikimedia_page, item_id_of, normalize_label, spelling_key

_ONLY_ID = "only a Wikidata id"
_URL = re.compile(r"https?://\S+")
_NO_VALUE = re.compile(r"(?i)unknown( value)?|no ?value|somevalue|none|null|nil|n/?a|nat|-?nan")  # beside is_empty's
COMMAND = "hiertree labels clean"
_REMEDIES: dict[Reason, str] = {
    "not scraped": "'hiertree labels scrape' asks Wikimedia for them, 'labels retry' again for those that failed",
    "no label": "name the column of types with --instance-column, or give labels from images with 'labels fill'",
    "several labels": "--multi first or --multi all keeps them",
    "Wikimedia page": "list places, not Wikimedia's own pages",
    "irrelevant label": "review the labels again",
    "no landmark": "--keep-unfit keeps them",
}
_JOINED_BY = (";", ",", "、", "；", "，")  # what may stand between values instead of the separator
_MENDED_SHOWN = 3


@dataclass(frozen=True)
class Cleaned:
    """The outcome: landmarks kept and dropped, and the texts that were corrected (as scraped → label)."""

    kept: Sequence[KeptLandmark]
    dropped: Sequence[DroppedLandmark]
    mended: dict[str, str]

    @cached_property
    def labels(self) -> Counter[str]:
        """Distinct labels, and how many landmarks carry each."""
        return label_counts(self.kept)


def clean_landmarks(landmarks: Iterable[Landmark], *, multi: Multi = "drop", unnamed: Unnamed = "drop") -> Cleaned:
    """Apply the rules: Wikimedia's own pages go first, then landmarks without a label, then those with several.

    Spellings that differ in case, or in British and American use, are one label, written as it is most often.

    Args:
        landmarks: as read.
        multi: a landmark with several labels is ``"drop"``-ped as in the paper, keeps its ``"first"``, or ``"all"``.
        unnamed: a landmark whose classes have no name, only Wikidata ids, is ``"drop"``-ped or ``"keep"``-s the ids.

    Raises:
        OptionError: another ``multi`` or ``unnamed``.

    >>> scraped = [Landmark("1", "A", (InstanceValue("lake"),)), Landmark("2", "B", ()), Landmark("3", "C", None)]
    >>> cleaned = clean_landmarks(scraped)
    >>> [kept.labels for kept in cleaned.kept], [dropped.reason for dropped in cleaned.dropped]
    ([('lake',)], ['no label', 'not scraped'])
    """
    CleanSettings(multi=multi, unnamed=unnamed)  # checks them
    rows = list(landmarks)
    counts = Counter(landmark.values for landmark in rows)  # most landmarks share theirs
    names_of = _put_names(counts)
    texts: Counter[str] = Counter()
    for values, names in names_of.items():
        for value in _place_values(names):
            texts[value.text] += counts[values]
    spelling = _common_spellings(texts)
    verdicts = {values: _verdict(names, spelling, multi, unnamed) for values, names in names_of.items()}
    kept_landmarks: list[KeptLandmark] = []
    dropped_landmarks: list[DroppedLandmark] = []
    for landmark in rows:
        reason, labels, item_ids, label_texts, scraped_texts = verdicts[landmark.values]
        fields, origin = (landmark.landmark_id, landmark.category), landmark.origin
        if reason is None:
            kept_landmarks.append(KeptLandmark(*fields, labels, item_ids, origin=origin, scraped=label_texts))
        else:
            cause = _add_cause(origin, scraped_texts)
            dropped_landmarks.append(DroppedLandmark(*fields, scraped_texts, reason, cause))
    mended_labels = {text: label for text in sorted(texts) if (label := spelling[text]) not in ("", text)}
    return Cleaned(kept_landmarks, dropped_landmarks, mended_labels)


class _Verdict(NamedTuple):
    """The decision for all landmarks with the same values."""

    reason: Reason | None  # why they are dropped
    labels: tuple[str, ...]
    item_ids: tuple[str, ...]
    label_texts: str  # of the labels, as scraped
    scraped: tuple[str, ...]


def _put_names(values: Iterable[Values | None]) -> dict[Values | None, Values | None]:
    """Map values to values with the names of known classes in place of their Wikidata ids."""
    rows = list(values)
    items = {value: item for row in rows for value in row or () if (item := item_id_of(value.text))}
    names = read_hypernyms().names if items else {}
    value_of_id = {value: InstanceValue(names.get(item, item), value.item_id or item) for value, item in items.items()}
    return {row: row and tuple(value_of_id.get(value, value) for value in row) for row in rows}


def _place_values(values: Values | None) -> list[InstanceValue]:
    return [value for value in values or () if not is_wikimedia_page(value)]


def _verdict(values: Values | None, spelling: dict[str, str], multi: Multi, unnamed: Unnamed) -> _Verdict:
    place_values, labels = _place_values(values), dict[str, str]()  # label → Wikidata id, in the order scraped
    for value in place_values:
        if (label := spelling[value.text]) and not labels.get(label):
            labels[label] = item_id_of(value.item_id) or value.item_id
    if not labels and unnamed == "keep":
        labels = {item: item for value in place_values if (item := item_id_of(value.text))}
    reason: Reason | None = None
    if values is None:
        reason = "not scraped"
    elif not labels:
        reason = "Wikimedia page" if len(place_values) < len(values) else "no label"
    elif multi == "drop" and len(labels) > 1:
        reason = "several labels"
    labels = dict(list(labels.items())[: None if multi == "all" else 1])
    texts = SEPARATOR.join(value.text for value in place_values if spelling[value.text] in labels)
    return _Verdict(reason, tuple(labels), tuple(labels.values()), texts, tuple(value.text for value in values or ()))


def _common_spellings(texts: Mapping[str, int]) -> dict[str, str]:
    """Each scraped text with its label, the commonest spelling (else in lower case) of the same meaning, or nothing."""
    spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
    labels = {text: normalize_label(text) for text in texts}
    for text, count in texts.items():
        spellings[spelling_key(labels[text])][labels[text]] += count
    best = {
        key: min(counts, key=lambda label: (-counts[label], sum(map(str.isupper, label)), label))
        for key, counts in spellings.items()
    }
    return {text: "" if _says_nothing(label) else best[spelling_key(label)] for text, label in labels.items()}


def _add_cause(origin: Origin, scraped_texts: Sequence[str]) -> Origin:
    """The origin, with the reason for a missing label if the values show it: none contains a word."""
    texts = [text.strip() for text in scraped_texts]
    if origin.reason:
        return origin
    if texts and all(map(item_id_of, texts)):
        return origin._replace(reason=_ONLY_ID)
    if texts and all(map(_URL.fullmatch, texts)):
        return origin._replace(reason="a URL")
    return origin._replace(reason="no letter") if any(texts) and not any(map(str.isalpha, "".join(texts))) else origin


def _says_nothing(label: str) -> bool:
    is_name = any(map(str.isalpha, label)) and item_id_of(label) is None and _URL.fullmatch(label) is None
    values = [value.strip("[]<>{}'\" ") for value in label.split(",")]
    return not is_name or is_empty(label) or all(is_empty(value) or _NO_VALUE.fullmatch(value) for value in values)


DEFAULTS = CleanSettings()


def clean_step(
    landmarks: AnyPath,
    *,
    out: AnyPath,
    instances: AnyPath | None = None,
    store: AnyPath | None = None,
    columns: ColumnNames = GLDV2_COLUMNS,
    settings: CleanSettings = DEFAULTS,
) -> dict[str, Any]:
    """Clean labels, write the folder and return its report.

    Args:
        landmarks: CSV or Parquet of landmark ids and Commons categories.
        out: the folder to make.
        instances: CSV or Parquet of landmark ids and "instance of" values; default: the same file.
        store: a store of ``labels scrape`` instead.
        columns: what the columns of the tables are called.
        settings: how landmarks are read and cleaned.
    """
    return CleanStep(landmarks, instances, store, columns, settings).run(out)[1]


@dataclass(frozen=True)
class CleanStep(LabelStep[tuple[Cleaned, dict[str, Any]]]):
    """The step for the runner; its result is the landmarks and the report."""

    landmarks: AnyPath
    instances: AnyPath | None
    store: AnyPath | None
    columns: ColumnNames
    settings: CleanSettings

    def record(self) -> StepRecord:
        """The tables or the store."""
        if self.instances is not None and self.store is not None:
            raise OptionError("both instances and a store", expected="one of them")
        inputs = tuple(path for path in (self.landmarks, self.instances, self.store) if path is not None)
        return StepRecord(COMMAND, {**self.settings.model_dump(), "columns": self.columns.model_dump()}, inputs)

    def _compute(self) -> tuple[Cleaned, dict[str, Any]]:
        columns, separator = self.columns, self.settings.separator
        if self.store is None:
            tables = self.landmarks, self.instances
            landmarks, unknown_ids = read_landmarks(*tables, columns=columns, separator=separator)
        else:
            landmarks, unknown_ids = read_stored(self.landmarks, self.store, columns=columns)
        cleaning = clean_landmarks(landmarks, multi=self.settings.multi, unnamed=self.settings.unnamed)
        report = cleaning_report(cleaning, unknown_ids=unknown_ids)
        joined_values, ids = _joined_values(cleaning.labels, self.settings.separator), _own_ids(cleaning)
        report |= {"joined_values": joined_values} if joined_values else {}
        return cleaning, report | ({"own_ids": {"landmarks": ids, "column": columns.instance_of}} if ids else {})

    def _write(self, result: tuple[Cleaned, dict[str, Any]], folder: Path) -> None:
        write_cleaned(folder, *result)
        if self.store is not None and (edges := stored_hypernyms(self.store)):
            write_table(folder / HYPERNYMS, (*EDGE_COLUMNS, "source"), edges)


def cleaning_report(cleaning: Cleaned, *, unknown_ids: int) -> dict[str, Any]:
    """The counts of the paper's Sec. VI-A: landmarks read, with a label, dropped by reason, kept; distinct labels."""
    counts, landmarks = landmark_counts(cleaning), len(cleaning.kept) + len(cleaning.dropped)
    scraped_landmarks = landmarks - counts["dropped"].get("not scraped", 0)
    return {
        "landmarks": landmarks,
        "scraped": scraped_landmarks,
        "with_label": scraped_landmarks - counts["dropped"].get("no label", 0),
        **counts,
        "scraped_ids_without_landmark": unknown_ids,
        "mended_labels": cleaning.mended,
    }


def _joined_values(labels: Collection[str], separator: str) -> dict[str, list[str]]:
    """Labels that look like several joined values, by separator: every value is a label too, or a known noun."""
    labels_by_separator: dict[str, list[str]] = {}
    for sign in _JOINED_BY:
        for label in sorted(labels):
            values = [normalize_label(value) for value in label.split(sign)]
            if (
                sign != separator
                and len(values) > 1
                and all(value in labels or parse(value).certain for value in values)
            ):
                labels_by_separator.setdefault(sign, []).append(label)
    return labels_by_separator


def _own_ids(cleaning: Cleaned) -> int:
    """How many landmarks have nothing but a Wikidata id that no other has, if all have: ids of landmarks, not types."""
    texts = [landmark.labels for landmark in cleaning.kept] + [landmark.values for landmark in cleaning.dropped]
    ids = {text[0] for text in texts if len(text) == 1 and item_id_of(text[0])}
    return len(ids) if len(ids) == len(texts) > 1 else 0


def landmark_counts(cleaning: Cleaned) -> dict[str, Any]:
    """The numbers of landmarks dropped, by reason and by known cause, and kept, and of labels."""
    reasons = Counter(drop.reason for drop in cleaning.dropped)
    because: dict[str, dict[str, int]] = {}
    causes = Counter((drop.reason, drop.origin.reason) for drop in cleaning.dropped)
    for (reason, cause), count in sorted(causes.items()):
        if cause not in ("", reason):
            because.setdefault(reason, {})[cause] = count
    counts = {"kept": len(cleaning.kept), "distinct_labels": len(cleaning.labels)}
    return {"dropped": dict(sorted(reasons.items())), "because": because, **counts}


def describe_cleaning(report: Mapping[str, Any]) -> str:
    """The counts as text, one per line."""
    lines = [(report["landmarks"], "landmarks"), (report["scraped"], "scraped"), (report["with_label"], "with a label")]
    for reason, num_dropped in report["dropped"].items():
        causes = ", ".join(f"{count} {cause}" for cause, count in report["because"].get(reason, {}).items())
        lines.append((num_dropped, f"dropped: {reason} ({causes})" if causes else f"dropped: {reason}"))
    if ids := report.get("own_ids"):
        lines.append((ids["landmarks"], f"have one Wikidata id each, perhaps their own: {_ask_with(ids['column'])}"))
    elif unnamed_landmarks := report["because"].get("no label", {}).get(_ONLY_ID):
        lines.append((unnamed_landmarks, "of these --unnamed keep can keep; 'labels hypernyms' asks for their names"))
    lines.append((report["kept"], f"kept, with {report['distinct_labels']} distinct labels"))
    if mended_labels := report.get("mended_labels"):
        first = ", ".join(
            f"{text!r} → {label!r}{' (Unicode form)' * (normalize('NFC', text) == label)}"
            for text, label in list(mended_labels.items())[:_MENDED_SHOWN]
        )
        ellipsis = ", …" if len(mended_labels) > _MENDED_SHOWN else ""
        lines.append((len(mended_labels), f"texts normalized: {first}{ellipsis}"))
    for sign, labels in report.get("joined_values", {}).items():
        lines.append(
            (len(labels), f"labels look like several values, {labels[0]!r} for instance: --separator {sign!r}")
        )
    return "\n".join(f"{count:8d} {text}" for count, text in lines)


def _ask_with(column: str) -> str:
    return f"'hiertree labels scrape TABLE --category-column {quote(column)} --store STORE' asks what they are"


def check_kept(report: Mapping[str, Any], folder: AnyPath) -> None:
    """Refuse a report of no landmark kept, with the commonest reason and what helps; ``folder`` says why each was."""
    if report["kept"]:
        return
    reason, _ = max(report["dropped"].items(), key=itemgetter(1))
    causes = report["because"].get(reason, {})
    cause = max(causes, key=causes.__getitem__, default="")
    if "own_ids" in report:
        remedy = f"if they are the landmarks' own, {_ask_with(report['own_ids']['column'])}"
    elif cause == _ONLY_ID:
        remedy = "--unnamed keep keeps them, and 'hiertree labels hypernyms' asks for their names"
    else:
        remedy = _REMEDIES[reason]
    problem = f"no landmark has exactly one label: {reason}{f' ({cause})' if cause else ''}"
    raise TableError(problem, expected="some", remedy=f"{remedy}; {Path(folder) / DROPPED} lists each landmark")


def write_cleaned(folder: Path, cleaning: Cleaned, report: Mapping[str, Any]) -> None:
    """Write every file but the manifest into a folder."""
    write_kept(folder / LANDMARKS, cleaning.kept)
    rows = sorted(cleaning.labels.items(), key=lambda item: (-item[1], item[0]))
    write_table(folder / LABELS, ("label", "landmarks"), rows)
    write_dropped(folder / DROPPED, cleaning.dropped)
    write_json(folder / REPORT, report)


def read_report(folder: AnyPath) -> dict[str, Any]:
    """The counts in a folder."""
    with reading_json(Path(folder) / REPORT, expected=f"the report of '{COMMAND}'") as report:
        return {name: report[name] for name in cleaning_report(Cleaned([], [], {}), unknown_ids=0)} | report
