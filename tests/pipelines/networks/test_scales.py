"""Embeddings of several sizes of an image: their mean, in a run and in ``hiertree embed``."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize
from torchvision.transforms.v2.functional import resize

from hiertree.errors import RecipeError
from hiertree.pipelines.networks.embedder import Embedder, embed_at_scales, require_sizes
from hiertree.pipelines.networks.settings import ModelSettings
from hiertree.pipelines.training.distributed.group import build_fabric
from hiertree.pipelines.training.recipe.settings import EvaluationSettings
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.learner import Learner

IMAGES = torch.randint(0, 256, (3, 3, 64, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("backbone", ["resnet18", "small_cnn"])
def test_embedding_is_the_unit_mean_of_those_at_each_scale(backbone):
    embedder = Embedder(ModelSettings(backbone=backbone, width=4, embedding_size=6), channels=3).eval()
    with torch.inference_mode():
        half, double = (resize(IMAGES.float(), size, antialias=True) for size in ([32, 24], [128, 96]))
        expected = normalize((embedder(half) + embedder(IMAGES) + embedder(double)) / 3, dim=1)
        torch.testing.assert_close(embed_at_scales(embedder, IMAGES, (0.5, 1.0, 2.0)), expected)
        assert torch.equal(embed_at_scales(embedder, IMAGES, (1.0,)), embedder(IMAGES))


def test_run_measures_at_the_recipes_scales(tiny_recipe):
    recipe = tiny_recipe("evaluation.scales=[0.5, 1, 1.5]")
    paths = torch.tensor([[0, 0], [0, 1]]).numpy()
    learner = Learner(recipe, build_fabric(recipe.training), class_paths=paths, steps_per_epoch=1)
    images = IMAGES[:, :, :16, :16]
    embeddings = learner.embed(images)
    with torch.inference_mode():
        torch.testing.assert_close(embeddings, embed_at_scales(learner.embedder, images, (0.5, 1.0, 1.5)))
        assert not torch.allclose(embeddings, learner.embedder(images))


def test_backbone_of_one_image_size_refuses_scales():
    embedder = Embedder(ModelSettings(backbone="vit_tiny_patch16_224", pooling="backbone"), channels=3)
    require_sizes(embedder, 224, (1.0,))
    with pytest.raises(RecipeError, match="images of one size"):
        require_sizes(embedder, 224, (1.0, 1.4142))


def test_size_that_a_backbone_cannot_have_is_refused_before_the_run_writes(tmp_path, tiny_recipe):
    recipe = tiny_recipe("model.backbone=vit_tiny_patch16_224", "model.pooling=backbone", "images.size=8")
    with pytest.raises(RecipeError, match=r"images\.size=8 with vit_tiny_patch16_224 .*change it"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("backbone", "size", "warning"),
    [
        ("vit_tiny_patch16_224", 40, "patches of 16 pixels leave out the last 8 rows and columns; 32 or 48 would"),
        ("vit_tiny_patch16_224", 48, ""),
        ("resnet18", 41, ""),
    ],
)
def test_patches_that_leave_out_a_part_of_each_image_are_warned_of_before_training(
    tiny_recipe, capsys, backbone, size, warning
):
    pooling = "backbone" if backbone.startswith("vit") else "gem"
    recipe = tiny_recipe(f"model.backbone={backbone}", f"model.pooling={pooling}", f"images.size={size}")
    Learner(recipe, build_fabric(recipe.training), class_paths=torch.tensor([[0]]).numpy(), steps_per_epoch=1)
    printed = capsys.readouterr().err
    assert warning in printed if warning else printed == ""


@pytest.mark.parametrize("scales", [[], [0], [1, -1], [float("inf")]])
def test_scales_that_are_none_are_refused(scales):
    with pytest.raises(ValueError, match="scales"):
        EvaluationSettings.model_validate({"scales": scales})
