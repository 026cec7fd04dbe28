"""Images to embeddings and labels, shard by shard, and back into ``hiertree evaluate``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from benchmark_files import FEW_STEPS, write_benchmark
from PIL import Image
from printed_commands import status_of
from safetensors.torch import save_file
from sklearn.decomposition import PCA

from hiertree.datasets.readers.images import ArrayImages, JoinedImages, SelectedImages, stamp_of
from hiertree.errors import CheckpointError, ImageError, OptionError, OtherLayoutError, TableError
from hiertree.pipelines.browse.embedded_images import read_embedded
from hiertree.pipelines.inference import load_model
from hiertree.pipelines.inference.embedding import embed
from hiertree.pipelines.inference.image_inputs import image_files
from hiertree.pipelines.networks.backbones import FeatureBackbone, build_backbone
from hiertree.pipelines.networks.embedder import Embedder
from hiertree.pipelines.networks.settings import ModelSettings
from hiertree.pipelines.stored_embeddings.embedded_files import EmbeddingFiles
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.data.views import ImageViews
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.run.experiment import train

FIRST = "part-00000-of-00003.parquet"  # the first of the shards of five images


def trained(name, recipe, folder, *overrides):
    """A run of a few steps on a small benchmark, whose files move away afterwards."""
    write_benchmark(name, folder / "data")
    overrides = (*FEW_STEPS, f"data.root={folder / 'data'}", *overrides)
    metrics = train(load_recipe(recipe, overrides), folder / "run").metrics
    (folder / "data").rename(folder / "elsewhere")
    return folder / "run", metrics


@pytest.fixture(scope="module")
def sop(tmp_path_factory):
    """A run on SOP, and the folder of its images."""
    folder = tmp_path_factory.mktemp("sop")
    return trained("sop", "sop-happier", folder)[0], folder / "elsewhere"


def vectors(folder):
    """The embeddings of a folder."""
    return read_embeddings(folder, needs_labels=False).queries.embeddings


def write_image(path, gray):
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (16, 16), (gray, gray, gray)).save(path)


def test_embeddings_of_a_run_give_its_metrics(tmp_path, capsys):
    run, metrics = trained("sop", "sop-happier", tmp_path, "evaluation.scales=[0.75, 1]", "training.ema_decay=0.5")
    out = tmp_path / "out"
    assert status_of("embed", run, tmp_path / "elsewhere", "--out", out, "--shard-size", "5") == 0
    assert f"{out} holds " in capsys.readouterr().out
    with np.load(run / "embeddings.npz") as arrays:
        np.testing.assert_allclose(vectors(out), arrays["embeddings"], atol=1e-6)
    result = evaluate_file(out, protocol="sop")
    assert result.summary().to_dict() == pytest.approx(metrics, abs=1e-6)
    embedded = read_embedded([out])
    assert embedded.images is not None  # where they were embedded from
    assert [embedded.images.name(row) for row in range(len(embedded.names))] == list(embedded.names)
    columns = {"image", "split", *embedded.tree.level_names, "embedding"}
    assert all(set(pq.read_schema(part).names) == columns for part in out.glob("part-*"))
    assert {path.name.partition("-")[0] for path in out.iterdir()} == {"part", "manifest.json"}


def test_queries_and_gallery_are_apart(tmp_path):
    run, _ = trained("dyml-vehicle", "dyml-vehicle-happier", tmp_path)
    embedded = embed(run, tmp_path / "elsewhere", tmp_path / "out", split="test_middle")
    assert len(evaluate_file(embedded.folder, protocol="dyml")) == 3
    with pytest.raises(OptionError, match="a gallery besides the one in out"):
        evaluate_file(embedded.folder, gallery=embedded.folder)


def test_interrupted_call_goes_on_after_its_last_whole_shard(sop, tmp_path, monkeypatch, capsys):
    run, photos = sop
    undisturbed, out = tmp_path / "whole", tmp_path / "out"
    embed(run, photos, undisturbed, shard_size=5)
    embedded_rows = []
    stack = ImageViews._plain_batch

    def counting(self, indices):
        if len(embedded_rows) < 12 and 5 in indices:
            embedded_rows.append(-1)
            raise KeyboardInterrupt
        embedded_rows.extend(indices)
        return stack(self, indices)

    monkeypatch.setattr(ImageViews, "_plain_batch", counting)
    with pytest.raises(KeyboardInterrupt):
        embed(run, photos, out, shard_size=5)
    assert "stopped after 5 of 12 images, which are kept; run the same command" in capsys.readouterr().err
    assert [path.name for path in sorted(out.glob("part-*"))] == [FIRST]
    copy = shutil.copytree(out, tmp_path / "other")
    with pytest.raises(CheckpointError, match="computed from other settings, images"):
        embed(run, photos, copy, shard_size=4)
    with pytest.raises(CheckpointError, match="computed from other settings: expected the same model"):
        embed(run, photos, copy, shard_size=5, dtype="float16")
    monkeypatch.setattr(ImageViews, "_plain_batch", stack)
    first = (out / FIRST).stat().st_mtime_ns
    embed(run, photos, out, shard_size=5)
    assert (out / FIRST).stat().st_mtime_ns == first
    assert np.array_equal(vectors(out), vectors(undisturbed))


def test_shards_of_one_folder_do_not_go_on_with_files_of_the_same_names_elsewhere(sop, tmp_path, monkeypatch):
    run, _ = sop
    for folder, gray in (("a", 30), ("b", 200)):
        for index in range(6):
            write_image(tmp_path / folder / f"{index}.png", gray + index)
    out, stack = tmp_path / "out", ImageViews._plain_batch

    def interrupted(self, indices):
        if 3 in indices:
            raise KeyboardInterrupt
        return stack(self, indices)

    with monkeypatch.context() as patch:
        patch.setattr(ImageViews, "_plain_batch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            embed(run, tmp_path / "a", out, shard_size=3, labeled=False)
    with pytest.raises(CheckpointError, match="computed from other images: expected the same"):
        embed(run, tmp_path / "b", out, shard_size=3, labeled=False)
    write_image(tmp_path / "a" / "1.png", 99)  # another photo by the same name
    with pytest.raises(CheckpointError, match="computed from other images: expected the same"):
        embed(run, tmp_path / "a", out, shard_size=3, labeled=False)


def test_images_without_files_are_known_by_their_pixels():
    pixels = np.random.default_rng(0).integers(0, 255, (2, 4, 4), dtype=np.uint8)
    source, changed = (ArrayImages(array, names=["a", "b"]) for array in (pixels, pixels + 1))
    both_sources = JoinedImages(source, SelectedImages(changed, np.array([1])))
    assert stamp_of(source, 0) != stamp_of(changed, 0)
    assert stamp_of(both_sources, 2) == stamp_of(changed, 1)


def test_sigterm_ends_with_status_143_and_keeps_whole_shards(sop, tmp_path, monkeypatch, capsys):
    run, photos = sop
    undisturbed, out, stack = tmp_path / "whole", tmp_path / "out", ImageViews._plain_batch
    embed(run, photos, undisturbed, shard_size=5)

    def signalled(self, indices):
        if 5 in indices:
            os.kill(os.getpid(), signal.SIGTERM)
        return stack(self, indices)

    with monkeypatch.context() as patch:
        patch.setattr(ImageViews, "_plain_batch", signalled)
        assert status_of("embed", run, photos, "--out", out, "--shard-size", "5") == 143
    assert "stopped by SIGTERM after 5 of 12 images, which are kept" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert [path.name for path in out.glob("part-*")] == [FIRST]
    embed(run, photos, out, shard_size=5)
    assert np.array_equal(vectors(out), vectors(undisturbed))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_folder_whose_name_is_not_utf8_takes_embeddings(sop, tmp_path):
    run, photos = sop
    out = tmp_path / os.fsdecode(b"caf\xe9")
    embed(run, photos, out, shard_size=5)
    assert len(vectors(out)) == 12


def test_labels_in_a_run_are_those_of_its_images_where_classes_alternate(sop, tmp_path):
    run, _ = sop
    stored = read_embeddings(run)
    assert stored.queries.names is not None
    labels = [stored.tree.labels_of(path)[0] for path in np.asarray(stored.queries.paths).tolist()]
    assert labels == [name.split("_final")[0] for name in stored.queries.names]


def test_pretrained_network_is_embedded_with_the_pca_that_training_would_start_from(tmp_path):
    write_benchmark("sop", tmp_path / "data")
    backbone = build_backbone(ModelSettings(backbone="resnet18"), channels=3)
    assert isinstance(backbone, FeatureBackbone)
    save_file(backbone.network.state_dict(), tmp_path / "weights.safetensors")
    settings = ["images.size=32", "images.workers=0", "data.verify=structure", "model.backbone=resnet18"]
    network = [f"model.pretrained={tmp_path / 'weights.safetensors'}", "model.embedding_size=3"]
    start = ["model.projection_init=pca", "training.device=cpu", "training.precision=32-true"]
    overrides = [*settings, *network, *start]
    for out in ("first", "second"):
        embed("sop-happier", tmp_path / "data", tmp_path / out, split="train", overrides=overrides)
    first, second = (vectors(tmp_path / out) for out in ("first", "second"))
    assert np.array_equal(first, second)
    recipe = load_recipe("sop-happier", [*overrides, f"data.root={tmp_path / 'data'}"])
    dataset, embedder = load_split(recipe, "train"), Embedder(recipe.model, channels=3).eval()
    with torch.inference_mode():
        features = embedder.pooled(
            ImageViews(dataset.images, recipe.images)._plain_batch(list(range(len(dataset))))
        ).numpy()
    components = PCA(3, svd_solver="full").fit_transform(features)
    expected = components / np.linalg.norm(components, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs(first), np.abs(expected), atol=1e-4)


def test_what_cannot_be_embedded_is_refused(tmp_path):
    write_benchmark("sop", tmp_path / "data")
    overrides = ["model.pretrained=false", "data.verify=structure"]
    with pytest.raises(OptionError, match="train it first"):
        embed("sop-happier", tmp_path / "data", tmp_path / "out", overrides=overrides)
    with pytest.raises(ImageError, match="absent is missing"):  # before any weights are asked for
        embed("sop-happier", tmp_path / "absent", tmp_path / "out")
    with pytest.raises(OptionError, match=r"no such run, folder or file: .*dta; did you mean .*data"):
        embed(tmp_path / "dta", tmp_path / "data", tmp_path / "out")
    with pytest.raises(OptionError, match=r"holds no recipe\.yaml"):
        embed(tmp_path / "data", tmp_path / "data", tmp_path / "out")
    with pytest.raises(OptionError, match="train it first"):
        embed("synthetic-happier", tmp_path / "data", tmp_path / "out")
    with pytest.raises(OptionError, match="levels kind of images without labels"):
        embed("synthetic-happier", tmp_path / "data", tmp_path / "out", labeled=False, levels=["kind"])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    (tmp_path / "weights").mkdir()
    run, _ = trained("sop", "sop-happier", tmp_path / "weights")
    with pytest.raises(OptionError, match="holds other files: expected a new or empty folder"):
        embed(run, tmp_path / "data", tmp_path / "out")
    embed(run, tmp_path / "data", tmp_path / "embedded")
    for setting in ({"dtype": "float16"}, {"split": "train"}):
        with pytest.raises(CheckpointError, match=r"is not of these|computed from other settings"):
            embed(run, tmp_path / "data", tmp_path / "embedded", **setting)


def test_the_same_call_on_finished_embeddings_finds_them_and_removes_what_a_stop_left(sop, tmp_path):
    run, photos = sop
    first = embed(run, photos, tmp_path / "out")
    contents = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    (first.folder / "shards").mkdir()
    (first.folder / "shards" / "fingerprint.json").write_bytes(b"of another model")
    assert embed(run, photos, tmp_path / "out") == first
    assert {path.name: path.read_bytes() for path in first.folder.iterdir()} == contents


@pytest.fixture
def small_disk(tmp_path):
    """A disk of a quarter of a megabyte; skips where one cannot be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root mounts disks")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_full_at_the_end_is_an_error_and_the_shards_stay(sop, tmp_path, small_disk, monkeypatch):
    run, photos = sop
    finish = EmbeddingFiles.finish

    def full(self, provenance):
        with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        return finish(self, provenance)

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddingFiles, "finish", full)
        with pytest.raises(OSError, match=r"No space left on device"):
            embed(run, photos, small_disk / "out")
    (small_disk / "filler").unlink()
    resumed = embed(run, photos, small_disk / "out")
    undisturbed = embed(run, photos, tmp_path / "alone")
    assert np.array_equal(vectors(resumed.folder), vectors(undisturbed.folder))
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    with pytest.raises(CheckpointError, match=r"model\.safetensors was not written .*expected room on the disk"):
        load_model(run).save(small_disk / "model")


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_images_without_labels_are_embedded_as_the_trained_model_does(sop, tmp_path, kind, capsys, monkeypatch):
    run, photos = sop
    monkeypatch.setenv("HIERTREE_PROGRESS", "1")
    files = image_files(photos)
    source = photos
    if kind == "table":
        files, source = files[::-2], photos / "some.csv"
        source.write_text("\n".join(["image", *files]))
    assert status_of("embed", run, source, "--out", tmp_path / "out", *["--no-labels"] * (kind == "folder")) == 0
    printed = capsys.readouterr()
    assert f"out holds {len(files)} embeddings" in printed.out
    assert f"{len(files)} images without labels" in printed.err
    assert read_embedded([tmp_path / "out"]).names == files
    expected = load_model(run, device="cpu").embed([photos / file for file in files], progress=False)
    np.testing.assert_allclose(vectors(tmp_path / "out"), expected, atol=1e-6)


def test_tables_of_images_that_are_not_there_are_refused(sop, tmp_path):
    run, _ = sop
    for content, problem in (
        ("image\nnowhere.jpg", "none of 1 images are in"),
        ("image\n../x.jpg", "below root"),
        ("file\nx.jpg", "image"),
    ):
        (tmp_path / "some.csv").write_text(content)
        with pytest.raises((ImageError, OtherLayoutError, TableError), match=problem):
            embed(run, tmp_path / "some.csv", tmp_path / "out")


def test_what_is_no_data_set_of_the_recipe_is_embedded_with_the_labels_that_are_there(
    sop, tmp_path, capsys, monkeypatch
):
    run, _ = sop
    monkeypatch.setenv("HIERTREE_PROGRESS", "1")
    for index in range(8):
        write_image(tmp_path / "flat" / f"{index}.png", 30 * index)
        (tmp_path / "nested" / f"kind{index // 4}").mkdir(parents=True, exist_ok=True)
        write_image(tmp_path / "nested" / f"kind{index // 4}" / f"L{index // 2}" / f"{index}.png", 30 * index)
    embed(run, tmp_path / "flat", tmp_path / "unlabeled")
    assert "no sop is there: Stanford Online Products: Ebay_test.txt not in" in capsys.readouterr().err
    with pytest.raises(OptionError, match=r"without labels.*--labels"):
        evaluate_file(tmp_path / "unlabeled")
    embedded = embed(run, tmp_path / "nested", tmp_path / "labeled")
    assert "labels level_1, level_2 from the names of their folders" in capsys.readouterr().err
    assert np.array_equal(vectors(embedded.folder), vectors(tmp_path / "unlabeled"))
    names = [f"{index}.png" for index in range(8)]
    table = pd.DataFrame({"image": names, "kind": np.arange(8) // 4, "place": np.arange(8) // 2})
    table.to_csv(tmp_path / "flat" / "photos.csv", index=False)
    embed(run, tmp_path / "flat" / "photos.csv", tmp_path / "listed")
    values = [evaluate_file(tmp_path / out).summary().to_dict() for out in ("labeled", "listed")]
    assert values[0] == values[1]
    embedded_images = read_embedded([tmp_path / "labeled"])
    assert embedded_images.labels(7) == ["kind1", "L3"]
    assert embedded_images.images[7].getpixel((0, 0)) == (210, 210, 210)
