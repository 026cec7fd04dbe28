"""The growth table has a case for whatever takes an input of any size, and fails where time or memory outgrows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
import pytest
from project import ROOT

from hiertree import LabelTree, datasets, samplers
from hiertree.io.tables import PACKED_SUFFIXES, TABLE_SUFFIXES
from hiertree.metrics.runs import READERS
from hiertree.pipelines.browse.server import search_app
from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.cli.tree import TREE_SUFFIXES
from hiertree.pipelines.labels.review.serving import Review, review_app
from hiertree.pipelines.stored_embeddings.embeddings_files import SUFFIXES
from hiertree.pipelines.stored_embeddings.judged_pairs import TRUTH_SUFFIXES


@pytest.fixture(scope="module")
def table() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield import_module("growth_table")


@pytest.fixture(scope="module")
def cases(table) -> Any:
    return import_module("growth_cases")


def every_command(group: click.Group, *above: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, *above, name)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join((*above, name))


def test_every_command_is_a_case_or_has_a_reason(cases):
    starts = [f"{text} " for name, case in cases.CASES.items() for text in (name, case.command)]
    absent = {name for name in every_command(commands) if not any(start.startswith(f"{name} ") for start in starts)}
    assert absent == {*cases.ONE_SIZE}


def test_every_sampler_reader_and_writer_is_a_case_or_has_a_reason(cases):
    text = "\n".join(case.command for case in cases.CASES.values())
    loaders = {name for name in datasets.__all__ if name.startswith(("load_", "from_"))}
    forms = {name for name in dir(LabelTree) if name.startswith(("from_", "to_"))}
    absent = {name for name in {*samplers.__all__, *loaders, *forms} if not re.search(rf"\b{name}\b", text)}
    assert absent == {f"load_{name}" for name in cases.SMALL_LISTS}


def test_every_format_is_a_case_or_has_a_reason(cases):
    files = " ".join(" ".join((*case.before, case.command)) for case in cases.CASES.values())
    endings = {*TABLE_SUFFIXES, *PACKED_SUFFIXES, *SUFFIXES, *READERS, *TREE_SUFFIXES, *TRUTH_SUFFIXES}
    absent = {ending for ending in endings if not re.search(rf"\w{re.escape(ending)}\b", files)}
    assert absent == {*cases.SAME_READER}


@pytest.mark.parametrize(
    ("make", "name", "of_models"),
    [(review_app, "labels review", set()), (search_app, "browse", {"/api/text", "/api/photograph"})],
)
def test_every_request_of_a_page_is_asked(cases, make, name, of_models):
    application: Any = (
        make(None, token="t", port=1) if make is search_app else make(Review(None, {}), token="t", port=1)
    )
    asks = [ask.partition("?")[0] for ask in cases.CASES[name].asks if ask[0] == "/"]
    asks += ["/api/act"] * any(ask[0] == "{" for ask in cases.CASES[name].asks)
    absent = {route.path for route in application.app.routes if not any(map(route.path_regex.match, asks))}
    assert absent == of_models


def test_time_counts_processes_that_were_started_and_memory_the_process_alone(table):
    burn = "import subprocess, sys, time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
    alone = table.run(burn.format(0.2), 1)
    both = table.run(burn.format(0.2) + f"subprocess.run([sys.executable, '-c', {burn.format(0.6)!r}])", 1)
    assert both.seconds - alone.seconds > 0.5
    large = table.run("import array\narray.array('b', bytes(n << 20))", 150)
    assert 140 < large.peak - alone.peak < 400


def costs(*tries: tuple[float, ...]) -> Any:
    """Stands for a measurement: the seconds of the start and of three sizes, for each time that they are measured.

    A start that compiles comes before them.
    """
    seconds = iter([100.0, *(time for times in tries for time in times)])
    return lambda case, size: (next(seconds), size / 100)


@pytest.mark.parametrize(
    ("tries", "exponent", "is_steep"),
    [
        ([(1, 2, 4, 11)], 1, False),
        ([(1, 2, 4, 101)] * 3, 2.92, True),
        ([(1, 2, 4, 21), (1, 2, 4, 11)], 1, False),  # other work ran beside the first
        ([(1, 2, 4, 101), (2, 2, 4, 31), (1, 2, 3, 31)], 2.25, True),  # it may have run beside any
        ([(1, 1.001, 1.01, 2.9)], 4.36, False),  # too short to tell
    ],
)
def test_what_is_too_steep_is_measured_again_and_the_least_counts(table, monkeypatch, tries, exponent, is_steep):
    made = costs(*tries)
    monkeypatch.setattr(table, "measure", lambda case, size: table.Cost(*made(case, size)))
    growth = table.growth(table.Case("x", None, 1_000, 1))
    assert growth.exponent == pytest.approx(exponent, abs=0.01)
    assert (growth.is_steep, growth.sizes, growth.peak) == (is_steep, [1_000, 3_000, 10_000], 100)
    with pytest.raises(StopIteration):
        made(None, 1)


@pytest.mark.parametrize(("seconds", "peak", "status"), [(11, 100, 0), (101, 100, 1), (11, 99, 1)])
def test_the_table_fails_where_time_or_memory_outgrows_the_input(table, monkeypatch, capsys, seconds, peak, status):
    made = costs(*[(1, 2, 4, seconds)] * 3)
    monkeypatch.setattr(table, "measure", lambda case, size: table.Cost(*made(case, size)))
    monkeypatch.setattr(table, "CASES", {"one": table.Case("x", None, 1_000, peak)})
    monkeypatch.setattr("sys.argv", ["growth_table.py"])
    assert table.main() == status
    printed = capsys.readouterr().out
    assert ("too steep" in printed, "too much memory" in printed) == (seconds > 50, peak < 100)
