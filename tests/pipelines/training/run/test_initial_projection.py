"""The projection that starts from a PCA: whose directions, of which images, and when it is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from interrupted_runs import assert_same_weights, break_at
from sklearn.decomposition import PCA

from hiertree.errors import RecipeError
from hiertree.pipelines.networks.embedder import Embedder
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.data.views import ImageViews
from hiertree.pipelines.training.distributed.group import build_fabric
from hiertree.pipelines.training.run import training_run
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.starting_weights import initialize_projection, principal_projection

WIDE = ("model.width=8", "data.images=8", "data.instances=4", "model.projection_init=pca")


@pytest.mark.parametrize("whitened", [False, True])
def test_projection_is_the_pca_of_scikit_learn(whitened):
    features = torch.randn(60, 9, generator=torch.Generator().manual_seed(0)) @ torch.diag(torch.arange(1.0, 10))
    weight, bias = principal_projection(features + 3, 4, whitened=whitened)
    expected = PCA(4, whiten=whitened, svd_solver="full").fit_transform(features.double().numpy() + 3)
    components = ((features + 3).double() @ weight.T + bias).numpy()
    signs = np.sign((components * expected).sum(axis=0))
    np.testing.assert_allclose(components, expected * signs, rtol=1e-6, atol=1e-6)


def started(recipe):
    """The network as its first step finds it."""
    torch.manual_seed(recipe.seed)
    embedder, dataset = Embedder(recipe.model, channels=recipe.images.channels), load_split(recipe, "train")
    initialize_projection(embedder, dataset, recipe, build_fabric(recipe.training))
    return embedder, dataset


def test_first_embeddings_are_the_principal_components_of_the_evaluations_view(tiny_recipe):
    recipe = tiny_recipe(*WIDE)
    embedder, dataset = started(recipe)
    images = ImageViews(dataset.images, recipe.images)._plain_batch(list(range(len(dataset))))
    with torch.inference_mode():
        components = embedder.projection(embedder.pooled(images)).double().numpy()
    np.testing.assert_allclose(components.mean(axis=0), 0, atol=1e-6)
    covariance = np.cov(components.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-6 * covariance[0, 0])
    assert np.all(np.diff(np.diag(covariance)) < 0)


def test_images_are_drawn_by_the_seed_and_no_bias_is_made_up(tiny_recipe):
    landmarks = ("model.layer_norm=false", "model.l2_norm=true", "model.projection_bias=false")
    recipe = tiny_recipe(*WIDE, *landmarks, "model.projection_images=20")
    embedder, dataset = started(recipe)
    weight = embedder.projection.weight.clone()
    torch.testing.assert_close(weight @ weight.T, torch.eye(8))
    assert torch.equal(weight, started(recipe)[0].projection.weight)
    fabric = build_fabric(recipe.training)
    initialize_projection(embedder, dataset, recipe.model_copy(update={"seed": 1}), fabric)
    assert not torch.allclose(embedder.projection.weight, weight)


def test_interrupted_run_does_not_compute_its_pca_again(tiny_recipe, tmp_path):
    recipe = tiny_recipe(*WIDE, "training.epochs=1", "training.checkpoint_every_steps=1")
    train(recipe, tmp_path / "whole")
    break_at(1, recipe, tmp_path / "broken")
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(training_run, "initialize_projection")
        train(recipe, tmp_path / "broken")
    assert_same_weights(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (("model.embedding_size=33",), "and 32 features"),
        (("model.projection_images=8",), "a PCA of 8 images"),
        (("model.embedding_size=32", "model.layer_norm=true"), "vary along 31 directions"),
        (("model.layer_norm=true", "model.l2_norm=true"), "exclude each other"),
        (("model.embedding_size=null",), "set an embedding_size"),
        (("model.embedding_size=null", "model.projection_init=random", "model.freeze_backbone_epochs=1"), "projection"),
    ],
)
def test_pca_that_cannot_be_is_refused_before_the_run_writes(tiny_recipe, tmp_path, overrides, problem):
    with pytest.raises(RecipeError, match=problem):
        train(tiny_recipe(*WIDE, "model.layer_norm=false", *overrides), tmp_path / "run")
    assert not (tmp_path / "run").exists()
