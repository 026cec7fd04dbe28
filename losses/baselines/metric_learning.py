"""Losses of pytorch-metric-learning as losses of hiertree, and the other way round; flat losses summed over levels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from hiertree.errors import OptionError, ShapeError, nearest_name, require_package
from hiertree.level_columns import UNKNOWN
from hiertree.options import check_choice, check_each, check_integer, require

from ..base import LevelLosses, Loss, check_loss
from ..pairs.inputs import CheckedPaths, check_classes, checked_paths, finite_vectors, full_mask, has_candidate
from ..pairs.one_batch import keep_full_precision

if TYPE_CHECKING:
    from .as_metric_learning import MetricLearningLoss

LossFactory: TypeAlias = Callable[[int], nn.Module]
"""Makes a loss for so many classes."""
LIBRARY = "pytorch_metric_learning"
Indices: TypeAlias = "tuple[Tensor, ...]"  # as the library returns them: anchors and positives, anchors and negatives


class PytorchMetricLearning(Loss):
    """A loss of pytorch-metric-learning at one level of the hierarchy.

    The column of that level gives the library's flat labels; embeddings are computed with in float32 or better, also
    under autocast. Reference embeddings and miners work for the losses that take them in the library. Its losses of
    pairs list these, for which the program waits for a GPU.

    Args:
        loss: the name of a class in ``pytorch_metric_learning.losses``, or an object of one.
        level_sizes: classes at each level, coarse → fine; for a named loss that learns one proxy or more a class.
        embedding_size: d, for such a loss too.
        level: labels are the nodes of this level; None: the finest.
        loss_options: of the named loss; its ``distance`` and ``reducer`` may be names of the library's classes too.
        miner: the name of a class in ``pytorch_metric_learning.miners``, or an object of one; None: all pairs.
        miner_options: of the named miner.

    >>> loss = PytorchMetricLearning("MultiSimilarityLoss", loss_options={"alpha": 2.0}, miner="MultiSimilarityMiner")
    >>> import torch
    >>> loss(torch.eye(4), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])).shape
    torch.Size([])
    >>> proxies = PytorchMetricLearning("ProxyNCALoss", (2, 3), 4, loss_options={"softmax_scale": 3})
    >>> [tuple(parameter.shape) for parameter in proxies.parameters()]
    [(3, 4)]
    """

    is_mean_over_queries = False  # miners, reducers and regularizers see the whole batch
    _shown = ("level",)

    def __init__(
        self,
        loss: Any,
        level_sizes: Sequence[int] | None = None,
        embedding_size: int | None = None,
        *,
        level: int | None = None,
        loss_options: dict[str, Any] | None = None,
        miner: Any = None,
        miner_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_integer("level", level, or_none=True)
        self.level, self.num_classes = level, _num_classes(level_sizes, level)
        loss_options, miner_options = loss_options or {}, miner_options or {}
        require(isinstance(loss_options, Mapping), "loss_options", loss_options, "a mapping of names to values")
        require(isinstance(miner_options, Mapping), "miner_options", miner_options, "a mapping of names to values")
        named_modules = {
            key: _built(f"{key}s", loss_options[key], {})
            for key in ("distance", "reducer")
            if isinstance(loss_options.get(key), str)
        }
        self.loss = _built("losses", loss, {**self._sizes(loss, embedding_size), **loss_options, **named_modules})
        self.miner = None if miner is None else _built("miners", miner, miner_options)
        self.weights = {type(self.loss).__name__: 1.0}

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The one term, under the name of the library's class; a loss of proxies ignores reference embeddings."""
        vectors, level_paths = self._labeled(embeddings, paths, "embeddings", "paths")
        columns, refs, ref_columns = level_paths.tensor, None, None
        if _learns_proxies(type(self.loss)):
            if valid is not None or (level_paths.ids[:, -1] < 0).any():
                queries = has_candidate(valid, embeddings, ref_embeddings) & level_paths.known
                vectors, columns, valid = vectors[queries], columns[queries], None
            if len(vectors) == 0:
                return {type(self.loss).__name__: vectors.sum()}
        elif ref_embeddings is not None and ref_embeddings is not embeddings:
            refs, ref_level_paths = self._labeled(ref_embeddings, ref_paths, "ref_embeddings", "ref_paths")
            ref_columns = ref_level_paths.tensor
            shapes = [tuple(tensor.shape) for tensor in (vectors, refs)]
            if shapes[0][1] != shapes[1][1]:
                raise ShapeError(f"embeddings and ref_embeddings of shapes {shapes}", expected="the same d")
        labels, ref_labels = _own_if_unknown(columns[:, -1]), None if ref_columns is None else ref_columns[:, -1]
        with keep_full_precision(vectors.device):
            indices = self._indices(vectors, refs, labels, ref_labels, valid)
            value: Tensor = self.loss(vectors, labels, indices, refs, ref_labels)
        return {type(self.loss).__name__: value}

    def _indices(
        self, vectors: Tensor, refs: Tensor | None, labels: Tensor, ref_labels: Tensor | None, valid: Any
    ) -> Indices | None:
        """The pairs or triplets that the miner chose and the mask allows; None lets the loss take all."""
        indices: Indices | None = None if self.miner is None else self.miner(vectors, labels, refs, ref_labels)
        if valid is None:
            return indices
        if indices is None:
            indices = _all_pairs(labels, ref_labels)
        shape = len(vectors), len(vectors if refs is None else refs)
        return _keep_valid(indices, full_mask(valid, shape, vectors.device))

    def _labeled(self, embeddings: Any, paths: Any, name: str, paths_name: str) -> tuple[Tensor, CheckedPaths]:
        """The vectors, and their paths down to the level of the loss."""
        vectors = finite_vectors(embeddings, name=name)
        label_paths = checked_paths(paths, vectors, name=paths_name)
        num_levels = label_paths.tensor.shape[1]
        level = num_levels if self.level is None else self.level
        require(level <= num_levels, "level", level, f"a level of these labels, 1 to {num_levels}")
        if self.num_classes is not None and _learns_proxies(type(self.loss)):
            check_classes(label_paths.ids[:, level - 1], self.num_classes)
        host_ids = None if label_paths.read is None else label_paths.read[:, :level]
        return vectors, CheckedPaths(label_paths.tensor[:, :level], host_ids)

    def _sizes(self, loss: Any, embedding_size: int | None) -> dict[str, int]:
        if not isinstance(loss, str) or not _learns_proxies(_library_class("losses", loss)):
            return {}
        if self.num_classes is None or embedding_size is None:
            raise OptionError(f"{loss}, which learns proxies", expected="level_sizes and embedding_size too")
        return {"num_classes": self.num_classes, "embedding_size": embedding_size}


class LevelSum(LevelLosses):
    """Σ over levels of a loss whose classes are that level's nodes: ΣTL, ΣNSM, ΣNCA++ of the papers' tables.

    The loss of level l gets column l of the paths as flat labels. Its term is called ``level l``.

    Args:
        loss: makes the loss of a level from its number of classes: a loss of this package, or one of
            pytorch-metric-learning.
        level_sizes: classes at each level, coarse → fine, :attr:`hiertree.LabelTree.level_sizes`.
        reduction: "sum" over levels, or "mean", as in the code of Ramzi et al. (TPAMI 2025).

    >>> import torch
    >>> from hiertree.losses import ProxyDecomposability
    >>> loss = LevelSum(lambda num_classes: ProxyDecomposability(num_classes, 4), level_sizes=(2, 3))
    >>> sorted(loss.terms(torch.eye(4), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])))
    ['level 1', 'level 2']
    """

    def __init__(self, loss: LossFactory, level_sizes: Sequence[int], *, reduction: str = "sum") -> None:
        check_choice("reduction", reduction, Literal["sum", "mean"])
        require(callable(loss), "loss", loss, "a function that makes a loss for so many classes")
        _check_level_sizes(level_sizes)
        weight = 1.0 if reduction == "sum" else 1 / len(level_sizes)
        super().__init__((_as_loss(loss(size)) for size in level_sizes), [weight] * len(level_sizes))

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The loss of each level."""
        vectors, paths, ref_vectors, ref_paths = self._checked_batch(embeddings, paths, ref_embeddings, ref_paths)
        query_paths = self._checked(paths, vectors, "paths")
        refs = None if ref_paths is None else self._checked(ref_paths, ref_vectors, "ref_paths")
        terms = {}
        for column, (name, loss) in enumerate(self._losses_of_levels().items()):
            ref_column = None if refs is None else refs.column(column)
            terms[name] = loss(vectors, query_paths.column(column), ref_vectors, ref_column, valid=valid)
        return terms


def _as_loss(module: nn.Module) -> Loss:
    return module if isinstance(module, Loss) else PytorchMetricLearning(module)


def as_pytorch_metric_learning(loss: Loss, *, class_paths: Any = None) -> MetricLearningLoss:
    """A loss of this package as one of pytorch-metric-learning: in its trainers and its wrappers.

    It is called as ``loss(embeddings, labels=None, indices_tuple=None, ref_emb=None, ref_labels=None)``. Labels may be
    (B, L) paths, and any numbers: those other than integers ≥ 0 are numbered, and have no proxies. Mined pairs or
    triplets say which candidates each query has; without labels they also say which of them are positive, for losses
    without proxies. Reducers do not act: a rank loss is the mean over queries.

    The library's ``CrossBatchMemory``, and its ``DistributedLossWrapper(efficient=True)`` without an
    ``indices_tuple``, take one label per item. Give them the finest one, and here the path of each class.

    Args:
        loss: any loss of :mod:`hiertree.losses`.
        class_paths: (C, L), the path of each label 0 … C − 1; labels are then (B,). None: labels are paths.

    >>> import torch
    >>> from hiertree.losses import SupAP
    >>> loss = as_pytorch_metric_learning(SupAP())
    >>> loss(torch.eye(3), torch.tensor([0, 0, 1]), ref_emb=torch.eye(3), ref_labels=torch.tensor([0, 0, 1])).shape
    torch.Size([])
    """
    check_loss(loss)
    require_package(LIBRARY, extra="interop")
    from .as_metric_learning import MetricLearningLoss

    return MetricLearningLoss(loss, class_paths)


def _learns_proxies(library_class: type) -> bool:
    makers = [make for base in library_class.__mro__ if inspect.isfunction(make := vars(base).get("__init__"))]
    return {"num_classes", "embedding_size"} <= {name for make in makers for name in inspect.signature(make).parameters}


def _check_level_sizes(level_sizes: Sequence[int]) -> None:
    """Refuse what are not the numbers of classes at each level."""
    check_each("level_sizes", level_sizes, check_integer, "the number of classes at each level")


def _num_classes(level_sizes: Sequence[int] | None, level: int | None) -> int | None:
    if level_sizes is None:
        return None
    _check_level_sizes(level_sizes)
    require(level is None or level <= len(level_sizes), "level", level, f"1 to {len(level_sizes)}")
    return level_sizes[-1 if level is None else level - 1]


def _all_pairs(labels: Tensor, ref_labels: Tensor | None) -> Indices:
    positive_mask = labels[:, None] == (labels if ref_labels is None else ref_labels)[None, :]
    negative_mask = ~positive_mask
    if ref_labels is None:
        positive_mask = positive_mask.fill_diagonal_(False)
    return (*positive_mask.nonzero(as_tuple=True), *negative_mask.nonzero(as_tuple=True))


def _keep_valid(indices: Indices, mask: Tensor) -> Indices:
    """The pairs, or triplets, of valid candidates."""
    if len(indices) == 3:
        anchors, positives, negatives = indices
        valid_triplets = mask[anchors, positives] & mask[anchors, negatives]
        return anchors[valid_triplets], positives[valid_triplets], negatives[valid_triplets]
    pairs = [(a[mask[a, b]], b[mask[a, b]]) for a, b in (indices[:2], indices[2:])]
    return (*pairs[0], *pairs[1])


def _own_if_unknown(labels: Tensor) -> Tensor:
    """The labels, different from each other and from those of references where they are unknown."""
    own_labels = UNKNOWN - 1 - torch.arange(len(labels), device=labels.device)
    return torch.where(labels < 0, own_labels, labels)


def _library_class(section: str, name: str) -> type:
    """The class of this name in a part of the library, or an error that names a similar one."""
    require_package(LIBRARY, extra="interop")
    module = import_module(f"{LIBRARY}.{section}")
    class_names = [class_name for class_name, value in vars(module).items() if inspect.isclass(value)]
    if name in class_names:
        matching_class: type = getattr(module, name)
        return matching_class
    similar_name = nearest_name(name, class_names, cutoff=0.5)
    remedy = f"did you mean {similar_name!r}?" if similar_name else None
    raise OptionError(repr(name), expected=f"a class of {LIBRARY}.{section}", remedy=remedy)


def _built(section: str, specification: Any, options: Mapping[str, Any]) -> nn.Module:
    """An object of a named class; an object is returned as it is."""
    if isinstance(specification, nn.Module):
        require(not options, "options", options, f"none for a {type(specification).__name__} that is already made")
        return specification
    require(
        isinstance(specification, str),
        section,
        specification,
        f"the name of a class of {LIBRARY}.{section}, or an object of one",
    )
    module_class = _library_class(section, specification)
    try:
        module: nn.Module = module_class(**options)
    except TypeError as error:
        raise OptionError(f"options {sorted(options)} of {specification}", expected=f"its options ({error})") from error
    return module
