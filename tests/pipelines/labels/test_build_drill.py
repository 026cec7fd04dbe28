"""The drill of a whole plan: Washington and what stands above it, among faults, killed five times in four steps."""

import json
import random
import re
import subprocess
import sys
import time

import pandas as pd
import pytest
import yaml
from wikimedia import Wikimedia, World
from wikimedia.server import FAULTS
from wikimedia.tools import CONTACT, facts

from hiertree.io.files import prefix_of
from hiertree.pipelines.labels.export.step import EXPORTED
from hiertree.pipelines.labels.plan import CLEANED, CLUSTERED
from hiertree.pipelines.labels.scrape.scraping import STORE
from hiertree.pipelines.labels.scrape.store import Store

SCRAPED = "scraped"
KILLED_IN = {SCRAPED: CLEANED, CLEANED: CLUSTERED, CLUSTERED: EXPORTED}  # by the step before
OF_THIS_RUN = ("manifest.json", "history.json")  # hashes of inputs, one of which is the store with its times


@pytest.fixture
def world(shared_data):
    table = shared_data / "gldv2_washington" / "landmarks_washington_full.csv"
    return table, World.washington(table, subclasses=shared_data / "wikidata_p279")


def write_plan(path, table, wikimedia):
    options = {"requests_per_minute": 6000, "backoff": 0.001, "max_retries": 30}
    plan = {
        "landmarks": str(table),
        "scrape": {"contact": CONTACT, **options, **wikimedia.options},
        "cluster": {"clusters": 46, "levels": 1, "restarts": 1},
    }
    path.write_text(yaml.safe_dump(plan))
    return path


def start_build(plan, out):
    command = [sys.executable, "-u", "-m", "hiertree", "labels", "build", plan, "--out", out]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def ended_steps(process):
    """The names of steps as they end."""
    with process:
        for line in process.stdout:
            if line[0].isalpha():
                yield line.partition(":")[0]


def wait_within(step, process, out, *, files):
    """Return when a step has so many files in its temporary folder, or else when it ends."""
    while process.poll() is None and not (out / step).exists():
        if any(len(list(folder.iterdir())) >= files for folder in out.glob(f"{prefix_of(out / step)}*/{step}")):
            return
        time.sleep(0.001)


def contents(out):
    """All files of a build, without the times of asking."""
    with Store(out / STORE, create=False) as store:
        files = {STORE: facts(store)}
    for path in sorted(out.rglob("*.*")):
        name = str(path.relative_to(out))
        if path.name in OF_THIS_RUN:
            record = json.loads(path.read_text())
            steps = record if isinstance(record, list) else [record]
            files[name] = [(step["command"], step["parameters"], step["seed"]) for step in steps]
        elif path.suffix in (".csv", ".parquet"):
            table = pd.read_csv(path, dtype=str) if path.suffix == ".csv" else pd.read_parquet(path)
            files[name] = table.drop(columns="time", errors="ignore").to_csv()
        elif not name.startswith(STORE):
            files[name] = re.sub(rb"[0-9a-f]{64}", b"", path.read_bytes())  # of a file that holds times
    return files


@pytest.mark.nightly
def test_a_build_killed_five_times_among_faults_ends_with_the_same_files(world, tmp_path):
    (table, known_facts), rng = world, random.Random(15)
    with Wikimedia(known_facts) as calm:
        build = start_build(write_plan(tmp_path / "calm.yaml", table, calm), tmp_path / "calm")
        assert {*KILLED_IN} < {*ended_steps(build)}

    running = []
    minimum = len(calm.asked)
    killed_at = {rng.randrange(minimum // 2), rng.randrange(minimum // 2, minimum)}
    slow_at = rng.randrange(minimum)

    def kill():
        running[-1].kill()
        running[-1].wait()

    def kill_in_flight(index):
        if index in killed_at:
            kill()

    def fault(index):
        return "slow" if index == slow_at else rng.choice(FAULTS) if rng.random() < 0.3 else None

    with Wikimedia(known_facts, fault=fault, before_answer=kill_in_flight, retry_after=1) as wikimedia:
        plan, left = write_plan(tmp_path / "drill.yaml", table, wikimedia), dict(KILLED_IN)
        while not running or running[-1].returncode != 0:
            assert len(running) <= 5
            running.append(start_build(plan, tmp_path / "drill"))
            for name in ended_steps(running[-1]):
                if (step := left.pop(name, None)) is not None:
                    num_files = len(list((tmp_path / "calm" / step).iterdir()))
                    wait_within(step, running[-1], tmp_path / "drill", files=rng.randrange(num_files))
                    running[-1].kill()
        requests = wikimedia.asked

    assert [process.returncode for process in running] == [-9] * 5 + [0]
    assert sum(request.fault is not None for request in requests) >= minimum / 5
    expected = contents(tmp_path / "calm")
    assert any(row[:3] == ("leads", "class", "Q3947") for row in expected[STORE])  # house, as Wikidata has it
    assert contents(tmp_path / "drill") == expected
    assert {path.name for path in (tmp_path / "drill").iterdir()} == {
        path.name for path in (tmp_path / "calm").iterdir()
    }
