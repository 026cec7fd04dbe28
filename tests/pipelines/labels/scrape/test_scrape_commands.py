"""``hiertree labels scrape``, ``status`` and ``retry`` as they are typed, and what they refuse."""

import csv
import json
import time
from functools import partial

import pytest
from printed_commands import status_of
from wikimedia import Places, Wikimedia, World
from wikimedia.tools import CONTACT
from wikimedia.world import entity, statement

from hiertree.errors import OptionError, ScrapeError
from hiertree.io.tables import read_table
from hiertree.pipelines.labels import build
from hiertree.pipelines.labels.scrape.store import Store
from hiertree.pipelines.labels.settings import ScrapeSettings

URL = "http://commons.wikimedia.org/wiki/Category:Place_"


run = partial(status_of, "labels")


def web_options(wikimedia):
    options = {"contact": CONTACT, "requests-per-minute": "100000", "backoff": "0.001", "max-retries": "2"}
    options |= {name.replace("_", "-"): url for name, url in wikimedia.options.items()}
    return [word for name, value in options.items() for word in (f"--{name}", value)]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "landmarks.csv"
    path.write_text("landmark_id,category\n" + "".join(f"{index},{URL}{index}\n" for index in range(60)))
    return path


@pytest.mark.parametrize("source", ["api", "html"])
def test_what_is_scraped_is_what_build_reads(table, tmp_path, capsys, source):
    store, types, log = tmp_path / "s.sqlite", tmp_path / "scraped.csv", tmp_path / "log.jsonl"
    with Wikimedia(Places.numbered(60)) as wikimedia:
        options = ["--source", source, "--table", types, "--json-lines", log, *web_options(wikimedia)]
        assert run("scrape", table, "--store", store, *options) == 0
    assert "60 landmarks\n      48 labeled" in capsys.readouterr().out
    assert json.loads(log.read_text().splitlines()[-1])["requests"] == len(wikimedia.asked)
    plan = {"landmarks": table, "instances": types, "columns": {"item_ids": "item_ids"}, "clean": {"multi": "all"}}
    result = build({**plan, "cluster": {"clusters": 1}}, out=tmp_path / "out")
    assert result.report["landmarks"] == 60
    assert result.report["kept"] == 48


@pytest.mark.parametrize("category", ["no://category", "Category:Place 0"])
def test_what_comes_next_is_said_only_where_something_is_labeled(tmp_path, capsys, monkeypatch, category):
    monkeypatch.setenv("HIERTREE_PROGRESS", "1")
    (tmp_path / "t.csv").write_text(f"landmark_id,category\n1,{category}\n")
    with Wikimedia(Places.numbered(1)) as wikimedia:
        assert run("scrape", tmp_path / "t.csv", "--store", tmp_path / "s.sqlite", *web_options(wikimedia)) == 0
    printed = capsys.readouterr()
    assert ("next: hiertree labels clean" in printed.err) == ("1 labeled" in printed.out) == ("no:" not in category)


def test_status_of_a_store_without_pages_says_nothing_of_their_time(tmp_path, capsys):
    table, store = tmp_path / "landmarks.csv", tmp_path / "s.sqlite"
    table.write_text("landmark_id,category\n1,no://category\n")
    assert run("scrape", table, "--store", store, "--contact", CONTACT) == 0
    assert run("status", store) == 0
    assert "0 failures\n" in capsys.readouterr().out


def test_a_log_that_breaks_off_does_not_swallow_the_next_line(table, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"event": "end"}\n{"event": "bat')
    with Wikimedia(Places.numbered(60)) as wikimedia:
        assert run("scrape", table, "--store", tmp_path / "s.sqlite", "--json-lines", log, *web_options(wikimedia)) == 0
    first, half, *lines = log.read_text().splitlines()
    assert (first, half) == ('{"event": "end"}', '{"event": "bat')
    assert [json.loads(line)["event"] for line in lines][-1] == "end"


def test_status_says_what_is_there_and_retry_asks_for_what_failed(table, tmp_path, capsys):
    store = tmp_path / "s.sqlite"
    with Wikimedia(Places.numbered(60), fault=lambda index: "503" if index == 0 else None, retry_after=0) as wikimedia:
        wikimedia.refuse = lambda asked: "Category:Place 7" in asked.keys
        assert run("scrape", table, "--store", store, *web_options(wikimedia)) == 3
        printed = capsys.readouterr()
        assert "1 failed: params-illegal" in printed.out
        assert printed.err.endswith("1 of 60 landmarks failed: ask again with 'hiertree labels retry'\n")
        assert run("status", store) == 0
        printed = capsys.readouterr()
        assert "failed, waiting for 'hiertree labels retry': 1 pages" in printed.out
        assert "written" not in printed.err
        assert run("status", store, "--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["rows"]["failures"], report["to_retry"]["page"]) == (1, 1)
        assert sum(row["landmarks"] for row in report["outcomes"]) == 60
        first = len(wikimedia.asked)
        assert run("scrape", table, "--store", store, *web_options(wikimedia)) == 3
        assert len(wikimedia.asked) == first
        wikimedia.refuse = lambda asked: False
        assert run("retry", store, *web_options(wikimedia)) == 0
        assert wikimedia.asked[first].keys == ["Category:Place 7"]
    capsys.readouterr()
    assert run("status", store, "--table", tmp_path / "t.csv") == 0
    printed = capsys.readouterr().out
    assert "to ask: nothing" in printed
    assert "redirect loop" in printed
    assert (tmp_path / "t.csv").read_text().startswith("landmark_id,category,instance_of,item_ids,status")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no contact"),
        (["--contact", "me@example.com"], "contact='me@example.com'"),
        (["--contact", CONTACT, "--commons-api", "http://10.0.0.1/"], "commons_api="),
        (["--contact", CONTACT, "--requests-per-minute", "0"], "requests_per_minute=0"),
        (["--contact", CONTACT, "--requests-per-minute", "nan"], "requests_per_minute=nan"),
        (["--contact", CONTACT, "--requests-per-minute", "300"], "fewer than 300"),
        (["--contact", CONTACT, "--max-retries", "-1"], "max_retries=-1"),
        (["--contact", CONTACT, "--backoff", "0"], "backoff=0"),
        (["--contact", CONTACT, "--refresh-older-than", "-1"], "refresh_older_than=-1"),
        (["--contact", CONTACT, "--id-column", "id"], "no column 'id'"),
    ],
)
def test_bad_options_end_with_status_2_and_no_store(table, tmp_path, capsys, options, message):
    assert run("scrape", table, "--store", tmp_path / "made" / "s.sqlite", *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_other_files_are_not_taken_for_stores(tmp_path, capsys, table):
    assert run("status", tmp_path / "absent.sqlite") == 2
    assert f"no such file: {tmp_path / 'absent.sqlite'}" in capsys.readouterr().err
    with pytest.raises(ScrapeError, match=r"no such file: .*absent\.sqlite: expected an existing store"):
        Store(tmp_path / "absent.sqlite", create=False)
    second_store = tmp_path / "other.sqlite"
    second_store.write_bytes(table.read_bytes())
    assert run("scrape", table, "--store", second_store, "--contact", CONTACT) == 2
    assert "expected a store of 'labels scrape'" in capsys.readouterr().err
    assert second_store.read_bytes() == table.read_bytes()


def test_a_disk_that_is_full_midway_is_one_line_and_a_later_run_goes_on(table, tmp_path, capsys, monkeypatch):
    store, open_store = tmp_path / "s.sqlite", Store.__init__

    def small(self, *arguments, **options):
        open_store(self, *arguments, **options)
        pages = self.connection.execute("PRAGMA page_count").fetchone()[0]
        self.connection.execute(f"PRAGMA max_page_count = {pages + 1}")

    with Wikimedia(Places.numbered(60)) as wikimedia:
        with monkeypatch.context() as full:
            full.setattr(Store, "__init__", small)
            assert run("scrape", table, "--store", store, *web_options(wikimedia)) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
        assert f"{store}: database or disk is full" in line
        assert run("scrape", table, "--store", store, *web_options(wikimedia)) == 0
    assert "48 labeled" in capsys.readouterr().out


def test_a_client_that_is_not_welcome_stops_at_once(table, tmp_path, capsys):
    with Wikimedia(Places.numbered(60)) as wikimedia:
        wikimedia.forbidden = True
        assert run("scrape", table, "--store", tmp_path / "s.sqlite", *web_options(wikimedia)) == 2
        assert len(wikimedia.asked) == 1
    assert "HTTP 403" in capsys.readouterr().err


def test_pages_may_be_read_faster_than_the_api_is_asked():
    assert ScrapeSettings(source="html", requests_per_minute=1000).source == "html"
    with pytest.raises(OptionError, match="fewer than 1200"):
        ScrapeSettings(source="html", requests_per_minute=1200)


def test_a_store_of_another_version_is_refused_and_stays_as_it_is(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.connection.executescript("PRAGMA user_version = 2; PRAGMA wal_checkpoint(TRUNCATE);")
    body = (tmp_path / "s.sqlite").read_bytes()
    for create in (True, False):
        with pytest.raises(ScrapeError, match=r"expected a store of 'labels scrape', version 3; scrape into another"):
            Store(tmp_path / "s.sqlite", create=create)
    assert (tmp_path / "s.sqlite").read_bytes() == body


@pytest.fixture
def springs():
    """A world of classes that do not come with hiertree, and a table of landmarks of two of them."""
    world = World()
    names = {"Q60001": "onsen", "Q60002": "hot spring", "Q60011": "samba venue", "Q60012": "parade ground"}
    superclasses = {"Q60001": "Q60002", "Q60002": "Q15324", "Q60011": "Q60012", "Q60012": "Q811979"}
    names |= {"Q15324": "body of water", "Q811979": "architectural structure"}
    for item, name in names.items():
        parents = [statement(superclasses[item], prop="P279")] if item in superclasses else []
        world.add(entity(item, *parents, labels={"en": name}))
    rows = ["jp-0012,C,onsen,http://www.wikidata.org/entity/Q60001", "001,C,samba venue,Q60011", "1,C,lake,"]
    return world, "\n".join(["landmark_id,category,instance_of,item_ids", *rows]) + "\n"


def test_what_was_scraped_without_hypernyms_gets_them_by_one_command(springs, tmp_path, capsys):
    world, rows = springs
    table, folder, store = tmp_path / "table.csv", tmp_path / "cleaned", tmp_path / "s.sqlite"
    table.write_text(rows)
    assert run("clean", table, "--out", folder) == 0
    assert run("cluster", folder, "--out", tmp_path / "bare") == 0
    printed = capsys.readouterr().out
    assert "2 labels, 'onsen' for instance, have Wikidata ids that are not known here" in printed
    assert "hiertree labels hypernyms CLEANED --store STORE" in printed
    assert run("build", table, "--out", tmp_path / "built") == 0
    assert "2 labels, 'onsen' for instance, have Wikidata ids" in capsys.readouterr().out
    with Wikimedia(world) as wikimedia:
        wikimedia.refuse = lambda keys: "Q60011" in keys.keys
        assert run("hypernyms", folder, "--store", store, *web_options(wikimedia)) == 3
        assert "1 of 4 classes failed: ask again with 'hiertree labels retry'" in capsys.readouterr().err
        wikimedia.refuse = lambda keys: False
        assert run("retry", store, *web_options(wikimedia)) == 0
        keys = [key for request in wikimedia.asked for key in request.keys]
        assert run("hypernyms", folder, "--store", store, *web_options(wikimedia)) == 0
        assert [key for request in wikimedia.asked for key in request.keys] == keys
    assert keys.count("Q60001") == 2  # refused together with its neighbor, then alone
    assert run("cluster", folder, "--hypernyms", store, "--out", tmp_path / "clustered") == 0
    assert "not known here" not in capsys.readouterr().out
    with (tmp_path / "clustered" / "labels.csv").open(encoding="utf-8", newline="") as file:
        chains = {row["label"]: row["hypernyms"] for row in csv.DictReader(file)}
    assert chains["onsen"] == "onsen → hot spring → body of water"
    assert chains["samba venue"] == "samba venue → parade ground → architectural structure"
    table.write_text("landmark_id,instance_of\n1,lake\n")
    assert run("clean", table, "--out", tmp_path / "nameless") == 0
    assert run("hypernyms", tmp_path / "nameless", "--store", tmp_path / "n.sqlite", "--contact", CONTACT) == 2
    assert "nameless: no label has a Wikidata id: expected ids such as Q23397" in capsys.readouterr().err
    assert not (tmp_path / "n.sqlite").exists()


def test_a_plan_of_scraped_values_asks_for_the_hypernyms_alone(springs, tmp_path):
    world, rows = springs
    (tmp_path / "table.csv").write_text(rows)
    messages = []
    with Wikimedia(world) as wikimedia:
        asking = {"contact": CONTACT, "requests_per_minute": 100000, "backoff": 0.001, **wikimedia.options}
        plan = {"landmarks": tmp_path / "table.csv", "instances": tmp_path / "table.csv", "scrape": asking}
        first = build({**plan, "cluster": {"clusters": 2}}, out=tmp_path / "out", say=messages.append)
        steps = build({**plan, "cluster": {"clusters": 2}}, out=tmp_path / "out")
    assert "clustered" in first.steps
    assert "clustered" not in steps.steps
    assert all(request.keys[0].startswith("Q") for request in wikimedia.asked)
    edges = read_table(tmp_path / "out" / "exported" / "hypernyms.csv")
    assert {"onsen", "samba venue"} < set(edges["child_label"])


@pytest.mark.parametrize(("stage", "key"), [("page", "Category:Place 0"), ("item", "Q10000"), ("label", "Q100")])
def test_damaged_json_in_a_store_gives_one_line_and_is_mended_by_asking_again(table, tmp_path, capsys, stage, key):
    store = tmp_path / "s.sqlite"
    with Wikimedia(Places.numbered(60)) as wikimedia:
        assert run("scrape", table, "--store", store, *web_options(wikimedia)) == 0
        output = capsys.readouterr().out
        with Store(store) as open_store, open_store.connection as connection:
            connection.execute("UPDATE answers SET answer = '{\"key' WHERE (stage, key) = (?, ?)", (stage, key))
        assert run("clean", table, "--store", store, "--out", tmp_path / "cleaned") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"the answer to {stage} '{key}' is damaged" in line
        assert "--refresh-older-than 0" in line
        time.sleep(1.1)  # facts are as old as whole seconds say
        assert run("scrape", table, "--store", store, "--refresh-older-than", "0", *web_options(wikimedia)) == 0
    assert capsys.readouterr().out == output
