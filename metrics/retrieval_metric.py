"""Metrics that gather embeddings batch by batch, across processes too, as torchmetrics do.

A batch alone has no ranking: what is gathered is the embeddings and paths, and ``compute`` evaluates them all.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat
from torchmetrics.utilities.distributed import gather_all_tensors
from torchmetrics.wrappers import BootStrapper

from hiertree.arrays import MAX_LEVELS, refuse_containers, to_numpy
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.evaluation_options import Compat, Conventions, ProtocolName, Relevance, Rules, Ties

from .conventions import improves_downward, parse_metrics
from .evaluation.embeddings import evaluate
from .result import Evaluation

_NONE = -1
_FRAMES = 5  # between this update, which torchmetrics wraps, and that of BootStrapper
_STATES = ("embeddings", "paths", "in_gallery", "ids", "groups")


class RetrievalMetric(Metric):
    """Any metrics of a retrieval as one torchmetrics metric: one ranking of all gathered items gives them all.

    Args:
        metrics: a name, of which ``compute`` returns the mean; or several, or None for the default ones, of which it
            returns a dictionary. See :mod:`hiertree.metrics`.
        alpha: as :func:`hiertree.metrics.evaluate` takes it, as are the next ones.
        relevance: likewise, but no table.
        ties: likewise.
        protocol: likewise.
        compat: likewise.
        options: of torchmetrics' ``Metric``, such as ``compute_on_cpu`` and ``sync_on_compute``.

    Raises:
        OptionError: an unknown metric, or an option outside its range.

    >>> metric = RetrievalMetric(["H-AP", "R@1"])
    >>> metric.update(torch.tensor([[1.0, 0.0], [0.6, 0.8]]), torch.tensor([[0, 0], [0, 0]]))
    >>> metric.update(torch.tensor([[0.0, 1.0]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    {'H-AP': tensor(0.9444), 'R@1': tensor(0.5000)}
    """

    is_differentiable = False
    full_state_update = False
    plot_lower_bound = 0.0

    embeddings: list[torch.Tensor]
    paths: list[torch.Tensor]
    in_gallery: list[torch.Tensor]
    ids: list[torch.Tensor]
    groups: list[torch.Tensor]

    def __init__(
        self,
        metrics: str | Iterable[str] | None = None,
        *,
        alpha: float = Conventions.alpha,
        relevance: Relevance = Conventions.relevance,
        ties: Ties = Conventions.ties,
        protocol: ProtocolName | None = Conventions.protocol,
        compat: Compat | Rules | None = Conventions.compat,
        **options: Any,
    ) -> None:
        try:
            super().__init__(**{"dist_sync_fn": _gather, **options})
        except ValueError as error:
            raise OptionError(f"options {sorted(options)}", expected=f"options of torchmetrics ({error})") from error
        names = (metrics,) if isinstance(metrics, str) else None if metrics is None else tuple(metrics)
        conventions: dict[str, Any] = {"alpha": alpha, "relevance": relevance, "ties": ties}
        conventions |= {"protocol": protocol, "compat": compat}
        Conventions(**conventions)  # wrong options fail here
        if names is not None:
            parse_metrics(names, num_levels=MAX_LEVELS)
        self.names, self.is_one, self.options = names, isinstance(metrics, str), conventions
        self._result: Evaluation | None = None
        for state in _STATES:
            self.add_state(state, default=[], dist_reduce_fx="cat")

    def _is_higher_better(self) -> bool | None:
        """Whether a larger value is better: not of HD@k and mistake-severity; None where the metrics differ."""
        depth = self.paths[-1].shape[-1] if len(self.paths) else MAX_LEVELS
        directions = {not improves_downward(name, num_levels=depth) for name in self.names or ("H-AP",)}
        return directions.pop() if len(directions) == 1 else None

    def _upper_bound(self) -> float | None:
        """The largest value of metrics that have one for any tree."""
        return 1.0 if self.higher_is_better else None

    higher_is_better: Any = property(_is_higher_better)
    plot_upper_bound: Any = property(_upper_bound)

    def update(
        self,
        embeddings: torch.Tensor,
        paths: Any,
        *,
        gallery: bool | torch.Tensor = False,
        ids: Any = None,
        groups: Any = None,
        indexes: Any = None,
    ) -> None:
        """Add a batch.

        Args:
            embeddings: (n, d); a batch without items adds nothing.
            paths: (n, L) label ids, coarse → fine, on any device; (n,) means L = 1.
            gallery: whether the batch belongs to a separate gallery, or (n,) booleans. Once an item does, the others
                are queries only; without any, all items retrieve each other.
            ids: (n,) integers ≥ 0, one per item. Of the queries, and of the gallery items, of one id only one counts: a
                distributed sampler repeats some so that every process has as many, and a repeated item would be an easy
                positive.
            groups: (n,) integers ≥ 0, in every batch or in none; items of a query's own group are left out of its list,
                as ``query_ids`` and ``gallery_ids`` of :func:`hiertree.metrics.evaluate` say it.
            indexes: None: torchmetrics' retrieval metrics take scores of pairs with it.

        Raises:
            ShapeError: arrays that do not fit together, or to the batches before.
            EmbeddingError: embeddings that are not a tensor.
            PathError: labels, ids or groups that are not integers, or negative ids or groups.
            OptionError: ``indexes``, or a batch that torchmetrics' ``BootStrapper`` drew.
        """
        if indexes is not None:
            remedy = "pass embeddings and label paths, or scores and levels to hiertree.metrics.evaluate_scores"
            raise OptionError("indexes, which number the queries of scored pairs", expected="no indexes", remedy=remedy)
        _refuse_resampling()
        refuse_containers(embeddings, "embeddings")
        if not isinstance(embeddings, torch.Tensor):
            raise EmbeddingError(
                f"embeddings as a {type(embeddings).__name__}",
                expected="a tensor",
                remedy="wrap them in torch.as_tensor",
            )
        device, num_items = embeddings.device, len(embeddings)
        labels = _labels(paths, device)
        in_gallery = torch.as_tensor(gallery, dtype=torch.bool, device=device).expand(
            num_items if np.ndim(gallery) == 0 else -1
        )
        if embeddings.ndim == 2 and num_items == 0 and labels.numel() == 0:
            return  # as the last batch of a process may be
        item_ids, item_groups = _integers(ids, "ids", embeddings), _integers(groups, "groups", embeddings)
        batch = embeddings.detach(), labels.detach(), in_gallery, item_ids, item_groups
        if embeddings.ndim != 2 or labels.ndim != 2 or any(len(values) != num_items for values in batch):
            problem = (
                f"embeddings {tuple(embeddings.shape)}, paths {tuple(labels.shape)}, {len(in_gallery)} of gallery=, "
            )
            problem += f"{len(item_ids)} ids, {len(item_groups)} groups"
            raise ShapeError(problem, expected="(n, d), (n, L) and n")
        for state, values in zip(_STATES, batch, strict=True):
            earlier_parts = getattr(self, state)
            if values.ndim == 2 and len(earlier_parts) and earlier_parts[-1].shape[-1] != values.shape[1]:
                problem = f"{state} of width {values.shape[1]}"
                raise ShapeError(problem, expected=f"{earlier_parts[-1].shape[-1]}, as in earlier batches")
        for state, values in zip(_STATES, batch, strict=True):
            getattr(self, state).append(values)

    def compute(self) -> torch.Tensor | dict[str, torch.Tensor]:
        """Means over the queries, float32 scalars; NaN, with a warning, where no query has a positive."""
        result = self._result = self._evaluated()
        means = result.summary()
        undefined_metrics = [name for name in result.names if name not in means]
        if undefined_metrics:
            text = f"{', '.join(undefined_metrics)}: no query has a positive among the gathered items"
            warnings.warn(text, UserWarning, stacklevel=2)
        values = {name: torch.tensor(float(means.get(name, np.nan)), device=self.device) for name in result.names}
        return values[result.names[0]] if self.is_one else values

    def evaluation(self) -> Evaluation:
        """Everything about the items of all processes: values by query, skipped ones, the convention card.

        Raises:
            ShapeError: no batch has been added.
        """
        if self._result is None or self._computed is None:
            self._computed = None
            self.compute()
        assert self._result is not None
        return self._result

    def reset(self) -> None:
        """Forget all items."""
        super().reset()
        self._result = None

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """A figure and axes of one value of ``compute``, the current one unless given, or of several over time."""
        return self._plot(val, ax)

    def _refuse_copies(self, embeddings: NDArray[Any], ids: NDArray[np.int64]) -> None:
        """Refuse items that all processes hold, as after ``gather_for_metrics``: copies would be positives."""
        num_processes = torch.distributed.get_world_size(self.process_group) if self._is_synced else 1
        if num_processes > 1 and len(embeddings) % num_processes == 0 and (ids == _NONE).all():
            first, *others = np.split(embeddings, num_processes)
            if all(np.array_equal(first, other) for other in others):
                remedy = "update before gather_for_metrics, or pass ids= or sync_on_compute=False"
                raise OptionError("the same items in every process", expected="its own items in each", remedy=remedy)

    def _evaluated(self) -> Evaluation:
        if len(self.embeddings) == 0:
            raise ShapeError(f"{type(self).__name__} without items", expected="update before compute")
        embeddings, paths, in_gallery, ids, groups = (to_numpy(dim_zero_cat(getattr(self, state))) for state in _STATES)
        self._refuse_copies(embeddings, ids)
        keys = np.stack([in_gallery.astype(np.int64), np.where(ids == _NONE, -1 - np.arange(len(ids)), ids)])
        _, first, item_of_row = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        has_other_path = (paths[first[item_of_row.reshape(-1)]] != paths).any(axis=1)
        if has_other_path.any():
            problem = f"id {ids[has_other_path.argmax()]} with two paths"
            raise PathError(problem, expected="one item per id", remedy="number the items, not their classes")
        unique_rows = np.sort(first)
        embeddings, paths, gallery_rows, groups = (
            embeddings[unique_rows],
            paths[unique_rows],
            in_gallery[unique_rows].astype(bool),
            groups[unique_rows],
        )
        if (groups == _NONE).any() != (groups == _NONE).all():
            raise PathError("groups in some batches only", expected="groups in every batch, or in none")
        options, self_retrieval = {**self.options, "metrics": self.names}, not gallery_rows.any()
        if (groups != _NONE).any():
            options |= {
                "query_ids": groups[~gallery_rows],
                "gallery_ids": None if self_retrieval else groups[gallery_rows],
            }
        gallery, gallery_paths = (None, None) if self_retrieval else (embeddings[gallery_rows], paths[gallery_rows])
        return evaluate(embeddings[~gallery_rows], paths[~gallery_rows], gallery, gallery_paths, **options)


def _refuse_resampling() -> None:
    """Refuse an update by BootStrapper: an item that it draws twice would be its own positive."""
    frame = inspect.currentframe()
    for _ in range(_FRAMES):
        frame = frame and frame.f_back
        if frame and isinstance(frame.f_locals.get("self"), BootStrapper):
            remedy = "call confidence_interval() of its evaluation(), which draws queries"
            raise OptionError("RetrievalMetric in a BootStrapper", expected="each item once", remedy=remedy)


def _labels(paths: Any, device: torch.device) -> torch.Tensor:
    """Ids as a tensor."""
    try:
        labels = torch.as_tensor(paths, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        problem = f"paths of type {type(paths).__name__} ({error})"
        remedy = "number all labels at once with hiertree.arrays.as_paths or LabelTree.paths"
        raise PathError(problem, expected="integer ids, coarse → fine", remedy=remedy) from None
    if labels.numel() and (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool):
        raise PathError(f"paths of type {labels.dtype}", expected="integer ids, coarse → fine")
    return (labels[:, None] if labels.ndim == 1 else labels).to(torch.int64)


def _integers(values: Any, name: str, embeddings: torch.Tensor) -> torch.Tensor:
    """(n,) int64, −1 where none are given."""
    if values is None:
        return torch.full((len(embeddings),), _NONE, device=embeddings.device)
    try:
        integers = torch.as_tensor(values, device=embeddings.device)
    except (TypeError, ValueError, RuntimeError) as error:
        remedy = "number the names of the whole data set once, as by pandas.factorize, and pass each item's number"
        problem = f"{name} of type {type(values).__name__} ({error})"
        raise PathError(problem, expected="integers ≥ 0", remedy=remedy) from None
    if integers.is_floating_point() or integers.dtype == torch.bool or bool((integers < 0).any()):
        raise PathError(f"negative or non-integer {name}", expected="integers ≥ 0")
    return integers.detach().reshape(-1).to(torch.int64)


def _gather(values: torch.Tensor, group: Any = None) -> list[torch.Tensor]:
    """Gather as torchmetrics does, also if a process has no items and so knows neither width nor type."""
    shapes: list[Any] = [None] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(shapes, (tuple(values.shape), values.dtype), group)
    shape, dtype = max(shapes, key=lambda each: len(each[0]) * (each[0] != (0,)))
    if values.shape == (0,):
        values = torch.empty((0, *shape[1:]), dtype=dtype, device=values.device)
    return gather_all_tensors(values, group)
