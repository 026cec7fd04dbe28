"""How good the network is on a split: embeddings of all its images, and every metric on them."""

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
from ..data.loading import Views, evaluation_keys, loader_of
from ..data.tested_lists import averaged, list_name, means_of, named, pictures_of
from ..distributed.processes import Processes
from ..recipe.schema import Recipe
from .learner import Learner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics import Evaluation, ProtocolName


@dataclass(frozen=True)
class MeasuredList:
    """One list of queries: what was measured, as :func:`retrieval_arrays` has it, and the metrics of each query."""

    arrays: Mapping[str, NDArray[Any]]
    result: Evaluation


@dataclass(frozen=True)
class Measured:
    """A test split, measured.

    Attributes:
        lists: by name: the split, and those that stand beside it.
        means: over lists or levels, where the benchmark reports them.
    """

    lists: Mapping[str, MeasuredList]
    means: Mapping[str, float]

    def metrics(self) -> dict[str, float]:
        """The means over lists or levels, and of each metric of a list over the queries that have it."""
        summaries = (found.result.summary() for found in self.lists.values())
        return dict(self.means) | {str(name): float(value) for found in summaries for name, value in found.items()}


def retrieval_arrays(dataset: ImageDataset, embeddings: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Queries and, where the split has one of its own, their gallery, by the names that ``hiertree evaluate`` reads.

    Args:
        dataset: n images.
        embeddings: (n, d).
    """
    if dataset.queries is None or dataset.gallery is None:
        return {"embeddings": embeddings, "paths": dataset.paths}
    query, gallery = dataset.queries, dataset.gallery
    arrays: dict[str, NDArray[Any]] = {
        "embeddings": embeddings[query],
        "paths": dataset.paths[query],
        "gallery_embeddings": embeddings[gallery],
        "gallery_paths": dataset.paths[gallery],
    }
    if dataset.ids is not None:
        arrays |= {"ids": dataset.ids[query], "gallery_ids": dataset.ids[gallery]}
    return arrays


class Examination:
    """The test split, ready to be measured as often as wanted, with the lists that stand beside it.

    Args:
        dataset: the split.
        recipe: the experiment. Metrics and rules are those of the data set's protocol unless it names its own.
        processes: among which the images are divided; None: this one alone.

    Attributes:
        names: the metrics that will be computed.

    Raises:
        RecipeError: a metric that does not exist, or that is not among those computed.
    """

    def __init__(self, dataset: ImageDataset, recipe: Recipe, processes: Processes | None = None) -> None:
        self._lists = (dataset, *dataset.beside)
        self._settings, self._processes = recipe.evaluation, processes or Processes()
        self._protocol = cast("ProtocolName | None", dataset.protocol)  # evaluate refuses one that does not exist
        self._refuse_unknown_metrics()
        pictures = pictures_of(self._lists)
        views, self._rows = Views(pictures, recipe.images), pictures.rows
        keys = self._processes.dealt(evaluation_keys(len(views), self._settings.batch_size))
        self._batches = loader_of(views, keys, workers=recipe.images.workers, pin_memory=False)

    def measure(self, learner: Learner) -> Measured | None:
        """Embed every image, compute every metric: of the queries in their gallery, or of each image in the others.

        The first process computes the metrics while the others wait for None. What a hashing loss has taught to be
        codes is ranked by Hamming distance.
        """
        embeddings = self._embedded(learner)
        with self._processes.agreeing():
            return self._measured(embeddings, codes=learner.loss.learns_codes) if self._processes.is_first else None

    def _embedded(self, learner: Learner) -> NDArray[np.float32]:
        """Every image once, in the first process."""
        batches = track(self._batches, description="embedding the test split")
        embeddings: NDArray[np.float32] = self._processes.joined(learner.embed(images) for _, images in batches).numpy()
        return embeddings

    def _measured(self, embeddings: NDArray[np.float32], *, codes: bool) -> Measured:
        arrays = [retrieval_arrays(part, embeddings[rows]) for part, rows in zip(self._lists, self._rows, strict=True)]
        results = {
            list_name(part): self._evaluated(LabeledEmbeddings(**dict[str, Any](own)), codes=codes)
            for part, own in zip(self._lists, arrays, strict=True)
        }
        means = means_of(results) if self._averages() else {}
        lists = {
            name: MeasuredList(own, replace(result, names=self._named(result.names, name)))
            for (name, result), own in zip(results.items(), arrays, strict=True)
        }
        return Measured(lists, means)

    def _evaluated(self, retrieval: LabeledEmbeddings, *, codes: bool) -> Evaluation:
        """Every metric, of embeddings by their cosines or of the codes that they are by Hamming distances."""
        ids: dict[str, Any] = {"query_ids": retrieval.ids, "gallery_ids": retrieval.gallery_ids}
        metrics, protocol = self._settings.metrics, self._protocol
        if codes:
            return evaluate_codes(*retrieval.as_codes()[:4], **ids, metrics=metrics, protocol=protocol)
        return evaluate(*retrieval[:4], **ids, metrics=metrics, protocol=protocol, progress=True)

    def _averages(self) -> bool:
        """Whether the benchmark reports means over lists or levels, as DyML does."""
        return self._protocol == "dyml" or len(self._lists) > 1

    def _named(self, metrics: tuple[str, ...], name: str) -> tuple[str, ...]:
        """Names of a list's metrics: with its own, where there are several."""
        return metrics if len(self._lists) == 1 else tuple(named(metric, name) for metric in metrics)

    def _refuse_unknown_metrics(self) -> None:
        """Measure two points of each list, so that a misspelt name does not come to light after the first epochs."""
        try:
            found = [self._named(self._metric_names(part), list_name(part)) for part in self._lists]
        except OptionError as error:
            raise RecipeError(f"evaluation.metrics: {error}") from error
        own = tuple(chain.from_iterable(found))
        self.names = (*averaged(own), *own) if self._averages() else own
        if self._settings.select not in self.names:
            raise RecipeError(
                f"evaluation.select={self._settings.select!r}", expected=f"one of {', '.join(self.names)}"
            )

    def _metric_names(self, part: ImageDataset) -> tuple[str, ...]:
        """The metrics that will be computed of a list."""
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
