"""A recipe names a benchmark in its published format, and is trained on it and measured as the benchmark is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_files import write_benchmark

from hiertree import datasets
from hiertree.errors import OptionError, RecipeError
from hiertree.pipelines.evaluate import evaluate_file
from hiertree.pipelines.report import write_report
from hiertree.pipelines.train import train
from hiertree.pipelines.training.data import load_split
from hiertree.pipelines.training.reading import check_recipe
from hiertree.pipelines.training.recipe import Recipe

BALANCED = {"name": "ClassBalancedSampler", "batch_size": 4, "images_per_class": 2}
TREE = {"name": "TreeSampler", "batch_size": 8, "images_per_class": 2, "reduce_per_class": 3}


def recipe(data: dict[str, Any], sampler: dict[str, Any] = BALANCED) -> Recipe:
    """Two epochs of a network of a few channels."""
    return check_recipe(
        {
            "name": "tiny",
            "data": {"verify": "structure", **data},
            "images": {"size": 16, "augmentation": {"name": "photo"}},
            "sampler": sampler,
            "model": {"width": 4, "embedding_size": 8},
            "loss": {"name": "HAPPIER"},
            "training": {"epochs": 2, "device": "cpu"},
            "evaluation": {"metrics": ["H-AP", "R@1"]},
        }
    )


CASES = [
    ("sop", {"name": "sop"}, TREE, 2),
    ("dyml-vehicle", {"name": "dyml", "collection": "vehicle"}, BALANCED, 4),
    ("inshop", {"name": "inshop"}, BALANCED, 2),
]


@pytest.mark.parametrize(("name", "data", "sampler", "steps"), CASES, ids=[case[0] for case in CASES])
def test_a_benchmark_trains_and_is_measured_as_published(
    name: str, data: dict[str, Any], sampler: dict[str, Any], steps: int, tmp_path: Path
) -> None:
    write_benchmark(name, tmp_path / "data")
    experiment = recipe({**data, "root": str(tmp_path / "data")}, sampler)
    trained = train(experiment, tmp_path / "run")
    content = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert content["steps"] == steps
    test = load_split(experiment, "test")
    assert content["queries"] == (len(test) if test.queries is None else len(test.queries))
    with np.load(tmp_path / "run" / "embeddings.npz") as stored:
        assert len(stored["paths"]) == content["queries"]
        assert ("gallery_ids" in stored) == (test.ids is not None)
        if test.gallery is not None:
            assert np.array_equal(stored["gallery_paths"], test.paths[test.gallery])
    again = evaluate_file(tmp_path / "run" / "embeddings.npz", metrics=["H-AP", "R@1"])
    assert again.summary().to_dict() == trained.metrics
    if test.queries is not None:
        with pytest.raises(OptionError, match="a gallery of their own"):
            write_report(tmp_path / "page.html", [tmp_path / "run"])


def test_every_benchmarks_loader_is_a_section_of_recipes(tmp_path: Path) -> None:
    for name in datasets.__all__:
        if name.startswith("load_") and name not in ("load_table", "load_synthetic", "load_omniglot"):
            section = recipe({"name": name.removeprefix("load_"), "root": str(tmp_path)}).data
            assert section.options()["verify"] == "structure"
    with pytest.raises(RecipeError, match="did you mean 'verify'"):
        recipe({"name": "sop", "root": "x", "verfy": "structure"})
    with pytest.raises(RecipeError, match="hierarchy"):
        recipe({"name": "inaturalist", "root": "x", "hierarchy": "half"})
