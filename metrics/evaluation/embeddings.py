"""Evaluation of embeddings, block by block: no more than a block of queries × gallery exists at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.arrays import as_paths
from hiertree.errors import OptionError, ShapeError

from ..conventions.card import Convention
from ..conventions.protocols import ProtocolName, metrics_of, settled
from ..conventions.request import Plan, Relevance, plan
from ..conventions.rules import Compat, Rules
from ..engine.device import Device, Precision, device_of, said_of_scores
from ..engine.processes import ALONE, check_alike, share_of_group
from ..engine.resume import FinishedBlocks, fingerprint
from ..engine.scoring import layout, values
from ..engine.vectors import Vectors, as_vectors
from ..ranking.masks import Mask, mask_of, said_of_distractors, with_distractors
from ..result import Evaluation
from .approximate import Approximate, IndexName, approximate_values, as_approximate, check_approximate
from .retrieval import Job

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.ranked import Ties


class Inputs(NamedTuple):
    """Checked embeddings and paths; in self-retrieval the gallery is the queries. A distractor's path is −1."""

    query: Vectors
    query_paths: NDArray[np.int64]
    gallery: Vectors
    gallery_paths: NDArray[np.int64]


def evaluate(
    query: Any,
    query_paths: Any,
    gallery: Any = None,
    gallery_paths: Any = None,
    *,
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    counts: Literal["strict", "official"] | None = None,
    ties: Ties = "average",
    protocol: ProtocolName | None = None,
    compat: Compat | Rules | None = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    junk: Iterable[Iterable[int]] | None = None,
    distractors: Any = None,
    block_size: int | None = None,
    tile_size: int | None = None,
    device: str | None = None,
    precision: Precision | None = None,
    distributed: bool = False,
    approximate: IndexName | Approximate | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Evaluation:
    r"""Every metric of a retrieval by cosine similarity.

    Without a gallery the queries retrieve each other, each masked in its own list *by index*; duplicates of it stay.
    With one, nothing is dropped. Embeddings are L2-normalised and multiplied in their own type (float64, else float32);
    what is computed from the scores is float64. Memory beyond the embeddings stays below a GiB, whatever Q and N;
    a memory map (``np.load(file, mmap_mode="r")``) is read tile by tile and never held.

    Args:
        query: (Q, d) embeddings, numpy, torch or a memory map, any real type, finite and of non-zero norm.
        query_paths: (Q, L) label ids ≥ 0, coarse → fine; (Q,) means L = 1.
        gallery: (N, d) embeddings, or None for self-retrieval.
        gallery_paths: (N, L), ids of the same space as the queries'.
        metrics: names (see :mod:`hiertree.metrics`); unless given those of the protocol, or else H-AP, NDCG, ASI, AP at
            every level, R@1, R@10 and mAP@R at the finest.
        alpha: of the relevance of ``H-AP``, (l/L)^α / \|Ω^(l)\| (Eq. 20).
        relevance: another one: counts (Q, L+1) → table (Q, L+1), such as ``hiertree.relevance.linear``.
        counts: where the relevance of H-AP counts \|Ω^(l)\|: ``"strict"``, the gallery without the query, or
            ``"official"``, the query set with the query itself inside \|Ω^(L)\|, as the authors' code does.
        ties: ``"average"`` is the expectation over all orders of equal scores, exactly; ``"worst"`` and ``"best"`` are
            its bounds; ``"paper"`` counts every tied item as ahead; ``"index"`` puts the smaller index first.
        protocol: a benchmark (``"sop"``, ``"inat"``, ``"dyml"``, ``"gldv2"``, ``"revisitop"``, ``"cub"``,
            ``"vehicleid"``, ``"inshop"``): names the metrics, asks for the retrieval it makes, and sets its rules.
        compat: compute as others do: ``"official"`` (HAPPIER's and SupRank's code), ``"delf"``, ``"revisitop"``, or
            :class:`Rules` of your own; unless given, the rules of the protocol or else this package's.
        query_ids: Q integers or strings; gallery items of a query's id (its file name, its sequence) are left out of
            its list. In self-retrieval, of the other queries too.
        gallery_ids: N ids, for a separate gallery.
        junk: for each query the indices of gallery items to leave out of its list.
        distractors: (N,) booleans; a gallery item so marked has no label and is at level 0 to every query, whatever
            its row of ``gallery_paths`` says.
        block_size: queries whose scores are held at once, rounded up to whole matrix products; it changes no number.
        tile_size: gallery items multiplied at once: all of them unless given, or some ten thousand on a device, where a
            normalised copy of the gallery would take more than half a GiB, or where it is a memory map. No number
            depends on it but through the rounding of the product.
        device: a torch device such as ``"cuda"`` that multiplies and counts; the processor measures meanwhile. The
            gallery is kept there if it takes no more than half of the free memory, else it comes in tiles.
        precision: of the products: ``"float32"``, ``"tf32"`` (CUDA alone) or ``"bfloat16"`` (embeddings rounded to it,
            products summed in float32: more scores are equal); the embeddings' own type unless given, never tf32.
        distributed: share the queries out over the processes of the ``torch.distributed`` group, as Fabric starts them.
            Each is given all embeddings and returns all values, the same that one process alone would find.
        approximate: search through a faiss index, ``"hnsw"``, ``"ivf"`` or :class:`Approximate`, that may miss items;
            for metrics of a top k alone (``R@k``, ``TR@k``, ``P@k``, ``mAP@k``, ``NDCG@k``), in float32. The convention
            card says how many of the best k were found on a sample of the queries. Of equal scores at the end of the
            list those that the search leaves out count as behind. The index holds the gallery in memory.
        resume: a folder that keeps the values of finished blocks of queries; the same evaluation, begun again after an
            interruption, goes on from them. Processes that share the work share the folder.
        progress: show how many queries are done.

    Returns:
        The values of every metric and query, their means, and the convention card.

    Raises:
        ShapeError: arrays that do not fit together, an empty gallery, or processes that were given different ones.
        EmbeddingError: NaN, infinite or zero-norm embeddings.
        PathError: ids that are not integers ≥ 0.
        OptionError: an unknown metric, an option outside its range, a retrieval that the protocol does not make, an
            approximate search for what needs the whole ranking, or ``distributed`` without a process group.
        DeviceError: no such device here, or one without the precision.
        CheckpointError: ``resume`` is the folder of another evaluation, or a file in it is damaged.

    Ramzi et al., *Optimization of Rank Losses for Image Retrieval*, TPAMI 2025, Sec. III–IV.

    >>> embeddings = [[1.0, 0.0], [0.9, 0.1], [0.6, 0.5], [0.0, 1.0]]
    >>> paths = [[0, 0], [0, 0], [0, 1], [1, 2]]  # kind, landmark
    >>> result = evaluate(embeddings, paths, metrics=["H-AP", "R@1", "AP[1]"])
    >>> result.summary().round(4).to_dict()
    {'H-AP': 1.0, 'R@1': 1.0, 'AP[1]': 1.0}
    >>> result.skipped  # the last item is alone in its kind, the last two in their landmark
    {'H-AP': 1, 'R@1': 2, 'AP[1]': 1}
    """
    named, rules = settled(protocol, compat)
    if counts is not None:
        rules = replace(rules, counts=counts)
    for name, size in (("block_size", block_size), ("tile_size", tile_size)):
        if size is not None and size < 1:
            raise OptionError(f"{name}={size}", expected="at least 1")
    if named is not None:
        named.check(self_retrieval=gallery is None, with_ids=query_ids is not None)
    inputs = _checked(query, query_paths, gallery, gallery_paths, distractors)
    num_queries, num_items = len(inputs.query), None if gallery is None else len(inputs.gallery)
    mask = mask_of(num_queries, num_items, query_ids=query_ids, gallery_ids=gallery_ids, junk=junk, rules=rules)
    num_levels = inputs.query_paths.shape[1]
    metrics = metrics_of(named, metrics, num_levels)
    chosen = plan(metrics, num_levels=num_levels, alpha=alpha, relevance=relevance, ties=ties, rules=rules)
    if approximate is not None:
        if tile_size is not None or device is not None or resume is not None:
            raise OptionError("tile_size=, device= or resume= beside approximate=", expected="them without it")
        if precision is not None or distributed:
            raise OptionError("precision= or distributed= beside approximate=", expected="them without it")
        return _approximately(inputs, mask, chosen, as_approximate(approximate), protocol, progress)
    job = _job(inputs, mask, chosen, tile_size, device_of(device, precision), precision)
    share, arrays = share_of_group() if distributed else ALONE, (inputs.query.array, inputs.gallery.array)
    if share.number > 1:
        check_alike(job, *arrays)
    chosen_layout = layout(job, block_size, sharers=share.number)
    finished = None if resume is None else FinishedBlocks(resume, fingerprint(job, chosen_layout, *arrays))
    found = values(job, chosen_layout, progress=progress and share.rank == 0, finished=finished, share=share)
    convention = _convention(inputs, mask, chosen, protocol, precision)
    return Evaluation(chosen.names, found, range(num_queries), convention, inputs.query_paths)


def _approximately(
    inputs: Inputs, mask: Mask, chosen: Plan, how: Approximate, protocol: str | None, progress: bool
) -> Evaluation:
    check_approximate(chosen, mask)
    paths = inputs.query_paths, inputs.gallery_paths
    found, said = approximate_values(inputs.query, inputs.gallery, paths, mask, chosen, how, progress=progress)
    convention = _convention(inputs, mask, chosen, protocol)
    convention = replace(convention, scores="cosine similarity, float32", approximation=said)
    return Evaluation(chosen.names, found, range(len(found)), convention, inputs.query_paths)


def _checked(query: Any, query_paths: Any, gallery: Any, gallery_paths: Any, distractors: Any) -> Inputs:
    if (gallery is None) != (gallery_paths is None):
        missing = "gallery" if gallery is None else "gallery_paths"
        raise OptionError(f"{missing}=None", expected="gallery and gallery_paths together, or neither")
    queries = as_vectors(query, name="query")
    paths = as_paths(query_paths, name="query_paths", num_items=len(queries))
    if gallery is None:
        if len(queries) == 1:
            raise ShapeError("one item", expected="at least two in self-retrieval, a query and a gallery")
        if distractors is not None:
            raise OptionError("distractors in self-retrieval", expected="a separate gallery: a query needs a label")
        return Inputs(queries, paths, queries, paths)
    items = as_vectors(gallery, name="gallery")
    item_paths = with_distractors(gallery_paths, distractors, len(items))
    if len(items) == 0:
        raise ShapeError("an empty gallery", expected="at least one item")
    if items.dimensions != queries.dimensions or item_paths.shape[1] != paths.shape[1]:
        raise ShapeError(
            f"a gallery of {items.dimensions} dimensions and {item_paths.shape[1]} levels",
            expected=f"those of the queries, {queries.dimensions} and {paths.shape[1]}",
        )
    return Inputs(queries, paths, items, item_paths)


def _job(
    inputs: Inputs, mask: Mask, chosen: Plan, tile_size: int | None, device: Device | None, precision: Precision | None
) -> Job:
    """What the values are computed from."""
    from ..engine.similarity import Similarity
    from ..ranking.tree_order import tree_order

    tree = tree_order(inputs.query_paths, inputs.gallery_paths)
    dtype = None if precision is None else np.dtype(np.float32)
    similarity = Similarity(inputs.query, inputs.gallery, tree, tile_size=tile_size, device=device, dtype=dtype)
    totals = tree.totals() - mask.counts(inputs.query_paths, inputs.gallery_paths)
    official = chosen.rules.counts == "official"
    counts = tree_order(inputs.query_paths, inputs.query_paths).totals() if official else None
    return Job(similarity, tree, mask, totals, counts, chosen)


def _convention(
    inputs: Inputs, mask: Mask, chosen: Plan, protocol: str | None, precision: Precision | None = None
) -> Convention:
    dtype = np.result_type(inputs.query.dtype, inputs.gallery.dtype) if precision is None else np.dtype(np.float32)
    return Convention(
        self_rule=mask.rule + said_of_distractors(inputs.gallery_paths),
        scores=said_of_scores(dtype, precision),
        num_levels=chosen.num_levels,
        relevance=chosen.relevance_name,
        counts=chosen.rules.counted,
        ties=chosen.ties,
        rules=chosen.rules,
        protocol=protocol,
    )
