"""Labels from images: votes by hand, CLIP of random weights on real photos."""

import csv
import json
import zipfile

import numpy as np
import pytest
from tiny_clip import save_tiny_clip

from hiertree.errors import ImageError, OptionError, ShapeError, TableError
from hiertree.pipelines.labels import (
    ClusterSettings,
    ExportSettings,
    FillSettings,
    clean_step,
    cluster_step,
    export_step,
    fill_step,
    read_kept,
)
from hiertree.pipelines.labels.encode import clip_encoder
from hiertree.pipelines.labels.filling import FillStep, describe_filling, fill_by_texts
from hiertree.pipelines.labels.landmark_images import EncodedImages, ImageFolder, StoredVectors
from hiertree.pipelines.labels.landmarks import read_dropped

LABELS = ("church", "lake", "museum")


def unit(seed, *shape):
    vectors = np.random.default_rng(seed).normal(size=shape)
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def softmax(scores):
    weights = [np.exp(score - max(scores)) for score in scores]
    return [weight / sum(weights) for weight in weights]


def test_zero_shot_is_a_vote_of_softmaxes():
    texts, images = unit(0, 3, 8), unit(1, 5, 8)
    (filling,) = fill_by_texts([(7, images)], texts, LABELS, temperature=10)
    probabilities = [softmax([10 * float(image @ text) for text in texts]) for image in images]
    votes = [sum(max(range(3), key=lambda c: row[c]) == label for row in probabilities) for label in range(3)]
    winner = max(range(3), key=lambda label: (votes[label], np.mean([row[label] for row in probabilities])))
    assert (filling.landmark_id, filling.images, filling.label) == (7, 5, LABELS[winner])
    assert filling.votes == votes[winner] / 5
    assert filling.confidence == pytest.approx(np.mean([row[winner] for row in probabilities]), abs=1e-6)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ShapeError, match="4 dimensions"):
        list(fill_by_texts([(7, unit(0, 2, 4))], unit(1, 3, 8), LABELS))
    with pytest.raises(OptionError, match="temperature=0"):
        FillSettings(temperature=0)
    with pytest.raises(OptionError, match="threshold=2"):
        FillSettings(threshold=2)
    with pytest.raises(OptionError, match="one of the two"):
        FillStep("cleaned", FillSettings()).vectors  # noqa: B018


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    save_tiny_clip(folder)
    return {"clip_model": f"local-dir:{folder}", "batch_size": 5}


@pytest.fixture(scope="module")
def photos(shared_data, tmp_path_factory):
    """Real photos of twelve landmarks, their table of images, and a cleaned folder where four have no label."""
    folder = tmp_path_factory.mktemp("photos")
    source = shared_data / "gldv2_washington"
    with (source / "gldv2_wa_images.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    ids = list(dict.fromkeys(row["landmark_id"] for row in rows))[:12]
    rows = [row for row in rows if row["landmark_id"] in ids][:60]
    row_of_id = {row["landmark_id"]: row for row in rows}
    with zipfile.ZipFile(source / "gldv2_wa_112px.zip") as archive:
        for name in [f"{row['image_id']}.jpg" for row in rows]:
            if name in archive.namelist():
                archive.extract(name, folder / "images")
    with (folder / "images.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image_id", "landmark_id"), *((r["image_id"], r["landmark_id"]) for r in rows)])
    with (folder / "listed.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("landmark_id", "category", "instance_of"))
        for index, (landmark, row) in enumerate(row_of_id.items()):
            writer.writerow((landmark, row["category"], "" if index % 3 == 0 else row["instance_of"]))
        writer.writerow((999999, "C", "lake|castle"))
    clean_step(folder / "listed.csv", out=folder / "cleaned")
    return folder


def shown(photos):
    return {"images": photos / "images", "image_table": photos / "images.csv"}


def test_clip_reads_images_as_open_clip_does(clip, photos):
    import open_clip
    import torch
    from PIL import Image

    model, _, prepare = open_clip.create_model_and_transforms(clip["clip_model"])
    images = ImageFolder(photos / "images", photos / "images.csv")
    landmark = (photos / "images.csv").read_text().splitlines()[1].split(",")[1]
    paths = list(images.find_all(landmark))
    with torch.inference_mode():
        batch = torch.stack([prepare(Image.open(path).convert("RGB")) for path in paths])
        expected = model.eval().encode_image(batch, normalize=True).numpy()
    ((landmark_id, vectors), *_) = EncodedImages(images, clip_encoder(FillSettings(**clip))).of([landmark, "123456789"])
    assert landmark_id == landmark
    assert np.allclose(vectors, expected, atol=1e-5)


def test_real_photos_fill_what_was_empty_and_say_so_to_the_end(clip, photos, tmp_path):
    cleaned_landmarks = read_kept(photos / "cleaned")
    settings = FillSettings(**clip, **shown(photos), threshold=0)
    report = fill_step(photos / "cleaned", out=tmp_path / "filled", settings=settings)
    filled_landmarks = read_kept(tmp_path / "filled")
    assert filled_landmarks[: len(cleaned_landmarks)] == cleaned_landmarks
    new = filled_landmarks[len(cleaned_landmarks) :]
    assert report["labeled_from_images"] == len(new) == 4
    assert {landmark.labels[0] for landmark in new} <= {
        label for landmark in cleaned_landmarks for label in landmark.labels
    }
    assert all(0 <= landmark.confidence <= 1 for landmark in new)
    assert [drop.reason for drop in read_dropped(tmp_path / "filled")] == ["several labels"]
    assert "4 of 4 landmarks without a label got one" in describe_filling(report)
    folder = tmp_path / "clustered"
    cluster_step(tmp_path / "filled", out=folder, settings=ClusterSettings(clusters=3, restarts=2))
    exported = export_step(folder, out=tmp_path / "exported", settings=ExportSettings(keep_unfit=True))
    assert exported.report["labeled_from_images"] == 4
    history = json.loads((exported.folder / "history.json").read_text())
    assert [step["command"].split()[-1] for step in history] == ["clean", "fill", "cluster"]


def test_below_the_threshold_nothing_is_taken(clip, photos, tmp_path):
    settings = FillSettings(**clip, **shown(photos), threshold=1)
    report = fill_step(photos / "cleaned", out=tmp_path / "out", settings=settings)
    assert report["labeled_from_images"] == 0
    assert read_kept(tmp_path / "out") == read_kept(photos / "cleaned")
    with (tmp_path / "out" / "filled.csv").open(newline="") as file:
        assert [row["taken"] for row in csv.DictReader(file)] == ["no"] * 4


def test_damaged_images_and_vectors_are_named(clip, photos, tmp_path):
    (tmp_path / "images").mkdir()
    landmark = next(drop.landmark_id for drop in read_dropped(photos / "cleaned") if drop.reason == "no label")
    (tmp_path / "images" / f"{landmark}.jpg").write_bytes(b"no image")
    settings = FillSettings(**clip, images=tmp_path / "images")
    with pytest.raises(ImageError, match=f"{landmark}.jpg"):
        fill_step(photos / "cleaned", out=tmp_path / "out", settings=settings)
    assert not (tmp_path / "out").exists()
    (tmp_path / "v.npz").write_bytes(b"PK")
    with pytest.raises(TableError, match=r"v\.npz"):
        StoredVectors(tmp_path / "v.npz")
    np.savez(tmp_path / "v.npz", embeddings=np.zeros((2, 3)), landmark_ids=np.arange(3))
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        StoredVectors(tmp_path / "v.npz")
