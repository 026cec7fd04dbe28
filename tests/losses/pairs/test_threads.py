"""Ranges shared out over threads: each is worked on once, errors arrive, and torch's own threads come back."""

from __future__ import annotations

import threading

import pytest
import torch

from hiertree.losses.pairs.threads import ranges, sharing


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_range_is_worked_on_once_and_again_in_a_second_round(threads: int) -> None:
    with sharing(threads) as for_each:
        for _ in range(2):
            worked: list[slice] = []
            for_each(worked.append, ranges(3, 40, 6))
            assert sorted(worked, key=lambda rows: rows.start) == list(ranges(3, 40, 6))
    assert [(rows.start, rows.stop) for rows in ranges(3, 16, 6)] == [(3, 9), (9, 15), (15, 16)]


def test_torch_starts_no_threads_meanwhile_and_its_own_again_afterwards() -> None:
    torch.set_num_threads(2)
    large = torch.rand(512, 512)
    expected = large @ large
    met, barrier = set[tuple[int, int]](), threading.Barrier(2)

    def work(_: slice) -> None:
        barrier.wait(timeout=60)  # both threads are here
        met.add((threading.get_ident(), torch.get_num_threads()))

    with sharing(2) as for_each:
        for_each(work, ranges(0, 2, 1))
    assert len(met) == 2
    assert {number for _, number in met} == {1}
    assert torch.get_num_threads() == 2
    torch.testing.assert_close(large @ large, expected)


def test_an_error_of_any_thread_arrives_and_torch_has_its_threads() -> None:
    torch.set_num_threads(2)

    def work(rows: slice) -> None:
        raise ValueError(f"row {rows.start}")

    with pytest.raises(ValueError, match="row"), sharing(2) as for_each:
        for_each(work, ranges(0, 4, 1))
    assert torch.get_num_threads() == 2
