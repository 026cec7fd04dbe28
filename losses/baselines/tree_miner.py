"""Look up classes of pytorch-metric-learning by name, and apply its miners at every level of a hierarchy."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from hiertree.errors import OptionError, nearest_name, require_package
from hiertree.level_columns import UNKNOWN
from hiertree.options import check_each, check_integer, require

from ..pairs.inputs import checked_paths, finite_vectors

LIBRARY = "pytorch_metric_learning"


class TreeMiner(nn.Module):
    """Triplets that know the tree: the positive shares more levels with the anchor than the negative does.

    At each level a flat miner of pytorch-metric-learning chooses among items of the anchor's node, as positives, and of
    other nodes, as negatives; pairs become the triplets of their anchors. What the levels choose is put together, each
    triplet once. ``miner(embeddings, labels)`` gives an ``indices_tuple`` for that library's losses and trainers and
    for :func:`as_pytorch_metric_learning`; :class:`PytorchMetricLearning` takes it as ``miner``.

    Args:
        miner: the name of a class in ``pytorch_metric_learning.miners``, or an object of one.
        levels: at which it chooses, from 1, the coarsest; all unless given.
        miner_options: of the named miner.

    >>> miner = TreeMiner("TripletMarginMiner", miner_options={"margin": 0.2, "type_of_triplets": "all"})
    >>> embeddings, paths = torch.eye(4), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])
    >>> anchors, positives, negatives = miner(embeddings, paths)
    >>> [(int(p), int(n)) for a, p, n in zip(anchors, positives, negatives) if a == 0]  # 2 is of the same kind
    [(1, 2), (1, 3), (2, 3)]
    """

    def __init__(
        self, miner: Any, *, levels: Sequence[int] | None = None, miner_options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        options = miner_options or {}
        require(isinstance(options, Mapping), "miner_options", options, "a mapping of names to values")
        self.miner = built("miners", miner, options)
        self.levels = None if levels is None else check_each("levels", levels, check_integer, "levels from 1")

    @torch.no_grad()
    def forward(
        self, embeddings: Any, labels: Any, ref_emb: Any = None, ref_labels: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors among the embeddings, positives and negatives among them or the reference ones.

        Args:
            embeddings: (B, d).
            labels: (B, L) paths, coarse → fine; (B,) labels mean L = 1.
            ref_emb: (M, d), for triplets with reference embeddings.
            ref_labels: (M, L).
        """
        from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_triplets

        vectors = finite_vectors(embeddings)
        paths = checked_paths(labels, vectors, name="labels").tensor
        refs = None if ref_emb is None else finite_vectors(ref_emb, name="ref_emb")
        ref_paths = None if refs is None else checked_paths(ref_labels, refs, name="ref_labels").tensor
        level_triplets = []
        for level in self.levels or range(1, paths.shape[1] + 1):
            require(level <= paths.shape[1], "level", level, f"a level of these labels, 1 to {paths.shape[1]}")
            nodes, ref_nodes = _nodes(paths, ref_paths, level)
            mined = self.miner(vectors, nodes, refs, ref_nodes)
            level_triplets.append(torch.stack(convert_to_triplets(mined, nodes, ref_nodes)))
        triplets = torch.cat(level_triplets, dim=1)
        anchors, positives, negatives = torch.unique(triplets, dim=1) if triplets.shape[1] else triplets
        return anchors, positives, negatives


def _nodes(paths: Tensor, ref_paths: Tensor | None, level: int) -> tuple[Tensor, Tensor | None]:
    """A number for the node of each item at a level; ids under two parents are two nodes, each unknown one another."""
    every = paths if ref_paths is None else torch.cat([paths, ref_paths])
    numbers = torch.unique(every[:, :level], dim=0, return_inverse=True)[1]
    numbers = own_if_unknown(numbers.masked_fill(every[:, level - 1] < 0, UNKNOWN))
    return numbers[: len(paths)], None if ref_paths is None else numbers[len(paths) :]


def own_if_unknown(labels: Tensor) -> Tensor:
    """The labels, different from each other and from those of references where they are unknown."""
    own_labels = UNKNOWN - 1 - torch.arange(len(labels), device=labels.device)
    return torch.where(labels < 0, own_labels, labels)


def library_class(part: str, name: str) -> type:
    """The class of this name in a part of the library, or an error that names a similar one."""
    require_package(LIBRARY, extra="interop")
    module = import_module(f"{LIBRARY}.{part}")
    class_names = [class_name for class_name, value in vars(module).items() if inspect.isclass(value)]
    if name in class_names:
        matching_class: type = getattr(module, name)
        return matching_class
    similar_name = nearest_name(name, class_names, cutoff=0.5)
    remedy = f"did you mean {similar_name!r}?" if similar_name else None
    raise OptionError(repr(name), expected=f"a class of {LIBRARY}.{part}", remedy=remedy)


def built(part: str, specification: Any, options: Mapping[str, Any]) -> nn.Module:
    """An object of a named class; an object is returned as it is."""
    if isinstance(specification, nn.Module):
        require(not options, "options", options, f"none for a {type(specification).__name__} that is already made")
        return specification
    require(
        isinstance(specification, str),
        part,
        specification,
        f"the name of a class of {LIBRARY}.{part}, or an object of one",
    )
    module_class = library_class(part, specification)
    try:
        module: nn.Module = module_class(**options)
    except TypeError as error:
        raise OptionError(f"options {sorted(options)} of {specification}", expected=f"its options ({error})") from error
    return module
