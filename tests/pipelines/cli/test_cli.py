"""The command line: help that is documented, errors without a traceback, status 2, nothing half-written."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from commands_page import every_command
from printed_commands import status_of as run
from project import ROOT

from hiertree.pipelines.cli.application import commands, main
from hiertree.pipelines.cli.checked_paths import CheckedCommand

LANDMARKS = ROOT / "pipelines" / "landmarks.csv"


def _commands(group):
    context = click.Context(group)
    subcommands = [group.get_command(context, name) for name in group.list_commands(context)]
    nested = [
        _commands(subcommand) if isinstance(subcommand, click.Group) else [subcommand] for subcommand in subcommands
    ]
    return [command for commands in nested for command in commands]


@pytest.mark.parametrize("command", _commands(commands), ids=lambda command: command.name)
def test_every_command_and_option_has_help(command):
    assert command.help
    assert [option.name for option in command.params if isinstance(option, click.Option) and not option.help] == []


@pytest.mark.parametrize("command", _commands(commands), ids=lambda command: command.name)
def test_the_example_of_every_command_can_be_parsed(command):
    arguments = shlex.split(command.example)
    arguments = arguments[arguments.index(command.name) + 1 :]
    values, _, _ = command.make_parser(click.Context(command)).parse_args(arguments)
    required = [param for param in command.params if param.required]
    assert [p.name for p in required if p.name not in values or p.value_is_missing(values[p.name])] == []


@pytest.mark.parametrize("command", _commands(commands), ids=lambda command: command.name)
def test_the_help_of_every_command_ends_with_its_example(command):
    context = click.Context(command, info_name=command.name)
    assert command.get_help(context).endswith(f"Example:\n  {command.example}")


def test_commands_on_labels_are_listed_in_the_order_of_work(capsys):
    assert run("labels", "--help") == 0
    names = [
        line.split()[0] for line in capsys.readouterr().out.partition("Commands:")[2].splitlines() if line[2:3].strip()
    ]
    assert names.index("scrape") < names.index("clean") < names.index("cluster") < names.index("review")
    assert names.index("review") < names.index("export") < names.index("tree")


def test_a_command_says_what_it_has_written_and_what_comes_next_unless_it_is_to_be_quiet(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("HIERTREE_PROGRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert run("labels", "clean", LANDMARKS, "--out", "cleaned") == 0
    ending = capsys.readouterr().err.splitlines()[-2:]
    assert ending == ["written to cleaned", "next: hiertree labels cluster cleaned --out clustered"]
    assert run("labels", "clean", LANDMARKS, "--out", "cleaned", "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_quiet_keeps_warnings_and_logs_back(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(6))
    table = "image,kind\n" + "".join(f"{n % 5}.jpg,k{n % 2}\n" for n in range(6))
    (tmp_path / "a.csv").write_text(table)
    arguments = [sys.executable, "-m", "hiertree", "evaluate", "a.npy", "--labels", "a.csv", "--ids", "image"]
    environment = {name: value for name, value in os.environ.items() if name != "HIERTREE_PROGRESS"}
    loud, quiet = (
        subprocess.run([*arguments, *flags], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
        for flags in ([], ["--quiet"])
    )
    assert "1 rows repeat an image" in loud.stderr
    assert loud.stderr.count("a.csv: levels kind, names image; name others by --levels\n") == 1
    assert (quiet.stdout, quiet.stderr) == (loud.stdout, "")


def test_a_command_that_fails_prints_its_error_and_no_note(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.eye(6))
    (tmp_path / "a.csv").write_text("kind\n" + "k\n" * 6)
    arguments = ["evaluate", tmp_path / "a.npy", "--labels", tmp_path / "a.csv", "--ids", "image"]
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    errors = capsys.readouterr().err
    assert (ended.value.code, errors.count("\n"), errors[:7]) == (2, 1, "error: ")


@pytest.mark.parametrize(("status", "message"), [(0, ""), (3, "2 landmarks failed\n")])
def test_a_quiet_command_that_ends_early_says_why(status, message, capsys):
    def callback():
        print("2 landmarks failed", file=sys.stderr)
        if status:
            click.get_current_context().exit(status)

    command = CheckedCommand("name", callback=callback, example="")
    with pytest.raises(SystemExit) as ended:
        command.main(["--quiet"])
    assert (ended.value.code, capsys.readouterr().err) == (status, message)


def test_verbose_prints_the_traceback_of_an_error_before_its_line(tmp_path, capsys):
    (tmp_path / "bare.csv").write_text("name\na\n")
    assert run("labels", "clean", tmp_path / "bare.csv", "--out", tmp_path / "cleaned", "--verbose") == 2
    printed = capsys.readouterr().err
    assert "Traceback (most recent call last):" in printed
    assert printed.splitlines()[-1].startswith("error: ")


def test_the_page_of_commands_lists_them_all():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\| `(hiertree [^`]+)` \|", page, re.M)
    assert entries == [name for name, _ in every_command(commands)]


@pytest.mark.parametrize("arguments", [(), ("labels",), ("datasets",)])
def test_a_group_alone_prints_its_help_line_by_line(arguments, capsys):
    assert run(*arguments) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("Usage: hiertree")
    assert "\nCommands:\n" in printed


@pytest.mark.parametrize("arguments", [(), ("labels",), ("datasets",), ("recipes",)])
def test_lists_of_commands_are_not_cut(arguments, capsys):
    assert run(*arguments, "--help") == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_help_loads_no_heavy_library():
    heavy = "('torch', 'pandas', 'numpy', 'networkx', 'rich')"
    code = f"import sys, hiertree.pipelines.cli.application; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "no-such-recipe", "--out", "OUT"], "no-such-recipe"),
        (["train", "synthetic-happier", "--out", "OUT", "--set", "optimizer.leraning_rate=1"], "leraning_rate"),
        (["train", "synthetic-happier", "--out", "OUT", "--set", "training.device=cuda"], "cuda"),
        (["train", "synthetic-happier", "--out", "OUT", "--on-bad-image", "leave"], "'leave' is not one of"),
        (["compare", "synthetic-happier", "--seeds", "one", "--out", "OUT"], "--seeds': 'one'"),
        (["compare", "synthetic-happier", "--grid", "loss.alpha", "--out", "OUT"], "--grid loss.alpha"),
        (["compare", "synthetic-happier", "--against", "mine", "--out", "OUT"], "against 'mine'"),
        (["labels", "build", "absent.csv", "--out", "OUT"], "absent.csv"),
        (["labels", "build", LANDMARKS, "--out", "OUT", "--clusters", "many"], "clusters='many'"),
        (["labels", "build", LANDMARKS, "--out", "OUT", "--instance-column", "type"], "no column 'type'"),
        (["evaluate", "absent.npz"], "absent.npz"),
        (["split", "absent.csv", "--levels", "kind", "--out", "OUT"], "no such file: absent.csv"),
        (["labels", "export", "absent", "--out", "OUT"], "no such folder: absent"),
        (["evaluate", "absent.npz", "--relevance", "half,half"], "--relevance': 'half,half'"),
        (["evaluate", "absent.npz", "--ties", "random"], "'random' is not one of 'average'"),
        (["evaluate", LANDMARKS, "--distractors"], "expected a file that ends in"),
        (["demo", "--data", "absent.zip", "--out", "OUT"], "absent.zip"),
        (["evaluate", "absent.npz", "--metrics", ""], "'--metrics'"),
        (["evaluate", "absent.npz", "--levels", "kind,,name"], "'--levels'"),
        (["evaluate", "absent.npz", "--out", ""], "'--out'"),
        (["demo", "--seed", "-1", "--out", "OUT"], "'--seed'"),
        (["embed", "absent", "absent", "--out", "OUT", "--split", ""], "'--split'"),
        (["nonsense"], "No such command 'nonsense'; see hiertree --help"),
        (["evalute"], "No such command 'evalute'; did you mean 'evaluate'?"),
        (["labels", "Clustr"], "No such command 'Clustr'; did you mean 'cluster'?; see hiertree labels --help"),
        (["recipes", "shwo"], "No such command 'shwo'; did you mean 'show'?"),
        (["train"], "Missing argument"),
    ],
)
def test_bad_input_ends_with_status_2_a_sentence_and_no_traces(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*[tmp_path / "out" if argument == "OUT" else argument for argument in arguments]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_terminal_of_another_encoding_is_no_error(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "l.csv").write_text("kind,name\n" + "".join(f"k{row // 5},é{row // 2}\n" for row in range(10)))
    np.save(tmp_path / "e.npy", rng.normal(size=(10, 4)))
    script = Path(sys.executable).parent / "hiertree"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for arguments in (
        ["evaluate", "e.npy", "--labels", "l.csv"],
        ["datasets", "list", "--json"],
        ["train", "é", "--out", "x"],
    ):
        answer = subprocess.run([script, *arguments], capture_output=True, cwd=tmp_path, env=environment, check=False)
        assert b"Traceback" not in answer.stderr
        assert answer.returncode == (2 if arguments[0] == "train" else 0)
        if "--json" in arguments:
            assert json.loads(answer.stdout)


def test_a_recipe_without_its_data_prints_one_line(tmp_path):
    script = Path(sys.executable).parent / "hiertree"
    command = [script, "train", "sop-happier", "--out", "run"]
    answer = subprocess.run(command, capture_output=True, cwd=tmp_path, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: Stanford Online Products")
    assert answer.stderr.count("\n") == 1


def test_console_script_is_installed():
    script = Path(sys.executable).parent / "hiertree"
    answer = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("hiertree")
