"""How good the network is on a split: embeddings of all its images, and every metric on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from hiertree.datasets import ImageDataset
from hiertree.errors import OptionError, RecipeError
from hiertree.metrics import evaluate
from hiertree.pipelines.training.data import Views, evaluation_keys, loader_of
from hiertree.pipelines.training.learner import Learner
from hiertree.pipelines.training.recipe import Recipe
from hiertree.progress import track

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics import Evaluation


@dataclass(frozen=True)
class Measured:
    """Embeddings (n, d) float32 and paths (n, L) int32 of the whole split, and the metrics of each query."""

    embeddings: NDArray[np.float32]
    paths: NDArray[np.int32]
    result: Evaluation

    def metrics(self) -> dict[str, float]:
        """The mean of each metric over the queries that have it."""
        return {str(name): float(value) for name, value in self.result.summary().items()}


class Examination:
    """The test split, ready to be measured as often as wanted.

    Args:
        dataset: the split.
        recipe: the experiment.

    Raises:
        RecipeError: a metric that does not exist, or that is not among those computed.
    """

    def __init__(self, dataset: ImageDataset, recipe: Recipe) -> None:
        self.dataset, self._settings = dataset, recipe.evaluation
        self._refuse_unknown_metrics()
        views = Views(dataset, recipe.images)
        keys = evaluation_keys(len(views), self._settings.batch_size)
        self._batches = loader_of(views, keys, workers=recipe.images.workers, pin_memory=False)

    def measure(self, learner: Learner) -> Measured:
        """Embed every image, compute every metric: of the queries in their gallery, or of each image in the others."""
        batches = track(self._batches, description="embedding the test split")
        embeddings = torch.cat([learner.embed(images) for _, images in batches]).numpy()
        return Measured(embeddings, self.dataset.paths, self._evaluated(embeddings))

    def _evaluated(self, embeddings: NDArray[np.float32]) -> Evaluation:
        dataset, metrics = self.dataset, self._settings.metrics
        if dataset.queries is None or dataset.gallery is None:
            return evaluate(embeddings, dataset.paths, metrics=metrics, progress=True)
        query, gallery = dataset.queries, dataset.gallery
        return evaluate(
            embeddings[query],
            dataset.paths[query],
            embeddings[gallery],
            dataset.paths[gallery],
            metrics=metrics,
            query_ids=None if dataset.ids is None else dataset.ids[query],
            gallery_ids=None if dataset.ids is None else dataset.ids[gallery],
            progress=True,
        )

    def _refuse_unknown_metrics(self) -> None:
        """Measure two points, so that a misspelt name does not come to light after the first epochs."""
        try:
            known = evaluate(np.eye(2), self.dataset.paths[:2], metrics=self._settings.metrics).names
        except OptionError as error:
            raise RecipeError(f"evaluation.metrics: {error}") from error
        if self._settings.select not in known:
            raise RecipeError(f"evaluation.select={self._settings.select!r}", expected=f"one of {', '.join(known)}")
