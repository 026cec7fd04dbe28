"""A folder of a model or of a run, fetched from anywhere: whatever it names, none of its code or pickles run."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

import hiertree as ht
from hiertree.errors import CheckpointError, EmbeddingError, HiertreeError, RecipeError
from hiertree.pipelines.browse.embedded_images import read_embedded
from hiertree.pipelines.inference import TrainedModel
from hiertree.pipelines.inference.embedding import embed
from hiertree.pipelines.inference.exporting import export
from hiertree.pipelines.report import make_report
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file
from hiertree.pipelines.training.run.experiment import train


class Payload:
    """Whoever unpickles this makes a file."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def _pickled(folder):
    return {"backbone": "pandas:read_pickle", "backbone_options": {"filepath_or_buffer": f"{folder}/weights.bin"}}


def _pickled_by_torch(folder):
    return {"backbone": "torch:load", "backbone_options": {"f": f"{folder}/weights.pt", "weights_only": False}}


def _checkpoint_of_timm(folder):
    return {"backbone": "resnet18", "backbone_options": {"checkpoint_path": f"{folder}/weights.pt"}}


def _module_inside(folder):
    return {"backbone": "code_inside:tower", "backbone_options": {}}


@pytest.fixture(scope="module")
def honest(tiny_recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("honest") / "run"
    train(tiny_recipe("training.epochs=1"), folder)
    return folder


@pytest.fixture(params=[_pickled, _pickled_by_torch, _checkpoint_of_timm, _module_inside])
def hostile(request, honest, tmp_path, monkeypatch):
    """The folder, and the file that its code would make."""
    folder, mark = tmp_path / "evil", tmp_path / "code has run"
    shutil.copytree(honest, folder)
    (folder / "weights.bin").write_bytes(pickle.dumps(Payload(mark)))
    torch.save(Payload(mark), folder / "weights.pt")
    (folder / "code_inside.py").write_text(f"open({str(mark)!r}, 'w').close()\ndef tower(): pass\n")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend("")
    monkeypatch.delitem(sys.modules, "code_inside", raising=False)
    settings = json.loads((folder / "model.json").read_text())
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    for section in (settings["model"], recipe["model"]):
        section |= {**request.param(folder), "pooling": "backbone", "mean": [0, 0, 0], "std": [1, 1, 1]}
    (folder / "model.json").write_text(json.dumps(settings))
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return folder, mark


def test_a_folder_that_names_code_or_pickles_runs_neither_at_any_door(hostile, tiny_recipe, tmp_path):
    folder, mark = hostile
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (16, 16)).save(tmp_path / "photos" / "a.png")
    doors = [
        lambda: ht.load_model(folder),
        lambda: ht.load_model(Path()),
        lambda: TrainedModel.from_pretrained(folder),
        lambda: embed(folder, tmp_path / "photos", tmp_path / "embedded", labeled=False),
        lambda: export(folder, tmp_path / "exported"),
    ]
    for door in doors:
        with pytest.raises(HiertreeError, match=r"nothing that a model's folder names is imported|checkpoint_path"):
            door()
        assert not mark.exists()
    make_report([folder], tmp_path / "report.html")
    train(tiny_recipe("training.epochs=1", f"training.start_from={folder}"), tmp_path / "warm")
    with pytest.raises(RecipeError, match="a run of another recipe"):
        train(tiny_recipe("training.epochs=1"), folder)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("std", [0, 0.5, 0.5]), ("std", [0.5]), ("mean", [float("nan")] * 3), ("mean", ["a", "b", "c"])),
        *(("size", 0), ("size", -3), ("size", 10**9), ("size", 2.5), ("precision", "foo"), ("channels", 2)),
        *(("scales", []), ("scales", [0]), ("scales", [-1]), ("resize", 0), ("resize", [1, 2, 3])),
        *(("interpolation", "cubic"), ("antialias", False), ("border", [0, 0]), ("border", [0, 0, 256]), ("new", 1)),
    ],
)
def test_preprocessing_that_is_none_is_one_error(honest, tmp_path, key, value):
    folder = tmp_path / "run"
    shutil.copytree(honest, folder)
    settings = json.loads((folder / "model.json").read_text())
    settings["preprocessing"][key] = value
    (folder / "model.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match=r"model\.json"):
        ht.load_model(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_wherever_they_are_read(honest, tiny_recipe, tmp_path, value):
    folder = tmp_path / "run"
    shutil.copytree(honest, folder)
    weights = load_file(folder / "model.safetensors")
    weights["head.1.weight"][0, 0] = value
    save_file(weights, folder / "model.safetensors")
    doors = [
        lambda: ht.load_model(folder),
        lambda: embed(folder, None, tmp_path / "embedded"),
        lambda: train(tiny_recipe(f"training.start_from={folder}"), tmp_path / "warm"),
    ]
    for door in doors:
        with pytest.raises(CheckpointError, match=r"model\.safetensors .*head\.1\.weight is not finite"):
            door()
    assert not (tmp_path / "embedded").exists()
    save_file({**weights, "std": 0 * weights["std"]}, folder / "model.safetensors")
    with pytest.raises(CheckpointError):
        ht.load_model(folder)


def test_a_network_that_overflows_gives_no_embeddings(honest):
    model = ht.load_model(honest, device="cpu")
    with torch.no_grad():
        model.network.projection.weight.fill_(3e38)
    with pytest.raises(EmbeddingError, match="not finite"):
        model.embed(torch.rand(2, 3, 16, 16), progress=False)


def test_a_name_to_import_counts_where_the_caller_gives_it(tiny_recipe, tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "given_networks.py").write_text(
        "from torch import nn\n"
        "def tower(width):\n"
        "    return nn.Sequential(nn.Conv2d(3, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    overrides = ("model.backbone=given_networks:tower", "model.backbone_options={width: 4}", "model.pooling=backbone")
    train(tiny_recipe(*overrides, "model.mean=[0, 0, 0]", "model.std=[1, 1, 1]", "training.epochs=1"), tmp_path / "run")
    with pytest.raises(RecipeError, match=r"given_networks:tower, code .*--backbone"):
        ht.load_model(tmp_path / "run")

    def tower(width):
        return nn.Sequential(nn.Conv2d(3, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    images = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    by_name = ht.load_model(tmp_path / "run", backbone="given_networks:tower").embed(images, progress=False)
    assert np.array_equal(ht.load_model(tmp_path / "run", backbone=tower).embed(images, progress=False), by_name)
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (16, 16)).save(tmp_path / "photos" / "a.png")
    arguments = {"labeled": False, "backbone": "given_networks:tower"}
    assert embed(tmp_path / "run", tmp_path / "photos", tmp_path / "embedded", **arguments).images == 1


def test_arrays_of_python_objects_are_not_unpickled(tmp_path):
    mark, folder = tmp_path / "code has run", tmp_path / "evil"
    folder.mkdir()
    objects = np.array([Payload(mark)] * 3, dtype=object)
    np.savez(folder / "embeddings.npz", embeddings=objects, paths=objects, names=objects)
    np.save(folder / "embeddings.npy", objects)
    torch.save({"embeddings": Payload(mark), "paths": torch.zeros(3, 1)}, folder / "embeddings.pt")
    (folder / "labels.csv").write_text("image,kind\na,x\nb,x\nc,y\n")
    for name in ("embeddings.npz", "embeddings.npy", "embeddings.pt"):
        labels = None if name.endswith("z") else folder / "labels.csv"
        with pytest.raises(HiertreeError):
            evaluate_file(folder / name, labels=labels)
    with pytest.raises((HiertreeError, ValueError)):
        read_embedded([folder], images=None)
    assert not mark.exists()
