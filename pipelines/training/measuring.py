"""How good the network is on a split: embeddings of all its images, and every metric on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.errors import OptionError, RecipeError
from hiertree.metrics import evaluate, evaluate_codes
from hiertree.pipelines.retrieval_files import Retrieval
from hiertree.pipelines.training.data import Views, evaluation_keys, loader_of
from hiertree.pipelines.training.learner import Learner
from hiertree.pipelines.training.processes import Processes
from hiertree.pipelines.training.recipe import Recipe
from hiertree.progress import track

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics import Evaluation, ProtocolName


@dataclass(frozen=True)
class Measured:
    """What was measured, as :func:`retrieval_arrays` has it, and the metrics of each query."""

    arrays: Mapping[str, NDArray[Any]]
    result: Evaluation

    def metrics(self) -> dict[str, float]:
        """The mean of each metric over the queries that have it."""
        return {str(name): float(value) for name, value in self.result.summary().items()}


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
    """The test split, ready to be measured as often as wanted.

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
        self.dataset, self._settings, self._processes = dataset, recipe.evaluation, processes or Processes()
        self._protocol = cast("ProtocolName | None", dataset.protocol)  # evaluate refuses one that does not exist
        self._refuse_unknown_metrics()
        views = Views(dataset, recipe.images)
        keys = self._processes.dealt(evaluation_keys(len(views), self._settings.batch_size))
        self._batches = loader_of(views, keys, workers=recipe.images.workers, pin_memory=False)

    def measure(self, learner: Learner) -> Measured | None:
        """Embed every image, compute every metric: of the queries in their gallery, or of each image in the others.

        The first process computes the metrics; the others wait, and get None. What a hashing loss has taught to be
        codes is ranked by Hamming distance.
        """
        batches = track(self._batches, description="embedding the test split")
        embeddings = self._processes.joined(learner.embed(images) for _, images in batches).numpy()
        with self._processes.agreeing():
            if not self._processes.is_first:
                return None
            arrays = retrieval_arrays(self.dataset, embeddings)
            retrieval = Retrieval(**dict[str, Any](arrays))
            return Measured(arrays, self._evaluated(retrieval, codes=learner.loss.learns_codes))

    def _evaluated(self, retrieval: Retrieval, *, codes: bool) -> Evaluation:
        """Every metric, of embeddings by their cosines or of the codes that they are by Hamming distances."""
        ids: dict[str, Any] = {"query_ids": retrieval.ids, "gallery_ids": retrieval.gallery_ids}
        metrics, protocol = self._settings.metrics, self._protocol
        if codes:
            return evaluate_codes(*retrieval.as_codes()[:4], **ids, metrics=metrics, protocol=protocol)
        return evaluate(*retrieval[:4], **ids, metrics=metrics, protocol=protocol, progress=True)

    def _refuse_unknown_metrics(self) -> None:
        """Measure two points, so that a misspelt name does not come to light after the first epochs."""
        try:
            self.names = self._metric_names()
        except OptionError as error:
            raise RecipeError(f"evaluation.metrics: {error}") from error
        if self._settings.select not in self.names:
            raise RecipeError(
                f"evaluation.select={self._settings.select!r}", expected=f"one of {', '.join(self.names)}"
            )

    def _metric_names(self) -> tuple[str, ...]:
        """The metrics that will be computed."""
        vectors, paths = np.eye(2), self.dataset.paths[:2]
        separate = self.dataset.gallery is not None
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
