"""Parts of unfinished work belong to one fingerprint."""

from __future__ import annotations

import numpy as np
import pytest

from hiertree.errors import CheckpointError
from hiertree.io.parts import PartStore


def test_parts_are_read_by_work_with_the_same_fingerprint_alone(tmp_path):
    PartStore(tmp_path, {"model": "a"}).save(slice(0, 2), np.arange(2))
    ((rows, values),) = PartStore(tmp_path, {"model": "a"}).parts()
    assert (rows, values.tolist()) == (slice(0, 2), [0, 1])
    with pytest.raises(CheckpointError, match="other model"):
        PartStore(tmp_path, {"model": "b"})
    (tmp_path / "fingerprint.json").unlink()
    for model in ("a", "b"):
        with pytest.raises(CheckpointError, match=r"holds parts without fingerprint\.json.*remove this one"):
            PartStore(tmp_path, {"model": model})
