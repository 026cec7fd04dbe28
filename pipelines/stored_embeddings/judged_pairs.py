"""Queries and a gallery on disk whose relevance is given for pairs, by lists or grades, instead of by labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hiertree.arrays import MAX_LEVELS
from hiertree.datasets.benchmarks.pickled import read_ground_truth
from hiertree.errors import InputError, OptionError, ShapeError
from hiertree.io.array_files import read_array
from hiertree.metrics import Evaluation, evaluate_scores, revisitop_levels

from ..pair_scores import joined, score_blocks
from .embedded_files import SKIPPED
from .embeddings_files import read_embeddings
from .locations import files_read

TRUTH_SUFFIXES = (".pkl", ".npy")
SETUPS = ("easy", "medium", "hard")

Judged = Mapping[str, Any]  # the keywords of evaluate_scores that say which items count: levels, valid, num_levels


class Truth(NamedTuple):
    """The judgments of pairs in a file."""

    shape: tuple[int, int]  # queries, and the items that it may name
    setups: tuple[str, ...]  # names behind the metrics; a single one without a name
    judged: Callable[[str, slice, int], Judged]  # of a setup, some queries and all items


def read_sides(sources: Sequence[Path]) -> tuple[Any, Any]:
    """Vectors of the queries and of the gallery: of two sources, or of one data set that holds both."""
    for file in {folder / SKIPPED for source in sources for path in files_read(source) for folder in path.parents[:1]}:
        if file.is_file():
            problem = f"{file}: images without embeddings, which shifts the others"
            raise InputError(problem, expected="an embedding for every image")
    collection = read_embeddings(sources[0], gallery=[*sources, None][1], in_parts=True, needs_labels=False)
    queries, gallery = collection.queries.embeddings, collection.items.embeddings
    if not collection.separate:
        raise OptionError(f"{sources[0]} without a gallery", expected="--gallery, or queries and gallery in one folder")
    for source, images in ((sources[0], queries), (sources[-1], gallery)):
        if images.dtype.kind != "f":
            raise ShapeError(f"{source}: embeddings of type {images.dtype}", expected="floats (n, d)")
    return queries, gallery


def read_truth(file: Path) -> Truth:
    """The ground truth of ROxford5k or RParis6k, ``.pkl``, or grades of queries and items, ``.npy``."""
    if file.suffix.lower() == TRUTH_SUFFIXES[0]:
        queries, gallery, _, lists = read_ground_truth(file)

        def judge_lists(setup: Any, rows: slice, items: int) -> Judged:
            return {**revisitop_levels(lists[rows], items, setup=setup)._asdict(), "num_levels": 1}

        return Truth((len(queries), len(gallery)), SETUPS, judge_lists)
    grades = read_array(file, expected="a .pkl of Revisited, or an .npy of grades", kind=InputError, mapped=True)
    if grades.ndim != 2 or grades.dtype.kind not in "iub":
        expected = "integers, a row for each query and a column for each item"
        raise ShapeError(f"{file}: grades of shape {grades.shape} and type {grades.dtype}", expected=expected)
    highest = max(1, int(grades.max(initial=0)))
    if highest > MAX_LEVELS or grades.min(initial=0) < 0:
        problem = f"{file}: grades from {grades.min(initial=0)} to {highest}"
        raise InputError(problem, expected=f"grades from 0 to {MAX_LEVELS}")
    return Truth(grades.shape, ("",), lambda _, rows, __: {"levels": grades[rows], "num_levels": highest})


def evaluate_judged(queries: Any, gallery: Any, truth: Truth, *, codes: bool, **options: Any) -> Evaluation:
    """Every metric, of every setup of lists: ``AP[hard]``; items that no list may name are distractors."""
    of_lists = len(truth.setups) > 1
    if len(queries) != truth.shape[0] or (
        len(gallery) < truth.shape[1] if of_lists else len(gallery) != truth.shape[1]
    ):
        problem = f"{len(queries)} queries and {len(gallery)} items"
        expected = f"{truth.shape[0]} and {truth.shape[1]}{' or more' if of_lists else ''}, as the judgments have"
        raise ShapeError(problem, expected=expected)
    if queries.shape[1] != gallery.shape[1]:
        raise ShapeError(f"queries of {queries.shape[1]} dimensions, items of {gallery.shape[1]}", expected="the same")
    if of_lists and options.get("metrics") is None and options.get("protocol") is None:
        options["protocol"] = "revisitop"
    blocks: dict[str, list[Evaluation]] = {setup: [] for setup in truth.setups}
    for rows, scores in score_blocks(queries, gallery, codes=codes):
        for setup, evaluations in blocks.items():
            evaluations.append(evaluate_scores(scores, **truth.judged(setup, rows, len(gallery)), **options))
    results = {
        setup: joined(evaluations, bits=queries.shape[1] if codes else None) for setup, evaluations in blocks.items()
    }
    names = [name if setup == "" else f"{name}[{setup}]" for setup, result in results.items() for name in result.names]
    values = np.concatenate([result.values for result in results.values()], axis=1)
    return replace(next(iter(results.values())), names=tuple(names), values=values)
