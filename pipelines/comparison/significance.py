"""Whether rows differ from a reference: paired randomization tests on the values of the same queries.

A query's value is its mean over the seeds of a row. The queries of one finest class share their positives, so their
differences change sign together (see :mod:`hiertree.metrics.statistics`). The test thus asks what another draw of
classes would give; what another seed would give is shown by ±. Holm's correction is over the tested rows, metric by
metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hiertree.errors import CheckpointError, OptionError
from hiertree.io.array_files import reading_arrays
from hiertree.io.progress import track
from hiertree.io.reading import Complaint
from hiertree.metrics import Evaluation
from hiertree.metrics.statistics import holm

from ..report.queries_and_gallery import SIGNIFICANT, have_same_classes, paired_test, rows_of
from ..report.sources import read_per_query
from ..stored_embeddings.embeddings_files import LabeledEmbeddings, sides_of
from ..stored_embeddings.label_columns import EmbeddedImages

if TYPE_CHECKING:
    import pandas as pd

_NAMED_PATHS = ("names", "paths", "gallery_names", "gallery_paths")  # arrays that tell whether images are the same
TEST_COLUMNS = ("metric", "row", "reference", "queries", "classes", "difference", "p", "p_holm")


@dataclass(frozen=True)
class ListValues:
    """The values of every query of one list, a row for each and a column for each metric, and their images.

    A list is the test split, or a further one that the benchmark has. NaN stands where a query has no value. ``data``
    is that section of the recipe, as equal classes alone do not make equal queries; None where there is no recipe.
    """

    values: pd.DataFrame
    images: LabeledEmbeddings
    data: Mapping[str, Any] | None = None

    @property
    def num_levels(self) -> int:
        """The depth of the tree that the queries' paths are of."""
        return int(np.prod(np.shape(self.images.queries.paths)[1:]))

    def reorder_as(self, reference: ListValues) -> ListValues | None:
        """The same with its queries in the order of another's; None where it has other queries, gallery or classes.

        Queries are the same by their names, or by their order where neither has names.
        """
        has_data = self.data is not None and reference.data is not None
        if len(self.values) != len(reference.values) or (has_data and self.data != reference.data):
            return None
        names = [values.images.queries.image_names for values in (self, reference)]
        in_order = has_data or names == [None, None]
        rows = None if in_order else rows_of(self.images, reference.images)
        if (rows is None and not in_order) or not have_same_classes(self.images, reference.images, rows):
            return None
        if rows is None:
            return self
        return replace(self, values=self.values.iloc[rows[0]].reset_index(drop=True), images=reference.images)


QueryValues: TypeAlias = Sequence[ListValues]  # of a row: one for each list of the benchmark


def _reorder_lists(row: QueryValues, reference: QueryValues) -> list[ListValues] | None:
    """The lists of a row with the queries of another in their order; None where one differs."""
    if len(row) != len(reference):
        return None
    matches = [values.reorder_as(base) for values, base in zip(row, reference, strict=True)]
    lists = [match for match in matches if match is not None]
    return lists if len(lists) == len(row) else None


def choose_reference(names: Sequence[str], against: str | None) -> str:
    """The row that the others are tested against: the first, unless another is named.

    Not the best: a reference that is chosen by its results would make p-values too small. ``against`` is the name of a
    row, or of a recipe, whose first row it is.

    >>> choose_reference(["a, loss.tau=0.1", "a, loss.tau=1", "b, loss.tau=0.1"], "b")
    'b, loss.tau=0.1'
    """
    if against is None:
        return names[0]
    matches = [name for name in names if name == against or name.startswith(f"{against}, ")]
    if not matches:
        raise OptionError(f"against {against!r}", expected=f"one of {'; '.join(names)}")
    return matches[0]


def query_values(folders: Sequence[Path], *, data: Mapping[str, Any]) -> QueryValues | None:
    """The values of a row's runs, their mean over seeds; None where the seeds have different queries."""
    runs = [lists_of_run(folder, data) for folder in folders]
    if any(_reorder_lists(run, runs[0]) is None for run in runs):
        return None
    return [_mean(lists_of_seeds) for lists_of_seeds in zip(*runs, strict=True)]


def values_of_result(result: Evaluation, images: LabeledEmbeddings | None = None) -> QueryValues:
    """The values of a result's queries; those of ranked lists, known by their names, unless images are given."""
    if images is None:
        paths = np.arange(len(result)) if result.query_paths is None else result.query_paths
        images = LabeledEmbeddings([EmbeddedImages(paths=paths, names=list(result.query_ids))])
    return [ListValues(result.per_query().reset_index(drop=True), images.named_paths())]


def compare_with_reference(rows: Mapping[str, QueryValues | None], reference: str) -> pd.DataFrame:
    """Test every row of the reference's queries against it, on every metric that both have.

    Each test is a row with columns ``metric``, ``row``, ``reference``, ``queries`` (with a value in both), ``classes``
    (finest, of these), ``difference`` (of the means: row less reference), ``p`` and ``p_holm``.
    """
    import pandas as pd

    base = rows[reference] or []
    rows_in_order = {name: _reorder_lists(row or (), base) for name, row in rows.items() if name != reference}
    comparable_rows = {name: row for name, row in rows_in_order.items() if row}
    metrics = [(index, metric) for index, query_list in enumerate(base) for metric in query_list.values]
    records = []
    for index, metric in track(metrics if comparable_rows else [], description="testing"):
        tests = [
            (metric, name, reference, *test)
            for name, row in comparable_rows.items()
            if (test := _test(row[index], base[index], str(metric)))
        ]
        corrected = holm([test[-1] for test in tests]).tolist()
        records += [(*test, adjusted) for test, adjusted in zip(tests, corrected, strict=True)]
    table: pd.DataFrame = pd.DataFrame(records, columns=list(TEST_COLUMNS))
    return table


def describe_tests(tests: pd.DataFrame, rows: Mapping[str, QueryValues | None], reference: str) -> list[str]:
    """Notes: what the marks of a table mean, which rows could not be tested, and why."""
    notes = []
    if len(tests):
        subject = "†" if (tests["p_holm"] < SIGNIFICANT).any() else "No row"
        counts = f"{tests['queries'].max():,} queries of {tests['classes'].max():,} classes"
        notes.append(
            f"{subject} differs from {reference} with p < {SIGNIFICANT} after Holm's correction over rows: paired "
            f"randomization tests on {counts}, means over seeds."
        )
    base, tested = rows[reference] or (), set(tests["row"])
    reasons = {name: _difference(row or (), base) for name, row in rows.items() if name not in (reference, *tested)}
    for reason, names in groupby(sorted(reasons, key=lambda name: reasons[name]), key=lambda name: reasons[name]):
        notes.append(f"Not tested against {reference}, {reason}: {'; '.join(names)}.")
    return notes


def _difference(row: QueryValues, base: QueryValues) -> str:
    """Why a row is not tested."""
    if _reorder_lists(row, base):
        return "as no query has a value of the same metric in both"
    same_size = [len(values.values) for values in row] == [len(values.values) for values in base] != []
    return "as queries or labels differ" if same_size else "as the numbers of queries differ"


def _test(row: ListValues, base: ListValues, metric: str) -> tuple[int, int, float, float] | None:
    """Queries, classes, difference and p-value; None where no query has two values."""
    if metric not in row.values:
        return None
    return paired_test(row.values[metric], base.values[metric], base.images.queries.paths)


def _mean(runs: Sequence[ListValues]) -> ListValues:
    """The mean values of the metrics that all runs have."""
    first = runs[0].values
    common_metrics = [name for name in first if all(name in run.values for run in runs)]
    total = sum((run.values[common_metrics] for run in runs[1:]), start=first[common_metrics])
    return replace(runs[0], values=total / len(runs))


def lists_of_run(folder: Path, data: Mapping[str, Any]) -> QueryValues:
    """The lists of a run, in a fixed order."""
    lists = []
    run: Complaint = {"expected": "a file of a finished run", "kind": CheckpointError}
    for table in sorted(folder.glob("per_query*.parquet")):
        name = table.stem.removeprefix("per_query")
        with reading_arrays(folder / f"embeddings{name}.npz", **run) as arrays:
            named_paths = {name: arrays[name] for name in _NAMED_PATHS if name in arrays}
            images = LabeledEmbeddings(sides_of(named_paths))
        lists.append(ListValues(read_per_query(table), images, data))
    if not lists:
        raise CheckpointError(f"{folder} without per_query.parquet", expected="the folder of a finished run")
    return lists
