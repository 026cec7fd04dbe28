"""Two real runs on drawn images, small enough for every test of the report to share."""

from __future__ import annotations

import os

import pytest

from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.run.experiment import train

SMALL = [
    *("data.families=3", "data.kinds=2", "data.instances=3", "data.images=4", "sampler.batch_size=16"),
    *("model.width=4", "training.epochs=2", "evaluation.every=1"),
]


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Folders of a finished Smooth-AP run and a finished HAPPIER run on the same images."""
    os.environ.setdefault("HIERTREE_PROGRESS", "0")
    names = ("synthetic-smooth-ap", "synthetic-happier")
    return [train(load_recipe(name, SMALL), tmp_path_factory.mktemp(name)).folder for name in names]


@pytest.fixture(scope="session")
def images():
    """The images that the runs were measured on."""
    return load_split(load_recipe("synthetic-happier", SMALL), "test")
