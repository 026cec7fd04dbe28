"""``hiertree evaluate``: embeddings and labels on disk → every metric on the terminal, as JSON, and by query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hiertree import relevance as relevances
from hiertree.errors import InputError, OptionError
from hiertree.io import files
from hiertree.io.provenance import manifest
from hiertree.metrics import Compat, Evaluation, ProtocolName, evaluate, evaluate_codes

from .embeddings_files import naming_files, read_embeddings
from .label_columns import PathLike
from .labeled_embeddings import LabeledEmbeddings

if TYPE_CHECKING:
    from hiertree.metrics.conventions.request import Relevance
    from hiertree.metrics.engine.device import Precision
    from hiertree.metrics.evaluation.approximate import IndexName


def evaluate_file(
    embeddings: PathLike,
    *,
    labels: PathLike | None = None,
    levels: Sequence[str] = (),
    gallery: PathLike | None = None,
    gallery_labels: PathLike | None = None,
    ids: str | None = None,
    junk: PathLike | None = None,
    distractors: bool = False,
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Literal["hap", "linear", "gain"] | Sequence[float] = "hap",
    counts: Literal["strict", "official"] | None = None,
    ties: Literal["average", "worst", "best", "paper", "index"] = "average",
    protocol: ProtocolName | None = None,
    compat: Compat | None = None,
    codes: bool = False,
    block_size: int | None = None,
    device: str | None = None,
    precision: Precision | None = None,
    approximate: IndexName | None = None,
    resume: PathLike | None = None,
    as_json: bool = False,
    per_query: PathLike | None = None,
    out: PathLike | None = None,
) -> Evaluation:
    """Evaluate embeddings on disk, print the result, and write what is asked for.

    Args:
        embeddings: an ``.npz``, ``.npy``, ``.pt`` or ``.parquet`` file, as
            :mod:`hiertree.pipelines.evaluation.embeddings_files` reads them; ``hiertree train`` writes the first.
        labels: for a file without labels, a CSV or Parquet table with one row an embedding, in the same order.
        levels: columns of labels, coarse → fine; all but ``ids`` unless given.
        gallery: a file of the same kinds for a separate gallery, unless ``embeddings`` holds one.
        gallery_labels: its table of labels.
        ids: a column of the tables: no query retrieves an item of its own id.
        junk: a CSV or Parquet table of columns ``query`` and ``item``: pairs of rows, from 0, that are left out.
        distractors: whether gallery rows whose labels are all empty are distractors.
        metrics: names as :func:`hiertree.metrics.evaluate` takes them.
        alpha: of H-AP's relevance.
        relevance: H-AP's: ``"hap"``, ``"linear"`` or ``"gain"``, or L weights, with which H-AP is that weighted
            mean of the APs of the levels.
        counts: ``"strict"`` or ``"official"``; as ``compat`` says unless given.
        ties: the policy for equal scores.
        protocol: a benchmark, as :func:`hiertree.metrics.evaluate` takes it.
        compat: whose conventions to follow.
        codes: rank binary codes, the signs of embeddings, by Hamming distance, as
            :func:`hiertree.metrics.evaluate_codes` does; without counts and the five that follow.
        block_size: queries at once.
        device: a torch device that multiplies.
        precision: of its products.
        approximate: search by a faiss index, for metrics of a top k.
        resume: a folder of finished blocks, to go on from after an interruption.
        as_json: print JSON instead of a table.
        per_query: a ``.parquet`` or ``.csv`` file for the values of each query.
        out: a ``.json`` file for means, convention card and provenance.

    Raises:
        InputError: a file that cannot be read, or does not hold what it should.
        OptionError: labels for a file that has its own, no labels for a file without, or a suffix that is not known.
        HiertreeError: as :func:`hiertree.metrics.evaluate` and :func:`hiertree.io.tables.read_table`.
    """
    source, table = Path(embeddings), None if per_query is None else Path(per_query)
    if table is not None and table.suffix not in (".parquet", ".csv"):
        raise OptionError(f"a per-query file {table.name!r}", expected="a name that ends in .parquet or .csv")
    options: dict[str, Any] = {"alpha": alpha, "ties": ties, "protocol": protocol, "compat": compat}
    search: dict[str, Any] = {"counts": counts, "device": device, "precision": precision, "approximate": approximate}
    columns: dict[str, Any] = {"levels": list(levels), "ids": ids, "distractors": distractors}
    labeled = read_embeddings(
        source, labels=labels, gallery=gallery, gallery_labels=gallery_labels, junk=junk, **columns
    )
    with naming_files(source, gallery):
        result = _evaluated(
            labeled,
            codes=codes,
            options={"metrics": metrics, "relevance": _relevance(relevance), **options},
            search={"block_size": block_size, "resume": resume, **search},
        )
    if not result.has_values:
        names = () if labeled.tree is None else labeled.tree.level_names
        remedy = f"the columns read as levels are {', '.join(names)}" if names else None
        raise InputError(f"{source} gives no metric a value", expected="items that share labels", remedy=remedy)
    inputs = [source, *(Path(file) for file in (labels, gallery, gallery_labels, junk) if file is not None)]
    if table is not None:
        _write_per_query(result, table)
    if out is not None:
        parameters = {"metrics": list(result.names), "relevance": relevance, "codes": codes}
        parameters |= {**options, **search, **columns}
        made = manifest(command="hiertree evaluate", parameters=parameters, inputs=inputs)
        files.write_json(out, {**result.as_dict(), "manifest": made})
    if as_json:
        print(result.to_json())
    else:
        print_result(result)
    return result


def _evaluated(
    labeled: LabeledEmbeddings, *, codes: bool, options: dict[str, Any], search: dict[str, Any]
) -> Evaluation:
    """Every metric, by cosines or by Hamming distances."""
    options = {**labeled.masks, **options}
    if not codes:
        options |= search
        return evaluate(*labeled[:4], progress=True, **options)
    given = [name for name, value in search.items() if value is not None]
    if given:
        raise OptionError(f"codes with {', '.join(given)}", expected="codes alone: their search is a count of bits")
    return evaluate_codes(*labeled.as_codes()[:4], **options)


def _relevance(given: str | Sequence[float]) -> Relevance | None:
    """The relevance of that name, or of those weights; None for H-AP's own, which alpha belongs to."""
    if not isinstance(given, str):
        return partial(relevances.weighted_ap, weights=tuple(given))
    known: dict[str, Relevance | None] = {"hap": None, "linear": relevances.linear, "gain": relevances.gain}
    if given not in known:
        raise OptionError(f"relevance={given!r}", expected=f"one of {', '.join(known)}, or a weight a level")
    return known[given]


def print_result(result: Evaluation) -> None:
    """Show means, bootstrap intervals, skipped queries and the convention card on standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    means, bounds = result.summary(), result.confidence_interval()
    table = Table(title=f"{len(result)} queries", title_justify="left")
    drawn = "classes" if bounds["clusters"].max() < len(result) else "queries"
    table.add_column("metric")
    for column in ("mean", f"95 % interval over {drawn}", "skipped"):
        table.add_column(column, justify="right")
    for name, skipped in result.skipped.items():
        shown = ("—", "")
        if name in means.index:
            low, high = bounds.loc[name, ["low", "high"]]
            shown = (f"{means[name]:.4f}", f"{low:.4f} … {high:.4f}")
        table.add_row(Text(name), *shown, str(skipped) if skipped else "")
    card = Table.grid(padding=(0, 2))
    for name, text in result.convention.rows().items():
        card.add_row(Text(name), Text(text))
    console = Console()
    console.print(table)
    console.print(card)


def _write_per_query(result: Evaluation, file: Path) -> None:
    with files.replacing(file) as temporary:
        if file.suffix == ".parquet":
            result.per_query().to_parquet(temporary)
        else:
            result.per_query().to_csv(temporary, lineterminator="\n")
