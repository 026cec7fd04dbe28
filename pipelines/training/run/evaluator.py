"""Evaluate a network on the test split: embed all its images and compute every metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.errors import OptionError, RecipeError
from hiertree.io.progress import track
from hiertree.metrics import evaluate, evaluate_codes

from ...evaluation.labeled_embeddings import LabeledEmbeddings
from ..data.batches import batch_loader, keys_in_order
from ..data.joined_images import images_of_lists
from ..data.views import ImageViews
from ..distributed.processes import Processes
from ..recipe.schema import Recipe
from .learner import Learner
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
    """The evaluation of a test split.

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


class TestEvaluator:
    """Evaluates networks on a test split and on the further lists of its benchmark.

    Args:
        dataset: the split.
        recipe: the experiment; without metrics of its own, those of the data set's protocol are computed.
        processes: that share the images; None for this one alone.

    Attributes:
        names: of the metrics that will be computed.

    Raises:
        RecipeError: a metric does not exist, or ``evaluation.select`` is not among those computed.
    """

    __test__ = False  # pytest collects classes named Test… otherwise

    def __init__(self, dataset: ImageDataset, recipe: Recipe, processes: Processes | None = None) -> None:
        self._lists = (dataset, *dataset.beside)
        self._settings, self._processes = recipe.evaluation, processes or Processes()
        self._protocol = cast("ProtocolName | None", dataset.protocol)  # evaluate refuses unknown ones
        self._refuse_unknown_metrics()
        joined = images_of_lists(self._lists)
        views, self._rows = ImageViews(joined, recipe.images), joined.rows
        keys = self._processes.own_share(keys_in_order(range(len(views)), self._settings.batch_size))
        self._batches = batch_loader(views, keys, workers=recipe.images.workers)

    def evaluate(self, learner: Learner) -> SplitResult | None:
        """Embed every image and compute every metric.

        Queries are ranked against their gallery, or each image against all others. The codes that a hashing loss learns
        are ranked by Hamming distance.

        Returns:
            The result in the first process, None in the others.
        """
        embeddings = self._embedded(learner)
        with self._processes.agreeing():
            return self._result(embeddings, codes=learner.loss.learns_codes) if self._processes.is_first else None

    def _embedded(self, learner: Learner) -> NDArray[np.float32]:
        """The embedding of every image, in the first process."""
        batches = track(self._batches, description="embedding the test split")
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
        metrics, protocol = self._settings.metrics, self._protocol
        if codes:
            return evaluate_codes(*retrieval.as_codes()[:4], **ids, metrics=metrics, protocol=protocol)
        return evaluate(*retrieval[:4], **ids, metrics=metrics, protocol=protocol, progress=True)

    def _averages(self) -> bool:
        """Whether the benchmark reports means over lists or levels, like DyML."""
        return self._protocol == "dyml" or len(self._lists) > 1

    def _named(self, metrics: tuple[str, ...], name: str) -> tuple[str, ...]:
        """Names of a list's metrics, with the list's name if there are several lists."""
        return metrics if len(self._lists) == 1 else tuple(metric_of_list(metric, name) for metric in metrics)

    def _refuse_unknown_metrics(self) -> None:
        """Evaluate two points of each list now, so that a misspelled metric is noticed before the first epoch."""
        try:
            found = [self._named(self._metric_names(part), list_name(part)) for part in self._lists]
        except OptionError as error:
            raise RecipeError(f"evaluation.metrics: {error}") from error
        own = tuple(chain.from_iterable(found))
        self.names = (*names_of_means(own), *own) if self._averages() else own
        if self._settings.select not in self.names:
            raise RecipeError(
                f"evaluation.select={self._settings.select!r}", expected=f"one of {', '.join(self.names)}"
            )

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
            metrics=self._settings.metrics,
            protocol=self._protocol,
        ).names
