"""The exceptions that hiertree raises on purpose.

All are a :class:`HiertreeError`; those that a caller's values cause are a ValueError too.

A message says what was given, what was expected, and how to fix it, and hides the passwords of URLs. The command line
prints the message alone and exits with status 2. Options that would mend something are data, ``choose``: Python and the
command line spell them each in its way.

>>> from hiertree.errors import OptionError
>>> raise OptionError("ties='random'", expected="one of 'average', 'index'", remedy="pass ties='average'")
Traceback (most recent call last):
...
hiertree.errors.OptionError: ties='random': expected one of 'average', 'index'; pass ties='average'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from typing import TypeAlias

_LONGEST = 960  # characters of a message
# What torch puts before the message of an error that it raises again for a loader's worker: the worker's traceback.
_WORKER = re.compile(r"\ACaught \w+ in DataLoader worker.*^hiertree\.errors\.\w+: ", re.DOTALL | re.MULTILINE)
Choices: TypeAlias = Mapping[str, Sequence[object]]  # options, each with the values that would mend something
Spell: TypeAlias = Callable[[str, Sequence[object]], "str | None"]
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]+@")


class HiertreeError(Exception):
    """Base of all exceptions that hiertree raises on purpose.

    Args:
        given: what was found; it names the file, row or argument.
        expected: what would have been valid.
        remedy: how to fix it.
        choose: options that fix it, too.

    >>> print(HierarchyError("two roots", remedy="join them", choose={"forest": ["join"]}))
    two roots; join them, or pass forest='join'
    """

    def __init__(
        self, given: str, *, expected: str | None = None, remedy: str | None = None, choose: Choices | None = None
    ) -> None:
        given = _WORKER.sub("", given).rstrip("\n")
        is_long = len(given) + len(expected or "") + len(remedy or "") > _LONGEST
        self.given = _printable(given, is_long)
        self.expected = None if expected is None else _printable(expected, is_long)
        self.remedy = None if remedy is None else _printable(remedy, is_long)
        self.choose = dict(choose or {})
        super().__init__(self.spelled(_as_keyword))

    def spelled(self, spell: Spell) -> str:
        """The message, with options as ``spell(name, values)`` writes them; it leaves out those that are None.

        It is not called ``message``, by which torch takes an error of a worker for one with such an argument.
        """
        message = self.given if self.expected is None else f"{self.given}: expected {self.expected}"
        return "; ".join(filter(None, [message, spelled_remedy(self.remedy, self.choose, spell)]))

    def naming(self, source: object, kind: type[HiertreeError] | None = None) -> HiertreeError:
        """The same error, perhaps of another type, that begins with the file or section that it is about."""
        problem = f"{source}: {self.given}"
        return (kind or type(self))(problem, expected=self.expected, remedy=self.remedy, choose=self.choose)

    def __reduce__(self) -> tuple[object, ...]:
        return (partial(type(self), expected=self.expected, remedy=self.remedy, choose=self.choose), (self.given,))

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError.__str__ would return the repr


def spelled_remedy(remedy: str | None, choose: Choices, spell: Spell) -> str:
    """What mends something, with options as ``spell`` writes them; empty if nothing does."""
    options = [text for name, values in choose.items() if (text := spell(name, values)) is not None]
    return ", or ".join(filter(None, [remedy, f"pass {', or '.join(options)}" if options else None]))


def _as_keyword(name: str, values: Sequence[object]) -> str:
    return f"{name}={alternatives(list(map(repr, values)))}"


def alternatives(texts: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join([*([", ".join(texts[:-1])] if texts[1:] else []), texts[-1]])


def _printable(text: str, is_long: bool) -> str:
    """Without passwords; of a long message each part is cut in the middle, as names in files have any length."""
    text, end = hide_credentials(text), _LONGEST // 6
    return f"{text[:end]} … {text[-end:]}" if is_long and len(text) > 2 * end else text


def hide_credentials(text: str) -> str:
    """The text with stars for the user names and passwords of its URLs.

    >>> hide_credentials("http://me:secret@mirror.org/a.zip did not answer")
    'http://***@mirror.org/a.zip did not answer'
    """
    return _CREDENTIALS.sub("***@", text)


def some_of(values: Iterable[object], most: int = 5) -> str:
    """The first values as a message lists them, with dots where there are more.

    >>> some_of(["a", "b", "c"], 2)
    "'a', 'b', …"
    """
    items = list(values)
    return ", ".join([*map(repr, items[:most]), *["…"] * (len(items) > most)])


def nearest_name(name: object, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The name that was probably meant, in whatever letter case: one that begins so, or a near one; None without any.

    >>> nearest_name("h-ap", ["R@1", "H-AP"]), nearest_name("ndcg", ["H-AP", "NDCG@10"]), nearest_name("loss", ["H-AP"])
    ('H-AP', 'NDCG@10', None)
    """
    lower, folded_name = {candidate.casefold(): candidate for candidate in names}, str(name).casefold()
    longer = [key for key in lower if len(folded_name) > 1 and key.startswith(folded_name)]
    close = longer or get_close_matches(folded_name, lower, n=1, cutoff=cutoff)
    return lower[close[0]] if close else None


class InputError(HiertreeError, ValueError):
    """A value given by the caller cannot be used."""


class ShapeError(InputError):
    """Arrays whose shapes do not fit together."""


class EmbeddingError(InputError):
    """Embeddings or scores that are not finite, or embeddings of zero norm."""


class PathError(InputError):
    """Label paths that are not non-negative integers of one length."""


class OptionError(InputError):
    """An option outside its range, or a name that does not exist."""


class UnknownMetricError(OptionError, KeyError):
    """A metric that a result does not hold, or that no query has a value for."""


class OutputError(InputError):
    """An output that would overwrite an input, another output, or a file that hiertree did not write."""


class CategoryError(InputError):
    """A URL that leads to no category of Wikimedia Commons."""


class HierarchyError(HiertreeError, ValueError):
    """Labels that do not form a tree of one depth."""


class NotATreeError(HierarchyError):
    """A label is its own ancestor, several nodes have no parent, or a node has two parents."""


class UnevenDepthError(HierarchyError):
    """Leaves lie at different depths, and the caller chose no policy for that."""


class EmptyLabelError(HierarchyError):
    """A label is empty, blank or NaN."""


class DuplicateLeafError(HierarchyError):
    """The same leaf is listed twice."""


class UnknownLeafError(HierarchyError, KeyError):
    """A leaf is not in the tree."""


class TableError(HiertreeError, ValueError):
    """A CSV, Parquet or JSON file that cannot be read as requested."""


class RecipeError(HiertreeError, ValueError):
    """A recipe or a plan in YAML with a misspelled or impossible setting."""


class ImageError(HiertreeError):
    """Images that do not decode."""


class MissingResourceError(HiertreeError):
    """A data set or model that is missing."""


class OtherLayoutError(MissingResourceError):
    """A folder without any of the files of the data set that is looked for there."""


class MissingPackageError(MissingResourceError, ModuleNotFoundError):
    """A package of one of hiertree's extras that is not installed; the message says how to install it."""


class DeviceError(HiertreeError):
    """A requested device that is missing."""


class CheckpointError(HiertreeError):
    """A checkpoint that cannot be resumed."""


class ScrapeError(HiertreeError):
    """A scrape that cannot go on, or a store that cannot be used; what was stored stays."""


class IncompleteScrapeError(ScrapeError):
    """More landmarks failed than a plan allows; what was stored stays, and the next run asks for them again."""


class ReviewError(HiertreeError):
    """A review log that cannot be used, or an action that is impossible; what was done stays."""


class ReviewConflictError(ReviewError):
    """An action on a state that is no longer the latest."""


class ExportError(HiertreeError):
    """An exported network or index that differs from what it was made of."""


class TrainingError(HiertreeError):
    """A training run that cannot go on."""


@contextmanager
def raised_as(
    kind: type[HiertreeError],
    given: object,
    *,
    on: type[BaseException] | tuple[type[BaseException], ...],
    expected: str | None = None,
    remedy: str | None = None,
) -> Iterator[None]:
    """Raise the errors ``on`` of other libraries as one of ours: what was given, and the first line of theirs.

    >>> with raised_as(OptionError, "k", expected="a number", on=ValueError):
    ...     int("many")
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: k (invalid literal for int() with base 10: 'many'): expected a number
    """
    try:
        yield
    except on as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, KeyError) and on is not KeyError:  # whose text, a key alone, could come from anything
            reason = f"KeyError: {reason}"
        raise kind(f"{given} ({reason})", expected=expected, remedy=remedy) from error


def require_package(*names: str, extra: str) -> None:
    """Check that packages are installed before they are imported, or name the extra that installs them.

    Args:
        names: as they are imported.
        extra: of hiertree, that declares them.

    Raises:
        MissingPackageError: some are not installed.

    >>> require_package("faiss", extra="search")
    >>> require_package("no_such_package", extra="search")
    Traceback (most recent call last):
    ...
    hiertree.errors.MissingPackageError: no_such_package is not installed; pip install "hiertree[search]"
    """
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        problem = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        raise MissingPackageError(problem, remedy=f'pip install "hiertree[{extra}]"')
