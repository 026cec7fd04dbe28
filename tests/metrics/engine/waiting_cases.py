"""An evaluation on a device never waits for it but for the counts of a product of queries; see ``fake_device``.

``test_device.py`` runs these in a process of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from fake_device import set_up, watched_device

from hiertree.metrics import evaluate
from hiertree.metrics.engine import on_device

DEVICE, NUM_ITEMS, PRODUCTS = "absent", 300, 2  # of 256 queries
COUNTS = 4  # scores, levels, numbers of the positives; the others among them


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    set_up(DEVICE)
    torch.set_float32_matmul_precision("medium")


@pytest.mark.parametrize("triton", [False, True])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"tile_size": 128}, {"ties": "index"}, {"precision": "bfloat16"}, {"metrics": ["R@1"]}]
)
def test_only_the_counts_of_a_product_are_copied_to_the_host(
    options: dict[str, Any], held: bool, triton: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_device, "triton_works_on", lambda device: triton and device == DEVICE)
    monkeypatch.setattr(on_device, "loaded", lambda load, keys: ((key, load(key)) for key in keys))  # on this thread
    if not held:
        monkeypatch.setattr("hiertree.metrics.engine.device._GALLERY_BYTES", 0)
    items = np.arange(NUM_ITEMS)
    embeddings = np.random.default_rng(0).standard_normal((NUM_ITEMS, 8), np.float32)
    with watched_device() as watched:
        evaluate(embeddings, np.stack([items // 60, items // 10], axis=1), device=DEVICE, **options)
    counted = Counter(watched.found)
    assert counted.keys() == {"product", "other", "copy to host"}
    assert counted["copy to host"] == PRODUCTS * COUNTS
    assert watched.precisions == {"ieee"}
