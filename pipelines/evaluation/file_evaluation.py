"""``hiertree evaluate``: embeddings and labels on disk → every metric on the terminal, as JSON, and by query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hiertree.errors import InputError, OptionError
from hiertree.metrics import Compat, Evaluation, ProtocolName, evaluate, evaluate_codes

from .embeddings_files import naming_files, read_embeddings
from .label_columns import PathLike
from .labeled_embeddings import LabeledEmbeddings
from .result_outputs import RelevanceName, ResultOutputs, relevance_of

if TYPE_CHECKING:
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
    relevance: RelevanceName | Sequence[float] = "hap",
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
    source, outputs = Path(embeddings), ResultOutputs(as_json, per_query, out)
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
            options={"metrics": metrics, "relevance": relevance_of(relevance), **options},
            search={"block_size": block_size, "resume": resume, **search},
        )
    if not result.has_values:
        notes = (
            [] if labeled.tree is None else [f"the columns read as levels are {', '.join(labeled.tree.level_names)}"]
        )
        if labeled.ids is not None:
            number = len(set(labeled.ids))
            notes.append(f"its {len(labeled.paths)} queries have {number} ids, and none retrieves its own")
        expected = "items that share labels, but no id" if labeled.ids is not None else "items that share labels"
        raise InputError(f"{source} gives no metric a value", expected=expected, remedy="; ".join(notes) or None)
    inputs = [source, *(Path(file) for file in (labels, gallery, gallery_labels, junk) if file is not None)]
    parameters = {"metrics": list(result.names), "relevance": relevance, "codes": codes}
    outputs.deliver(result, parameters={**parameters, **options, **search, **columns}, inputs=inputs)
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
