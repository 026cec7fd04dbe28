"""A recipe so small that a whole run takes a second: 4 classes of 4 drawn images, 2 steps an epoch."""

from __future__ import annotations

import pytest

from hiertree.pipelines.training.recipe.reading import load_recipe

TINY = (
    *("data.families=2", "data.kinds=2", "data.instances=2", "data.images=4", "data.image_size=16"),
    *("images.size=16", "sampler.batch_size=8", "sampler.images_per_class=2", "model.width=4"),
    *("model.embedding_size=8", "training.epochs=3", "training.device=cpu", "evaluation.every=null"),
)


@pytest.fixture(scope="session")
def tiny_recipe():
    """``tiny_recipe("a.b=c", …)``: the built-in HAPPIER recipe, made tiny, with further overrides."""

    def load(*overrides, recipe="synthetic-happier"):
        return load_recipe(recipe, [*TINY, *overrides])

    return load


@pytest.fixture(scope="module")
def browser():
    """A browser without a window; skipped where there is none."""
    from local_server import chromium

    driver = chromium()
    yield driver
    driver.quit()
