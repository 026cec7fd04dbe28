"""Every command with every kind of bad value, damaged file and interruption: one line and status 2, or right output.

No case may change an input, end in a traceback, or leave a temporary file.
"""

from __future__ import annotations

import shutil
import signal

import click
import pytest
from fuzz_world import call, command_of, damages, make_world, names_of, signature

from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.cli.checked_paths import DeclaredPath

COMMANDS = {
    "evaluate": "evaluate s.npz --out OUT/o.json --per-query OUT/p.csv",
    "evaluate a table": "evaluate e.npy --labels l.csv --out OUT/o.json",
    "evaluate a gallery": "evaluate e.npy --labels l.csv --gallery e.npy --gallery-labels l.csv --junk junk.csv",
    "evaluate embed's files": "evaluate embedded --json",
    "evaluate a table of both": "evaluate s.parquet --out OUT/o.json",
    "evaluate-run": "evaluate-run run.txt --qrels qrels.txt --out OUT/o.json",
    "evaluate-pairs": "evaluate-pairs e.npy grades.npy --gallery e.npy --out OUT/o.json",
    "qrels": "qrels exported/hierarchical.csv --ids landmark_id "
    "--levels natural_or_human_made,hierarchical_label --out OUT/qrels.txt",
    "split": "split l.csv --levels kind --by images --out OUT/s.csv",
    "report": "report s.npz --out OUT/page.html --queries 1 --hits 1",
    "report a run": "report run --out OUT/page.html --queries 1 --hits 1",
    "tree": "tree l.csv --levels kind,name --repeats merge --out OUT/tree.json",
    "embed": "embed run data --out OUT/embedded",
    "compare": "compare run.txt --qrels qrels.txt --out OUT/compared",
    "train": "train recipe.yaml --out OUT/run --set training.epochs=0",
    "demo": "demo --out OUT/demo --data l.csv --quick",
    "datasets list": "datasets list --json",
    "datasets check": "datasets check sop data --structure",
    "recipes show": "recipes show recipe.yaml",
    "labels clean": "labels clean landmarks.csv --out OUT/cleaned",
    "labels build": "labels build landmarks.csv --out OUT/built --clusters 3",
    "labels build a plan": "labels build plan.yaml --out OUT/planned",
    "labels cluster": "labels cluster cleaned --out OUT/clustered --clusters 3",
    "labels export": "labels export clustered --out OUT/exported",
    "labels tree": "labels tree exported --out OUT/tree.html",
    "labels images": "labels images exported --images photos --out OUT/listed",
    "labels agreement": "labels agreement clustered log.jsonl log.jsonl --out OUT/a.json",
    "labels status": "labels status landmarks.csv",
    "labels scrape": "labels scrape landmarks.csv --store OUT/s.sqlite --contact a@b.c --table OUT/t.csv "
    "--commons-api http://127.0.0.1:9/w --wikidata-api http://127.0.0.1:9/w --max-retries 0 --backoff 0.001",
}
LEFT_OUT = {
    "browse": "serves until Ctrl-C",
    "labels review": "serves until Ctrl-C",
    "datasets download": "asks a network",
    "labels hypernyms": "scrapes as labels scrape does",
    "labels retry": "scrapes as labels scrape does",
    "labels fill": "takes minutes",
    "export": "takes minutes",
    "recipes": "reads no file",
}
VALUES = ("", "-1", "99999999999999999999", "nan", "x,,y", "é", "/dev/null", "0", "1e400")
SLOW = ("labels build", "labels build a plan", "labels cluster", "report a run", "embed", "train", "labels images")
NETWORK = ("encoder", "clip_model", "clip_weights", "sentence_model", "contact", "commons_api", "wikidata_api",
           "commons_site", "max_retries", "backoff", "requests_per_minute", "mirror", "device", "source")  # fmt: skip
FEW = ("missing", "garbage", "truncated", "deep", "no rows", "few ids")
ALLOWED = (0, 2, 130)
EXTRA = {"labels scrape": (3,), "datasets check": (1,)}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIERTREE_PROGRESS", "0")
        patch.chdir(folder)
        make_world(folder)
        yield folder


def bad_values():
    """Every command, option and value."""
    for name, typed in COMMANDS.items():
        if name in ("labels scrape", "demo"):
            continue
        subcommand, _ = command_of(typed.split())
        for param in subcommand.params:
            if isinstance(param, click.Option) and not param.is_flag and param.name not in NETWORK:
                if isinstance(param.type, DeclaredPath) and param.type.role != "input":
                    yield from ((name, param.opts[0], value) for value in ("", "/dev/null"))
                    continue
                for value in VALUES if name == "evaluate" else VALUES[:2] if name in SLOW else VALUES[:3]:
                    yield name, param.opts[0], value


def damaged_files():
    """Every command, input file and damage."""
    folders = {
        "run": ("metrics.json", "embeddings.npz", "per_query.parquet", "recipe.yaml", "manifest.json", "history.jsonl",
                "model.json", "model.safetensors"),
        "cleaned": ("landmarks.csv", "manifest.json"),
        "clustered": ("landmarks.csv", "manifest.json"),
        "exported": ("hierarchical.csv", "tree.json", "manifest.json"),
        "data": ("Ebay_test.txt",),
    }  # fmt: skip
    for name, typed in COMMANDS.items():
        for argument in dict.fromkeys(argument for argument in typed.split() if "OUT" not in argument):
            files = [f"{argument}/{file}" for file in folders.get(argument, ())]
            files += [argument] if argument.endswith((".npz", ".npy", ".csv", ".parquet", ".yaml", ".jsonl")) else []
            for file in files:
                for damage in damages(file):
                    if damage in FEW or not (name in SLOW or file.endswith("manifest.json")):
                        yield name, file, damage


def check(name, arguments, out, world, allowed=()):
    """Run a case and check what holds for each."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    state = signature(world)
    status, printed, errors = call([argument.replace("OUT", str(out)) for argument in arguments])
    assert signature(world) == state, "an input has changed"
    assert status in (*ALLOWED, *EXTRA.get(name, ()), *allowed), errors
    if status == 2:
        assert errors.count("\n") == 1, errors
        assert "weights_only" not in errors
    left = [path.name for path in out.rglob(".*") if path.name.startswith(".")]
    assert left == [], "temporary files are left"
    if status == 0 and name.startswith("evaluate"):
        assert any(character.isdigit() for character in printed)
    return status, printed, errors


def test_every_command_is_tried_or_left_out_for_a_reason():
    tried = {" ".join(command_of(typed.split())[1]) for typed in COMMANDS.values()}
    assert tried | LEFT_OUT.keys() == set(names_of(commands))


@pytest.mark.fuzz
@pytest.mark.parametrize(("name", "option", "value"), list(bad_values()))
def test_a_bad_value_is_one_line(name, option, value, world, tmp_path):
    check(name, [*COMMANDS[name].split(), f"{option}={value}"], tmp_path / "out", world)


@pytest.mark.fuzz
@pytest.mark.parametrize(("name", "file", "damage"), list(damaged_files()))
def test_a_damaged_file_is_one_line(name, file, damage, world, tmp_path):
    target = world / file
    backup = tmp_path / "kept"
    target.rename(backup)
    shutil.copy(backup, target)
    try:
        damages(file)[damage](target)
        check(name, COMMANDS[name].split(), tmp_path / "out", world)
    finally:
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        backup.rename(target)


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that were just being read
@pytest.mark.parametrize("moment", [0.001, 0.01, 0.03, 0.08, 0.2])
@pytest.mark.parametrize("name", ["evaluate", "report", "labels build", "labels tree", "embed"])
def test_an_interruption_leaves_nothing_half_written(name, moment, world, tmp_path):
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, moment)
    try:
        status, _, errors = check(name, COMMANDS[name].split(), tmp_path / "out", world)
    except KeyboardInterrupt:  # between two cases
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert status in (0, 130), errors
    assert status == 0 or "interrupted" in errors


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_of_the_table_do_what_they_should(name, world, tmp_path):
    failing = ("demo", "labels status", "labels scrape", "labels agreement")
    status, _, errors = check(name, COMMANDS[name].split(), tmp_path / "out", world)
    if name in failing:
        assert status in (2, 3)
    else:
        assert status == 0, errors
        assert list((tmp_path / "out").iterdir()) or "OUT" not in COMMANDS[name]
