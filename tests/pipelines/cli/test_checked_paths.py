"""Every command declares its paths, and none writes over an input, another output, or a file of somebody else."""

from __future__ import annotations

import os
import subprocess

import click
import numpy as np
import pytest
from commands_page import every_command
from printed_commands import status_of as run

from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.cli.checked_paths import DECLARED, CheckedCommand


def bytes_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder, the current one, with embeddings inside and beside a table."""
    rng = np.random.default_rng(0)
    paths = np.stack([np.arange(12) // 6, np.arange(12) // 3], axis=1)
    embeddings = rng.normal(size=(12, 4)).astype(np.float32)
    np.savez(tmp_path / "s.npz", embeddings=embeddings, paths=paths)
    np.save(tmp_path / "e.npy", embeddings)
    (tmp_path / "l.csv").write_text("kind,name\n" + "".join(f"k{kind},n{name}\n" for kind, name in paths))
    (tmp_path / "landmarks.csv").write_text("landmark_id,category\n1,http://commons.wikimedia.org/wiki/Category:A\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "hierarchical.csv").write_text("landmark_id\n1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "command"), list(every_command(commands)), ids=lambda value: str(value))
def test_every_command_declares_the_paths_it_reads_and_writes(name, command):
    if isinstance(command, click.Group):
        return
    assert isinstance(command, CheckedCommand), f"make {name} by checked_paths.command"
    undeclared = [
        param.name
        for param in command.params
        if isinstance(param.type, (click.Path, click.File)) and not isinstance(param.type, DECLARED)
    ]
    assert undeclared == []
    wrong = [param.name for param in command.params if param.name == "out" and not isinstance(param.type, DECLARED)]
    assert wrong == []


SAME = [
    "evaluate s.npz --out s.npz",
    "evaluate s.npz --out ./folder/../s.npz",
    "evaluate s.npz --out symbolic.npz",
    "evaluate s.npz --out hard.npz",
    "evaluate s.npz --per-query s.npz",
    "evaluate e.npy --labels l.csv --per-query l.csv",
    "evaluate s.npz --out same.csv --per-query same.csv",
    "evaluate s.npz --out SAME.csv --per-query same.csv",
    "evaluate s.npz --junk l.csv --out l.csv",
    "evaluate s.npz --gallery e.npy --out e.npy",
    "report s.npz --out s.npz",
    "report e.npy --labels l.csv --out l.csv",
    "report folder --out folder/report.html",
    "embed folder folder --out folder/embedded",
    "embed folder l.csv --out folder",
    "labels scrape landmarks.csv --store store.sqlite --table landmarks.csv --contact a@b.c",
    "labels scrape landmarks.csv --store landmarks.csv --contact a@b.c",
    "labels scrape landmarks.csv --store same.csv --table same.csv --contact a@b.c",
    "labels scrape landmarks.csv --store store.sqlite --json-lines landmarks.csv --contact a@b.c",
    "labels retry landmarks.csv --table landmarks.csv --contact a@b.c",
    "labels status landmarks.csv --table landmarks.csv",
    "labels tree folder --out folder/tree.html",
    "labels tree folder --out folder/tree.json",
    "labels clean landmarks.csv --out .",
    "labels build landmarks.csv --out .",
    "labels cluster folder --out folder",
    "labels export folder --out folder/exported",
    "labels fill folder --images folder --out folder",
    "labels images l.csv --images folder --out folder",
    "labels review folder --annotator a --log folder/log.jsonl --no-browser",
    "labels agreement folder l.csv l.csv --out l.csv",
    "train l.csv --out l.csv",
    "demo --data folder --out folder",
    "demo --data folder --out folder/demo",
]


@pytest.mark.parametrize("typed", SAME)
def test_no_output_is_an_input_or_another_output(typed, files, capsys):
    (files / "symbolic.npz").symlink_to(files / "s.npz")
    os.link(files / "s.npz", files / "hard.npz")
    contents_before = bytes_of(files)
    forced = ["--force"] if "--force" in help_of(typed) else []
    assert run(*typed.split(), *forced) == 2
    assert bytes_of(files) == contents_before
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 or printed.startswith("Usage")
    assert "output" in printed or "is a file" in printed


def help_of(typed):
    subcommand = commands
    context = click.Context(commands)
    for typed_word in typed.split():
        if not isinstance(subcommand, click.Group):
            break
        subcommand = subcommand.get_command(context, typed_word)
    return subcommand.get_help(click.Context(subcommand))


OUTPUTS = {
    "evaluate s.npz --out": "means.json",
    "evaluate s.npz --per-query": "values.csv",
    "report s.npz --queries 1 --hits 1 --out": "page.html",
}


@pytest.mark.parametrize(("typed", "name"), OUTPUTS.items())
def test_a_foreign_file_is_kept_until_forced_and_an_own_one_replaced(typed, name, files):
    (files / name).write_text("mine")
    assert run(*typed.split(), name) == 2
    assert (files / name).read_text() == "mine"
    assert run(*typed.split(), name, "--force") == 0
    assert (files / name).read_text() != "mine"
    assert run(*typed.split(), name) == 0
    with (files / name).open("a") as file:
        file.write("mine")
    assert run(*typed.split(), name) == 2


@pytest.mark.parametrize("manifest_text", ["kind,name\n", '{"outputs": []}', '{"mine": {"command": "x"}}'])
def test_a_file_with_the_name_of_an_outputs_manifest_stays(manifest_text, files, capsys):
    manifest_file, typed = files / "split.csv.manifest.json", "split l.csv --levels kind,name --out split.csv"
    manifest_file.write_text(manifest_text)
    assert run(*typed.split()) == 2
    assert "split.csv.manifest.json exists and hiertree did not write it" in capsys.readouterr().err
    assert (manifest_file.read_text(), (files / "split.csv").exists()) == (manifest_text, False)
    (files / "l.csv").rename(files / "values.csv.manifest.json")
    assert (
        run(*["evaluate", "e.npy", "--labels", "values.csv.manifest.json", "--per-query", "values.csv", "--force"]) == 2
    )
    assert "manifest.json is also an input" in capsys.readouterr().err
    assert not (files / "values.csv").exists()


@pytest.mark.skipif(os.name == "nt", reason="pipes and devices of POSIX")
def test_an_output_may_be_a_pipe_and_is_never_the_name_of_an_open_file(files, capsys):
    (files / "items.csv").write_text("image,kind\na,x\nb,x\nc,y\n")
    typed = "qrels items.csv --levels kind --ids image --out"
    assert run(*typed.split(), "qrels.txt") == 0
    os.mkfifo(files / "pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert run(*typed.split(), "pipe", "--force") == 0
        assert reader.stdout.read() == (files / "qrels.txt").read_text() != ""
    assert (files / "pipe").is_fifo()
    assert not (files / "pipe.manifest.json").exists()
    with (files / "result.txt").open("w") as stream:
        assert run(*typed.split(), f"/dev/fd/{stream.fileno()}", "--force") == 2
    assert "leads to an open file" in capsys.readouterr().err


def test_of_several_processes_the_first_works_alone_and_the_others_end(tmp_path, monkeypatch, capsys):
    np.savez(tmp_path / "e.npz", embeddings=np.eye(6)[:, :4] + 1, paths=np.arange(6)[:, None] // 2)
    out = tmp_path / "result.json"
    for launcher in ("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE", "SLURM_PROCID SLURM_NTASKS SLURM_STEP_ID"):
        for rank in (1, 0):
            for name, value in zip(launcher.split(), (rank, 2, rank, 2), strict=False):
                monkeypatch.setenv(name, str(value))
            assert run("evaluate", tmp_path / "e.npz", "--codes", "--out", out) == 0
            printed = capsys.readouterr()
            assert (out.exists(), "mean" in printed.out) == (rank == 0, rank == 0)
            assert ("hiertree evaluate runs in one process: rank 0 of 2" in printed.err) == (rank == 0)
        out.unlink()
        assert not set(launcher.split()) & set(os.environ)  # so that nothing below waits for the others


def test_these_commands_are_shared_by_processes():
    all_commands = dict(every_command(commands)).items()
    names = {
        name.removeprefix("hiertree ")
        for name, subcommand in all_commands
        if isinstance(subcommand, CheckedCommand) and subcommand.shares_work
    }
    assert names == {"train", "embed", "evaluate"}
