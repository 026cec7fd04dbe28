"""Code of one's own in a recipe: ``module:attribute`` for images, batches, loss, optimizer, schedule and transforms."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from interrupted_runs import assert_resumes, assert_same_weights, curve, weights

from hiertree.errors import RecipeError
from hiertree.pipelines.inference.embedding import embed
from hiertree.pipelines.inference.exporting import export
from hiertree.pipelines.networks.loading import load_embedder
from hiertree.pipelines.report import make_report
from hiertree.pipelines.training.data.batches import BatchKey
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.data.views import ImageViews
from hiertree.pipelines.training.distributed.processes import Processes
from hiertree.pipelines.training.recipe.reading import check_recipe, load_recipe
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.training_run import build_sampler

MODULE = '''
import random

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

import hiertree as ht
from hiertree.datasets import load_synthetic


class Margin(nn.Module):
    """The mean distance to the items of the same class, less that to the others; it learns and it drops out."""

    def __init__(self, margin: float = 0.2, *, num_classes: int, embedding_size: int) -> None:
        super().__init__()
        self.margin = margin
        self.centers = nn.Parameter(torch.randn(num_classes, embedding_size))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, embeddings, paths):
        self.calls += 1
        kept = nn.functional.dropout(embeddings, 0.2) @ self.centers.T
        return nn.functional.cross_entropy(kept, paths[:, -1]) + self.margin


def plain(embeddings, paths, power=2):
    same = paths[:, None, -1] == paths[None, :, -1]
    return ((embeddings @ embeddings.T - same.float()).abs() ** power).mean()


def wrong(embeddings, paths, what="vector"):
    return {"vector": embeddings.sum(dim=1), "integer": paths.sum(), "number": 1.5}[what]


def made_of_ours(alpha: float = 1.0):
    from hiertree.losses import SupHAP
    return SupHAP(alpha=alpha)


def drawn(split, kinds: int = 2):
    return load_synthetic(split, families=2, kinds=kinds, instances=2, images=4, image_size=16)


class Pairs(torch.utils.data.Dataset):
    """Items (image, family, leaf) of torch: images of Pillow, arrays and tensors."""

    def __init__(self, split, form="pillow", shown=False):
        self.images, self.form = drawn(split), form
        if shown:
            self.targets = [list(map(int, path)) for path in self.images.paths]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, path = self.images[index]
        if self.form == "array":
            image = np.array(image)
        if self.form == "tensor":
            image = torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255
        if self.form == "bad":
            return image, *path.tolist()[: index % 2 + 1]
        return image, *torch.from_numpy(path)


class EveryOther:
    """Batches of every second image, turned around by seed and epoch."""

    def __init__(self, paths, seed, batch_size: int = 8) -> None:
        self.count, self.seed, self.batch_size, self.state = len(paths), seed, batch_size, {"epoch": 0, "batch": 0}

    def __len__(self):
        return self.count // 2 // self.batch_size

    def load_state_dict(self, state):
        self.state = dict(state)

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.state["epoch"]]).permutation(self.count)[::2]
        for batch in range(self.state["batch"], len(self)):
            yield order[batch * self.batch_size : (batch + 1) * self.batch_size]


class Stateless:
    def __init__(self, paths, batch_size: int = 8, images_per_class: int = 2) -> None: ...
    def __iter__(self): return iter([[0]])
    def __len__(self): return 1


class Counting(torch.optim.Optimizer):
    """Sign descent whose step shrinks with numbers that it keeps in state and groups, as timm's Lamb does."""

    def __init__(self, params, lr, beta: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["taken"] = group.get("taken", 0) + 1
            for parameter in filter(lambda each: each.grad is not None, group["params"]):
                state = self.state[parameter]
                state["seen"] = state.get("seen", 0) + 1
                parameter -= group["lr"] / group["taken"] / state["seen"] ** 0.5 * parameter.grad.sign()


class Halving(LRScheduler):
    def __init__(self, optimizer, total_steps, by: float = 0.5) -> None:
        self.by, self.total = by, total_steps
        super().__init__(optimizer)

    def get_lr(self):
        return [base * self.by ** (self.last_epoch / self.total) for base in self.base_lrs]


def noisy(image, most: int = 30):
    drawn = random.random() + np.random.rand() + float(torch.rand(()))
    return (image.int() + int(most * drawn)).clamp(0, 255).to(torch.uint8)


def sized(image, side: int = 20):
    return nn.functional.interpolate(image[None].float(), size=[side, side])[0].to(torch.uint8)


class Divided:
    def __init__(self, by: float = 255.0) -> None:
        self.by = by

    def __call__(self, image):
        return image / self.by


def frozen_tower(by_peft=False):
    """A transformer of timm of which adapters alone learn."""
    import timm

    network = timm.create_model("test_vit", num_classes=0, img_size=32)
    if by_peft:
        from peft import LoraConfig, inject_adapter_in_model

        return inject_adapter_in_model(LoraConfig(r=2, target_modules=["qkv"]), network)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name.endswith("qkv.bias"))
    return network


def failing(image):
    raise KeyError("no such color")
'''


@pytest.fixture(autouse=True)
def own_code(tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "own_code.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    monkeypatch.delitem(sys.modules, "own_code", raising=False)


EVERYTHING = (
    "data={name: own_code:drawn}",
    "sampler={name: own_code:EveryOther, batch_size: 4}",
    "loss={name: own_code:Margin, margin: 0.1}",
    "optimizer={name: own_code:Counting, lr: 0.01, beta: 0.5}",
    "schedule={name: own_code:Halving, unit: step, warmup_epochs: 1}",
    "images.augmentation=[{name: own_code:noisy, most: 20}, {name: RandomHorizontalFlip}]",
)


@pytest.mark.parametrize(
    "overrides",
    [
        EVERYTHING,
        ("loss={name: own_code:plain, power: 1}", "training.accumulate=two_pass", "training.chunk_size=3",
         "model.freeze_batch_norm=true", "images.workers=2", "images.cache=false",
         "images.augmentation={name: own_code:noisy}"),
        ("data={name: own_code:Pairs}", "optimizer={name: nadam, lr: 0.01}", "training.logger=none",
         "schedule={name: CosineAnnealingWarmRestarts, T_0: 2, unit: step}", "training.ema_decay=0.9"),
        ("optimizer={name: 'timm.optim:Lamb', lr: 0.01}", "schedule={name: OneCycleLR, max_lr: 0.1, unit: step}",
         "loss={name: own_code:made_of_ours, alpha: 2}"),
    ],
    ids=["everything", "functions", "torch", "timm"],
)  # fmt: skip
def test_run_of_ones_own_code_resumes_to_the_bit(tiny_recipe, tmp_path, overrides):
    recipe = tiny_recipe(*overrides)
    assert_resumes(recipe, tmp_path)
    assert train(recipe, tmp_path / "whole").already_finished


@pytest.mark.parametrize("form", ["pillow", "array", "tensor"])
@pytest.mark.parametrize("show_progress", [False, True])
def test_items_of_torch_are_the_images_and_paths_that_they_hold(tiny_recipe, form, show_progress):
    split = load_split(tiny_recipe(f"data={{name: own_code:Pairs, form: {form}, shown: {show_progress}}}"), "train")
    meant = load_split(tiny_recipe("data={name: own_code:drawn}"), "train")
    assert np.array_equal(split.paths, meant.paths)
    assert split.tree.level_names == ("level_1", "level_2", "level_3")
    for row in (0, len(meant) - 1):
        assert np.array_equal(np.asarray(split.images[row]), np.asarray(meant.images[row]))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("loss={name: own_code:Margn}", r"name=own_code:Margn, where own_code \(.*own_code\.py\) has no callable"),
        ("loss={name: own_cod:Margin}", r"loss: name=own_cod:Margin \(No module named 'own_cod'\).*PYTHONPATH=FOLDER"),
        ("loss={name: 'own_code:Margin.x'}", r"loss: name='own_code:Margin\.x': expected module:attribute"),
        ("loss={name: own_code:Margin, margn: 1}", r"loss: unknown key 'margn', did you mean 'margin'\?"),
        ("loss={name: own_code:Margin, num_classes: 1}", r"loss: unknown key 'num_classes'"),
        ("loss={name: own_code:Margin, margin: much}", r"loss\.margin: .*\(given 'much'\)"),
        ("loss={name: own_code:plain, powr: 1}", r"loss: unknown key 'powr', did you mean 'power'\?"),
        ("data={name: own_code:noisy}", r"data: own_code:noisy lacks the parameter split, which the run gives it"),
        ("sampler={name: own_code:drawn}", r"sampler: own_code:drawn lacks the parameter paths"),
        ("optimizer={name: own_code:plain}", r"optimizer: own_code:plain lacks the parameter lr, params"),
        ("optimizer={name: RMSprop}", r"optimizer: unknown name 'RMSprop', did you mean 'rmsprop'\?"),
        ("optimizer={name: adamW}", r"optimizer: unknown name 'adamW', did you mean 'adamw'\?"),
        ("loss={name: Happier}", r"loss: unknown name 'Happier', did you mean 'HAPPIER'\?"),
        ("optimizer={betas: [0.9]}", r"optimizer\.betas"),
        ("schedule={name: StepLR}", r"schedule\.step_size: Field required"),
        ("schedule={name: LambdaLR}", r"schedule: unknown name 'LambdaLR'"),
        ("images.augmentation=[{name: RandomCropp}]", r"unknown name 'RandomCropp', did you mean 'RandomCrop'\?"),
        ("images.augmentation=[{name: RandomApply, transforms: [{name: ColorJitter, hu: 1}]}]",
         r"unknown key 'hu', did you mean 'hue'\?"),
    ],
)  # fmt: skip
def test_wrong_name_or_option_is_refused_with_its_place(tiny_recipe, override, message):
    with pytest.raises(RecipeError, match=message):
        tiny_recipe(override)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("images.augmentation={name: own_code:sized}", r"an image of shape \(3, 20, 20\): .*name: Resize, size: \[16"),
        ("images.augmentation={name: own_code:Divided, by: 10}", r"makes torch\.float32 from .* floats in \[0, 1\]"),
        ("images.augmentation={name: own_code:failing}", r"makes KeyError: 'no such color'"),
        ("images.augmentation=[{name: CutMix, num_classes: 3}]", r"images\.augmentation makes \w+Error"),
        ("loss={name: own_code:wrong}", r"wrong returns a tensor \(8,\) of torch\.float32: expected one floating"),
        ("loss={name: own_code:wrong, what: integer}", r"loss: wrong returns a tensor \(\) of torch\.int64"),
        ("loss={name: own_code:wrong, what: number}", r"loss: wrong returns 1\.5"),
        ("data={name: own_code:Pairs, form: bad}", r"data: labels of own_code:Pairs \(.*\): expected items"),
        ("optimizer={name: adam, betas: [2.0, 0.9]}", r"adam \(Invalid beta parameter"),
    ],
)  # fmt: skip
def test_what_does_not_fit_stops_the_run(tiny_recipe, tmp_path, override, message):
    with pytest.raises(RecipeError, match=message):
        train(tiny_recipe(override), tmp_path / "run")


def test_floats_between_0_and_1_are_the_pixels_that_they_stand_for(tiny_recipe, tmp_path):
    kinds = ("{name: none}", "{name: own_code:Divided}")
    for kind in kinds:
        train(tiny_recipe(f"images.augmentation={kind}"), tmp_path / kind[7:11])
    assert_same_weights(*(tmp_path / kind[7:11] for kind in kinds))


def test_a_sampler_without_the_interface_is_refused(tiny_recipe):
    recipe = tiny_recipe("sampler={name: 'own_code:EveryOther'}")
    images = load_split(recipe, "train")
    assert len(build_sampler(recipe, images)) == len(images) // 16
    with pytest.raises(RecipeError, match=r"sampler: .*without load_state_dict: expected lists of indices"):
        build_sampler(tiny_recipe("sampler={name: 'own_code:Stateless'}"), images)


def test_nothing_that_a_folder_of_a_run_names_is_imported(tiny_recipe, tmp_path, monkeypatch):
    run = train(tiny_recipe(*EVERYTHING, "training.epochs=1"), tmp_path / "run").folder
    monkeypatch.delitem(sys.modules, "own_code")
    (tmp_path / "code" / "own_code.py").write_text("raise SystemExit('code has run')")
    recipe_file = run / "recipe.yaml"
    untrusted = load_recipe(recipe_file, trusted=False)
    assert untrusted.as_dict() == yaml.safe_load(recipe_file.read_text())
    with pytest.raises(RecipeError, match=r"own_code:drawn, which the folder .*name it yourself: --set"):
        load_split(untrusted, "test")
    with pytest.raises(RecipeError, match="which the folder of a run"):
        check_recipe(yaml.safe_load(recipe_file.read_text())).loss.build()
    make_report([run], tmp_path / "report.html")
    with pytest.raises(Exception, match=r"no images to compare on \(own_code:drawn, which the"):
        export(run, tmp_path / "exported")
    (tmp_path / "photos").mkdir()
    with pytest.raises(RecipeError, match="which the folder of a run"):
        embed(run, tmp_path / "photos", tmp_path / "embedded", overrides=["data.root=photos"])
    with pytest.raises(RecipeError, match="a run of another recipe"):
        train(tiny_recipe("training.epochs=1"), run)
    fetched = {
        **yaml.safe_load(recipe_file.read_text()),
        "data": {"name": "huggingface", "path": "a/b", "levels": ["kind"]},
    }
    with pytest.raises(RecipeError, match="huggingface, which the folder"):
        load_split(check_recipe(fetched), "test")
    assert "own_code" not in sys.modules
    (tmp_path / "code" / "own_code.py").write_text(MODULE, encoding="utf-8")
    recipe_of_name = load_recipe(recipe_file, ["data.name=own_code:drawn"], trusted=False)
    assert len(load_split(recipe_of_name, "test")) == 32
    with pytest.raises(RecipeError, match="which the folder of a run"):
        recipe_of_name.loss.build()


def test_two_processes_learn_from_ones_own_code_what_one_does(tiny_recipe, tmp_path):
    overrides = ["data={name: own_code:drawn}", "loss={name: own_code:plain}", "model.freeze_batch_norm=true"]
    overrides += ["images.augmentation={name: own_code:noisy}", "schedule={name: OneCycleLR, max_lr: 0.001}"]
    train(tiny_recipe(*overrides), tmp_path / "one")
    train(tiny_recipe(*overrides, "training.devices=2"), tmp_path / "two")
    for row, two in zip(curve(tmp_path / "one"), curve(tmp_path / "two"), strict=True):
        assert two["loss"] == pytest.approx(row["loss"], rel=1e-4)
    processes = Processes()
    processes.size = 2
    recipe = tiny_recipe("sampler={name: own_code:EveryOther}")
    with pytest.raises(RecipeError, match="for several processes a subclass of a sampler of hiertree"):
        build_sampler(recipe, load_split(recipe, "train"), processes)


def test_augmentation_draws_by_seed_epoch_batch_and_place_alone(tiny_recipe):
    recipe = tiny_recipe("images.augmentation=[{name: own_code:noisy}, {name: RandomHorizontalFlip}]")
    views = ImageViews(load_split(recipe, "train").images, recipe.images, augment=0)
    states = torch.get_rng_state(), np.random.get_bit_generator(), random.getstate()
    images_at_once = views[BatchKey(1, 2, [3, 3, 4])].images
    assert torch.equal(images_at_once, views[BatchKey(1, 2, [3, 3, 4])].images)
    assert torch.equal(images_at_once[2:], views[BatchKey(1, 2, [4], first=2)].images)
    assert not torch.equal(images_at_once[0], images_at_once[1])
    assert not torch.equal(images_at_once, views[BatchKey(2, 2, [3, 3, 4])].images)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_bit_generator() is states[1]
    assert random.getstate() == states[2]


def test_recipe_of_the_documentation_trains(tmp_path):
    page = (Path(__file__).parents[4] / "docs" / "recipes.md").read_text(encoding="utf-8")
    (recipe_text,) = (text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "my_losses" in text)
    loss = "def spread(embeddings, paths, power=1):\n    return (embeddings @ embeddings.T).abs().pow(power).mean()\n"
    (tmp_path / "code" / "my_losses.py").write_text(loss)
    (tmp_path / "code" / "my_transforms.py").write_text("def darken(image, by=1):\n    return image // by\n")
    (tmp_path / "mine.yaml").write_text(f"extends: synthetic-happier\n{recipe_text}", encoding="utf-8")
    small = ("data={name: own_code:drawn}", "sampler.batch_size=8", "sampler.images_per_class=2", "model.width=4")
    recipe = load_recipe(tmp_path / "mine.yaml", [*small, "training.epochs=1", "training.device=cpu"])
    assert 0 < train(recipe, tmp_path / "run").metrics["H-AP"] <= 1


@pytest.mark.parametrize("by_peft", [False, True])
def test_what_ones_own_network_has_frozen_stays_so(tiny_recipe, tmp_path, by_peft):
    if by_peft:
        pytest.importorskip("peft")
    tower = {"backbone": "own_code:frozen_tower", "backbone_options": {"by_peft": by_peft}, "pooling": "backbone"}
    tower |= {"mean": [0, 0, 0], "std": [1, 1, 1], "freeze_backbone_epochs": 1}
    settings = f"model={tower}", "images.size=32", "data.image_size=32", "optimizer.lr=0.1"
    assert_resumes(tiny_recipe(*settings), tmp_path)
    train(tiny_recipe(*settings, "training.epochs=1"), tmp_path / "first")  # with the weights that it started with
    first, last = weights(tmp_path / "first"), load_embedder(tmp_path / "whole", backbone=tower["backbone"])
    tensors = last.backbone.state_dict()
    changed = {name for name, tensor in tensors.items() if not torch.equal(tensor, first[f"backbone.{name}"])}
    assert changed == {name for name in tensors if "lora_" in name or name.endswith("qkv.bias")}
