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
def single_process(folder):
    """What one process finds."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("PRODUCT_ITEMS", "LONGEST_TILE", "LARGEST_COPY"):
            patched.setattr(similarity, name, getattr(similarity, name))  # restored afterwards
        patched.setattr(compute, "PRODUCT_ROWS", compute.PRODUCT_ROWS)
        patched.setattr(shared, "LARGEST_COPY", shared.LARGEST_COPY)
        make_small()
        results = evaluate_all(folder)
        items, paths = next(cases(folder))[1]
        results["in parts"] = results["of themselves"]
        results["resumed"] = evaluate(items, paths, resume=folder / "run").values.tobytes()
        assert results["resumed"] == results["of themselves"]
        yield results


@pytest.mark.parametrize("number", NUMBERS)
def test_any_number_of_processes_has_the_bytes_of_one(number, folder, single_process):
    results_of_ranks = [pickle.loads((folder / f"{rank} of {number}.pickle").read_bytes()) for rank in range(number)]
    for rank, results in enumerate(results_of_ranks):
        assert [name for name in single_process if results[name] != single_process[name]] == [], rank
        assert results["not finite"].startswith("EmbeddingError: query holds NaN or infinite values (1 rows: 300)")
        assert results["other embeddings"].startswith("ShapeError: processes") == (number > 1)
    rows_of_ranks = [set(results["read"]) for results in results_of_ranks]
    assert sum(map(len, rows_of_ranks)) == len(set.union(*rows_of_ranks)) == ITEMS
    assert max(map(len, rows_of_ranks)) <= 64 * -(-7 // number)


def test_blocks_of_other_sizes_are_found_again(folder, single_process):
    blocks = sorted(file.name for file in (folder / "run").glob("*.npy"))
    assert any(name.startswith("queries-000000000-000000048") for name in blocks)
    assert np.frombuffer(single_process["resumed"]).size % ITEMS == 0
