"""Runs, faults, kills and new landmarks in any order: what is stored is true at any time, and in the end all of it.

A kill leaves the store's files as they were on the disk at that moment.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from wikimedia import Wikimedia
from wikimedia.places import KINDS, Places
from wikimedia.server import FAULTS as ALL_FAULTS
from wikimedia.server import FURTHER_FAULTS, LOSSES
from wikimedia.tools import CONTACT, FakeTime

from hiertree.errors import ScrapeError
from hiertree.pipelines.labels.scrape import count_failed, scrape
from hiertree.pipelines.labels.scrape.client import Clock
from hiertree.pipelines.labels.scrape.outcomes import outcomes
from hiertree.pipelines.labels.scrape.store import Store
from hiertree.pipelines.labels.settings import ScrapeSettings

# what is lost from an answer is the likeliest to pass for a fact
FAULTS = st.lists(st.sampled_from([None] * 8 + [*LOSSES] * 4 + [*ALL_FAULTS, *FURTHER_FAULTS]), max_size=12)
SEVERAL = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=9)
WAIT = 7  # seconds that the server asks for
ASKS_TO_WAIT = ("429", "429 date", "503", "maxlag")


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Misfortune:
    """One fault a request, in turn; from the request ``kill_at`` on the client is dead."""

    faults: list[str | None]
    kill_at: int = -1
    on_kill: Callable[[], None] = lambda: None
    killed: bool = False

    def fault(self, index):
        if index == self.kill_at:
            self.on_kill()
            self.killed = True
        return "hung up" if self.killed else next(iter(self.faults[index : index + 1]), None)


class Scraping(RuleBasedStateMachine):
    """A scrape by a user who is out of luck."""

    server: Wikimedia
    runs = 0

    @initialize(source=st.sampled_from(["api", "api", "html"]), kinds=SEVERAL)
    def begin(self, source, kinds):
        self.source, self.universe, self.time = source, Places(), FakeTime()
        self.root = Path(tempfile.mkdtemp())
        self.folder, self.deaths = self.root, 0
        self.poisoned: set[int] = set()
        self.settings = ScrapeSettings(
            contact=CONTACT, source=source, max_retries=4, **self.server.options, requests_per_minute=200
        )
        self.grow(kinds)

    def teardown(self):
        if not hasattr(self, "root"):
            return
        try:
            self.poisoned.clear()
            assert self.scrape([]) == (0, len(self.universe.urls))
            outcomes_by_key = self.stored()
            assert {key: seen(outcome) for key, outcome in outcomes_by_key.items()} == dict(enumerate(self.truth()))
        finally:
            shutil.rmtree(self.root)

    @property
    def store(self):
        return self.folder / "store.sqlite"

    def truth(self):
        return self.universe.api if self.source == "api" else self.universe.html

    @rule(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    def grow(self, kinds):
        """Further landmarks are listed."""
        for kind in kinds:
            self.universe.add_place(kind)
        with (self.root / "landmarks.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("landmark_id", "category"), *enumerate(self.universe.urls)])

    @rule(faults=FAULTS)
    def run(self, faults):
        """A run among faults, which may end with some landmarks failed, or give up."""
        self.scrape(faults)

    @rule(faults=FAULTS, kill_at=st.integers(0, 20))
    def run_and_be_killed(self, faults, kill_at):
        """The process dies when it makes a request."""
        self.scrape(faults, kill_at)

    @precondition(lambda self: not self.poisoned)
    @rule(index=st.integers(0, 15))
    def poison(self, index):
        """The server refuses whatever asks for this landmark."""
        self.poisoned.add(index % len(self.universe.urls))

    @precondition(lambda self: self.poisoned)
    @rule()
    def heal(self):
        """It does no longer."""
        self.poisoned.clear()

    @invariant()
    def nothing_stored_is_wrong(self):
        """A landmark is as it truly is, or still to be asked for."""
        truth = self.truth() if hasattr(self, "root") else []
        for key, outcome in self.stored().items() if truth else ():
            assert outcome.status in ("failed", "pending") or seen(outcome) == truth[key]

    def stored(self):
        if not self.store.exists():
            return {}
        with Store(self.store, create=False) as store:
            return {int(outcome.landmark_id): outcome for outcome in outcomes(store)}

    def scrape(self, faults, kill_at=-1):
        """Scrape; returns how many failed of how many, or None where the run did not come to its end."""
        misfortune = Misfortune(faults, kill_at, self.leave_behind)
        poisoned = {self.universe.title(index) for index in self.poisoned}
        self.server.world, self.server.fault, self.server.asked = self.universe, misfortune.fault, []
        self.server.clock, self.server.now = self.time.monotonic, self.time.now
        self.server.refuse = lambda request: not poisoned.isdisjoint(map(title_of, request.keys))
        clock = Clock(self.time.monotonic, lambda seconds: self.sleep(seconds, misfortune), self.time.now)
        arguments = {"store": self.store, "settings": self.settings, "clock": clock, "failed_too": True}
        try:
            return count_failed(scrape(self.root / "landmarks.csv", **arguments))
        except Killed:
            self.folder = self.root / str(self.deaths)
            return None
        except ScrapeError as error:
            if "requests in a row without an answer" not in str(error):
                raise
            return None
        finally:
            Scraping.runs += 1
            self.check_politeness()

    def leave_behind(self):
        """What a kill leaves: the store's files as they are."""
        self.deaths += 1
        folder = self.root / str(self.deaths)
        folder.mkdir()
        for file in self.folder.glob("store.sqlite*"):
            shutil.copy(file, folder / file.name)

    def sleep(self, seconds, misfortune):
        if misfortune.killed:
            raise Killed
        self.time.sleep(seconds)

    def check_politeness(self):
        """Requests keep their distance, and stay away for as long as they were asked to, also after a kill."""
        arrivals = [request.time for request in self.server.asked]
        self.arrivals = [*getattr(self, "arrivals", [])[-1:], *arrivals]
        assert all(next_arrival - arrival >= 0.3 - 1e-4 for arrival, next_arrival in pairwise(self.arrivals))
        waits = [(request.time, request.time + wait_after(request)) for request in self.server.asked]
        self.waits = [*getattr(self, "waits", []), *waits]
        for begin, end in self.waits:
            assert not [at for at in self.arrivals if begin + 1e-4 < at < end - 1e-4]


def title_of(key):
    return unquote(key.removeprefix("/wiki/")).replace("_", " ")


def wait_after(request):
    """The seconds that the answer asks the client to wait; a date has no fractions of them."""
    if request.fault not in ASKS_TO_WAIT or (request.fault == "maxlag" and request.path.startswith("/wiki/")):
        return 0
    return WAIT - (request.fault == "429 date")


def seen(outcome):
    return outcome.origin.reason, tuple(value.text for value in outcome.values or ())


def test_whatever_happens_the_store_is_true_and_in_the_end_complete(monkeypatch):
    monkeypatch.setenv("HIERTREE_PROGRESS", "0")
    options = settings(
        max_examples=50,
        stateful_step_count=7,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with Wikimedia(Places(), retry_after=WAIT, pages_an_answer=3) as server:
        machine = type("Running", (Scraping,), {"server": server})
        run_state_machine_as_test(machine, settings=options)
    assert Scraping.runs > 150


@pytest.mark.parametrize("noted", [False, True])
def test_every_kind_of_place_is_found_as_it_is_by_either_source(tmp_path, noted):
    universe, facts_of_source = Places(noted=noted), {}
    for kind in KINDS:
        universe.add_place(kind)
    rows = "".join(f"{index},{url}\n" for index, url in enumerate(universe.urls))
    (tmp_path / "t.csv").write_text(f"landmark_id,category\n{rows}", encoding="utf-8")
    for source, truth in (("api", universe.api), ("html", universe.html)):
        with Wikimedia(universe) as server, Store(tmp_path / f"{source}.sqlite") as store:
            asking = ScrapeSettings(contact=CONTACT, source=source, **server.options)
            scrape(tmp_path / "t.csv", store=store.path, settings=asking, clock=FakeTime().clock)
            assert dict(zip(KINDS, map(seen, outcomes(store)), strict=True)) == dict(zip(KINDS, truth, strict=True))
            assert store.counts()["failures"] == 0
            labeled = [outcome for outcome in outcomes(store) if outcome.status != "unlabeled"]
            facts_of_source[source] = [(outcome.origin.item, outcome.values) for outcome in labeled]
            abroad = universe.title(list(KINDS).index("abroad"))
            assert [title_of(key) for request in server.asked for key in request.keys].count(abroad) == 1
    assert facts_of_source["api"] == facts_of_source["html"]
