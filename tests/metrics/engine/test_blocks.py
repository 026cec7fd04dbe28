"""Threads of an evaluation: BLAS starts none of its own meanwhile, and has the user's number again afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

from hiertree.metrics import evaluate, evaluate_codes, evaluate_scores
from hiertree.metrics.engine import blocks
from hiertree.relevance import linear

EMBEDDINGS = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
PATHS = np.arange(60)[:, None] // (20, 4)


def blas_threads():
    """Of the library that multiplies for numpy; scipy may have brought another."""
    return max(library["num_threads"] for library in threadpool_info() if "numpy" in library["filepath"])


@pytest.fixture(autouse=True)
def three_threads():
    if not any("numpy" in library["filepath"] for library in threadpool_info()):
        pytest.skip("numpy brings no BLAS of its own")
    of_the_user = blas_threads()
    set_blas_threads(3)
    if blas_threads() != 3:
        pytest.skip("a BLAS whose threads cannot be set")
    yield
    set_blas_threads(of_the_user)


def set_blas_threads(count):
    """In a thread of its own, which does not keep threadpoolctl from obeying others."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ThreadpoolController().select(user_api="blas").limit, limits=count).result()


def test_products_take_one_thread_each_and_the_settings_of_the_user_come_back():
    calls = []

    def relevance(counts):
        calls.append(blas_threads())
        return linear(counts)

    evaluate(EMBEDDINGS, PATHS, relevance=relevance)
    assert calls[0] == 3  # the check of the relevance, before anything is computed
    assert set(calls[1:]) == {1}
    assert blas_threads() == 3


def test_what_multiplies_nothing_leaves_them_alone():
    evaluate_codes(EMBEDDINGS > 0, PATHS)
    evaluate_scores(EMBEDDINGS @ EMBEDDINGS.T, np.eye(60, dtype=np.uint8), valid=np.ones((60, 60), bool))
    assert blas_threads() == 3


def test_they_come_back_after_an_error_too():
    def relevance(counts):
        if len(counts) > 1:
            raise RuntimeError("in the middle of the evaluation")
        return linear(counts)

    with pytest.raises(RuntimeError, match="in the middle"):
        evaluate(EMBEDDINGS, PATHS, relevance=relevance)
    assert blas_threads() == 3


def test_of_two_evaluations_at_once_the_last_one_gives_them_back():
    begun, other_done, rows_in_progress = Event(), Event(), []

    def waiting(counts):
        if len(counts) > 1:
            begun.set()
            assert other_done.wait(60)
            rows_in_progress.append(blas_threads())
        return linear(counts)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(evaluate, EMBEDDINGS, PATHS, relevance=waiting)
        assert begun.wait(60)
        evaluate(EMBEDDINGS, PATHS)
        other_done.set()
        first.result()
    assert set(rows_in_progress) == {1}
    assert blas_threads() == 3


@pytest.mark.parametrize("budget", [2**28, 2**14, 1])
def test_threads_that_share_blocks_change_no_number(budget, monkeypatch):
    expected = evaluate(EMBEDDINGS, PATHS).values
    monkeypatch.setattr(blocks, "BUDGET", budget)
    monkeypatch.setattr(blocks, "num_threads", lambda: 5)
    for block_size in (None, 8):
        np.testing.assert_array_equal(evaluate(EMBEDDINGS, PATHS, block_size=block_size).values, expected)
