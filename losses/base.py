"""The base classes of all losses: a weighted sum of named terms, and a mean over queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hiertree.errors import OptionError, ShapeError
from hiertree.options import check_integer

from .pairs.blocks import LossPerQuery, compute_in_blocks, compute_in_chunks
from .pairs.inputs import (
    CheckedEmbeddings,
    CheckedPaths,
    RowGrades,
    check_references,
    checked_batch,
    checked_paths,
    float_vectors,
)
from .pairs.pairs import ScoredPairs, VectorPairs, pairs_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

DEFAULTS = {
    "level": "finest",
    "num_bins": "bits",
    "sampled_classes": "all",
    "margin": "bits / 2",
    "slope": "10 / bits",
    "positive_weight": "balanced",
}
"""What None stands for."""


def check_loss(loss: object) -> None:
    """Refuse an object that is not a loss of hiertree."""
    if not isinstance(loss, Loss):
        raise OptionError(
            f"loss={loss!r}",
            expected="a loss of hiertree.losses",
            remedy="wrap a loss of pytorch-metric-learning: PytorchMetricLearning(loss)",
        )


class Loss(nn.Module):
    """A weighted sum of named terms.

    ``loss(embeddings, paths)`` is Σ weights[name]·terms[name]. To log the parts without computing them twice, call
    ``terms = loss.terms(embeddings, paths)``, then ``loss.total(terms)``.
    """

    weights: Mapping[str, float]
    """The weight of each term, by name."""
    average: Callable[[LossPerQuery], Tensor] = staticmethod(LossPerQuery.mean)
    """From the loss of each query to one number."""
    include_self: bool = False
    """Whether a query is its own candidate."""
    is_mean_over_queries: bool = True
    """Whether each term is a mean over queries, each of which depends on its own comparisons only."""
    _shown: tuple[str, ...] = ()  # options shown by print(loss)
    _num_skipped: Tensor | int = 0  # a tensor after a batch: only reading it waits for the device
    _epoch: int = 0
    _compares_codes: bool = False
    _compares_pairs: bool = False  # and nothing else, such as proxies of classes
    _grades: RowGrades | None = None

    if TYPE_CHECKING:  # as forward; torch promises Any, and a tensor for every name that does not exist

        def __call__(
            self,
            embeddings: Any,
            paths: Any,
            ref_embeddings: Any = None,
            ref_paths: Any = None,
            *,
            valid: Any = None,
            indices_tuple: None = None,
        ) -> Tensor:
            """The loss of a batch."""

        __getattr__: None  # type: ignore[assignment,misc]

    def __init__(self) -> None:
        super().__init__()

    @property
    def last_num_skipped(self) -> int:
        """Queries of the last batch without a positive; they were left out of the mean over queries."""
        return int(self._num_skipped)

    @property
    def learns_codes(self) -> bool:
        """Whether the loss trains binary codes, the signs of embeddings, ranked by Hamming distance."""
        return any(inner._compares_codes for inner in self.with_parts())

    def compare_rows(self, grades: Callable[..., NDArray[np.uint8]], highest: int) -> Self:
        """From now on take paths for rows of a data set, whose pairs are graded: a grade is the level of a pair.

        Args:
            grades: (B,) and (M,) rows → (B, M) grades from 0 to ``highest``, 0 meaning irrelevant, such as
                :meth:`hiertree.datasets.GradedDataset.grades`.
            highest: the highest of them, the finest level. AP of what has any grade is that of ``level=1``.

        Raises:
            OptionError: a part of the loss compares with more than other images.

        >>> import torch
        >>> from hiertree.losses import SupAP
        >>> shares_parity = lambda queries, items: (queries[:, None] + items) % 2 == 0
        >>> loss = SupAP(level=1).compare_rows(shares_parity, 1)
        >>> float(loss(torch.eye(3), torch.arange(3))) == float(SupAP()(torch.eye(3), torch.tensor([0, 1, 0])))
        True
        """
        check_integer("highest", highest)
        for inner in self.with_parts():
            if len(inner.with_parts()) == 1 and not inner._compares_pairs:
                problem = f"{next(iter(inner.weights), type(inner).__name__)} of images whose pairs are graded"
                raise OptionError(
                    problem, expected="a loss that compares pairs of images, such as TieAwareNDCG or SupAP"
                )
            inner._grades = RowGrades(grades, highest)
        return self

    def start_epoch(self, epoch: int) -> None:
        """Begin an epoch, counted from 0: some losses have options that change with epochs."""
        for inner in self.with_parts():
            inner._epoch = epoch

    def with_parts(self) -> list[Loss]:
        """This loss and all losses inside it."""
        return [inner for inner in self.modules() if isinstance(inner, Loss)]

    def _check_parameters(self) -> None:
        """Refuse parameters from which no loss can be computed."""

    def _checked_batch(self, embeddings: Any, *others: Any) -> tuple[Any, Any, Any, Any]:
        """What the loss is called with, and its parameters, checked once for all of its parts."""
        batch = checked_batch(embeddings, *others)
        if not isinstance(embeddings, CheckedEmbeddings):
            for inner in self.with_parts():
                inner._check_parameters()
        return batch

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The terms, not yet weighted: scalars with their graph."""
        raise NotImplementedError

    def total(self, terms: Mapping[str, Tensor]) -> Tensor:
        """The weighted sum of the terms."""
        return torch.stack([self.weights[name] * value for name, value in terms.items()]).sum()

    def forward(
        self,
        embeddings: Any,
        paths: Any,
        ref_embeddings: Any = None,
        ref_paths: Any = None,
        *,
        valid: Any = None,
        indices_tuple: None = None,
    ) -> Tensor:
        """The loss of a batch.

        torch.compile breaks its graph here, once: a loss looks at its inputs, and is evaluated as without it.

        Args:
            embeddings: (B, d) float tensor. Rank losses and proxies normalize it inside, in float32 or better;
                losses of codes, hyperbolic ones and those of another library treat it in their own way.
            paths: (B, L) integers, coarse → fine; (B,) labels mean L = 1.
            ref_embeddings: (M, d) candidates to rank instead of the batch itself.
            ref_paths: (M, L) or (M,), with ``ref_embeddings``.
            valid: booleans that broadcast to (B, M); False where an item is no candidate of a query. (B, 1) says which
                items of the batch are queries.
            indices_tuple: refused: :func:`as_pytorch_metric_learning` makes a loss that takes the pairs of a miner.

        Returns:
            Scalar, differentiable.
        """
        evaluate: Any = self._value
        if torch.compiler.is_compiling():
            disable: Any = torch.compiler.disable  # torch has no type for it
            evaluate = disable(evaluate)
        value: Tensor = evaluate(embeddings, paths, ref_embeddings, ref_paths, valid, indices_tuple)
        return value

    def _value(
        self, embeddings: Any, paths: Any, ref_embeddings: Any, ref_paths: Any, valid: Any, indices_tuple: None
    ) -> Tensor:
        check_references(ref_embeddings, ref_paths, indices_tuple)
        return self.total(self.terms(embeddings, paths, ref_embeddings, ref_paths, valid=valid))

    def extra_repr(self) -> str:
        """The options, for ``print(loss)``."""
        values = {name: getattr(self, name) for name in self._shown}
        return ", ".join(
            f"{name}={DEFAULTS.get(name) if value is None else repr(value)}" for name, value in values.items()
        )

    def _mean(self, losses: LossPerQuery) -> Tensor:
        """The mean over the queries that have a loss; the others are counted."""
        self._num_skipped = (~losses.counted).sum()
        return self.average(losses)


class PairLoss(Loss):
    """A loss with one term: a mean over queries of a function of their pairs."""

    _compares_pairs = True
    _needs_all_scores = False  # at once, which takes the memory of the whole matrix

    def __init__(self, *, include_self: bool, level: int | None = None) -> None:
        super().__init__()
        check_integer("level", level, or_none=True)
        self.include_self, self.level = include_self, level
        self.weights = {type(self).__name__: 1.0}

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The one term, under the name of the class."""
        pairs = self.pairs_of(embeddings, paths, ref_embeddings, ref_paths, valid=valid)._replace(grades=self._grades)
        if self._needs_all_scores:
            return {type(self).__name__: self.of_scores(pairs.compared())}
        return {type(self).__name__: self._mean(compute_in_chunks(self.query_losses, pairs))}

    def pairs_of(self, embeddings: Any, paths: Any, ref_embeddings: Any, ref_paths: Any, *, valid: Any) -> VectorPairs:
        """The pairs that the loss compares."""
        return pairs_of(embeddings, paths, ref_embeddings, ref_paths, valid=valid, include_self=self.include_self)

    def of_scores(self, pairs: ScoredPairs) -> Tensor:
        """The mean over the queries that have a positive; the others are counted."""
        return self._mean(self.losses_of(pairs))

    def losses_of(self, pairs: ScoredPairs) -> LossPerQuery:
        """The loss of each query."""
        return compute_in_blocks(self.query_losses, pairs)

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """The loss of each of some queries."""
        raise NotImplementedError


class LevelLosses(Loss):
    """A loss for each level; its term is called ``level l``."""

    def __init__(self, losses: Iterable[Loss], weights: Iterable[float]) -> None:
        super().__init__()
        self.losses = nn.ModuleList(losses)
        self.weights = {f"level {level}": weight for level, weight in enumerate(weights, 1)}

    @property
    def last_num_skipped(self) -> int:
        """Queries of the last batch without a positive, counted anew at each level."""
        return sum(loss.last_num_skipped for loss in self._losses_of_levels().values())

    def _losses_of_levels(self) -> dict[str, Loss]:
        losses: Any = self.losses
        return dict(zip(self.weights, losses, strict=True))

    def _checked(self, paths: Any, embeddings: Any, name: str) -> CheckedPaths:
        """Paths that have as many levels as there are losses."""
        level_paths = checked_paths(paths, float_vectors(embeddings), name=name)
        num_levels = level_paths.tensor.shape[1]
        if num_levels != len(self.losses):
            raise ShapeError(f"{name} of {num_levels} levels", expected=f"{len(self.losses)}, as the loss is made for")
        return level_paths
