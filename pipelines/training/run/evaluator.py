"""Evaluate a network on the test or the validation images: embed them all and compute every metric."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hiertree.datasets import GradedDataset, ImageDataset
from hiertree.datasets.readers.images import JoinedImages, SelectedImages
from hiertree.errors import HiertreeError, OptionError, RecipeError
from hiertree.io.progress import track
from hiertree.losses import binary_codes
from hiertree.losses.hashing import CodeLoss
from hiertree.metrics import Evaluation, evaluate, evaluate_codes, evaluate_scores
from hiertree.metrics.conventions import strip_brackets

from ...pair_scores import joined, score_blocks
from ..data.batches import batch_loader, keys_in_order
from ..data.views import ImageViews
from ..distributed.processes import ALONE, Processes
from ..recipe.components import Component
from ..recipe.settings import Recipe
from .learner import Learner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageSource
    from hiertree.metrics import ProtocolName


def list_name(dataset: ImageDataset) -> str:
    """Name of a list: ``fine`` for the split ``test_fine``."""
    return dataset.split.removeprefix("test_")


def means_over_lists(metrics: Mapping[str, float]) -> dict[str, float]:
    """Unweighted means over lists or levels: one for each metric that occurs more than once."""
    values: dict[str, list[float]] = {}
    for metric, value in metrics.items():
        values.setdefault(f"mean {strip_brackets(metric)}", []).append(value)
    return {name: sum(list_values) / len(list_values) for name, list_values in values.items() if len(list_values) > 1}


def images_of_lists(lists: Sequence[ImageDataset]) -> tuple[ImageSource, Sequence[NDArray[np.int64] | slice]]:
    """The images of several lists, those of the same name once, and for each list the rows of its images among them."""
    if len(lists) == 1:
        return lists[0].images, [slice(None)]
    names = np.array([dataset.images.name(row) for dataset in lists for row in range(len(dataset))])
    _, first, rows = np.unique(names, return_index=True, return_inverse=True)
    all_images: ImageSource = reduce(JoinedImages, (dataset.images for dataset in lists))
    ends = np.cumsum([len(dataset) for dataset in lists])[:-1]
    return SelectedImages(all_images, first), np.split(rows.reshape(-1), ends)


class ListResult(NamedTuple):
    """The evaluation of one list of queries."""

    arrays: Mapping[str, NDArray[Any]]  # as :func:`retrieval_arrays` returns them
    result: Evaluation


class SplitResult(NamedTuple):
    """The evaluation of a split and of the further lists of its benchmark."""

    metrics: dict[str, float]  # the means over lists or levels, and the mean of each list's metrics over its queries
    lists: Mapping[str, ListResult]  # by name; empty in all processes but the first


def retrieval_arrays(dataset: ImageDataset, embeddings: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Queries, and their gallery if the split has a separate one, by the names that ``hiertree evaluate`` reads."""
    names = np.array([dataset.images.name(row) for row in range(len(dataset))], dtype=np.str_)
    arrays = {"embeddings": embeddings, "paths": dataset.paths, "names": names}
    if dataset.queries is None or dataset.gallery is None:
        return arrays
    if dataset.ids is not None:
        arrays["ids"] = dataset.ids
    queries = {name: values[dataset.queries] for name, values in arrays.items()}
    return queries | {f"gallery_{name}": values[dataset.gallery] for name, values in arrays.items()}


def require_one_of(names: Collection[str], select: str, *, setting: str = "evaluation.select") -> None:
    """Refuse to select epochs by a metric that is not computed."""
    if select not in names:
        raise RecipeError(f"{setting}={select!r}", expected=f"one of {', '.join(names)}")


class SplitEvaluator:
    """Evaluates networks on a split and on the further lists of its benchmark; ``names`` are those of the metrics."""

    def __init__(
        self, dataset: ImageDataset, recipe: Recipe, processes: Processes = ALONE, *, select: str | None = None
    ) -> None:
        self._lists, self._warned = (dataset, *dataset.beside), False
        self._settings, self._processes = recipe.evaluation, processes
        self._protocol = cast("ProtocolName | None", dataset.protocol)  # evaluate refuses unknown ones
        self._metrics = self._settings.metrics
        self._averages = self._protocol == "dyml" or len(self._lists) > 1  # over lists or levels
        inner_losses = [value for value in recipe.loss.options().values() if isinstance(value, Component)]
        self._codes = any(loss.is_kind_of(CodeLoss) for loss in (recipe.loss, *inner_losses))
        self.names = self._checked_names()
        if select is not None and select not in self.names:
            self._compute_too(select)
        images, self._rows = images_of_lists(self._lists)
        keys = keys_in_order(range(len(images)), self._settings.batch_size)
        process_keys = keys[self._processes.rank :: self._processes.size]
        self._batches = batch_loader(ImageViews(images, recipe.images), process_keys, workers=recipe.images.workers)

    def evaluate(self, learner: Learner) -> SplitResult:
        """Embed every image with the first process's network, each process its share, and compute every metric.

        Several processes share the queries too, except those of the codes that a hashing loss learns, or whose items
        are graded: the first process ranks these.
        """
        learner.copy_from_first()
        batches = track(self._batches, description=f"embedding the {self._lists[0].split} split")
        gathered = self._processes.concatenated(learner.embed(images) for _, images in batches)
        codes, lists = learner.loss.learns_codes, dict[str, ListResult]()

        def measure(embeddings: NDArray[np.float32], *, distributed: bool = False) -> dict[str, float]:
            lists.update(self._measured(embeddings, codes=codes, distributed=distributed))
            summaries = (list_result.result.summary() for list_result in lists.values())
            metrics = {str(name): float(value) for summary in summaries for name, value in summary.items()}
            is_whole = len(metrics) == sum(len(list_result.result.names) for list_result in lists.values())
            return (means_over_lists(metrics) if self._averages and is_whole else {}) | metrics

        if codes or self._processes.size == 1 or isinstance(self._lists[0], GradedDataset):
            return SplitResult(self._processes.from_first(lambda: measure(gathered.numpy())), lists)
        embeddings = self._processes.from_first_tensor(gathered).numpy()
        try:
            metrics = measure(embeddings, distributed=True)
        except HiertreeError as error:  # of all processes alike
            self._processes.fail(error)
        return SplitResult(metrics, lists if self._processes.is_first else {})

    def _measured(self, embeddings: NDArray[np.float32], *, codes: bool, distributed: bool) -> dict[str, ListResult]:
        lists = {}
        for dataset, rows in zip(self._lists, self._rows, strict=True):
            arrays, name = retrieval_arrays(dataset, embeddings[rows]), list_name(dataset)
            result = self._evaluated(dataset, arrays, codes=codes, progress=True, distributed=distributed)
            lists[name] = ListResult(arrays, replace(result, names=self._named(result.names, name)))
        self._warn_of_few_queries(lists)
        return lists

    def _evaluated(
        self,
        dataset: ImageDataset,
        arrays: Mapping[str, NDArray[Any]],
        *,
        codes: bool,
        progress: bool = False,
        distributed: bool = False,
    ) -> Evaluation:
        """Rank by cosine similarity, or codes by Hamming distance, and compute every metric."""
        vectors, gallery = arrays["embeddings"], arrays.get("gallery_embeddings")
        if isinstance(dataset, GradedDataset):
            return self._graded(dataset, vectors, gallery, codes=codes)
        options: Any = {"query_ids": arrays.get("ids"), "gallery_ids": arrays.get("gallery_ids")}
        options |= {"metrics": self._metrics, "protocol": self._protocol}
        paths, gallery_paths = arrays["paths"], arrays.get("gallery_paths")
        if codes:
            return evaluate_codes(
                _bits(vectors), paths, None if gallery is None else _bits(gallery), gallery_paths, **options
            )
        return evaluate(vectors, paths, gallery, gallery_paths, **options, progress=progress, distributed=distributed)

    def _graded(
        self, dataset: GradedDataset, queries: NDArray[Any], gallery: NDArray[Any] | None, *, codes: bool
    ) -> Evaluation:
        """The same by the grades of pairs; without a gallery the queries are theirs, each but for itself."""
        items, blocks = queries if gallery is None else gallery, []
        query_rows = (np.arange(len(dataset)) if dataset.queries is None else dataset.queries)[: len(queries)]
        options: dict[str, Any] = {"metrics": self._metrics, "protocol": self._protocol, "num_levels": dataset.highest}
        columns = (query_rows if dataset.gallery is None else dataset.gallery)[: len(items)]
        for rows, scores in score_blocks(queries, items, codes=codes):
            valid = None if gallery is not None else query_rows[rows, None] != columns
            blocks.append(evaluate_scores(scores, dataset.grades(query_rows[rows], columns), valid=valid, **options))
        return joined(blocks, bits=queries.shape[1] if codes else None)

    def _warn_of_few_queries(self, lists: Mapping[str, ListResult]) -> None:
        """Say once which metric counts less than half of the queries of a list, and how many."""
        for name, list_result in lists.items():
            queries = len(list_result.result)
            metric, skipped = max(list_result.result.skipped.items(), key=lambda item: item[1], default=("", 0))
            if 2 * skipped > queries and not self._warned and self._processes.is_first:
                text = f"{metric} of the {name} split counts {queries - skipped} of {queries} queries; the others"
                print(f"warning: {text} have no positive in the gallery", file=sys.stderr)
        self._warned = True

    def _named(self, metrics: tuple[str, ...], name: str) -> tuple[str, ...]:
        """Names of a list's metrics, with the list's name if there are several: ``AP[fine]``, of one level each."""
        return metrics if len(self._lists) == 1 else tuple(f"{strip_brackets(metric)}[{name}]" for metric in metrics)

    def _compute_too(self, select: str) -> None:
        self._metrics = (*self._metric_names(self._lists[0]), select)
        with suppress(RecipeError):  # its name is none
            self.names = self._checked_names()
        require_one_of(self.names, select, setting="validation.select")

    def _checked_names(self) -> tuple[str, ...]:
        """Evaluate two points of each list now, so that a misspelled metric is noticed before the first epoch."""
        try:
            names_of_lists = [self._named(self._metric_names(dataset), list_name(dataset)) for dataset in self._lists]
        except OptionError as error:
            raise RecipeError(f"evaluation.metrics: {error}") from error
        names = tuple(chain.from_iterable(names_of_lists))
        return (*means_over_lists(dict.fromkeys(names, 0.0)), *names) if self._averages else names

    def _metric_names(self, dataset: ImageDataset) -> tuple[str, ...]:
        two: dict[str, Any] = {"embeddings": np.eye(2), "paths": dataset.paths[:2]}
        if dataset.gallery is not None:
            two |= {f"gallery_{name}": values for name, values in two.items()}
            two |= {"ids": ["a", "b"], "gallery_ids": ["c", "d"]}
        return self._evaluated(dataset, two, codes=self._codes).names


def _bits(embeddings: NDArray[Any]) -> NDArray[np.bool_]:
    return np.unpackbits(binary_codes(embeddings), axis=1, count=embeddings.shape[1]).astype(np.bool_)
