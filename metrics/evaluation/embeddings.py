"""Evaluation of embeddings, one block of queries × gallery at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiertree.errors import require_package
from hiertree.evaluation_options import ArrayLike, Labels, RetrievalOptions, Search, SearchOptions
from hiertree.options import split_options, with_options_of

from ..result import Evaluation
from . import CheckedRetrievalOptions, check_inputs

if TYPE_CHECKING:
    from typing_extensions import Unpack


class EvaluateOptions(RetrievalOptions, SearchOptions, total=False):
    """The keywords of :func:`evaluate`."""


@with_options_of(CheckedRetrievalOptions, Search)
def evaluate(
    query: ArrayLike,
    query_paths: Labels,
    gallery: ArrayLike | None = None,
    gallery_paths: Labels | None = None,
    **options: Unpack[EvaluateOptions],
) -> Evaluation:
    r"""Every metric of a retrieval by cosine similarity.

    Without a gallery the queries retrieve each other, and each is left out of its own list *by index*; its duplicates
    stay. With a gallery nothing is left out. Embeddings are L2-normalized and multiplied in their own type (float64,
    else float32); metrics are computed in float64. Memory beyond the embeddings stays below a GiB, whatever Q and N;
    a memory map (``np.load(file, mmap_mode="r")``) is read tile by tile. Rows of frames are matched by place; two of
    pandas whose indexes differ are refused.

    Args:
        query: (Q, d) embeddings, numpy, torch or a memory map, any real type, finite and of non-zero norm.
        query_paths: (Q, L) label ids ≥ 0, coarse → fine; (Q,) means L = 1. −1 from some level on: the rest is
            unknown, and agrees with nothing, so that the level of a pair is a lower bound.
        gallery: (N, d) embeddings, or None for self-retrieval.
        gallery_paths: (N, L), ids of the same space as the queries'. −1 throughout, where there is a gallery: a
            distractor, at level 0 to every query, or a query of no class, which has no positives.
        metrics: names (see :mod:`hiertree.metrics`). By default those of the protocol, or else H-AP, NDCG, ASI, AP at
            every level, R@1, R@10 and mAP@R.
        alpha: of the relevance of ``H-AP``, (l/L)^α / \|Ω^(l)\| (Eq. 20).
        relevance: of ``H-AP``: ``"hap"`` or None, which is alpha's; ``"linear"``, l/L; ``"gain"``, 2^l − 1; L weights,
            of whose levels' APs H-AP is then the weighted mean; a function counts (r, L+1) → table (r, L+1),
            called with any r of the queries; or a table (Q, L+1), one row per query, such as
            :func:`hiertree.relevance.from_networkx` gives.
        ties: ``"average"`` is the expectation over all orders of equal scores, exactly; ``"worst"`` and ``"best"`` put
            deeper levels last or first, which gives the bounds over all orders (``H-AP[l]`` and ``first-error[l]`` are
            the parts of these); ``"paper"`` counts every tied item as ahead; ``"index"`` puts the smaller index first.
        protocol: a benchmark (``"sop"``, ``"inat"``, ``"dyml"``, ``"gldv2"``, ``"revisitop"``, ``"cub"``,
            ``"vehicleid"``, ``"vehicleid-one-image"``, ``"ilias"``, ``"inshop"``), which chooses metrics and rules and
            checks that the retrieval is its own.
        compat: whose rules to follow: ``"official"`` (HAPPIER's and SupRank's code), ``"delf"``, ``"revisitop"``, or
            :class:`Rules` of your own. By default those of the protocol, or else hiertree's.
        query_ids: Q integers or strings, such as file names or sequences; items of a query's own id are left out of its
            list, also in self-retrieval.
        gallery_ids: N ids, for a separate gallery.
        junk: for each query the indices of gallery items to leave out of its list.
        uneven: what labels in text or a frame are whose last ones are missing: ``"error"``, ``"pad"``, ``"truncate"``
            or ``"unknown"``, as for :meth:`hiertree.LabelTree.from_paths`.
        separator: what divides the last column of labels into levels, such as ``" > "`` of ``"Animals > Birds"``.
        block_size: queries whose scores are held at once, rounded up to whole matrix products; it changes no number.
        device: a torch device such as ``"cuda"`` that multiplies and counts. The gallery is kept there if it takes no
            more than half of the free memory; otherwise it is sent tile by tile.
        distributed: divide the queries among the processes of the ``torch.distributed`` group, as Fabric starts them.
            Each process is given all embeddings and returns all values, the same as one process alone.
        progress: show how many queries are done.

    Returns:
        The values of every metric and query, their means, and the convention card.

    Raises:
        ShapeError: arrays that do not fit together, an empty gallery, or processes that were given different ones.
        EmbeddingError: NaN, infinite or zero-norm embeddings.
        PathError: ids that are neither integers ≥ 0 nor the −1 of an unknown rest.
        OptionError: an unknown metric, an option outside its range, a retrieval that is not the protocol's, or
            ``distributed`` without a process group.
        DeviceError: no such device.

    Ramzi et al., *Optimization of Rank Losses for Image Retrieval*, TPAMI 2025, Sec. III–IV.

    >>> embeddings = [[1.0, 0.0], [0.9, 0.1], [0.6, 0.5], [0.0, 1.0]]
    >>> paths = [[0, 0], [0, 0], [0, 1], [1, 2]]  # kind, landmark
    >>> result = evaluate(embeddings, paths, metrics=["H-AP", "R@1", "AP[1]"])
    >>> result.summary().round(4).to_dict()
    {'H-AP': 1.0, 'R@1': 1.0, 'AP[1]': 1.0}
    >>> result.skipped  # the last item is alone in its kind, the last two in their landmark
    {'H-AP': 1, 'R@1': 2, 'AP[1]': 1}
    """
    search_options, conventions = split_options(options, Search, CheckedRetrievalOptions)
    search, checked_options = Search(**search_options), CheckedRetrievalOptions(**conventions)
    from ..engine.blocks import current_group  # takes numba with it
    from ..engine.compute import values_of_embeddings
    from ..engine.retrieval import Retrieval
    from ..engine.similarity import Similarity
    from ..engine.vectors import as_vectors
    from ..ranking.gallery import labeled_gallery

    inputs = query, query_paths, gallery, gallery_paths
    queries, items, labels, request = check_inputs(inputs, checked_options, reader=as_vectors)
    ranked = labeled_gallery(labels.query_paths, labels.gallery_paths, labels.mask, request.rules)
    similarity = Similarity(queries, items, ranked, device=search.device)
    retrieval = Retrieval(similarity, request, ranked.totals, ranked.counts, num_ranks=len(items))
    if search.distributed:
        require_package("torch", extra="train")
    group = current_group() if search.distributed else None
    values = values_of_embeddings(retrieval, block_size=search.block_size, group=group, progress=search.progress)
    return labels.evaluation(request, values, ranked_by="cosine similarity", details=str(similarity.dtype))
