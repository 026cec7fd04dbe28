"""Parameter groups and learning rates."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import CosineAnnealingLR, MultiStepLR

from hiertree.errors import RecipeError
from hiertree.losses import HAPPIER, SmoothAP
from hiertree.pipelines.networks.embedder import Embedder
from hiertree.pipelines.networks.settings import ModelSettings
from hiertree.pipelines.training.recipe.settings import (
    OPTIMIZER,
    SCHEDULE,
    AnySchedule,
    OptimizerSettings,
    ScheduleSettings,
)
from hiertree.pipelines.training.run.optimization import Schedule, build_optimizer, parameter_groups


@pytest.fixture(scope="module")
def embedder():
    return Embedder(ModelSettings(width=4, embedding_size=8), channels=1)


@pytest.fixture
def happier():
    return HAPPIER(num_classes=5, embedding_size=8)


def test_groups_hold_every_parameter_once(embedder, happier):
    groups = parameter_groups(embedder, happier, OptimizerSettings())
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    parameters = [id(parameter) for module in (embedder, happier) for parameter in module.parameters()]
    assert sorted(grouped) == sorted(parameters)


def test_groups_have_their_own_rates_and_proxies_no_decay(embedder, happier):
    settings = OptimizerSettings(lr=1e-3, head_lr=2e-3, proxies_lr=1.0, weight_decay=0.1)
    settings_of_group = {
        group["name"]: (group["lr"], group["weight_decay"]) for group in parameter_groups(embedder, happier, settings)
    }
    assert settings_of_group == {"backbone": (1e-3, 0.1), "head": (2e-3, 0.1), "proxies": (1.0, 0.0)}
    decayed = settings.model_copy(update={"proxies_weight_decay": 0.2})
    assert parameter_groups(embedder, happier, decayed)[-1]["weight_decay"] == 0.2


def test_loss_without_parameters_has_no_group(embedder):
    assert [group["name"] for group in parameter_groups(embedder, SmoothAP(), OptimizerSettings())] == [
        "backbone",
        "head",
    ]


def asked(**options):
    """The section ``optimizer`` of a recipe."""
    settings = OPTIMIZER.model(options.get("name", "adam")).model_validate(options)
    assert isinstance(settings, OptimizerSettings)
    return settings


def schedule_of(**options):
    """The section ``schedule`` of a recipe."""
    settings = SCHEDULE.model(options["name"]).model_validate(options)
    assert isinstance(settings, AnySchedule)
    return settings


def test_every_optimizer_of_torch_that_needs_dense_gradients_alone_takes_a_step(embedder, happier):
    unusual = {"Optimizer", "LBFGS", "SparseAdam", "Muon"}
    classes = {name: kind for name, kind in vars(optim).items() if isinstance(kind, type)}
    names = {name.lower() for name, kind in classes.items() if issubclass(kind, optim.Optimizer)}
    assert names - {name.lower() for name in unusual} == set(OPTIMIZER.known())
    for name in OPTIMIZER.known():
        optimizer = build_optimizer(embedder, happier, asked(name=name, lr=1e-3))
        assert type(optimizer).__name__.lower() == name
        parameters = [parameter.detach().clone() for parameter in happier.parameters()]
        for parameter in happier.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        assert not any(map(torch.equal, parameters, happier.parameters())), name


def test_options_of_the_optimizer_are_those_of_its_class(embedder, happier):
    optimizer = build_optimizer(embedder, happier, asked(name="adam", betas=[0.8, 0.9], amsgrad=True))
    assert (optimizer.defaults["betas"], optimizer.defaults["amsgrad"]) == ((0.8, 0.9), True)
    with pytest.raises(RecipeError, match=r"adam \(Invalid beta parameter at index 0: 2\.0\)"):
        build_optimizer(embedder, happier, asked(name="adam", betas=[2.0, 0.9]))


def test_sgd_is_nesterovs_where_it_has_momentum(embedder, happier):
    optimizer = build_optimizer(embedder, happier, asked(name="sgd"))
    assert (optimizer.defaults["momentum"], optimizer.defaults["nesterov"]) == (0.9, True)
    for options in ({"momentum": 0.0}, {"nesterov": False}, {"dampening": 0.1}):
        assert build_optimizer(embedder, happier, asked(name="sgd", **options)).defaults["nesterov"] is False


def factors(count, **schedule):
    """The factors of a run of so many epochs of one step."""
    return rates(ScheduleSettings(**schedule), count, lr=1.0)


def rates(settings, total, *, lr, steps_per_epoch=1):
    """The learning rates of a run, step by step."""
    optimizer = optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "name": "backbone"}], lr=lr, momentum=0.9)
    schedule, rates_of_steps = Schedule(optimizer, settings, total=total, steps_per_epoch=steps_per_epoch), []
    for step in range(total):
        schedule.set(step)
        rates_of_steps.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
    return rates_of_steps


def test_cosine_goes_from_one_to_the_final_fraction():
    factors_of_steps = factors(100, final=0.1)
    assert factors_of_steps[0] == 1.0
    assert factors_of_steps[50] == pytest.approx(0.55)
    assert factors_of_steps[99] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 0.99)))
    assert factors_of_steps == sorted(factors_of_steps, reverse=True)


def test_warm_up_rises_linearly_and_never_starts_at_zero():
    assert factors(8, warmup_epochs=4)[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_constant_stays_after_warm_up():
    assert set(factors(9, warmup_epochs=2, name="constant")[2:]) == {1.0}


def test_warm_up_as_long_as_the_run_is_legal():
    assert factors(4, warmup_epochs=4)[3] == 1.0


def test_steps_are_those_of_torchs_scheduler_epoch_by_epoch(embedder):
    """[B]'s own milestones for VehicleID: unsorted, and one of them twice."""
    milestones = [200, 300, 300, 120, 220, 250, 280]
    reference_optimizer = build_optimizer(embedder, nn.Identity(), asked(lr=1e-5))
    scheduler = MultiStepLR(reference_optimizer, milestones=milestones, gamma=0.3)
    schedule = ScheduleSettings(name="step", milestones=tuple(milestones), factor=0.3)
    rates_of_steps = rates(schedule, 800, lr=1e-5, steps_per_epoch=2)
    for epoch in range(400):
        assert rates_of_steps[2 * epoch : 2 * epoch + 2] == pytest.approx([scheduler.get_last_lr()[0]] * 2, rel=1e-9)
        reference_optimizer.step()
        scheduler.step()


TORCHS = [
    {"name": "StepLR", "step_size": 3, "gamma": 0.5},
    {"name": "MultiStepLR", "milestones": [2, 5]},
    {"name": "ExponentialLR", "gamma": 0.9},
    {"name": "CosineAnnealingLR", "T_max": 4, "eta_min": 0.01},
    {"name": "CosineAnnealingWarmRestarts", "T_0": 3, "T_mult": 2},
    {"name": "LinearLR", "total_iters": 4},
    {"name": "ConstantLR", "factor": 0.5},
    {"name": "PolynomialLR", "total_iters": 10, "power": 2.0},
    {"name": "CyclicLR", "base_lr": 0.1, "max_lr": 1.0, "step_size_up": 3},
    {"name": "OneCycleLR", "max_lr": 2.0},
]


def test_every_schedule_of_torch_that_numbers_describe_is_known():
    made_of_others = {"LambdaLR", "MultiplicativeLR", "SequentialLR", "ChainedScheduler", "LRScheduler"}
    by_a_measurement = {"ReduceLROnPlateau"}
    names = {entry["name"] for entry in TORCHS}
    assert names == set(SCHEDULE.known()) == set(lr_scheduler.__all__) - made_of_others - by_a_measurement


@pytest.mark.parametrize("unit", ["epoch", "step"])
@pytest.mark.parametrize("options", TORCHS, ids=lambda options: str(options["name"]))
def test_schedules_of_torch_are_torchs_own_and_those_of_a_run_that_is_resumed(options, unit):
    per_epoch, total = 2, 12
    settings = schedule_of(**options, unit=unit)
    rates_of_steps = rates(settings, total, lr=0.5, steps_per_epoch=per_epoch)
    steps_each = per_epoch if unit == "epoch" else 1
    length = {"total_steps": total // steps_each} if options["name"] == "OneCycleLR" else {}
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5, momentum=0.9)
    torch_options = {name: value for name, value in options.items() if name != "name"}
    scheduler = getattr(lr_scheduler, options["name"])(optimizer, **torch_options, **length)
    for step in range(total):
        assert rates_of_steps[step] == scheduler.get_last_lr()[0]
        optimizer.step()
        if (step + 1) % steps_each == 0 and step + 1 < total:
            scheduler.step()
    resumed = optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "name": "backbone"}], lr=0.5, momentum=0.9)
    Schedule(resumed, settings, total=total, steps_per_epoch=per_epoch).set(7)
    assert resumed.param_groups[0]["lr"] == rates_of_steps[7]


def test_a_schedule_of_torch_begins_after_rest_and_warm_up():
    settings = schedule_of(name="ExponentialLR", gamma=0.5, unit="step", hold_epochs=1, warmup_epochs=2)
    assert rates(settings, 9, lr=1.0, steps_per_epoch=2) == [0.25, 0.25, 0.25, 0.5, 0.75, 1.0, 1.0, 0.5, 0.25]


def test_options_that_a_schedule_refuses_are_said(embedder):
    optimizer = build_optimizer(embedder, nn.Identity(), asked())  # whose momentum CyclicLR cannot cycle, by its betas
    with pytest.raises(RecipeError, match=r"OneCycleLR \(.*pct_start"):
        Schedule(optimizer, schedule_of(name="OneCycleLR", max_lr=1, pct_start=2.0), total=4, steps_per_epoch=1)


@pytest.mark.parametrize("schedule", [{"name": "step"}, {"milestones": [3]}, {"name": "step", "milestones": [0]}])
def test_milestones_without_steps_and_steps_without_milestones_are_refused(schedule):
    with pytest.raises(ValueError, match="milestones"):
        ScheduleSettings.model_validate(schedule)


def test_head_and_proxies_can_end_elsewhere(embedder, happier):
    optimizer = build_optimizer(embedder, happier, asked(lr=1e-3, head_lr=2e-3, proxies_lr=10.0))
    schedule = ScheduleSettings(final=0.0, head_final=0.5, proxies_final=0.01)
    Schedule(optimizer, schedule, total=100, steps_per_epoch=10).set(100)
    rates_of_groups = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert rates_of_groups == pytest.approx({"backbone": 0.0, "head": 1e-3, "proxies": 0.1})


def test_held_rates_are_those_of_torchs_scheduler_that_starts_late(embedder):
    """SupRank's loop: the scheduler stands still in the first epochs and keeps its length."""
    reference_optimizer = build_optimizer(embedder, nn.Identity(), asked(lr=1e-5))
    scheduler, rates_of_steps = (
        CosineAnnealingLR(reference_optimizer, T_max=20),
        rates(ScheduleSettings(hold_epochs=5), 20, lr=1e-5),
    )
    for epoch in range(20):
        assert rates_of_steps[epoch] == pytest.approx(scheduler.get_last_lr()[0], rel=1e-9)
        reference_optimizer.step()
        if epoch >= 5:
            scheduler.step()


def test_setting_rates_twice_does_not_compound(embedder):
    optimizer = build_optimizer(embedder, nn.Identity(), asked(lr=1.0))
    schedule = Schedule(optimizer, ScheduleSettings(), total=10, steps_per_epoch=5)
    for _ in range(3):
        schedule.set(5)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5)
