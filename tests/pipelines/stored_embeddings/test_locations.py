"""Every command takes a run, its best, a folder that embed wrote and a file alike, and names what is misspelt."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from printed_commands import status_of

from hiertree.errors import CheckpointError, HiertreeError, OptionError
from hiertree.pipelines.browse.embedded_images import read_embedded
from hiertree.pipelines.report import make_report
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file
from hiertree.pipelines.training.run.experiment import train

VALIDATED = ("validation={classes: 0.25}", "data.families=3", "sampler.batch_size=4", "training.epochs=2")


@pytest.fixture(scope="module")
def runs_folder(tiny_recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    train(tiny_recipe(*VALIDATED, "evaluation.metrics=[H-AP, 'R@1', 'AP[2]']"), folder / "runs/mine")
    return folder


def last_line(arguments, capsys):
    assert status_of(*arguments) == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("network", [".", "best"])
def test_a_run_and_its_best_are_measured_read_and_shown_as_they_were(runs_folder, network, tmp_path):
    run = runs_folder / "runs/mine" / network
    metrics = json.loads((run / "metrics.json").read_text())["metrics"]
    result = evaluate_file(run, out=tmp_path / "result.json")
    assert result.summary().to_dict() == pytest.approx(metrics, abs=1e-12)
    record = json.loads((tmp_path / "result.json").read_text())["manifest"]["inputs"]
    assert [file["name"] for file in record] == ["embeddings.npz"]
    assert evaluate_file(run, metrics=["R@10"]).names == ("R@10",)
    assert evaluate_file(run, codes=True).convention.ranked_by == "Hamming distance"
    embedded = read_embedded([run])
    assert embedded.tree.level_names == ("family", "kind", "instance")
    assert embedded.images is not None  # drawn again by the run's recipe
    assert embedded.images.name(5) == embedded.names[5]
    assert make_report([run], tmp_path / "page.html", queries=1, hits=2).is_file()


def test_paths_of_two_trees_are_refused_in_one_evaluation(runs_folder, tmp_path):
    run, second_run = runs_folder / "runs/mine", tmp_path / "other"
    shutil.copytree(run, second_run)
    assert evaluate_file(run, gallery=second_run, metrics=["R@1"])["R@1"] == 1.0  # the same images, in one tree
    tree = json.loads((second_run / "tree.json").read_text())
    tree["children"].reverse()
    (second_run / "tree.json").write_text(json.dumps(tree))
    for gallery in (second_run, second_run / "embeddings.npz"):
        for queries in (run, run / "embeddings.npz"):
            with pytest.raises(OptionError, match=r"two trees.*hiertree embed"):
                evaluate_file(queries, gallery=gallery)


def test_two_networks_of_one_run_are_browsed_side_by_side(runs_folder):
    run = runs_folder / "runs/mine"
    assert [model.name for model in read_embedded([run, run / "best"]).models] == ["mine", "best"]


def test_a_file_is_browsed_by_the_names_inside_or_by_numbers(runs_folder, tmp_path):
    archive = runs_folder / "runs/mine/embeddings.npz"
    with np.load(archive) as arrays:
        names = arrays["names"].tolist()
        np.savez(tmp_path / "bare.npz", embeddings=arrays["embeddings"], paths=arrays["paths"])
        np.save(tmp_path / "bare.npy", arrays["embeddings"])
    assert list(read_embedded([archive]).names) == names
    for name in ("bare.npz", "bare.npy"):
        embedded = read_embedded([tmp_path / name])
        assert list(embedded.names)[:2] == ["query 0", "query 1"]
        assert "--images" in embedded.without


@pytest.mark.parametrize("command", ["evaluate", "browse", "report"])
def test_a_misspelt_run_is_named_with_the_one_that_is_there(runs_folder, command, monkeypatch, capsys):
    monkeypatch.chdir(runs_folder)
    assert "no such run, folder or file: runs/mien; did you mean runs/mine?" in last_line(
        [command, "runs/mien"], capsys
    )
    assert "did you mean runs/mine?" in last_line([command, "mine"], capsys)
    assert "name a run in it, such as runs/mine" in last_line([command, "runs"], capsys)


def test_what_holds_no_embeddings_says_what_it_is(runs_folder, tmp_path):
    unfinished = shutil.copytree(runs_folder / "runs/mine", tmp_path / "unfinished")
    (unfinished / "metrics.json").unlink()
    with pytest.raises(CheckpointError, match=r"not finished.*`hiertree train .* finishes it"):
        read_embeddings(unfinished)
    model = shutil.copytree(runs_folder / "runs/mine", tmp_path / "model")
    (model / "embeddings.npz").unlink()
    with pytest.raises(OptionError, match=r"a model without embeddings.*hiertree embed"):
        read_embeddings(model)
    (tmp_path / "table").mkdir()
    (tmp_path / "table/comparison.csv").touch()
    with pytest.raises(OptionError, match="holds a comparison"):
        read_embeddings(tmp_path / "table")
    (tmp_path / "under-way/shards").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="same `hiertree embed` again"):
        read_embeddings(tmp_path / "under-way")
    damaged = shutil.copytree(runs_folder / "runs/mine", tmp_path / "damaged")
    (damaged / "metrics.json").write_text("{}")
    with pytest.raises(HiertreeError, match="the whole folder of a finished run"):
        evaluate_file(damaged)
