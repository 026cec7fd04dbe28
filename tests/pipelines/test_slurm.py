"""A real SLURM of two nodes on this machine: what srun and scripts start."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from project import ROOT

from hiertree.datasets import load_synthetic
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.recipe.settings import Recipe
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.history import read_history

PLACES = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"
MISSING = [name for name in ("munged", "slurmctld", "slurmd", "srun") if shutil.which(name, path=PLACES) is None]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (Debian: slurm-wlm, munge)"),
]
CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
AuthInfo=socket={folder}/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=first NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 Gres=gpu:2
NodeName=second NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 Gres=gpu:2
PartitionName=all Nodes=ALL Default=YES
"""
DEVICES = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"  # GPUs that SLURM counts, and no test uses


@pytest.fixture(scope="module")
def cluster():
    """The environment in which SLURM's commands reach the cluster."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        (folder / "state").mkdir()
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o600)
        configuration = CONFIGURATION.format(folder=folder, ports=free_ports(3), user=getpass.getuser())
        (folder / "slurm.conf").write_text(configuration)
        (folder / "gres.conf").write_text(DEVICES)
        options = [f"{name}={folder / name}" for name in ("pid-file", "log-file", "seed-file")]
        munge = [
            "--force",
            f"--key-file={folder}/key",
            f"--socket={folder}/munge",
            *(f"--{command}" for command in options),
        ]
        variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{PLACES}"}
        variables |= {"SLURM_CONF": f"{folder}/slurm.conf", "OMP_NUM_THREADS": "1"}
        variables["MASTER_ADDR"] = "127.0.0.1"  # else the name of the first node, which no server knows here
        daemons = (["munged", "--foreground", *munge], ["slurmctld", "-D", "-i"])
        for daemon in (*daemons, *(["slurmd", "-D", "-N", node] for node in ("first", "second"))):
            log = stack.enter_context((folder / "log").open("a"))
            process = subprocess.Popen(daemon, env=variables, stdout=log, stderr=log)
            stack.callback(process.wait, timeout=30)
            stack.callback(process.terminate)
        deadline = time.monotonic() + 60
        idle = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        while subprocess.run(idle, env=variables, capture_output=True, text=True).stdout.strip() != "2":
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        yield variables
        subprocess.run(["scancel", f"--user={getpass.getuser()}"], env=variables, check=True)
        while subprocess.run(["squeue", "--noheader"], env=variables, capture_output=True).stdout:
            time.sleep(0.2)


def free_ports(count):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


@pytest.fixture(scope="module")
def recipe(tiny_recipe, tmp_path_factory):
    file = tmp_path_factory.mktemp("recipe") / "tiny.yaml"
    file.write_text(json.dumps(tiny_recipe("training.epochs=1", "model.freeze_batch_norm=true").as_dict()))
    return file


@pytest.fixture(scope="module")
def run(recipe):
    train(Recipe.model_validate_json(recipe.read_text()), recipe.with_name("run"))
    return recipe.with_name("run")


@pytest.fixture(scope="module")
def photos(recipe):
    dataset = load_synthetic("test", families=3, kinds=3, instances=4, images=4, image_size=16)
    for row, path in enumerate(dataset.paths):
        file = recipe.parent.joinpath("photos", *map(str, path), f"{row}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        dataset.images[row].save(file)
    return recipe.with_name("photos")


@pytest.fixture(scope="module")
def embedded(run, photos):
    """What one process embeds."""
    hiertree(*EMBED, run, photos, "--out", run.with_name("embedded"))
    return run.with_name("embedded")


EMBED = ("embed", "--format=parquet", "--shard-size=8")


def hiertree(*arguments, variables=None, launcher="", status=0):
    """What a command prints that ends as it should."""
    command = [*launcher.split(), sys.executable, "-m", "hiertree", *map(str, arguments)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def parts(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("part-*.parquet")}


@pytest.mark.parametrize("tasks", ["--ntasks=2", "--nodes=2 --ntasks-per-node=2"])
def test_launch_embed_and_evaluate_as_one_process(cluster, run, photos, embedded, tmp_path, tasks):
    launch = {"variables": cluster, "launcher": f"srun --kill-on-bad-exit=1 {tasks}"}
    hiertree(*EMBED, run, photos, "--out", tmp_path / "shared", **launch)
    assert parts(tmp_path / "shared") == parts(embedded) != {}
    single_process = hiertree("evaluate", embedded, "--json", "--per-query", tmp_path / "one.csv")
    several_processes = hiertree("evaluate", embedded, "--json", "--per-query", tmp_path / "shared.csv", **launch)
    assert (tmp_path / "shared.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert json.loads(several_processes) == json.loads(single_process)


def test_the_example_of_four_machines_runs_on_two(cluster, recipe, tmp_path):
    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    block = r"^```sh\n(#!/bin/bash\n.*?)^```\n+```yaml\n(.*?)^```"
    ((script, settings),) = re.findall(block, page, flags=re.DOTALL | re.MULTILINE)
    smaller = {"nodes=4": "nodes=2", "=8": "=2", "task=10": "task=1", "1024": "8", "workers: 8": "workers: 1"}
    for large, variant in {**smaller, "sop-happier": str(recipe)}.items():
        assert large in script + settings
        script, settings = script.replace(large, variant), settings.replace(large, variant)
    (tmp_path / "job.sh").write_text(script)
    (tmp_path / "recipe.yaml").write_text(settings)
    done = subprocess.run(["sbatch", "--wait", "job.sh"], cwd=tmp_path, env=cluster, timeout=600)
    assert done.returncode == 0, next(tmp_path.glob("slurm-*.out")).read_text()
    assert json.loads((tmp_path / "runs" / "sop" / "metrics.json").read_text())["processes"] == 4
    train(load_recipe(tmp_path / "recipe.yaml"), tmp_path / "alone")
    of_two, of_one = (read_history(run / "history.jsonl") for run in (tmp_path / "runs" / "sop", tmp_path / "alone"))
    assert [row["loss"] for row in of_two] == pytest.approx([row["loss"] for row in of_one], rel=1e-5)
