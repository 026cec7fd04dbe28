"""Never run: ``scripts/check`` fails here if a type checker would let a misspelt name of a loss or a model pass."""

from __future__ import annotations

import torch

import hiertree as ht
from hiertree.losses import HAPPIER, Loss, SupHAP


def misspell(loss: SupHAP, composite: HAPPIER, any_loss: Loss) -> None:
    """Each line names something that does not exist."""
    loss(torch.eye(2), [0, 0]).bakward()  # type: ignore[attr-defined]
    loss.alfa  # type: ignore[attr-defined]  # noqa: B018
    loss.to("cpu").start_epok(1)  # type: ignore[attr-defined]
    composite.weigths  # type: ignore[attr-defined]  # noqa: B018
    any_loss.last_skipped  # type: ignore[attr-defined]  # noqa: B018
    ht.load_model("run").embedd("photos")  # type: ignore[attr-defined]
