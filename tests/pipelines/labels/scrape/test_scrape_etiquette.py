"""Politeness, in time that nobody waits for: rates, rests, Retry-After, back-off, and when to stop asking."""

import gzip
import re
from collections import Counter
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from socket import gaierror
from threading import Thread

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from urllib3.connection import HTTPConnection
from urllib3.exceptions import MaxRetryError, NameResolutionError
from wikimedia import Places, Wikimedia, World
from wikimedia.server import ENDLESS, FAULTS
from wikimedia.tools import CONTACT, FakeTime, facts, places, scrape

from hiertree.errors import OptionError, OutputError, ScrapeError
from hiertree.io.files import locked_file
from hiertree.pipelines.labels.scrape import client as module
from hiertree.pipelines.labels.scrape import scraping
from hiertree.pipelines.labels.scrape.client import (
    Client,
    Clock,
    HttpAnswer,
    Pace,
    Refused,
    Transport,
    TryAgain,
    Unanswered,
    check_error,
    check_status,
    retry_after,
    user_agent,
    wait_before_retry,
)
from hiertree.pipelines.labels.scrape.scraping import ask_missing
from hiertree.pipelines.labels.scrape.store import Store
from hiertree.pipelines.labels.settings import ScrapeSettings

_NOWHERE = NameResolutionError("commons.wikimedia.org", HTTPConnection("x"), gaierror(-3, "temporary failure"))
_UNRESOLVED = requests.exceptions.ConnectionError(MaxRetryError(None, "/", _NOWHERE))
_PROXY = requests.exceptions.ProxyError(MaxRetryError(None, "/", OSError("Tunnel connection failed: 407")))
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        store.add_landmarks(places(120))
        yield store


def ask(wikimedia, path, **options):
    """The status of a path's answer."""
    settings = ScrapeSettings(contact=CONTACT, **wikimedia.options, **options)
    return Client(Transport(settings), settings=settings).ask(wikimedia.url + path, None, lambda answer: answer.status)


def answer(status, headers=None):
    return HttpAnswer(status, headers or {}, b"upstream connect error")


def shortest_interval(times):
    return min(next_time - time for time, next_time in pairwise(times))


def test_requests_are_spread_over_the_minute():
    time = FakeTime()
    pace = Pace(200, time.clock)
    starts = []
    for _ in range(401):
        pace.wait()
        starts.append(time.seconds)
    assert starts[-1] == pytest.approx(120)
    assert shortest_interval(starts) >= 0.3 - 1e-9


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("Thu, 01 Jan 2026 12:01:30 GMT", 90),
        ("Thu, 01 Jan 2026 13:01:30 +0100", 90),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("Thu, 01 Jan 2026 12:00:10 -0000", 10),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٧", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_both_forms(header, seconds):
    assert retry_after(header, NOON) == seconds


@given(st.integers(0, 100), st.none() | st.floats(0, 3600), st.floats(0, 1))
def test_waits_are_never_below_what_is_asked_nor_above_the_cap(attempt, retry_after, jitter):
    seconds = wait_before_retry(5, attempt, retry_after, jitter)
    assert seconds >= max(5, retry_after or 0)
    assert seconds <= max(300 * 1.25, retry_after or 0)
    assert seconds <= wait_before_retry(5, attempt + 1, retry_after, 1)


def test_statuses_say_whether_to_ask_again():
    for status in (200, 404):
        check_status(answer(status), NOON)
    for status in (408, 429, 500, 502, 503, 504):
        with pytest.raises(TryAgain, match="upstream connect error") as caught:
            check_status(answer(status, {"retry-after": "9"}), NOON)
        assert caught.value.after == 9
    for status in (400, 414, 301):
        with pytest.raises(Refused):
            check_status(answer(status), NOON)
    with pytest.raises(ScrapeError, match="give a real --contact"):
        check_status(answer(403), NOON)
    with pytest.raises(ScrapeError, match="asks to wait 7200 s"):
        check_status(answer(503, {"retry-after": "7200"}), NOON)


def test_errors_inside_a_200_are_waited_out_but_those_of_the_question():
    for code in ("maxlag", "ratelimited", "readonly", "internal_api_error_DBQueryError", ""):
        with pytest.raises(TryAgain) as caught:
            check_error({"error": {"code": code, "info": "x"}}, answer(200, {"retry-after": "5"}), NOON)
        assert caught.value.after == 5
    for code in ("toomanyvalues", "no-such-entity", "param-missing", "params-illegal"):
        with pytest.raises(Refused, match=code):
            check_error({"error": {"code": code, "info": "x"}}, answer(200), NOON)


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """What is found without faults, and by how many requests."""
    path = tmp_path_factory.mktemp("calm") / "store.sqlite"
    with Store(path) as store, Wikimedia(Places.numbered(120)) as wikimedia:
        store.add_landmarks(places(120))
        scrape(store, wikimedia, FakeTime())
        return facts(store), len(wikimedia.asked)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_outlived_with_a_wait_and_changes_nothing(store, calm, fault):
    expected, requests = calm
    time = FakeTime()
    faults = {"fault": lambda index: fault if index % 2 else None, "clock": time.monotonic, "now": time.now}
    with Wikimedia(Places.numbered(120), **faults) as wikimedia:
        scrape(store, wikimedia, time)
        requests_asked = wikimedia.asked
    assert facts(store) == expected
    assert store.counts()["failures"] == 0
    assert len(requests_asked) == 2 * requests - 1
    asked_to_wait = {"429": 7, "429 date": 6, "503": 7, "maxlag": 7}.get(fault, 5)  # dates are in whole seconds
    for request, next_request in pairwise(requests_asked):
        waited = next_request.time - request.time
        assert waited >= (asked_to_wait if request.fault else 0.3) - 1e-9
        assert waited <= 8


def test_slow_answers_over_the_wire_are_followed_by_a_rest(store):
    time = FakeTime()

    def dawdle(index):
        time.seconds += 2 if index == 0 else 0

    with Wikimedia(Places.numbered(120), clock=time.monotonic, before_answer=dawdle) as wikimedia:
        scrape(store, wikimedia, time)
        times = [request.time for request in wikimedia.asked]
    assert times[1] - times[0] == pytest.approx(7)
    assert times[2] - times[1] == pytest.approx(0.3)


def test_an_outage_ends_the_run_and_the_next_one_goes_on(store):
    time = FakeTime()
    with Wikimedia(Places.numbered(120), fault=lambda index: "503 text" if index >= 1 else None) as wikimedia:
        with pytest.raises(ScrapeError, match=r"3 requests in a row without an answer \(HTTP 503"):
            scrape(store, wikimedia, time, max_retries=2)
        assert store.counts()["pages"] == 50
        answered, wikimedia.fault = len(wikimedia.asked), lambda index: None
        assert store.forget_failures() > 0
        scrape(store, wikimedia, time, max_retries=2)
        keys = {key for request in wikimedia.asked[answered:] if "ppprop" in request.parameters for key in request.keys}
    assert not keys & set(wikimedia.asked[0].keys)
    assert store.counts()["failures"] == 0


def test_two_runs_on_one_store_are_refused(store):
    settings = ScrapeSettings(contact=CONTACT)
    with locked_file(store.path), pytest.raises(OutputError, match=r"store\.sqlite is in use by another process"):
        scraping.scrape(None, store=store.path, settings=settings)
    with Wikimedia(Places.numbered(120)) as wikimedia:
        scrape(store, wikimedia, FakeTime())


NOBODY = (
    *("", "me", "a@b", "a@b.test", "me@example.com", "me@mail.example.org", "mé@uni.fr", "me@uni.fr)"),
    *("https://example.net/x", "http://localhost/", "ftp://uni.fr/", "me@uni.fr\r\nX-Evil: 1"),
)


@pytest.mark.parametrize("contact", NOBODY)
def test_a_contact_that_reaches_nobody_is_refused_and_a_real_one_is_said(contact):
    with pytest.raises(OptionError, match="contact="):
        ScrapeSettings(contact=contact)
    for real in ("maps@univ-lab.fr", "https://lab.univ.fr/~maps"):
        assert f"({real}) python-requests/" in user_agent(ScrapeSettings(contact=real).contact)


OTHERS = (
    *("http://commons.wikimedia.org/w/api.php", "https://commons.wikimedia.org.evil.net/", "https://evil.net/", "x"),
    *("https://me@commons.wikimedia.org/", "http://10.0.0.1/", "http://127.0.0.1@evil.net/", "http://[::1/"),
)


@pytest.mark.parametrize("url", OTHERS)
def test_other_hosts_are_refused(url):
    with pytest.raises(OptionError, match="commons_api="):
        ScrapeSettings(commons_api=url)


@pytest.mark.parametrize(
    ("source", "names"),
    [("api", ["commons_api"]), ("api", ["wikidata_api"]), ("api", ["commons_site"]), ("html", ["commons_api"])],
)
def test_no_endpoint_of_wikimedia_is_asked_faster_than_it_allows(source, names):
    addresses = dict.fromkeys(names, "http://127.0.0.1:1/")
    with pytest.raises(OptionError, match="requests_per_minute=100000"):
        ScrapeSettings(source=source, requests_per_minute=100_000, **addresses)
    endpoints = dict.fromkeys(["commons_api", "wikidata_api", "commons_site"], "http://127.0.0.1:1/")
    assert ScrapeSettings(source=source, requests_per_minute=100_000, **endpoints).source == source


def test_loopback_is_asked_only_where_it_is_named():
    with Wikimedia(World()) as wikimedia:
        transport = Transport(ScrapeSettings(contact=CONTACT))
        with pytest.raises(ScrapeError, match="was to be asked"):
            transport.get(wikimedia.url)
        assert wikimedia.asked == []


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/elsewhere", "https://evil.net/", "file:///etc/passwd"])
def test_redirects_to_other_places_are_not_followed(location):
    with Wikimedia(World()) as wikimedia:
        wikimedia.moved = {"/wiki/A": location}
        with pytest.raises(ScrapeError, match="was to be asked"):
            ask(wikimedia, "/wiki/A")


def test_redirects_within_are_followed_at_the_same_pace_and_circles_end():
    time = FakeTime()
    with Wikimedia(World(), clock=time.monotonic) as wikimedia:
        wikimedia.moved = {"/wiki/A": "/wiki/B", "/wiki/C": "/wiki/C", "/wiki/D": "/wiki/E", "/wiki/E": "/wiki/D"}
        settings = ScrapeSettings(contact=CONTACT, **wikimedia.options)
        client = Client(Transport(settings), settings=settings, clock=time.clock)
        assert client.ask(f"{wikimedia.url}/wiki/A", None, lambda answer: answer.status) == 404
        for circle in "CD":
            with pytest.raises(Unanswered, match="endless HTTP redirects"):
                client.ask(f"{wikimedia.url}/wiki/{circle}", None, lambda answer: answer.status)
    assert len(wikimedia.asked) == client.requests == 2 + 6 + 6
    assert shortest_interval(request.time for request in wikimedia.asked) >= 0.3 - 1e-9


def test_without_a_connection_the_scrape_ends_at_once_and_says_how_to_go_on(store):
    time = FakeTime()
    with Wikimedia(Places.numbered(120)) as wikimedia:
        gone = wikimedia
    with pytest.raises(ScrapeError, match=r"no connection to http://127.*Connection refused.*run the command again"):
        scrape(store, gone, time)
    assert time.seconds < 1
    assert store.counts()["failures"] == 0


@pytest.mark.parametrize("problem", [requests.exceptions.SSLError("certificate verify failed"), _UNRESOLVED, _PROXY])
def test_a_name_that_does_not_resolve_a_proxy_or_a_certificate_is_no_connection(monkeypatch, problem):
    def fail(*arguments, **options):
        raise problem

    settings = ScrapeSettings(contact=CONTACT)
    transport = Transport(settings)
    monkeypatch.setattr(requests.Session, "get", fail)
    with pytest.raises(ScrapeError, match=r"no connection to https://commons\.wikimedia\.org:443"):
        Client(transport, settings=settings).ask(settings.commons_api, {}, lambda answer: answer)


def test_a_connection_lost_later_is_waited_for_and_each_wait_says_so(store, caplog):
    with Wikimedia(Places.numbered(120), fault=lambda index: "hung up" if index else None) as wikimedia:
        wikimedia.after_answer = lambda index: wikimedia.http.server_close()  # nobody listens any more
        with pytest.raises(ScrapeError, match="3 requests in a row"):
            scrape(store, wikimedia, FakeTime(), max_retries=3)
    lines = [record.getMessage() for record in caplog.records if "Connection refused" in record.getMessage()]
    assert [line.partition("; ")[2][:7] for line in lines[-3:]] == ["retry 1", "retry 2", "retry 3"]


def test_a_server_that_asks_to_wait_is_left_alone_after_the_last_retry_too(store):
    time = FakeTime()
    faults = {"fault": lambda index: "429" if index < 2 else None, "clock": time.monotonic, "now": time.now}
    with Wikimedia(Places.numbered(120), **faults) as wikimedia:
        scrape(store, wikimedia, time, max_retries=1)
        times = [request.time for request in wikimedia.asked]
    assert times[2] - times[1] >= 7


@pytest.mark.parametrize(("fault", "pause"), [("429", 7), ("slow", 5), (None, 0.3)])
def test_pauses_outlive_the_process(store, fault, pause):
    time = FakeTime()

    def dawdle(index):
        time.seconds += 2 if fault == "slow" and index == 0 else 0

    def stop(index):
        raise KeyboardInterrupt

    server = Wikimedia(Places.numbered(120), clock=time.monotonic, now=time.now, before_answer=dawdle)
    with server as wikimedia:
        wikimedia.fault = lambda index: fault if fault == "429" else None
        settings = ScrapeSettings(contact=CONTACT, **wikimedia.options)
        clock = Clock(time.monotonic, stop, time.now)
        client = Client(Transport(settings), settings=settings, clock=clock, store=store)
        with pytest.raises(KeyboardInterrupt):
            ask_missing(store, client)
        answered = time.seconds
        wikimedia.fault = lambda index: None
        second_client = Client(Transport(settings), settings=settings, clock=time.clock, store=store)
        ask_missing(store, second_client)
        assert wikimedia.asked[1].time - answered >= pause - 1e-6


def test_a_clock_that_was_put_back_stops_the_scraper_for_an_hour_at_most_and_says_so(store, caplog):
    time = FakeTime()
    store.keep_next_request(time.now().timestamp() + 10**9)
    pace = Pace(200, time.clock, store)
    with caplog.at_level("WARNING"):
        pace.wait()
    assert time.seconds <= 3600
    (message,) = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"waiting 3600 s, until \d\d:\d\d:\d\d: an earlier run .* or the clock was set back", message)


def test_a_long_wait_that_the_server_asks_for_says_so_at_once(store, caplog):
    time = FakeTime()
    with Wikimedia(
        Places.numbered(2), fault=lambda index: "429" if index == 0 else None, retry_after=1800
    ) as wikimedia:
        store.add_landmarks(places(2))
        scrape(store, wikimedia, time)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert re.match(r"waiting 18\d\d s, until .*: HTTP 429: Too many requests", messages[0])


@pytest.mark.parametrize("fault", ["drip", *ENDLESS])
def test_an_answer_that_drips_is_cut_off_by_time(monkeypatch, fault):
    with Wikimedia(Places.numbered(2), fault=lambda index: fault if index == 0 else None) as wikimedia:
        transport = Transport(ScrapeSettings(contact=CONTACT, **wikimedia.options))
        monkeypatch.setattr(module, "SECONDS_FOR_AN_ANSWER", 0.3)
        with pytest.raises(TryAgain, match="more than 0 s"):
            transport.get(f"{wikimedia.url}/wiki/Category:Place_0")
        monkeypatch.setattr(module, "SECONDS_FOR_AN_ANSWER", 60)
        assert transport.get(f"{wikimedia.url}/wiki/Category:Place_0").status == 200


def test_a_huge_answer_is_cut_off_by_size(monkeypatch):
    with Wikimedia(Places.numbered(2)) as wikimedia:
        transport = Transport(ScrapeSettings(contact=CONTACT, **wikimedia.options))
        monkeypatch.setattr(module, "LARGEST_BODY", 100)
        with pytest.raises(Refused, match="above"):
            transport.get(f"{wikimedia.url}/wiki/Category:Place_0")


def test_a_packing_that_was_not_asked_for_is_not_unpacked():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip, gzip")
            self.end_headers()
            self.wfile.write(gzip.compress(gzip.compress(bytes(1 << 20))))

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        with pytest.raises(TryAgain, match="compressed by gzip, gzip"):
            Transport(ScrapeSettings(contact=CONTACT, commons_site=url)).get(url)


@pytest.mark.parametrize("header", ["Thu, 01 Jan 99999999999 00:00:00 GMT", "9" * 5000, "Thu, 01 Jan 0001 00:00 +9999"])
def test_a_retry_after_beyond_the_calendar_is_an_error_of_ours_or_none(header):
    with pytest.raises((TryAgain, ScrapeError)):
        check_status(answer(503, {"retry-after": header}), NOON)


def test_a_redirect_to_what_is_no_url_is_tried_again():
    with Wikimedia(World()) as wikimedia:
        wikimedia.moved = {"/wiki/A": "http://[::1"}
        with pytest.raises(Unanswered, match="Invalid IPv6 URL"):
            ask(wikimedia, "/wiki/A", max_retries=0)


@pytest.mark.parametrize("lead_seconds", [-86_400, -90, 7_200])
def test_a_retry_after_date_is_meant_by_the_servers_clock(lead_seconds):
    server_time = NOON + timedelta(seconds=lead_seconds)
    dates = {
        name: format_datetime(server_time + timedelta(seconds=s), usegmt=True) for name, s in (("a", 0), ("b", 40))
    }
    with pytest.raises(TryAgain) as caught:
        check_status(answer(503, {"date": dates["a"], "retry-after": dates["b"]}), NOON)
    assert caught.value.after == 40


def test_a_clock_that_goes_back_while_old_facts_are_asked_for_again_asks_each_once(store):
    time = FakeTime()
    with Wikimedia(Places.numbered(120)) as wikimedia:
        scrape(store, wikimedia, time)
        first, cutoff = len(wikimedia.asked), int(time.now().timestamp()) + 1
        time.start -= timedelta(days=3)
        scrape(store, wikimedia, time, cutoff=cutoff)
        keys = Counter((request.path, key) for request in wikimedia.asked[first:] for key in request.keys)
    assert max(keys.values()) <= 2  # an item: its classes, and what it is called
    assert store.missing(cutoff=cutoff) == {stage: [] for stage in store.missing()}
