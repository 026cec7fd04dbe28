"""Evaluate a network on the test or the validation images: embed them all and compute every metric."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.errors import OptionError, RecipeError
from hiertree.io.progress import track
from hiertree.metrics import evaluate, evaluate_codes

from ...stored_embeddings.embeddings_files import LabeledEmbeddings
from ..data.batches import batch_loader, keys_in_order
from ..data.joined_images import images_of_lists
from ..data.views import ImageViews
from ..distributed.processes import Processes
from ..learning.learner import Learner
from ..recipe.schema import Recipe
from .list_metrics import list_name, means_over_lists, metric_of_list, names_of_means

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics import Evaluation, ProtocolName


@dataclass(frozen=True)
class ListResult:
    """The evaluation of one list of queries.

    Attributes:
        arrays: embeddings, paths and names of the images, as :func:`retrieval_arrays` returns them.
        result: the metrics of each query.
    """

    arrays: Mapping[str, NDArray[Any]]
    result: Evaluation


@dataclass(frozen=True)
class SplitResult:
    """The evaluation of a split.

    Attributes:
        lists: by name: the split itself, and further lists of a benchmark that has several.
        means: over lists or levels, if the benchmark reports them.
    """

    lists: Mapping[str, ListResult]
    means: Mapping[str, float]

    def metrics(self) -> dict[str, float]:
        """The mean of each list's metrics over queries, and the means over lists or levels."""
        summaries = (found.result.summary() for found in self.lists.values())
        return dict(self.means) | {str(name): float(value) for found in summaries for name, value in found.items()}


class EvaluatedNetwork(NamedTuple):
    """What a network gives on a split.

    Attributes:
        metrics: their means, in every process.
        result: all values, in the first process; None in the others.
    """

    metrics: dict[str, float]
    result: SplitResult | None


def retrieval_arrays(dataset: ImageDataset, embeddings: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Queries, and their gallery if the split has a separate one, by the names that ``hiertree evaluate`` reads.

    Args:
        dataset: n images.
        embeddings: (n, d).
    """
    names = np.array([dataset.images.name(row) for row in range(len(dataset))], dtype=np.str_)
    if dataset.queries is None or dataset.gallery is None:
        return {"embeddings": embeddings, "paths": dataset.paths, "names": names}
    query, gallery = dataset.queries, dataset.gallery
    arrays: dict[str, NDArray[Any]] = {
        "embeddings": embeddings[query],
        "paths": dataset.paths[query],
        "gallery_embeddings": embeddings[gallery],
        "gallery_paths": dataset.paths[gallery],
        "names": names[query],
        "gallery_names": names[gallery],
    }
    if dataset.ids is not None:
        arrays |= {"ids": dataset.ids[query], "gallery_ids": dataset.ids[gallery]}
    return arrays


class SplitEvaluator:
    """Evaluates networks on a split and on the further lists of its benchmark.

    Args:
        dataset: the split.
        recipe: the experiment; without metrics of its own, those of the data set's protocol are computed.
        processes: that share the images; None for this one alone.
        select: a metric that is computed too.

    Attributes:
        names: of the metrics that will be computed.

    Raises:
        RecipeError: a metric does not exist.
    """

    def __init__(
        self,
        dataset: ImageDataset,
        recipe: Recipe,
        processes: Processes | None = None,
        *,
        select: str | None = None,
    ) -> None:
        self._lists, self._warned = (dataset, *dataset.beside), False
        self._settings, self._processes = recipe.evaluation, processes or Processes()
        self._protocol = cast("ProtocolName | None", dataset.protocol)  # evaluate refuses unknown ones
        self._metrics = self._settings.metrics
        self.names = self._checked_names()
        if select is not None and select not in self.names:
            self._compute_too(select)
        joined = images_of_lists(self._lists)
        views, self._rows = ImageViews(joined, recipe.images), joined.rows
        keys = self._processes.own_share(keys_in_order(range(len(views)), self._settings.batch_size))
        self._batches = batch_loader(views, keys, workers=recipe.images.workers)

    def evaluate(self, learner: Learner) -> EvaluatedNetwork:
        """Embed every image with the first process's network and compute every metric.

        Each process embeds its share of the images. Queries are ranked against their gallery, or each image against all
        others. The codes that a hashing loss learns are ranked by Hamming distance.
        """
        learner.copy_from_first()
        embeddings, result = self._embedded(learner), None
        with self._processes.agreeing():
            if self._processes.is_first:
                result = self._result(embeddings, codes=learner.loss.learns_codes)
                self._warn_of_few_queries(result)
        metrics = self._processes.from_first(lambda: {} if result is None else result.metrics())
        return EvaluatedNetwork(metrics, result)

    def _embedded(self, learner: Learner) -> NDArray[np.float32]:
        """The embedding of every image, in the first process."""
        batches = track(self._batches, description=f"embedding the {self._lists[0].split} split")
        embeddings: NDArray[np.float32] = self._processes.concatenated(
            learner.embed(images) for _, images in batches
        ).numpy()
        return embeddings

    def _result(self, embeddings: NDArray[np.float32], *, codes: bool) -> SplitResult:
        arrays = [retrieval_arrays(part, embeddings[rows]) for part, rows in zip(self._lists, self._rows, strict=True)]
        results = {
            list_name(part): self._evaluated(LabeledEmbeddings(**dict[str, Any](own)), codes=codes)
            for part, own in zip(self._lists, arrays, strict=True)
        }
        means = means_over_lists(results) if self._averages() else {}
        lists = {
            name: ListResult(own, replace(result, names=self._named(result.names, name)))
            for (name, result), own in zip(results.items(), arrays, strict=True)
        }
        return SplitResult(lists, means)

    def _evaluated(self, retrieval: LabeledEmbeddings, *, codes: bool) -> Evaluation:
        """Rank by cosine similarity, or codes by Hamming distance, and compute every metric."""
        ids: dict[str, Any] = {"query_ids": retrieval.ids, "gallery_ids": retrieval.gallery_ids}
        metrics, protocol = self._metrics, self._protocol
        if codes:
            return evaluate_codes(*retrieval.as_codes()[:4], **ids, metrics=metrics, protocol=protocol)
        return evaluate(*retrieval[:4], **ids, metrics=metrics, protocol=protocol, progress=True)

    def _warn_of_few_queries(self, result: SplitResult) -> None:
        """Say once which metric counts less than half of the queries of a list, and how many."""
        for name, found in {} if self._warned else result.lists.items():
            queries = len(found.result)
            metric, skipped = max(found.result.skipped.items(), key=lambda item: item[1], default=("", 0))
            if 2 * skipped > queries:
                text = f"{metric} of the {name} split counts {queries - skipped} of {queries} queries; the others"
                print(f"warning: {text} have no positive in the gallery", file=sys.stderr)
        self._warned = True

    def _averages(self) -> bool:
        """Whether the benchmark reports means over lists or levels, like DyML."""
        return self._protocol == "dyml" or len(self._lists) > 1

    def _named(self, metrics: tuple[str, ...], name: str) -> tuple[str, ...]:
        """Names of a list's metrics, with the list's name if there are several lists."""
        return metrics if len(self._lists) == 1 else tuple(metric_of_list(metric, name) for metric in metrics)

    def _compute_too(self, select: str) -> None:
        """Add a metric to those of every list."""
        names = self.names
        self._metrics = (*self._metric_names(self._lists[0]), select)
        try:
            self.names = self._checked_names()
        except RecipeError as error:
            raise RecipeError(f"select={select!r}", expected=f"one of {', '.join(names)}") from error
        if select not in self.names:
            raise RecipeError(f"select={select!r}", expected=f"one of {', '.join(self.names)}")

    def _checked_names(self) -> tuple[str, ...]:
        """Evaluate two points of each list now, so that a misspelled metric is noticed before the first epoch."""
        try:
            found = [self._named(self._metric_names(part), list_name(part)) for part in self._lists]
        except OptionError as error:
            raise RecipeError(f"evaluation.metrics: {error}") from error
        own = tuple(chain.from_iterable(found))
        return (*names_of_means(own), *own) if self._averages() else own

    def _metric_names(self, part: ImageDataset) -> tuple[str, ...]:
        """The metrics that will be computed on a list."""
        vectors, paths = np.eye(2), part.paths[:2]
        separate = part.gallery is not None
        return evaluate(
            vectors,
            paths,
            vectors if separate else None,
            paths if separate else None,
            query_ids=["a", "b"] if separate else None,
            gallery_ids=["c", "d"] if separate else None,
            metrics=self._metrics,
            protocol=self._protocol,
        ).names
