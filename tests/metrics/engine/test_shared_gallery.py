"""A gallery of which several processes hold a part each."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from forked_processes import run_together
from shared_gallery import ITEMS, cases, evaluate_all, make_small, take_part

from hiertree.metrics import evaluate
from hiertree.metrics.engine import compute, shared, similarity

NUMBERS = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    dict.fromkeys(name for name, *_ in cases(folder))  # writes the memory map before the processes want it
    run_together(take_part, NUMBERS, str(folder), count=max(NUMBERS))
    return folder


@pytest.fixture(scope="module")
def alone(folder):
    """What one process finds."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name in ((similarity, "COLUMNS"), (similarity, "LONGEST_TILE"), (compute, "PRODUCT_ROWS")):
            patched.setattr(module, name, getattr(module, name))  # restored afterwards
        for name in ("COLUMNS", "LONGEST_TILE", "LEAST_BYTES"):
            patched.setattr(shared, name, getattr(shared, name))
        make_small()
        found = evaluate_all(folder)
        items, paths = next(cases(folder))[1]
        found["in parts"] = found["of themselves"]
        found["resumed"] = evaluate(items, paths, resume=folder / "run").values.tobytes()
        assert found["resumed"] == found["of themselves"]
        yield found


@pytest.mark.parametrize("number", NUMBERS)
def test_any_number_of_processes_has_the_bytes_of_one(number, folder, alone):
    own = [pickle.loads((folder / f"{rank} of {number}.pickle").read_bytes()) for rank in range(number)]
    for rank, found in enumerate(own):
        assert [name for name in alone if found[name] != alone[name]] == [], rank
        assert found["not finite"].startswith("EmbeddingError: query holds NaN or infinite values (1 rows: 300)")
        assert found["other embeddings"].startswith("ShapeError: processes") == (number > 1)
    read = [set(found["read"]) for found in own]
    assert sum(map(len, read)) == len(set.union(*read)) == ITEMS
    assert max(map(len, read)) <= 64 * -(-7 // number)


def test_blocks_of_other_sizes_are_found_again(folder, alone):
    before = sorted(file.name for file in (folder / "run").glob("*.npy"))
    assert any(name.startswith("queries-000000000-000000048") for name in before)
    assert np.frombuffer(alone["resumed"]).size % ITEMS == 0
