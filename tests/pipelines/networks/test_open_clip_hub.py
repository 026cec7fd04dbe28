"""Models of open_clip from the hub and from a folder: loaded by the library, offline, with texts beside images."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_clip import CONFIG

import hiertree as ht
from hiertree.errors import HiertreeError, MissingResourceError, OptionError, RecipeError, ShapeError
from hiertree.metrics import evaluate
from hiertree.pipelines.cli.application import main
from hiertree.pipelines.inference import GalleryIndex
from hiertree.pipelines.inference.embedding import embed, embed_texts
from hiertree.pipelines.labels.encode.text_encoders import ClipEncoder
from hiertree.pipelines.networks.embedder import Embedder
from hiertree.pipelines.networks.loading import load_embedder, preprocessing_of, pretrained_model, save_embedder
from hiertree.pipelines.networks.settings import ViewSettings
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file

open_clip = pytest.importorskip("open_clip")

NAME = "someone/tiny"
TEXTS = ["a lake", "a church", "the gallery of a cloister"]
TEMPLATES = ("a photo of a {}", "{} in the mountains")
TREE = [("natural", "lake"), ("natural", "mountain"), ("human-made", "church"), ("human-made", "bridge")]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A cache of the hub that holds one model, as open_clip saves and huggingface_hub keeps it."""
    from open_clip.push_to_hf_hub import save_for_hf

    class NoTokenizer:
        def save_pretrained(self, _):
            """The one of CLIP is part of the library."""

    cache = tmp_path_factory.mktemp("hub")
    snapshot = cache / f"models--{NAME.replace('/', '--')}" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    (snapshot / "draft").mkdir()
    (snapshot / "draft" / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG, "preprocess_cfg": {}}))
    torch.manual_seed(1)
    model = open_clip.create_model(
        f"local-dir:{snapshot / 'draft'}", force_preprocess_cfg={"interpolation": "bilinear"}
    )
    model.visual.image_mean, model.visual.image_std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.2)
    save_for_hf(model, NoTokenizer(), CONFIG, str(snapshot))
    return cache


@pytest.fixture(params=["hf-hub", "local-dir"])
def name(request, hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    monkeypatch.setattr("huggingface_hub.file_download.constants.HF_HUB_CACHE", str(hub))
    folder = next(hub.glob("models--*/snapshots/*"))
    return f"hf-hub:{NAME}" if request.param == "hf-hub" else f"local-dir:{folder}"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for index, path in enumerate(TREE * 2):
        file = folder.joinpath(*path, f"{index}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(file)
    return folder


def test_images_and_texts_are_embedded_as_open_clip_does(name, photos, tmp_path):
    clip, _, view = open_clip.create_model_and_transforms(name)
    clip.eval()
    tokenize, files = open_clip.get_tokenizer(name), sorted(photos.rglob("*.png"))
    with torch.inference_mode():
        images = clip.encode_image(torch.stack([view(Image.open(file)) for file in files]), normalize=True).numpy()
        classifier = open_clip.build_zero_shot_classifier(clip, tokenize, TEXTS, TEMPLATES).T.numpy()
        embeddings = clip.encode_text(tokenize(TEXTS), normalize=True).numpy()
    model = ht.load_model(f"open_clip:{name}", device="cpu")
    assert model.preprocessing.mean == pytest.approx((0.4, 0.5, 0.6))
    np.testing.assert_allclose(model.embed(photos, progress=False), images, atol=1e-5)
    np.testing.assert_allclose(model.embed(texts=TEXTS, templates=["{}"]), embeddings, atol=1e-6)
    np.testing.assert_allclose(model.embed(texts=TEXTS, templates=TEMPLATES), classifier, atol=1e-6)
    embedded = embed(f"open_clip:{name}", photos, tmp_path / "out", overrides=("images.workers=0",))
    np.testing.assert_allclose(read_embeddings(embedded.folder).queries.embeddings, images, atol=1e-5)
    prompts = tuple(template.replace("{}", "{label}") for template in TEMPLATES)
    np.testing.assert_allclose(ClipEncoder(model=name, prompts=prompts).encode(TEXTS), classifier, atol=1e-5)


def test_the_saved_network_needs_neither_hub_nor_folder(name, hub, photos, tmp_path):
    model = pretrained_model(f"open_clip:{name}")
    network = Embedder(model, channels=3, size=32)
    assert "hf-hub" not in network.settings.model_dump_json()
    assert str(hub) not in network.settings.model_dump_json()
    save_embedder(network, tmp_path, preprocessing_of(ViewSettings(size=32), network.settings))
    images = torch.randint(0, 255, (2, 3, 32, 32), dtype=torch.uint8)
    with torch.inference_mode():
        torch.testing.assert_close(load_embedder(tmp_path)(images), network.eval()(images))
    settings = json.loads((tmp_path / "model.json").read_text())
    settings["model"]["backbone_options"]["vision_cfg"]["timm_model_name"] = "hf-hub:someone/else"
    (tmp_path / "model.json").write_text(json.dumps(settings))
    with pytest.raises(HiertreeError, match="fetched from nowhere"):
        load_embedder(tmp_path)


def test_texts_are_a_gallery_and_search_a_gallery(name, photos, tmp_path):
    model, table = ht.load_model(f"open_clip:{name}", device="cpu"), tmp_path / "labels.csv"
    table.write_text("\n".join(["kind,landmark", *(",".join(path) for path in TREE * 3)]))
    command = ["embed", f"open_clip:{name}", "--texts", str(table), "--template", "a photo of a {}"]
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--out", str(tmp_path / "texts")])
    options = {"overrides": ("images.workers=0",), "levels": ("kind", "landmark")}
    embed(f"open_clip:{name}", photos, tmp_path / "images", **options)
    texts = read_embeddings(tmp_path / "texts")
    assert sorted(texts.items.image_names) == sorted(label for _, label in TREE)
    result = evaluate_file(tmp_path / "images", gallery=tmp_path / "texts", metrics=["H-AP", "R@1"])
    images = read_embeddings(tmp_path / "images", gallery=tmp_path / "texts")
    by_hand = evaluate(
        model.embed(photos, progress=False),
        images.queries.paths,
        model.embed(texts=texts.items.image_names),
        images.items.paths,
        metrics=["H-AP", "R@1"],
    )
    np.testing.assert_allclose(result.values, by_hand.values, atol=1e-6)
    index = GalleryIndex.load(tmp_path / "images", model=model)
    scores, rows = index.search("a lake in the mountains", k=3)
    cosines = (index.embeddings @ model.embed(texts=["a lake in the mountains"], templates=["{}"]).T)[:, 0]
    assert rows[0].tolist() == np.argsort(-cosines)[:3].tolist()
    np.testing.assert_allclose(scores[0], np.sort(cosines)[:-4:-1], atol=1e-6)
    with pytest.raises(OptionError, match="texts in an index without a model"):
        GalleryIndex.load(tmp_path / "images").search("a lake")
    with pytest.raises(OptionError, match="holds other files"):
        embed_texts(f"open_clip:{name}", table, tmp_path / "texts")


@pytest.mark.parametrize("parents", ["text", "leaves"])
def test_zero_shot_gives_each_level_its_best_text(name, photos, parents):
    model, tree = ht.load_model(f"open_clip:{name}", device="cpu"), ht.LabelTree.from_paths(TREE)
    result = model.classify(photos, tree, templates=TEMPLATES, parents=parents, progress=False)
    images = model.embed(photos, progress=False)

    def best(texts):
        scores = images @ model.embed(texts=texts, templates=TEMPLATES).T
        return [texts[row] for row in scores.argmax(axis=1)]

    leaves = best([leaf for _, leaf in TREE])
    parent_of = {leaf: parent for parent, leaf in TREE}
    kinds = best(["natural", "human-made"]) if parents == "text" else [parent_of[leaf] for leaf in leaves]
    assert result.labels.to_numpy().tolist() == [list(row) for row in zip(kinds, leaves, strict=True)]
    truth = [file.relative_to(photos).parts[:2] for file in sorted(photos.rglob("*.png"))]
    paths = np.array([tree.paths([tree.leaves[TREE.index(path)]])[0] for path in truth])
    values = result.measure(paths)
    sets = [({parent_of[leaf], leaf}, set(path)) for leaf, path in zip(leaves, truth, strict=True)]
    hits = sum(len(predicted & true) for predicted, true in sets)
    assert values["hP"] == values["hR"] == values["hF"] == pytest.approx(hits / 16)
    assert values["accuracy[2]"] == np.mean([leaf == path[1] for leaf, path in zip(leaves, truth, strict=True)])
    assert values["accuracy[1]"] == np.mean([kind == path[0] for kind, path in zip(kinds, truth, strict=True)])
    heights = [2 - len(predicted & true) for predicted, true in sets if predicted != true]
    assert values["mistake-severity"] == pytest.approx(np.mean(heights))


def test_paths_of_several_depths_are_classified_and_measured(hub, photos):
    model = ht.load_model(f"open_clip:local-dir:{next(hub.glob('models--*/snapshots/*'))}", device="cpu")
    tree = ht.LabelTree.from_paths([("natural", "lake"), ("natural", "tree", "oak"), ("bridge",)], uneven="unknown")
    result = model.classify(photos, tree, progress=False)
    leaves = model.embed(photos, progress=False) @ model.embed(texts=["lake", "oak", "bridge"]).T
    expected = tree.paths(tree.leaves)[leaves.argmax(axis=1)]
    assert result.paths.tolist() == expected.tolist()
    assert result.measure(expected) | {"mistake-severity": 0} == {
        **{
            f"accuracy[{level}]": np.mean(result.nodes[:, level - 1][rows] == expected[rows, level - 1])
            for level in (1, 2, 3)
            if (rows := expected[:, level - 1] >= 0).any()
        },
        "hP": 1.0,
        "hR": 1.0,
        "hF": 1.0,
        "mistake-severity": 0,
    }
    assert np.isnan(result.measure(expected)["mistake-severity"])
    with pytest.raises(ShapeError, match="one for each image"):
        result.measure(expected[:3])


def test_what_is_no_model_of_open_clip_is_one_line(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MissingResourceError, match=r"open_clip:hf-hub:no/one.*`hf download no/one`"):
        ht.load_model("open_clip:hf-hub:no/one")
    for text, problem in (
        (None, "open_clip_config.json and weights"),
        ("{", "a model of open_clip"),
        ("{}", "model_cfg"),
    ):
        if text is not None:
            (tmp_path / "open_clip_config.json").write_text(text)
        with pytest.raises((OptionError, RecipeError), match=problem):
            ht.load_model(f"open_clip:local-dir:{tmp_path}")
    model = ht.load_model("timm:test_vit/" + _weights(tmp_path), device="cpu")
    with pytest.raises(OptionError, match="no text tower: expected a model of open_clip"):
        model.embed(texts=["a lake"])
    folder = next(hub.glob("models--*/snapshots/*"))
    model = ht.load_model(f"open_clip:local-dir:{folder}", device="cpu")
    for templates in ((), "a {}", ["a photo"]):
        with pytest.raises(OptionError, match="templates"):
            model.embed(texts=["a lake"], templates=templates)
    with pytest.raises(OptionError, match="images and texts"):
        model.embed(tmp_path, texts=["a lake"])
    with pytest.raises(OptionError, match="no tree"):
        model.classify(tmp_path)


def test_no_code_of_a_repository_is_asked_for(hub, tmp_path, monkeypatch):
    config = {"model_cfg": {**CONFIG, "text_cfg": {**CONFIG["text_cfg"], "hf_tokenizer_name": "x/y"}}}
    config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    calls = []

    def tokenizer(_, **options):
        calls.append(options)
        raise OSError("not here")

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", tokenizer)
    from hiertree.pipelines.networks.clip import load_tokenizer

    with pytest.raises(MissingResourceError, match="the tokenizer of local-dir:"):
        load_tokenizer(f"local-dir:{tmp_path}")
    assert [options["trust_remote_code"] for options in calls] == [False]


def _weights(folder):
    import timm
    from safetensors.torch import save_file

    save_file(timm.create_model("test_vit").state_dict(), folder / "timm.safetensors")
    return str(folder / "timm.safetensors")
