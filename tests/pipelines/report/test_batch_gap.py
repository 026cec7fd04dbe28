"""The table of batches and the whole: what a run's embeddings give, and batches as a sampler makes them."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import reference_metrics as reference
import yaml
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from near_ties import metric_bounds
from numpy.typing import NDArray

from hiertree.pipelines.report import make_report
from hiertree.pipelines.report.ranking_figures import balanced_batches


def test_the_table_of_a_run_shows_the_ap_in_batches_and_in_the_whole(runs: list[Path], tmp_path: Path):
    page = BeautifulSoup(make_report(runs, tmp_path / "page.html").read_text(encoding="utf-8"), "html.parser")
    assert "into batches of 16 images, at most 4 of a class" in page.find(id="gap").find_previous("p").text
    cells = [[float(cell.text) for cell in row.select("td")] for row in page.select("#gap tbody tr")]
    assert len(cells) == len(runs)
    rounded = 0.05 + 1e-9
    for run, (batch, whole_ap, gap) in zip(runs, cells, strict=True):
        (batch_low, batch_high), (whole_low, whole_high) = 100 * expected_bounds(run)
        assert batch_low - rounded <= batch <= batch_high + rounded
        assert whole_low - rounded <= whole_ap <= whole_high + rounded
        assert batch_low - whole_high - rounded <= gap <= batch_high - whole_low + rounded


def test_a_run_whose_sampler_has_no_batch_size_has_a_report_without_that_table(runs: list[Path], tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(runs[0], run)
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["sampler"] = {"name": "own_code:EveryOther", "length": 3}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    page = BeautifulSoup(make_report([run], tmp_path / "page.html").read_text(encoding="utf-8"), "html.parser")
    assert page.find(id="gap") is None


def expected_bounds(run: Path) -> NDArray[np.float64]:
    """The slow definition: each query in every batch that holds one of its positives, and in the whole: (2, 2).

    Bounds instead of values, because networks this small make many scores that single precision cannot tell apart.
    """
    with np.load(run / "embeddings.npz") as arrays:
        vectors, classes = arrays["embeddings"].astype(np.float64), arrays["paths"][:, -1]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    batches = balanced_batches(classes, classes_per_batch=4, images_per_class=4)
    in_batches, wholes = [], []
    for query, query_vector in enumerate(vectors):
        scores, levels = vectors @ query_vector, (classes == classes[query]).astype(int)
        valid = np.arange(len(vectors)) != query

        def ap(members: NDArray[np.bool_], scores: NDArray = scores, levels: NDArray = levels) -> NDArray[np.float64]:
            return metric_bounds(partial(reference.average_precision, level=1), scores[members], levels[members])

        batch_aps = [ap(valid & (batches == batch)) for batch in range(batches.max() + 1)]
        in_batches.append(np.nanmean(batch_aps, axis=0))
        wholes.append(ap(valid))
    return np.array([np.mean(in_batches, axis=0), np.mean(wholes, axis=0)])


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    classes_per_batch=st.integers(1, 5),
    images_per_class=st.integers(1, 4),
)
def test_a_batch_takes_groups_of_classes_and_a_class_again_only_when_the_others_had_a_turn(
    sizes: list[int], classes_per_batch: int, images_per_class: int
):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    batches = balanced_batches(labels, classes_per_batch=classes_per_batch, images_per_class=images_per_class)
    num_groups = sum(-(-size // images_per_class) for size in sizes)
    assert set(batches.tolist()) == set(range(-(-num_groups // classes_per_batch)))
    assert np.bincount(batches).max() <= classes_per_batch * images_per_class
    for label in range(len(sizes)):
        first = batches[labels == label].min()
        assert first <= (len(sizes) - 1) // classes_per_batch
