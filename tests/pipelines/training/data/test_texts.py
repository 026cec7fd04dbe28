"""Texts beside the images of a batch: which stand there, what learns, and the space that they share afterwards."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from tiny_clip import save_tiny_clip
from torch.nn.functional import normalize

import hiertree as ht
from hiertree.errors import HiertreeError
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.data.texts import LabelTexts
from hiertree.pipelines.training.distributed.group import build_fabric
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.learner import Learner

open_clip = pytest.importorskip("open_clip")

TINY = ["data.families=2", "data.kinds=2", "data.instances=2", "data.images=4", "sampler.batch_size=8"]
TINY += ["sampler.images_per_class=2", "model.width=4", "model.embedding_size=16", "training.epochs=1"]
ONE_SPACE = ["model.embedding_size=null", "model.layer_norm=false", "model.pooling=backbone", "model.pretrained=true"]
ROWS = [0, 1, 5, 13]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    save_tiny_clip(folder)
    return f"open_clip:local-dir:{folder}"


def recipe_with_texts(clip, *changes):
    return load_recipe("synthetic-happier", [*TINY, f"texts.encoder={clip}", *changes])


def learner_of(recipe):
    dataset = load_split(recipe, "train")
    texts = LabelTexts(dataset, recipe.texts)
    classes = np.unique(dataset.paths, axis=0)
    options = {"class_paths": classes, "steps_per_epoch": 1, "text_size": texts.size}
    return Learner(recipe, build_fabric(recipe.training), **options), texts, dataset


def embedded_by_open_clip(clip, sentences):
    name = clip.removeprefix("open_clip:")
    model, tokenize = open_clip.create_model(name).eval(), open_clip.get_tokenizer(name)
    with torch.inference_mode():
        return model.encode_text(tokenize(sentences), normalize=True).clone()


def test_a_batch_brings_the_text_of_each_node_above_its_images_once(clip):
    recipe = recipe_with_texts(clip, "texts.templates=['one {}']", "texts.levels=[family, kind]")
    dataset = load_split(recipe, "train")
    texts = LabelTexts(dataset, recipe.texts).of_batch(torch.tensor(ROWS))
    nodes = {tuple(dataset.paths[row][:depth]) for row in ROWS for depth in (1, 2)}
    paths = [tuple(path[path >= 0]) for path in texts.paths.numpy()]
    assert len(paths) == len(nodes)
    assert set(paths) == nodes
    labels = [dataset.tree.labels_of(path)[-1] for path in paths]
    expected = embedded_by_open_clip(clip, [f"one {label}" for label in labels])
    torch.testing.assert_close(texts.vectors, expected, atol=1e-6, rtol=0)


def test_a_path_that_ends_has_no_text_below(clip):
    recipe = recipe_with_texts(clip, "texts.levels=[kind]")
    dataset = load_split(recipe, "train")
    dataset.paths[:8, 1:] = -1
    texts = LabelTexts(dataset, recipe.texts)
    assert len(texts.of_batch(torch.tensor([0, 1])).paths) == 0
    assert texts.of_batch(torch.tensor([0, 9])).paths.tolist() == [[*dataset.paths[9, :2].tolist(), -1]]


@pytest.mark.parametrize("chunks", [[], ["training.accumulate=two_pass", "training.chunk_size=3"]])
@pytest.mark.parametrize("frozen", [0, 1])
def test_a_step_learns_from_the_loss_of_images_and_texts(clip, chunks, frozen):
    changes = [
        *chunks,
        "model.freeze_batch_norm=true",
        f"model.freeze_backbone_epochs={frozen}",
        "optimizer.texts_lr=0.01",
    ]
    learner, texts, dataset = learner_of(recipe_with_texts(clip, *changes))
    learner.start_epoch(0)
    images = torch.randint(0, 255, (len(ROWS), 3, 32, 32), dtype=torch.uint8)
    paths, rows = torch.from_numpy(dataset.paths[ROWS].astype(np.int64)), texts.of_batch(torch.tensor(ROWS))
    network, loss, vectors = deepcopy(learner.embedder), deepcopy(learner.loss), texts.vectors.clone()
    with torch.no_grad():
        batch = torch.cat([network(images), normalize(network.text_projection(rows.vectors), dim=1)])
        expected = loss(batch, torch.cat([paths, rows.paths]))
    values = learner.step(images, paths, step=0, texts=rows)
    assert values["loss"] == pytest.approx(float(expected), abs=1e-6)
    old_weights, new_weights = network.state_dict(), learner.embedder.state_dict()
    changes_of_weights = {name for name in old_weights if not torch.equal(old_weights[name], new_weights[name])}
    assert {"text_projection.weight", "text_projection.bias", "head.1.weight"} <= changes_of_weights
    assert any(name.startswith("backbone.") for name in changes_of_weights) == (not frozen)
    assert torch.equal(vectors, texts.vectors)
    groups = {group["name"]: len(group["params"]) for group in learner.optimizer.param_groups}
    assert (groups["head"], groups["texts"]) == (2, 2)  # a weight and a bias each
    steps = (old_weights["text_projection.weight"] - new_weights["text_projection.weight"]).abs()
    assert float(steps.max()) == pytest.approx(learner.optimizer.param_groups[2]["lr"], rel=0.01)  # Adam's first step
    assert not torch.equal(next(loss.parameters()), next(learner.loss.parameters()))


def test_of_two_towers_of_one_space_the_last_blocks_alone_learn(clip):
    changes = [f"model.backbone={clip}", *ONE_SPACE, "model.unlocked_groups=2"]
    learner, texts, dataset = learner_of(recipe_with_texts(clip, *changes))
    learner.start_epoch(0)
    old_weights = deepcopy(learner.embedder.state_dict())
    rows = texts.of_batch(torch.tensor(ROWS))
    torch.testing.assert_close(learner.embedder.embed_texts(rows.vectors), rows.vectors)
    images = torch.randint(0, 255, (len(ROWS), 3, 32, 32), dtype=torch.uint8)
    learner.step(images, torch.from_numpy(dataset.paths[ROWS].astype(np.int64)), step=0, texts=rows)
    new_weights = learner.embedder.state_dict()
    changes_of_weights = {
        name.removeprefix("backbone.network.")
        for name in old_weights
        if not torch.equal(old_weights[name], new_weights[name])
    }
    assert {"proj", "ln_post.weight", "transformer.resblocks.0.mlp.c_fc.weight"} <= changes_of_weights
    assert all(name.startswith(("proj", "ln_post", "transformer.resblocks.0")) for name in changes_of_weights)


def test_a_finished_run_embeds_texts_and_classifies_by_them(clip, tmp_path):
    recipe = recipe_with_texts(clip, "texts.levels=[family]", "training.checkpoint_every_steps=1")
    run = train(recipe, tmp_path / "run")
    model = ht.load_model(run.folder, device="cpu")
    network = model.network
    vectors = embedded_by_open_clip(clip, ["a photo of a disc", "a photo of a ring"])
    with torch.inference_mode():
        expected = normalize(network.text_projection(vectors), dim=1)
    np.testing.assert_allclose(model.embed(texts=["disc", "ring"]), expected.numpy(), atol=1e-6)
    dataset = load_split(recipe, "test")
    classification = model.classify(dataset.images, dataset.tree, progress=False)
    assert 0 <= classification.measure(dataset.paths)["accuracy[1]"] <= 1
    model.save(tmp_path / "saved")
    recipe_text = (tmp_path / "saved" / "recipe.yaml").read_text()
    assert str(tmp_path.parent) not in recipe_text
    repetition = train(recipe.model_copy(update={"name": "again"}), tmp_path / "again")
    assert repetition.metrics == run.metrics
    images_alone = load_recipe("synthetic-happier", [*TINY, f"training.start_from={run.folder}"])
    train(images_alone, tmp_path / "images")
    with pytest.raises(HiertreeError, match="which has no text tower"):
        ht.load_model(tmp_path / "images").embed(texts=["disc"])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["texts.levels=[genus]"], r"texts\.levels=genus.*family, kind, instance"),
        (
            ["texts.encoder=all-MiniLM-L6-v2"],
            r"texts\.encoder='all-MiniLM-L6-v2': expected open_clip:NAME/WEIGHTS or sent",
        ),
        (["texts.encoder=sentence-transformers:no/one"], "no/one"),
        (["texts.encoder=open_clip:ViT-B-32"], "expected the name of its weights"),
        (["texts.templates=['a photo']"], "templates"),
        (["model.embedding_size=null"], "texts of 32 dimensions, images of 16: .*set model.embedding_size"),
        (["model.unlocked_groups=1"], "unlocked_groups is for a backbone of open_clip"),
    ],
)
def test_what_does_not_fit_is_one_line(clip, changes, problem, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HiertreeError, match=problem):
        train(recipe_with_texts(clip, *changes), tmp_path / "run")
