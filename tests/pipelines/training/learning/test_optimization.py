"""Parameter groups and learning rates."""

from __future__ import annotations

import math
from typing import Any

import pytest
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, MultiStepLR

from hiertree.losses import HAPPIER, SmoothAP
from hiertree.pipelines.training.learning.optimization import (
    build_optimizer,
    learning_rate_factor,
    parameter_groups,
    set_learning_rates,
)
from hiertree.pipelines.training.network.embedder import Embedder
from hiertree.pipelines.training.recipe.settings import ModelSettings, OptimizerSettings, ScheduleSettings


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(ModelSettings(width=4, embedding_size=8), channels=1)


@pytest.fixture
def happier() -> HAPPIER:
    return HAPPIER(num_classes=5, embedding_size=8)


def test_groups_hold_every_parameter_once(embedder: Embedder, happier: HAPPIER) -> None:
    groups = parameter_groups(embedder, happier, OptimizerSettings())
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    everything = [id(parameter) for module in (embedder, happier) for parameter in module.parameters()]
    assert sorted(grouped) == sorted(everything)


def test_groups_have_their_own_rates_and_proxies_no_decay(embedder: Embedder, happier: HAPPIER) -> None:
    settings = OptimizerSettings(lr=1e-3, head_lr=2e-3, proxies_lr=1.0, weight_decay=0.1)
    rates = {
        group["name"]: (group["lr"], group["weight_decay"]) for group in parameter_groups(embedder, happier, settings)
    }
    assert rates == {"backbone": (1e-3, 0.1), "head": (2e-3, 0.1), "proxies": (1.0, 0.0)}
    decayed = settings.model_copy(update={"proxies_weight_decay": 0.2})
    assert parameter_groups(embedder, happier, decayed)[-1]["weight_decay"] == 0.2


def test_loss_without_parameters_has_no_group(embedder: Embedder) -> None:
    assert [group["name"] for group in parameter_groups(embedder, SmoothAP(), OptimizerSettings())] == [
        "backbone",
        "head",
    ]


@pytest.mark.parametrize(("name", "kind"), [("adam", "Adam"), ("adamw", "AdamW"), ("sgd", "SGD")])
def test_optimizer_is_the_one_asked_for(embedder: Embedder, happier: HAPPIER, name: str, kind: str) -> None:
    assert type(build_optimizer(embedder, happier, OptimizerSettings(name=name))).__name__ == kind


def test_sgd_without_momentum_is_not_nesterov(embedder: Embedder, happier: HAPPIER) -> None:
    optimizer = build_optimizer(embedder, happier, OptimizerSettings(name="sgd", momentum=0.0))
    assert optimizer.defaults["nesterov"] is False


def factors(count: int, **schedule: Any) -> list[float]:
    """The factors of a run of so many epochs of one step."""
    settings = ScheduleSettings(**schedule)
    return [learning_rate_factor(settings, step, total=count, steps_per_epoch=1) for step in range(count)]


def test_cosine_goes_from_one_to_the_final_fraction() -> None:
    found = factors(100, final=0.1)
    assert found[0] == 1.0
    assert found[50] == pytest.approx(0.55)
    assert found[99] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 0.99)))
    assert found == sorted(found, reverse=True)


def test_warm_up_rises_linearly_and_never_starts_at_zero() -> None:
    assert factors(8, warmup_epochs=4)[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_constant_stays_after_warm_up() -> None:
    assert set(factors(9, warmup_epochs=2, name="constant")[2:]) == {1.0}


def test_warm_up_as_long_as_the_run_is_legal() -> None:
    assert factors(4, warmup_epochs=4)[3] == 1.0


def test_steps_are_those_of_torchs_scheduler_epoch_by_epoch(embedder: Embedder) -> None:
    """[B]'s own milestones for VehicleID: unsorted, and one of them twice."""
    published = [200, 300, 300, 120, 220, 250, 280]
    optimizer, other = (build_optimizer(embedder, nn.Identity(), OptimizerSettings(lr=1e-5)) for _ in range(2))
    scheduler = MultiStepLR(other, milestones=published, gamma=0.3)
    schedule = ScheduleSettings(name="step", milestones=tuple(published), factor=0.3)
    for epoch in range(400):
        for step in (2 * epoch, 2 * epoch + 1):
            set_learning_rates(optimizer, schedule, step=step, total=800, steps_per_epoch=2)
            assert optimizer.param_groups[0]["lr"] == pytest.approx(scheduler.get_last_lr()[0], rel=1e-9)
        other.step()
        scheduler.step()


@pytest.mark.parametrize("schedule", [{"name": "step"}, {"milestones": [3]}, {"name": "step", "milestones": [0]}])
def test_milestones_without_steps_and_steps_without_milestones_are_refused(schedule: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="milestones"):
        ScheduleSettings.model_validate(schedule)


def test_proxies_can_end_elsewhere(embedder: Embedder, happier: HAPPIER) -> None:
    optimizer = build_optimizer(embedder, happier, OptimizerSettings(lr=1e-3, proxies_lr=10.0))
    schedule = ScheduleSettings(final=0.0, proxies_final=0.01)
    set_learning_rates(optimizer, schedule, step=100, total=100, steps_per_epoch=10)
    rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert rates == pytest.approx({"backbone": 0.0, "head": 0.0, "proxies": 0.1})


def test_held_rates_are_those_of_torchs_scheduler_that_starts_late(embedder: Embedder) -> None:
    """SupRank's loop: the scheduler stands still in the first epochs and keeps its length."""
    optimizer, other = (build_optimizer(embedder, nn.Identity(), OptimizerSettings(lr=1e-5)) for _ in range(2))
    scheduler = CosineAnnealingLR(other, T_max=20)
    for epoch in range(20):
        set_learning_rates(optimizer, ScheduleSettings(hold_epochs=5), step=epoch, total=20, steps_per_epoch=1)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(scheduler.get_last_lr()[0], rel=1e-9)
        other.step()
        if epoch >= 5:
            scheduler.step()


def test_setting_rates_twice_does_not_compound(embedder: Embedder) -> None:
    optimizer = build_optimizer(embedder, nn.Identity(), OptimizerSettings(lr=1.0))
    for _ in range(3):
        set_learning_rates(optimizer, ScheduleSettings(), step=5, total=10, steps_per_epoch=5)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5)
