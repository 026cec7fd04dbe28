"""The fault drill: 2,000 landmarks, three answers in ten faulty, the process killed five times, nothing lost."""

import csv
import random
import subprocess
import sys
from collections import Counter

import pytest
from wikimedia import Wikimedia, World
from wikimedia.server import FAULTS
from wikimedia.tools import CONTACT, FakeTime, facts

from hiertree.pipelines.labels.scrape import scrape, status
from hiertree.pipelines.labels.scrape.store import Store
from hiertree.pipelines.labels.settings import ScrapeSettings

LANDMARKS = 2000
KILLED_BEFORE_THE_ANSWER, KILLED_AFTER_IT = {9, 55, 101}, {31, 78}
A_SECOND = 50


def write_landmarks(path):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["landmark_id", "category"])
        url = "http://commons.wikimedia.org/wiki/Category:Place_{}"
        writer.writerows([number, url.format(number)] for number in range(LANDMARKS))


def known(path):
    with Store(path, create=False) as store:
        return facts(store)


@pytest.mark.nightly
def test_a_scrape_killed_five_times_among_faults_ends_as_if_nothing_had_been(tmp_path):
    table, world, rng = tmp_path / "landmarks.csv", World.numbered(LANDMARKS), random.Random(5)
    write_landmarks(table)
    with Wikimedia(world) as calm:
        settings = ScrapeSettings(contact=CONTACT, **calm.options)
        expected = scrape(table, store=tmp_path / "calm.sqlite", settings=settings, clock=FakeTime().clock)
    assert sum(expected.values()) == LANDMARKS

    running: list[subprocess.Popen[bytes]] = []

    def kill_at(indices, index):
        if index in indices:
            running[-1].kill()
            running[-1].wait()

    with Wikimedia(
        world,
        fault=lambda index: rng.choice(FAULTS) if rng.random() < 0.3 else None,
        before_answer=lambda index: kill_at(KILLED_BEFORE_THE_ANSWER, index),
        after_answer=lambda index: kill_at(KILLED_AFTER_IT, index),
        retry_after=0,
    ) as wikimedia:
        command = [sys.executable, "-m", "hiertree", "labels", "scrape", table, "--store", tmp_path / "drill.sqlite"]
        options = {"contact": CONTACT, "requests-per-minute": 60 * A_SECOND, "backoff": 0.001, "max-retries": 30}
        endpoints = {name.replace("_", "-"): url for name, url in wikimedia.options.items()}
        for name, value in {**options, **endpoints}.items():
            command += [f"--{name}", str(value)]
        while not running or running[-1].returncode != 0:
            assert len(running) <= 5
            running.append(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE))
            printed, _ = running[-1].communicate(timeout=60)
        requests = wikimedia.asked

    assert [process.returncode for process in running] == [-9] * 5 + [0]
    assert known(tmp_path / "drill.sqlite") == known(tmp_path / "calm.sqlite")
    assert {"page", "item", "class", "label"} <= {row[1] for row in known(tmp_path / "drill.sqlite")}
    assert f"{LANDMARKS} landmarks" in printed.decode()
    report = status(tmp_path / "drill.sqlite")
    assert report["rows"]["failures"] == 0
    assert set(report["to_ask"].values()) == {0}

    faulty = sum(request.fault is not None for request in requests)
    assert 0.2 < faulty / len(requests) < 0.4
    minimum = len(calm.asked)
    assert len(requests) - faulty <= minimum + 5 + 3  # the five in flight; batches are cut anew after a loss
    good = Counter(
        (request.parameters.get("prop", request.parameters.get("props")), key)
        for request in requests
        if request.fault is None
        for key in request.keys
    )
    assert sum(count - 1 for count in good.values()) <= 5 * 50  # only what was in flight when killed
    assert len(requests) - 1 <= (requests[-1].time - requests[0].time + 0.5) * A_SECOND
    assert wikimedia.most_at_once == 1
