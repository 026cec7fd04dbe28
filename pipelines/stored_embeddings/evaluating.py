"""``hiertree evaluate`` and ``qrels``: embeddings or ranked lists on disk, measured, printed and written."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from typing_extensions import Unpack

from hiertree.errors import CheckpointError, InputError, OptionError, require_package
from hiertree.evaluation_options import MetricOptions, Search, SearchOptions
from hiertree.io import files
from hiertree.io.array_files import read_array
from hiertree.io.files import AnyPath
from hiertree.io.provenance import manifest
from hiertree.io.reading import Complaint, reading_file, reading_json
from hiertree.metrics import Evaluation, evaluate, evaluate_codes, evaluate_ranking, write_trec_qrels
from hiertree.metrics.conventions import rules_of
from hiertree.options import Uneven, split_options

from ..launchers import launched
from ..yaml_files import read_yaml
from .embeddings_files import LabeledEmbeddings, LabelFiles, naming_files, read_embeddings
from .label_columns import LabelColumns, named_rows, number_labels, rows_with_table
from .locations import files_read, kind_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.evaluation_options import Choice
    from hiertree.metrics.engine.blocks import ProcessGroup

_MEASURED_BY = ("metrics", "protocol", "compat")
_NOT_RECORDED = ("block_size", "distributed")  # they change no number


class ResultOptions(MetricOptions, total=False):
    """Conventions, as :func:`hiertree.metrics.evaluate` takes them, and where the result goes.

    ``per_query`` is a ``.parquet`` or ``.csv`` file for the values of each query, ``out`` a ``.json`` file for means,
    convention card and provenance.
    """

    as_json: bool
    per_query: AnyPath | None
    out: AnyPath | None


class FileOptions(LabelFiles, ResultOptions, SearchOptions, total=False):
    """Options of :func:`evaluate_file`: also how :func:`hiertree.metrics.evaluate` searches.

    With ``gallery_nodes``, items are nodes of the tree, as :class:`hiertree.metrics.Rules` has them.
    """

    gallery_nodes: bool


def evaluate_file(embeddings: AnyPath, *, codes: bool = False, **options: Unpack[FileOptions]) -> Evaluation:
    """Evaluate embeddings on disk, print the result, and write what is asked for.

    With ``codes``, binary codes (the signs of embeddings) are ranked by Hamming distance, without options of a search.
    A run is measured as after its training, unless ``metrics``, ``protocol`` or ``compat`` is given.
    """
    source, arguments = Path(embeddings), dict(options)
    outputs = _outputs(arguments)
    columns: dict[str, Any] = {name: arguments.pop(name) for name in LabelFiles.__annotations__ if name in arguments}
    if kind_of(source) == "run" and columns.get("gallery") is None:
        run_options = measured_as(source)
        ranked_by_codes = run_options.pop("codes")
        if not any(map(arguments.get, _MEASURED_BY)):
            codes, arguments = codes or ranked_by_codes, arguments | run_options
    with _launched(share_work=not codes) as group:
        with nullcontext() if group is None else group.agreeing():
            collection = read_embeddings(source, **columns)
        if group is not None:
            from ..training.distributed.group import local_device

            arguments |= {"distributed": True, "device": local_device(options.get("device"))}
        with naming_files(source, columns.get("gallery")):
            result = _evaluated(collection, codes=codes, options=arguments)
        if collection.tree is not None:
            result = replace(result, convention=replace(result.convention, level_names=collection.tree.level_names))
        if not result.has_values:
            raise _valueless(source, collection)
    if group is not None and group.rank:
        return result
    other_sources = [columns.pop(name, None) for name in ("labels", "gallery", "gallery_labels", "junk")]
    parameters = {name: value for name, value in arguments.items() if name not in _NOT_RECORDED} | columns
    inputs = [file for path in (source, *other_sources) if path is not None for file in files_read(Path(path))]
    _deliver(result, outputs, parameters={**parameters, "codes": codes}, inputs=inputs)
    return result


def measured_as(run: Path) -> dict[str, Any]:
    """The metrics and conventions of a run's own results, and a line on further lists of its benchmark."""
    complaint: Complaint = {"expected": "the whole folder of a finished run", "kind": CheckpointError}
    with reading_file(run / "recipe.yaml", **complaint):
        metrics = read_yaml(run / "recipe.yaml")["evaluation"]["metrics"]
    with reading_json(run / "metrics.json", **complaint) as results:
        convention = results["convention"]
        protocol, bits, judged_pairs = (convention[name] for name in ("protocol", "bits", "judged_pairs"))
    if judged_pairs:
        remedy = "`hiertree embed` its test split, and give the data set's grades to `hiertree evaluate-pairs`"
        raise OptionError(f"{run}, whose ground truth is grades of pairs", expected="a run with labels", remedy=remedy)
    if further_lists := sorted(run.glob("embeddings-*.npz")):
        names = ", ".join(map(str, further_lists))
        print(f"{run / 'embeddings.npz'} only; other lists of its benchmark: {names}", file=sys.stderr)
    return {"metrics": metrics, "protocol": protocol, "codes": bits is not None}


@contextmanager
def _launched(*, share_work: bool) -> Iterator[ProcessGroup | None]:
    """The group of the processes that a launcher started, if they are to share the work; None for one process."""
    if not share_work or launched() is None:
        yield None
        return
    require_package("torch", "lightning_fabric", extra="train")
    from ..training.distributed.group import launched_group

    with launched_group() as group:
        yield group


def _evaluated(collection: LabeledEmbeddings, *, codes: bool, options: Mapping[str, Any]) -> Evaluation:
    """Every metric, by cosines or by Hamming distances."""
    options = {**collection.masks, **options}
    if options.pop("gallery_nodes", False):
        options["compat"] = replace(rules_of(options.get("compat"), options.get("protocol")), gallery="nodes")
    if not codes:
        return evaluate(*collection.arguments, progress=True, **options)
    (search,) = split_options(options, Search)
    if search_options := [name for name, value in search.items() if value is not None]:
        raise OptionError(f"codes with {', '.join(search_options)}", expected="no search options with codes")
    conventions = {name: value for name, value in options.items() if name not in search}
    return evaluate_codes(*collection.as_codes().arguments, **conventions)


def _valueless(source: Path, collection: LabeledEmbeddings) -> InputError:
    notes = (
        [] if collection.tree is None else [f"the columns read as levels are {', '.join(collection.tree.level_names)}"]
    )
    expected = "items that share labels"
    ids = collection.queries.ids
    if ids is not None:
        expected += ", but no id"
        notes.append(f"its {len(ids)} queries have {len(set(ids))} ids, and none retrieves its own")
    return InputError(f"{source} gives no metric a value", expected=expected, remedy="; ".join(notes) or None)


class ItemLabels(TypedDict, total=False):
    """How a table of items is read; ``query_labels`` is that of the queries, where these are not items.

    Names stand in the column ``ids``; unless given in ``image``, the first whose values are all different and look like
    files or ids, or the first.
    """

    query_labels: AnyPath | None
    levels: Sequence[str]
    uneven: Uneven
    separator: str | None
    ids: str | None


class Judgments(ItemLabels, total=False):
    """What judges ranked lists: ``qrels``, or labels in the table ``tree`` of all items.

    Lists in an ``.npy`` hold rows of these tables, from 0, instead of names.
    """

    qrels: AnyPath | None
    tree: AnyPath | None


class ListOptions(Judgments, MetricOptions, total=False):
    """Judgments and conventions, as :func:`hiertree.metrics.evaluate_ranking` takes them."""

    gallery_nodes: bool
    unjudged: Choice
    negative_qrels: Choice
    lower_is_better: bool


class RunOptions(ListOptions, ResultOptions, total=False):
    """Options of :func:`evaluate_run`: also where the result goes."""


def evaluate_run(run: AnyPath, **options: Unpack[RunOptions]) -> Evaluation:
    """Evaluate ranked lists on disk, print the result, and write what is asked for."""
    arguments: dict[str, Any] = dict(options)
    outputs = _outputs(arguments)
    result = measure_lists(run, **arguments)
    tables = [arguments.pop(name, None) for name in ("qrels", "tree", "query_labels")]
    _deliver(result, outputs, parameters=arguments, inputs=[run, *tables])
    return result


def measure_lists(run: AnyPath, **options: Unpack[ListOptions]) -> Evaluation:
    """Every metric of ranked lists on disk."""
    arguments: dict[str, Any] = dict(options)
    judgments: Any = {name: arguments.pop(name) for name in Judgments.__annotations__ if name in arguments}
    lower_is_better = arguments.pop("lower_is_better", False)
    rules = {"unjudged": arguments.pop("unjudged", "irrelevant"), "negative": arguments.pop("negative_qrels", "error")}
    rules |= {"gallery": "nodes"} if arguments.pop("gallery_nodes", False) else {}
    compat = replace(rules_of(options.get("compat"), options.get("protocol")), **rules)
    qrels, tree = judgments.pop("qrels", None), judgments.pop("tree", None)
    if (qrels is None) == (tree is None):
        expected = "exactly one of them: judgments (--qrels) or a table of labels (--tree)"
        raise OptionError("qrels and tree", expected=expected)
    by_labels = [*judgments.values(), options.get("gallery_nodes")]
    if qrels is not None and any(value not in (None, (), "error", False) for value in by_labels):
        problem = "query_labels, levels, uneven, separator, ids or gallery_nodes with qrels"
        raise OptionError(problem, expected="them only with tree")
    path = Path(run)
    lists = _read_rows(path, has_qrels=qrels is not None) if path.suffix == ".npy" else path
    truth = {"qrels": qrels} if tree is None else _labels(tree, **judgments, named=lists is path)
    with naming_files(path, None):
        result = evaluate_ranking(
            lists, **truth, **{**arguments, "compat": compat}, higher_is_better=not lower_is_better
        )
    if not result.has_values:
        raise InputError(f"{run} gives no metric a value", expected="queries with relevant items")
    return result


def _read_rows(file: Path, *, has_qrels: bool) -> NDArray[np.integer]:
    """Lists of a table's rows, as a search library gives them."""
    if has_qrels:
        raise OptionError(f"{file.name} with --qrels, which judge names", expected="--tree TABLE, whose rows it lists")
    rows: NDArray[Any] = read_array(file, expected="rows of a table, saved by numpy", kind=InputError)
    if rows.dtype.kind not in "iu":
        expected = "integers, the rows of a table from 0, best first"
        raise InputError(f"{file.name} with numbers of type {rows.dtype}", expected=expected)
    return rows


def evaluate_pairs(
    embeddings: AnyPath,
    *,
    truth: AnyPath,
    gallery: AnyPath | None = None,
    codes: bool = False,
    **options: Unpack[ResultOptions],
) -> Evaluation:
    """Evaluate embeddings on disk by judgments of pairs, print the result, and write what is asked for.

    ``truth`` is the ``.pkl`` of ROxford5k or RParis6k, whose easy, medium and hard setups are all measured, by
    ``revisitop`` unless ``metrics`` or ``protocol`` are given; or an ``.npy`` of grades, queries × items. Without
    ``gallery``, ``embeddings`` is a folder that ``hiertree embed`` wrote. The rest is as for :func:`evaluate_file`.
    """
    from .judged_pairs import evaluate_judged, read_sides, read_truth  # takes the data sets with it

    arguments: dict[str, Any] = dict(options)
    outputs = _outputs(arguments)
    sources = [Path(source) for source in (embeddings, gallery) if source is not None]
    result = evaluate_judged(*read_sides(sources), read_truth(Path(truth)), codes=codes, **arguments)
    if not result.has_values:
        raise InputError(f"{truth} gives no metric a value", expected="queries with relevant items")
    inputs = [*(file for source in sources for file in files_read(source)), truth]
    _deliver(result, outputs, parameters={**arguments, "codes": codes}, inputs=inputs)
    return result


def write_qrels(
    tree: AnyPath, out: AnyPath, *, grades: Sequence[int] | None = None, **columns: Unpack[ItemLabels]
) -> None:
    """Write TREC qrels that grade every item by its level to every query, or by the grade of that level.

    Without ``query_labels`` every item is also a query, but not its own item.
    """
    write_trec_qrels(out, **_labels(tree, **columns), grades=grades)


def _labels(
    tree: AnyPath,
    query_labels: AnyPath | None = None,
    levels: Sequence[str] = (),
    uneven: Uneven = "error",
    separator: str | None = None,
    ids: str | None = None,
    *,
    named: bool = True,
) -> dict[str, Any]:
    """Paths, and names unless rows are meant, by the keywords of :func:`hiertree.metrics.evaluate_ranking`."""
    files = [Path(table) for table in (query_labels, tree) if table is not None]
    columns = LabelColumns(tuple(levels), ids)
    tables = [
        named_rows(file, levels, ids) if named else rows_with_table(np.empty(()), file, columns) for file in files
    ]
    _, collections = number_labels(tables, uneven=uneven, separator=separator)
    by_role = dict(zip(("query", "gallery"), collections, strict=False))
    paths = {f"{role}_paths": items.paths for role, items in by_role.items()}
    return paths | ({f"{role}_names": list(items.ids) for role, items in by_role.items()} if named else {})


def _outputs(options: dict[str, Any]) -> dict[str, Any]:
    """Separate the outputs from the other options; their names are checked before anything is computed."""
    outputs = {name: options.pop(name, None) for name in ("as_json", "per_query", "out")}
    per_query = Path(outputs["per_query"] or "none.csv")
    if per_query.suffix not in (".parquet", ".csv"):
        raise OptionError(f"a per-query file {per_query.name!r}", expected="a name that ends in .parquet or .csv")
    if per_query.suffix == ".parquet":
        require_package("pyarrow", extra="arrow")
    return outputs


def _deliver(
    result: Evaluation, outputs: Mapping[str, Any], *, parameters: dict[str, Any], inputs: Sequence[AnyPath | None]
) -> None:
    """Write the requested files, and print the result."""
    per_query, out = outputs["per_query"], outputs["out"]
    if per_query is not None:
        with files.replacing(per_query) as temporary:
            if temporary.suffix == ".parquet":
                with temporary.open("wb") as stream:  # pyarrow takes no names but UTF-8
                    result.per_query().to_parquet(stream)
            else:
                result.per_query().to_csv(temporary, lineterminator="\n")
    if out is not None:
        recorded = {**parameters, "metrics": list(result.names)}
        input_files = [Path(file) for file in inputs if file is not None]
        provenance = manifest(command="hiertree evaluate", parameters=recorded, inputs=input_files)
        files.write_json(out, {**result.as_dict(), "manifest": provenance})
    print(result.to_json()) if outputs["as_json"] else print_result(result)


def print_result(result: Evaluation) -> None:
    """Show means and bootstrap intervals in percent, skipped queries and the convention card on standard output."""
    (metric, mean, interval, skipped), rows = result.table(percent=True)
    heads = (metric, mean, f"{interval} over {'classes' if result.has_classes else 'queries'}", skipped)
    print_table(heads, rows, right=heads[1:], title=f"{len(result)} queries", title_justify="left")
    print_table((), result.convention.rows().items())


def print_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = (), **look: Any
) -> None:
    """Show a table on standard output, columns named in ``right`` set to the right; without heads, a plain grid.

    ``look`` are options of rich's tables.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(**look) if heads else Table.grid(padding=(0, 2))
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
