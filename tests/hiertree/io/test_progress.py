"""Progress is shown as plain lines off a terminal."""

from __future__ import annotations

import io

from hiertree.io.progress import show_progress, track


def test_progress_prints_plain_lines_off_a_terminal(monkeypatch):
    monkeypatch.delenv("HIERTREE_PROGRESS")
    stream, times = io.StringIO(), iter([0.0, 1.0, 12.0, 13.0])
    with show_progress(description="pages", total=3, stream=stream, clock=lambda: next(times)) as advance:
        for _ in range(3):
            advance(1, "ok")
    assert stream.getvalue().splitlines() == ["pages: 2/3 6 s left; ok", "pages: 3/3 ok"]


def test_progress_off_a_terminal_says_how_long_it_will_take(monkeypatch):
    monkeypatch.delenv("HIERTREE_PROGRESS")
    stream, times = io.StringIO(), iter([0.0, 20.0, 40.0, 50.0])
    with show_progress(description="queries", total=40, stream=stream, clock=lambda: next(times)) as advance:
        for steps in (4, 26, 10):
            advance(steps)
    assert stream.getvalue().splitlines() == ["queries: 4/40 3 min left", "queries: 30/40 13 s left", "queries: 40/40"]


def test_track_yields_every_item(capsys):
    assert list(track(range(3), description="items")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_without_a_standard_error_nothing_is_shown(monkeypatch):
    monkeypatch.delenv("HIERTREE_PROGRESS")
    monkeypatch.setattr("sys.stderr", None)
    assert list(track(range(3), description="items")) == [0, 1, 2]
