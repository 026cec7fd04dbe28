"""A recipe names a benchmark in its published format, and is trained on it and measured as the benchmark is."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from benchmark_files import write_benchmark
from reference_hashing import tied_ap, tied_dcg

from hiertree import datasets
from hiertree.errors import OptionError, RecipeError
from hiertree.metrics import evaluate_scores
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.distributed.group import build_fabric
from hiertree.pipelines.training.recipe.reading import check_recipe, load_recipe
from hiertree.pipelines.training.run.evaluator import SplitEvaluator
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.learner import Learner

BALANCED = {"name": "ClassBalancedSampler", "batch_size": 4, "images_per_class": 2}
TREE = {"name": "TreeSampler", "batch_size": 8, "images_per_class": 2, "reduce_per_class": 3}


def recipe(data, sampler=BALANCED, **evaluation):
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
            "evaluation": {"metrics": ["H-AP", "R@1"], **evaluation},
        }
    )


CASES = [("sop", {"name": "sop"}, TREE, 2), ("inshop", {"name": "inshop"}, BALANCED, 2)]


@pytest.mark.parametrize(("name", "data", "sampler", "steps"), CASES, ids=[case[0] for case in CASES])
def test_a_benchmark_trains_and_is_measured_as_published(name, data, sampler, steps, tmp_path):
    write_benchmark(name, tmp_path / "data")
    experiment = recipe({**data, "root": str(tmp_path / "data")}, sampler)
    trained_run = train(experiment, tmp_path / "run")
    result = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert result["steps"] == steps
    test = load_split(experiment, "test")
    assert result["queries"] == (len(test) if test.queries is None else len(test.queries))
    with np.load(tmp_path / "run" / "embeddings.npz") as archive:
        assert len(archive["paths"]) == result["queries"]
        assert ("gallery_ids" in archive) == (test.ids is not None)
        if test.gallery is not None:
            assert np.array_equal(archive["gallery_paths"], test.paths[test.gallery])
    result = evaluate_file(tmp_path / "run" / "embeddings.npz", metrics=["H-AP", "R@1"])
    assert result.summary().to_dict() == trained_run.metrics


def test_dyml_is_measured_on_three_lists_and_by_their_mean(tmp_path):
    root, run = tmp_path / "data", tmp_path / "run"
    write_benchmark("dyml-vehicle", root)
    experiment = recipe({"name": "dyml", "collection": "vehicle", "root": str(root)}, select="mean AP", metrics=None)
    test = load_split(experiment, "test")
    names = [dataset_list.images.name(len(dataset_list) - 1) for dataset_list in (test, *test.beside)]
    assert names == [f"bmk_{scale}/gallery/5.jpg" for scale in ("fine", "middle", "coarse")]

    metrics = train(experiment, run).metrics
    files = {"fine": "embeddings.npz", "middle": "embeddings-middle.npz", "coarse": "embeddings-coarse.npz"}
    results = {name: evaluate_file(run / file, protocol="dyml").summary() for name, file in files.items()}
    of_lists = {
        f"{metric.partition('[')[0]}[{name}]": value
        for name, list_values in results.items()
        for metric, value in list_values.items()
    }
    means = {
        f"mean {metric}": sum(of_lists[f"{metric}[{name}]"] for name in files) / 3
        for metric in ("AP", "ASI", "R@1", "R@10", "R@20")
    }
    assert metrics == pytest.approx(means | of_lists)
    result = json.loads((run / "metrics.json").read_text())
    assert result["best"]["value"] == metrics["mean AP"]
    assert {name: card["queries"] for name, card in result["beside"].items()} == {"middle": 3, "coarse": 3}
    for name, file in files.items():
        values = pd.read_parquet(run / file.replace("embeddings", "per_query").replace(".npz", ".parquet"))
        assert values.mean()[f"AP[{name}]"] == pytest.approx(metrics[f"AP[{name}]"])
    with np.load(run / files["fine"]) as fine, np.load(run / files["middle"]) as middle:
        assert np.array_equal(fine["gallery_embeddings"], middle["gallery_embeddings"])
    with pytest.raises(RecipeError, match=r"select='AP\[1\]'.*AP\[middle\]"):
        SplitEvaluator(
            test, recipe({"name": "dyml", "root": str(root)}, metrics=None, select="mean AP"), select="AP[1]"
        )
    train(experiment, run, fresh=True)
    assert load_split(experiment, "test_middle").beside == ()
    (root / "bmk_middle/gallery/4.jpg").write_bytes(b"no image")
    skipping = experiment.model_copy(update={"images": experiment.images.model_copy(update={"on_bad_image": "skip"})})
    fine, middle, _ = (test := load_split(skipping, "test"), *test.beside)
    assert (fine.left_out, middle.left_out) == ((), ("bmk_middle/gallery/4.jpg",))
    assert (len(fine.gallery), len(middle.gallery), len(middle)) == (6, 5, 8)


def test_dymls_products_are_measured_by_the_mean_over_their_levels(tmp_path):
    write_benchmark("dyml-product", tmp_path / "data")
    data = {"name": "dyml", "collection": "product", "root": str(tmp_path / "data")}
    metrics = train(
        recipe(
            data,
            select="mean ASI",
            metrics=["H-AP", *(f"{kind}[{level}]" for kind in ("AP", "ASI") for level in (1, 2, 3))],
        ),
        tmp_path / "run",
    ).metrics
    assert metrics["mean AP"] == pytest.approx(sum(metrics[f"AP[{level}]"] for level in (1, 2, 3)) / 3)
    assert [name for name in metrics if name.startswith("mean")] == ["mean AP", "mean ASI"]


def test_every_benchmarks_loader_is_a_section_of_recipes(tmp_path):
    for name in datasets.__all__:
        formats = ("table", "folder", "synthetic", "omniglot", "archives", "huggingface")
        if name.startswith("load_") and name.removeprefix("load_") not in formats:
            section = recipe({"name": name.removeprefix("load_"), "root": str(tmp_path)}).data
            assert section.options()["verify"] == "structure"
    with pytest.raises(RecipeError, match="did you mean 'verify'"):
        recipe({"name": "sop", "root": "x", "verfy": "structure"})
    with pytest.raises(RecipeError, match="hierarchy"):
        recipe({"name": "inaturalist", "root": "x", "hierarchy": "half"})


def test_a_run_learns_and_measures_by_the_labels_that_images_share(tmp_path):
    write_benchmark("nus-wide", tmp_path / "data")
    small = ["data.verify=structure", "data.queries_per_label=4", "data.training_per_label=20", "images.size=16"]
    small += ["images.augmentation=[{name: Resize, size: [16, 16]}, {name: RandomHorizontalFlip}]", "images.workers=0"]
    small += ["sampler.batch_size=12", "model.backbone=small_cnn"]
    small += ["model.pretrained=false", "model.width=4", "model.pooling=average", "training.device=cpu"]
    small += [f"data.root={tmp_path / 'data'}", "training.epochs=2", "evaluation.metrics=['AP[1]','AP@50[1]',NDCG]"]
    experiment = load_recipe("nus-wide-talr-ndcg-16bits", small)
    metrics = train(experiment, tmp_path / "run").metrics
    with np.load(tmp_path / "run" / "embeddings.npz") as archive:
        queries, gallery = archive["embeddings"] > 0, archive["gallery_embeddings"] > 0
    test = load_split(experiment, "test")
    labels = test.vectors.astype(int)
    values = []
    for code, query in zip(queries, test.queries, strict=True):
        distances = (code != gallery).sum(axis=1)
        grades = np.array([labels[query] @ labels[item] for item in test.gallery])
        gains = 2.0**grades - 1
        ndcg = tied_dcg(distances.tolist(), gains.tolist()) / tied_dcg(range(len(gains)), sorted(gains, reverse=True))
        values.append((tied_ap(distances.tolist(), (grades > 0).tolist()), ndcg))
    assert [metrics["AP[1]"], metrics["NDCG"]] == pytest.approx(np.mean(values, axis=0).tolist(), rel=1e-9)
    assert 0 < metrics["AP@50[1]"] < 1
    result = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (result["queries"], result["convention"]["num_levels"]) == (12, 3)
    assert result["convention"]["scores"].startswith("Hamming distance, 16 bits; AP@k divided by the positives")
    with pytest.raises(OptionError, match=r"is grades of pairs.*evaluate-pairs"):
        evaluate_file(tmp_path / "run")
    with pytest.raises(OptionError, match="ProxyDecomposability of images whose pairs are graded"):
        train(
            recipe({"name": "nus_wide", "root": str(tmp_path / "data")}, metrics=["NDCG"], select="NDCG"),
            tmp_path / "b",
        )


def test_images_that_only_grades_compare_are_each_others_gallery_in_a_validation(tmp_path):
    write_benchmark("nus-wide", tmp_path)
    data = {"name": "nus_wide", "root": str(tmp_path), "queries_per_label": 1, "training_per_label": 8}
    experiment = recipe(data, metrics=["NDCG", "AP[1]"], select="NDCG")
    test_images = load_split(experiment, "train").select(range(12), split="validation")
    fabric, classes = build_fabric(experiment.training), np.unique(test_images.paths, axis=0)
    learner = Learner(experiment, fabric, class_paths=classes, steps_per_epoch=1)
    values = SplitEvaluator(test_images, experiment).evaluate(learner).lists["validation"]
    cosines = values.arrays["embeddings"] @ values.arrays["embeddings"].T
    mask, options = ~np.eye(12, dtype=bool), {"num_levels": test_images.highest, "metrics": ["NDCG", "AP[1]"]}
    slow = evaluate_scores(cosines, test_images.grades(), valid=mask, **options)
    np.testing.assert_allclose(values.result.values, slow.values, rtol=1e-6)
    assert values.result.has_values
