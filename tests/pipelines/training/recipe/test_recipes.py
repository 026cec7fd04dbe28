"""Every built-in recipe is built whole and learns two steps from its data in their published format, made small."""

from __future__ import annotations

import json
import math
from itertools import chain, islice

import numpy as np
import pytest
import torch
from benchmark_files import write_benchmark
from PIL import Image

from hiertree.metrics.conventions import PROTOCOLS
from hiertree.pipelines.training.data.batches import EpochKeys
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.data.views import ImageViews
from hiertree.pipelines.training.distributed.group import build_fabric
from hiertree.pipelines.training.recipe.reading import built_in_recipes, load_recipe
from hiertree.pipelines.training.run.evaluator import SplitEvaluator
from hiertree.pipelines.training.run.learner import Learner
from hiertree.pipelines.training.run.training_run import build_sampler, labels_for

SMALL = (
    *("images.size=16", "images.cache=true", "images.workers=0", "model.backbone=small_cnn"),
    *("model.backbone_options={}", "model.pretrained=false", "model.width=4", "model.embedding_size=24"),
    *("training.device=cpu", "training.precision=32-true"),
)
FEW = ("sampler.batch_size=4", "sampler.images_per_class=2")
FILES = {
    "sop": "sop",
    "inat": "inaturalist-full",
    "h": "h-gldv2",
    "vehicleid": "vehicleid-800",
    "cub": "cub",
    "inshop": "inshop",
    "cifar10": "cifar10",
    "imagenet100": "imagenet100",
    "nus": "nus-wide",
    "sfm120k": "sfm120k",
    "vggface2": "vggface2",
}
DYML = {"dyml-vehicle": "dyml-vehicle", "dyml-animal": "dyml-vehicle", "dyml-product": "dyml-product"}  # one format

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def roots(tmp_path_factory, request):
    """The overrides that point a recipe at small files of its benchmark, which are written once."""
    folder_of_data = {}

    def root_of(recipe):
        family = recipe.split("-", maxsplit=1)[0]
        if family == "synthetic":
            return ["data.families=2", "data.kinds=2", "data.instances=2", "data.images=4", *FEW]
        if family == "omniglot":
            small = request.getfixturevalue("shared_data") / "omniglot" / "images_background_small1.zip"
            return [f"data.root={small}", "sampler.batch_size=64"]
        if family == "washington":
            return [*_photos(tmp_path_factory.mktemp("photos")), *FEW]
        benchmark = DYML["-".join(recipe.split("-")[:2])] if family == "dyml" else FILES[family]
        if benchmark not in folder_of_data:
            folder_of_data[benchmark] = tmp_path_factory.mktemp(benchmark)
            write_benchmark(benchmark, folder_of_data[benchmark])
        data = [f"data.root={folder_of_data[benchmark]}", "data.verify=structure"]
        if family == "cifar10":  # S1 takes 600 images of a class
            return [*data, "data.setting=published", "sampler.batch_size=8"]
        if family == "imagenet100":
            return [*data, "images.augmentation={name: none}", "sampler.batch_size=3"]
        if family == "nus":  # of 2,500 images
            overrides = ["data.queries_per_label=3", "data.training_per_label=8", "model.embedding_size=64"]
            return [*data, *overrides, "images.augmentation={name: none}", "sampler.batch_size=8"]
        return [*data, *FEW]

    return root_of


def _photos(folder):
    """Eight landmarks of two supercategories, two photos each, half of them held out."""
    table = ["image,natural_or_human_made,hierarchical_label,landmark_id,split"]
    for photo in range(16):
        landmark = photo // 2
        pixels = np.random.default_rng(photo).integers(0, 256, (16, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{photo}.jpg")
        kind, supercategory = ("natural", "lake") if landmark % 2 else ("human-made", "bridge")
        table.append(f"{photo}.jpg,{kind},{supercategory},{landmark},{'test' if landmark < 4 else 'train'}")
    (folder / "images.csv").write_text("\n".join(table))
    return [f"data.path={folder / 'images.csv'}", f"data.root={folder}"]


@pytest.fixture(scope="module")
def splits():
    """Training views, training split and test split of a recipe; recipes of the same data share them."""
    loaded = {}

    def of(recipe):
        sections = recipe.as_dict()
        key = json.dumps([sections["data"], sections["images"]])
        if key not in loaded:
            train, test = load_split(recipe, "train"), load_split(recipe, "test")
            loaded[key] = ImageViews(train.images, recipe.images, augment=0), train, test
        return loaded[key]

    return of


@pytest.fixture(scope="module")
def learned():
    """Fingerprints of the small recipes that have learned their steps."""
    return set()


@pytest.mark.parametrize("name", built_in_recipes())
def test_recipe_learns_two_steps(name, roots, splits, learned):
    own_pooling = (
        ["model.pooling=average"] if load_recipe(name).model.pooling == "backbone" else []
    )  # which a small CNN does not have
    recipe = load_recipe(name, [*SMALL, *own_pooling, *roots(name)])
    fingerprint = recipe.model_copy(update={"name": "same"}).fingerprint()
    if fingerprint in learned:  # small, it is another recipe: those of a series differ in their batch size alone
        return
    learned.add(fingerprint)
    views, train, test = splits(recipe)
    keys = EpochKeys(build_sampler(recipe, train))
    learner = Learner(
        recipe, build_fabric(recipe.training), class_paths=np.unique(train.paths, axis=0), steps_per_epoch=len(keys)
    )
    paths = labels_for(learner.loss, train)
    learner.start_epoch(recipe.model.freeze_backbone_epochs)
    weights = {key: tensor.clone() for key, tensor in learner.embedder.state_dict().items()}
    keys.start(0)
    for step, key in enumerate(islice(chain.from_iterable(keys for _ in range(2)), 2)):
        batch = views[key]
        noise = torch.randint(0, 256, batch.images.shape, generator=torch.Generator().manual_seed(step))
        values = learner.step(noise.to(torch.uint8), paths[batch.indices], step=step)  # plain images rank at once
        assert all(map(math.isfinite, values.values()))
    weights_after = learner.embedder.state_dict()
    assert not torch.equal(weights_after["head.1.weight"], weights["head.1.weight"])
    assert not torch.equal(weights_after["backbone.0.weight"], weights["backbone.0.weight"])
    metric_names = SplitEvaluator(test, recipe).names
    if name.startswith("dyml"):
        means, lists = ("mean AP", "mean ASI", "mean R@1"), "123" if "product" in name else ("fine", "middle", "coarse")
        assert {*means, *(f"AP[{level}]" for level in lists)} <= set(metric_names)
    elif name.startswith("vehicleid"):
        assert {"mean R@1", "R@1[800]", "R@5[1600]", "R@1[2400]"} <= set(metric_names)
    else:
        assert test.protocol is None or metric_names == PROTOCOLS[test.protocol].names(test.paths.shape[1])


def test_recipes_of_the_comparison_differ_in_their_loss_alone():
    with_codes = ("omniglot-talr-ap", "omniglot-talr-ndcg")  # of 64 bits
    names = [name for name in built_in_recipes() if name.startswith("omniglot") and name not in with_codes]
    recipes = [load_recipe(name) for name in names]
    assert len(recipes) >= 18
    common = [
        {key: value for key, value in recipe.as_dict().items() if key not in ("name", "loss")} for recipe in recipes
    ]
    for settings in common:
        settings["optimizer"].pop("proxies_lr")
    assert all(settings == common[0] for settings in common)
