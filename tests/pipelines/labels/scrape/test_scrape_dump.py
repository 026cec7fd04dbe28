"""The dump source: the same facts as by the api, in one pass, from whole and broken files."""

import bz2
import gzip
import json

import pytest
from wikimedia import Wikimedia, World
from wikimedia.dump import dump_text
from wikimedia.tools import FakeTime, places, scrape
from wikimedia.world import recorded

from hiertree.errors import ScrapeError
from hiertree.pipelines.labels.scrape.dump import Wanted, parse_lines, read_dump, shown_blocks
from hiertree.pipelines.labels.scrape.facts import item_fact, label_fact
from hiertree.pipelines.labels.scrape.outcomes import outcomes, tally
from hiertree.pipelines.labels.scrape.store import Store

LANDMARKS = 120


@pytest.fixture(scope="module")
def world():
    return World.numbered(LANDMARKS)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        store.add_landmarks(places(LANDMARKS))
        yield store


def by_landmark(store):
    return {
        int(outcome.landmark_id): (
            outcome.status,
            outcome.values,
            outcome.origin._replace(modified="", source="", time=""),
        )
        for outcome in outcomes(store)
    }


@pytest.mark.parametrize(("suffix", "pack"), [(".bz2", bz2.compress), (".gz", gzip.compress), ("", bytes)])
def test_the_dump_gives_what_the_api_gives_and_the_api_completes_it(world, store, tmp_path, suffix, pack):
    path = tmp_path / f"latest-all.json{suffix}"
    path.write_bytes(pack(dump_text(world).encode()))
    reading = read_dump(path, store, processes=1)
    assert (reading.entities, reading.unreadable) == (len(world.entities), 0)
    from_dump = by_landmark(store)
    keys = {key for key, outcome in from_dump.items() if outcome[0] != "pending"}
    assert len(keys) == 96  # the others: moved, missing, without an item, redirected or without a subclass of
    assert not [name for name in tmp_path.iterdir() if name.name.startswith(".dump-")]

    with Store(tmp_path / "api.sqlite") as api_store, Wikimedia(world) as wikimedia:
        api_store.add_landmarks(places(LANDMARKS))
        scrape(api_store, wikimedia, FakeTime())
        number_of_requests = len(wikimedia.asked)
        scrape(store, wikimedia, FakeTime())
        assert len(wikimedia.asked) - number_of_requests < number_of_requests
        expected = by_landmark(api_store)
    assert by_landmark(store) == expected
    assert {key: expected[key] for key in keys} == {key: from_dump[key] for key in keys}


def test_several_processes_find_the_same(world, store, tmp_path):
    path = tmp_path / "dump.json.gz"
    path.write_bytes(gzip.compress(dump_text(world).encode()))
    read_dump(path, store, processes=2)
    with Store(tmp_path / "one.sqlite") as single_store:
        single_store.add_landmarks(places(LANDMARKS))
        read_dump(path, single_store, processes=1)
        assert by_landmark(store) == by_landmark(single_store)


def test_a_second_pass_looks_for_what_the_first_could_not_know(world, store, tmp_path):
    path = tmp_path / "dump.json"
    path.write_text(dump_text(world).replace('"P279"', '"P1"'))
    read_dump(path, store, processes=1)
    assert tally(store)["labeled", ""] == 0
    read_dump(path, store, processes=1)
    assert tally(store)["labeled", ""] > 90
    assert read_dump(path, store, processes=1).kept == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_a_dump_that_breaks_off_is_said_and_what_was_read_is_kept(world, store, tmp_path, processes):
    text = dump_text(world).encode()
    after_a_line = text.index(b"\n", len(text) // 2) + 1
    broken = {
        "a.json": text[: len(text) // 2],
        "b.json": text[:after_a_line],
        "empty.json": b"",
        "a.json.gz": gzip.compress(text)[:-3000],
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ScrapeError, match=rf"{name}.*(is truncated|ended before)"):
            read_dump(tmp_path / name, store, processes=processes)
    assert store.counts()["items"] > 30
    with pytest.raises(ScrapeError, match="expected a Wikidata dump"):
        read_dump(tmp_path / "absent.json.bz2", store)
    (tmp_path / "not.json.bz2").write_bytes(b"plain")
    with pytest.raises(ScrapeError, match="expected a whole dump"):
        read_dump(tmp_path / "not.json.bz2", store, processes=1)


@pytest.mark.parametrize("library", ["bz2", "rapidgzip"])
def test_bzip2_is_unpacked_alike_by_either_library_whole_and_broken(world, tmp_path, monkeypatch, library):
    if library == "rapidgzip":
        pytest.importorskip("rapidgzip")
    else:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    half = len(text := dump_text(world).encode()) // 2
    packed, path = bz2.compress(text), tmp_path / "dump.json.bz2"
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 255

    def blocks(content):
        path.write_bytes(content)
        return b"".join(shown_blocks(path, cores=2, note=lambda: ""))

    assert blocks(packed) == text
    assert blocks(bz2.compress(text[:half]) + bz2.compress(text[half:])) == text  # as pbzip2 packs
    for broken in (packed[: len(packed) // 2], packed[:-4], bytes(damaged), b"plain", b""):
        with pytest.raises(ScrapeError, match="download it again"):
            blocks(broken)


def test_unreadable_lines_are_counted_and_passed_over():
    block = b'[\n{"P279": broken,\n{"commonswiki":1},\n{"id":"Q5","claims":{"P279":[]},"labels":[]},\n{"id":"Q6"},\n]\n'
    facts_of_block = parse_lines(block, Wanted(frozenset(), frozenset(), frozenset()))
    assert (facts_of_block.entities, facts_of_block.unreadable) == (4, 2)
    assert [(fact.stage, fact.key) for fact in facts_of_block.waiting] == [("label", "Q5"), ("class", "Q5")]


def test_real_entities_are_read(shared_data):
    entities = recorded(shared_data / "wikimedia_samples").entities
    block = b"".join(json.dumps(entities[key]).encode() + b",\n" for key in ("Q42", "Q60"))
    facts_of_block = parse_lines(block, Wanted(frozenset(), frozenset(["Q42"]), frozenset(["Q42", "Q60"])))
    assert facts_of_block.facts == [
        item_fact("Q42", entities["Q42"]),
        label_fact("Q42", entities["Q42"]),
        label_fact("Q60", entities["Q60"]),
    ]
    assert facts_of_block.waiting == [item_fact("Q60", entities["Q60"])]  # its category's main topic
