"""Evaluate a network on the test or the validation images: embed them all and compute every metric."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.datasets.readers.images import JoinedImages, SelectedImages
from hiertree.errors import OptionError, RecipeError
from hiertree.io.progress import track
from hiertree.losses import binary_codes
from hiertree.metrics import Evaluation, evaluate, evaluate_codes, overall

from ..data.batches import batch_loader, keys_in_order
from ..data.views import ImageViews
from ..distributed.processes import Processes
from ..learning.learner import Learner
from ..recipe.schema import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageSource
    from hiertree.metrics import ProtocolName


def list_name(part: ImageDataset) -> str:
    """Name of a list: ``fine`` for the split ``test_fine``."""
    return part.split.removeprefix("test_")


def names_of_means(metrics: Iterable[str]) -> tuple[str, ...]:
    """Names of the means over lists or levels: one for each metric that occurs more than once."""
    counts = Counter(metric.partition("[")[0] for metric in metrics)
    return tuple(f"mean {metric}" for metric, count in counts.items() if count > 1)


def means_over_lists(results: Mapping[str, Evaluation]) -> dict[str, float]:
    """Unweighted means over lists and levels; empty if a list has no value for one of the metrics."""
    if any(len(result.summary()) < len(result.names) for result in results.values()):
        return {}
    means = overall(results)
    wanted = names_of_means(metric for result in results.values() for metric in result.names)
    return {name: float(means[name.removeprefix("mean ")]) for name in wanted}


class ImagesOfLists(NamedTuple):
    """Images of several lists, each image once, and for each list the rows of its images among them."""

    images: ImageSource
    rows: tuple[NDArray[np.int64] | slice, ...]


def images_of_lists(lists: Sequence[ImageDataset]) -> ImagesOfLists:
    """Join the images of several lists; images of the same name count as the same image."""
    if len(lists) == 1:
        return ImagesOfLists(lists[0].images, (slice(None),))
    names = np.array([part.images.name(row) for part in lists for row in range(len(part))])
    _, first, rows = np.unique(names, return_index=True, return_inverse=True)
    joined: ImageSource = reduce(JoinedImages, (part.images for part in lists))
    ends = np.cumsum([len(part) for part in lists])[:-1]
    return ImagesOfLists(SelectedImages(joined, first), tuple(np.split(rows.reshape(-1), ends)))


@dataclass(frozen=True)
class ListResult:
    """The evaluation of one list of queries, and what :func:`retrieval_arrays` returns of it."""

    arrays: Mapping[str, NDArray[Any]]
    result: Evaluation


@dataclass(frozen=True)
class SplitResult:
    """The evaluation of a split and of the further lists of its benchmark, with means where it reports them."""

    lists: Mapping[str, ListResult]
    means: Mapping[str, float]

    def metrics(self) -> dict[str, float]:
        """The mean of each list's metrics over queries, and the means over lists or levels."""
        summaries = (found.result.summary() for found in self.lists.values())
        return dict(self.means) | {str(name): float(value) for found in summaries for name, value in found.items()}


class EvaluatedNetwork(NamedTuple):
    """The means of a network's metrics on a split, and in the first process all values."""

    metrics: dict[str, float]
    result: SplitResult | None


def retrieval_arrays(dataset: ImageDataset, embeddings: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Queries, and their gallery if the split has a separate one, by the names that ``hiertree evaluate`` reads."""
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


def require_one_of(names: Collection[str], select: str, *, setting: str = "evaluation.select") -> None:
    """Refuse to select epochs by a metric that is not computed."""
    if select not in names:
        raise RecipeError(f"{setting}={select!r}", expected=f"one of {', '.join(names)}")


class SplitEvaluator:
    """Evaluates networks on a split and on the further lists of its benchmark; ``names`` are those of the metrics."""

    def __init__(
        self, dataset: ImageDataset, recipe: Recipe, processes: Processes | None = None, *, select: str | None = None
    ) -> None:
        self._lists, self._warned = (dataset, *dataset.beside), False
        self._settings, self._processes = recipe.evaluation, processes or Processes()
        self._protocol = cast("ProtocolName | None", dataset.protocol)  # evaluate refuses unknown ones
        self._metrics = self._settings.metrics
        self._averages = self._protocol == "dyml" or len(self._lists) > 1  # over lists or levels
        self.names = self._checked_names()
        if select is not None and select not in self.names:
            self._compute_too(select)
        joined = images_of_lists(self._lists)
        views, self._rows = ImageViews(joined, recipe.images), joined.rows
        keys = keys_in_order(range(len(views)), self._settings.batch_size)
        own = keys[self._processes.rank :: self._processes.size]
        self._batches = batch_loader(views, own, workers=recipe.images.workers)

    def evaluate(self, learner: Learner) -> EvaluatedNetwork:
        """Embed every image with the first process's network, each process its share, and compute every metric.

        The codes that a hashing loss learns are ranked by Hamming distance.
        """
        learner.copy_from_first()
        batches = track(self._batches, description=f"embedding the {self._lists[0].split} split")
        embeddings = self._processes.concatenated(learner.embed(images) for _, images in batches).numpy()
        result: SplitResult | None = None
        with self._processes.agreeing():
            if self._processes.is_first:
                result = self._result(embeddings, codes=learner.loss.learns_codes)
        return EvaluatedNetwork(self._processes.from_first(lambda: result.metrics() if result else {}), result)

    def _result(self, embeddings: NDArray[np.float32], *, codes: bool) -> SplitResult:
        arrays = [retrieval_arrays(part, embeddings[rows]) for part, rows in zip(self._lists, self._rows, strict=True)]
        names = map(list_name, self._lists)
        results = {name: self._evaluated(own, codes=codes) for name, own in zip(names, arrays, strict=True)}
        means = means_over_lists(results) if self._averages else {}
        lists = {
            name: ListResult(own, replace(result, names=self._named(result.names, name)))
            for (name, result), own in zip(results.items(), arrays, strict=True)
        }
        self._warn_of_few_queries(lists)
        return SplitResult(lists, means)

    def _evaluated(self, own: Mapping[str, NDArray[Any]], *, codes: bool) -> Evaluation:
        """Rank by cosine similarity, or codes by Hamming distance, and compute every metric."""
        asked: dict[str, Any] = {"query_ids": own.get("ids"), "gallery_ids": own.get("gallery_ids")}
        asked |= {"metrics": self._metrics, "protocol": self._protocol}
        vectors, gallery = own["embeddings"], own.get("gallery_embeddings")
        paths = own["paths"], own.get("gallery_paths")
        if codes:
            vectors, gallery = _bits(vectors), None if gallery is None else _bits(gallery)
            return evaluate_codes(vectors, paths[0], gallery, paths[1], **asked)
        return evaluate(vectors, paths[0], gallery, paths[1], **asked, progress=True)

    def _warn_of_few_queries(self, lists: Mapping[str, ListResult]) -> None:
        """Say once which metric counts less than half of the queries of a list, and how many."""
        for name, found in lists.items():
            queries = len(found.result)
            metric, skipped = max(found.result.skipped.items(), key=lambda item: item[1], default=("", 0))
            if 2 * skipped > queries and not self._warned:
                text = f"{metric} of the {name} split counts {queries - skipped} of {queries} queries; the others"
                print(f"warning: {text} have no positive in the gallery", file=sys.stderr)
        self._warned = True

    def _named(self, metrics: tuple[str, ...], name: str) -> tuple[str, ...]:
        """Names of a list's metrics, with the list's name if there are several: ``AP[fine]``, of one level each."""
        return metrics if len(self._lists) == 1 else tuple(f"{metric.partition('[')[0]}[{name}]" for metric in metrics)

    def _compute_too(self, select: str) -> None:
        self._metrics = (*self._metric_names(self._lists[0]), select)
        with suppress(RecipeError):  # its name is none
            self.names = self._checked_names()
        require_one_of(self.names, select, setting="validation.select")

    def _checked_names(self) -> tuple[str, ...]:
        """Evaluate two points of each list now, so that a misspelled metric is noticed before the first epoch."""
        try:
            found = [self._named(self._metric_names(part), list_name(part)) for part in self._lists]
        except OptionError as error:
            raise RecipeError(f"evaluation.metrics: {error}") from error
        own = tuple(chain.from_iterable(found))
        return (*names_of_means(own), *own) if self._averages else own

    def _metric_names(self, part: ImageDataset) -> tuple[str, ...]:
        points: tuple[Any, ...] = (np.eye(2), part.paths[:2])
        asked: dict[str, Any] = {"metrics": self._metrics, "protocol": self._protocol}
        if part.gallery is None:
            return evaluate(*points, **asked).names
        return evaluate(*points, *points, query_ids=["a", "b"], gallery_ids=["c", "d"], **asked).names


def _bits(embeddings: NDArray[Any]) -> NDArray[np.bool_]:
    return np.unpackbits(binary_codes(embeddings), axis=1, count=embeddings.shape[1]).astype(np.bool_)
