"""What ``hiertree export`` writes gives the network's own embeddings and neighbors, on real photos, or is not kept."""

from __future__ import annotations

import copy
import json
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from PIL import Image

import hiertree as ht
from hiertree.errors import InputError, MissingPackageError, OptionError, ShapeError
from hiertree.pipelines.cli import main
from hiertree.pipelines.inference import GalleryIndex
from hiertree.pipelines.inference.embedding import embed
from hiertree.pipelines.inference.exporting import export
from hiertree.pipelines.stored_embeddings.embedded_files import write_embeddings
from hiertree.pipelines.training.run.experiment import train


def run_command(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def run(tiny_recipe, tmp_path_factory):
    """A run at two scales, whose images are cropped."""
    folder = tmp_path_factory.mktemp("run")
    overrides = ("images.size=48", "images.resize=56", "evaluation.scales=[1.0, 0.7]", "training.epochs=1")
    train(tiny_recipe(*overrides), folder)
    return folder


@pytest.fixture(scope="module")
def model(run):
    return ht.load_model(run, device="cpu")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Crops of scikit-learn's two photographs."""
    datasets = pytest.importorskip("sklearn.datasets")
    folder = tmp_path_factory.mktemp("photos")
    for name in ("china.jpg", "flower.jpg"):
        picture = Image.fromarray(datasets.load_sample_image(name))
        for index in range(4):
            picture.crop((100 * index, 50, 100 * index + 240, 250)).save(folder / f"{name[:-4]}-{index}.png")
    return folder


def prepared(photos):
    """The photos as the exported networks take them, by the rule in their metadata: (n, 3, 48, 48) uint8."""
    from torchvision.transforms.v2.functional import center_crop, pil_to_tensor, resize

    images = [Image.open(path) for path in sorted(photos.glob("*.png"))]
    return torch.stack([pil_to_tensor(center_crop(resize(image, [56]), [48, 48])) for image in images])


def test_the_network_gives_the_models_own_embeddings_of_photos_in_batches_of_any_size(run, model, photos, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    assert run_command("export", run, "--images", photos, "--out", tmp_path / "out") == 0
    expected, images = model.embed(photos, progress=False), prepared(photos)
    session = runtime.InferenceSession(str(tmp_path / "out" / "model.onnx"))
    for count in (8, 3, 1):
        vectors = session.run(None, {"images": images[:count].numpy()})[0]
        np.testing.assert_allclose(vectors, expected[:count], atol=1e-5)
    metadata = {key: json.loads(value) for key, value in session.get_modelmeta().custom_metadata_map.items()}
    assert metadata["preprocessing"] == model.preprocessing.model_dump(mode="json")
    assert (metadata["levels"], metadata["level_sizes"]) == (list(model.tree.level_names), list(model.tree.level_sizes))
    checks = json.loads((tmp_path / "out" / "manifest.json").read_text())["parameters"]["checks"]
    assert 0 <= checks["model.onnx"] <= 1e-5


def test_network_that_differs_is_not_written(run, photos, tmp_path, monkeypatch, capsys):
    def export_another(network, *arguments, **options):
        network = copy.deepcopy(network)
        network.embedder.projection.weight.data[0] *= 1.01
        return export_network(network, *arguments, **options)

    pytest.importorskip("onnxscript")
    export_network = torch.onnx.export
    monkeypatch.setattr(torch.onnx, "export", export_another)
    assert run_command("export", run, "--images", photos, "--out", tmp_path / "out") == 2
    assert "ONNX embeddings that differ by" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("shard_size", [3, 100])
def test_photos_find_themselves_in_the_embeddings_of_their_folder(run, model, photos, tmp_path, shard_size):
    out = tmp_path / "embedded"
    embed(run, photos, out, labeled=False, shard_size=shard_size)
    hits = model.search(out, photos, k=3, progress=False)
    assert hits.columns.tolist() == ["photo", "rank", "image", "score"]
    best = hits[hits["rank"] == 1]
    assert best["image"].tolist() == best["photo"].tolist()
    embeddings = model.embed(photos, progress=False)
    exact = -np.sort(-(embeddings @ embeddings.T), axis=1)[:, :3]
    np.testing.assert_allclose(hits["score"].to_numpy().reshape(8, 3), exact, atol=1e-5)
    hits_of_one = model.search(GalleryIndex.load(out), Image.open(photos / "flower-2.png"), k=100, progress=False)
    assert (len(hits_of_one), hits_of_one["image"][0]) == (8, "flower-2.png")


def test_the_gallery_of_a_run_knows_the_labels_of_its_images(run, model):
    tree = ht.LabelTree.from_json(run / "tree.json")
    hits = model.search(run, torch.zeros(2, 3, 48, 48), k=2, progress=False)
    assert hits.columns.tolist() == ["photo", "rank", "image", "score", *tree.level_names]
    assert set(hits[tree.level_names[-1]]) <= set(map(str, tree.leaves))
    with pytest.raises(OptionError, match="k=0"):
        model.search(run, torch.zeros(1, 3, 48, 48), k=0, progress=False)


def test_an_export_is_replaced_unless_its_folder_holds_something_else(run, photos, tmp_path, capsys):
    pytest.importorskip("onnxscript")
    command = ("export", run, "--images", photos, "--out", tmp_path / "out")
    assert run_command(*command) == run_command(*command) == 0
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert run_command(*command) == 2
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_the_gallery_of_another_network_is_refused(run, model, photos, tmp_path):
    write_embeddings(tmp_path / "wide.parquet", np.eye(5, 9, dtype=np.float32), {"image": list("abcde")}, {})
    with pytest.raises(ShapeError, match="embeddings of 8 dimensions in an index of 9"):
        model.search(tmp_path / "wide.parquet", photos, progress=False)
    write_embeddings(tmp_path / "codes.parquet", np.eye(5, 8, dtype=np.int8), {"image": list("abcde")}, {})
    with pytest.raises(InputError, match="embeddings of int8: expected floats"):
        GalleryIndex.load(tmp_path / "codes.parquet")
    other_model = ht.load_model(run, device="cpu")
    with torch.no_grad():
        other_model.network.projection.weight.neg_()
    embed(run, photos, tmp_path / "embedded", labeled=False)
    with pytest.raises(InputError, match="a gallery that another model has embedded"):
        other_model.search(tmp_path / "embedded", photos, progress=False)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_missing_package_is_named_with_its_extra(run, photos, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf'{package} is not installed; pip install "hiertree\[export\]"'):
        export(run, tmp_path / "out", images=photos)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("arguments", "message"), [(("--images", "nowhere"), "nowhere")])
def test_export_that_cannot_be_is_one_line(run, tmp_path, capsys, arguments, message):
    assert run_command("export", run, *arguments, "--out", tmp_path / "out") == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_images_of_the_recipe_that_moved_are_named_with_the_option_that_gives_others(run, tmp_path, capsys):
    run_copy = shutil.copytree(run, tmp_path / "run")
    recipe = yaml.safe_load((run_copy / "recipe.yaml").read_text())
    recipe["data"] = {"name": "folder", "root": str(tmp_path / "gone"), "levels": ["kind", "landmark"]}
    (run_copy / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert run_command("export", run_copy, "--out", tmp_path / "out") == 2
    printed = capsys.readouterr().err
    assert "gone is missing" in printed
    assert "name others by --images" in printed


def test_unknown_labels_of_a_gallery_are_missing(tmp_path):
    table = {
        "image": ["a.jpg", "b.jpg"],
        "kind": ["bird", "dog"],
        "species": ["", "poodle"],
        "embedding": [[1.0, 0.0]] * 2,
    }
    pd.DataFrame(table).to_parquet(tmp_path / "gallery.parquet")
    labels = GalleryIndex.load(tmp_path / "gallery.parquet").table
    assert labels["kind"].tolist() == ["bird", "dog"]
    assert labels["species"].isna().tolist() == [True, False]
