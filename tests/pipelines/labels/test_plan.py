"""One YAML runs every step; what did not change is not run again; what is misspelt is named."""

import json

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image
from printed_commands import status_of
from wikimedia import Places, Wikimedia
from wikimedia.tools import CONTACT

from hiertree.errors import IncompleteScrapeError, OptionError, RecipeError, TableError
from hiertree.pipelines.cli.application import main
from hiertree.pipelines.labels import ClusterSettings, build, clean_step, cluster_step, export_step, read_proposal
from hiertree.pipelines.labels.plan import check_plan, read_plan
from hiertree.pipelines.labels.review.actions import Rename
from hiertree.pipelines.labels.review.serving import Session


def list_places(table):
    """Write a table of 60 categories."""
    table.write_text("landmark_id,category\n" + "".join(f"{index},Category:Place {index}\n" for index in range(60)))


@pytest.fixture
def plan(landmarks, instances, tmp_path):
    """A plan beside its tables, as a mapping and a function that writes and runs it."""

    def run(**changes):
        plan_values = {
            "landmarks": landmarks.name,
            "instances": instances.name,
            "clean": {"multi": "first"},
            "cluster": {"clusters": 5, "restarts": 2},
            **changes,
        }
        (tmp_path / "labels.yaml").write_text(yaml.safe_dump(plan_values))
        messages = []
        return list(build(tmp_path / "labels.yaml", out=tmp_path / "out", say=messages.append).steps), messages

    return run


def test_only_what_changed_runs_again(plan, instances, tmp_path):
    assert plan()[0] == ["cleaned", "clustered", "exported", "tree"]
    done, messages = plan()
    assert done == []
    assert messages == [f"{step}: unchanged" for step in ("cleaned", "clustered", "exported", "tree")]
    assert plan(cluster={"clusters": 4, "restarts": 2})[0] == ["clustered", "exported", "tree"]
    assert plan(cluster={"clusters": 4, "restarts": 2}, export={"split": "train"})[0] == ["exported"]
    assert (tmp_path / "out" / "tree" / "index.html").exists()
    assert (tmp_path / "out" / "exported" / "train_label_to_hierarchical.csv").exists()
    with instances.open("a") as file:
        file.write("18,C,waterfall\r\n")
    assert plan(cluster={"clusters": 4, "restarts": 2}, export={"split": "train"})[0][0] == "cleaned"


def test_a_table_rewritten_with_the_same_labels_reruns_only_the_first_step(plan, instances):
    plan()
    instances.write_bytes(instances.read_bytes().replace(b"\r\n", b"\n"))
    assert plan()[0] == ["cleaned"]


def test_a_file_that_was_touched_is_made_again(plan, tmp_path):
    plan()
    with (tmp_path / "out" / "exported" / "tree.csv").open("a") as file:
        file.write("more\n")
    assert plan()[0] == ["exported"]


def test_a_review_reruns_the_export_alone(plan, tmp_path):
    plan()
    session = Session(read_proposal(tmp_path / "out" / "clustered"), tmp_path / "anna.jsonl", "anna")
    session.act(Rename(cluster=0, name="something else"), seq=0)
    assert plan(review="anna.jsonl")[0] == ["exported", "tree"]
    assert plan(review="anna.jsonl")[0] == []
    report = json.loads((tmp_path / "out" / "exported" / "report.json").read_text())
    assert report["review"]["events"] == 1


def test_a_review_that_is_not_there_is_named_before_any_step_runs(plan, tmp_path):
    with pytest.raises(RecipeError, match=r"review: no file .*anna\.jsonl.*leave out review until there is one"):
        plan(review="anna.jsonl")
    assert not (tmp_path / "out").exists()


def test_scraping_is_part_of_the_plan_asks_only_once_and_gives_the_same_bytes(plan, landmarks, tmp_path):
    list_places(landmarks)
    with Wikimedia(Places.numbered(60)) as wikimedia:
        asking = {"contact": CONTACT, "requests_per_minute": 100000, "backoff": 0.001, **wikimedia.options}
        done, messages = plan(instances=None, scrape=asking)
        assert done == ["scraped", "cleaned", "clustered", "exported", "tree"]
        assert "48 labeled" in messages[0]
        number_of_requests = len(wikimedia.asked)
        assert plan(instances=None, scrape=asking)[0] == ["scraped"]
        assert len(wikimedia.asked) == number_of_requests
    history = json.loads((tmp_path / "out" / "exported" / "history.json").read_text())
    assert [file["name"] for file in history[0]["inputs"]] == [landmarks.name, "store.sqlite"]
    rows = pq.read_table(tmp_path / "out" / "exported" / "provenance.parquet").to_pylist()
    rows_with_labels = [row for row in rows if row["status"] == "kept"]
    assert all(row["wikidata_item"] and all(row["label_ids"]) and row["time"] for row in rows_with_labels)
    assert any(row["revision"] for row in rows_with_labels)
    first, two = (exported_from(tmp_path / "out" / "store.sqlite", landmarks, tmp_path / name) for name in "ab")
    for file in first.iterdir():
        if file.name != "manifest.json":
            assert file.read_bytes() == (two / file.name).read_bytes(), file.name


@pytest.fixture
def refusing(landmarks):
    """Wikimedia, which refuses to speak of one of 60 landmarks, and the sections of a plan that asks it."""
    list_places(landmarks)
    with Wikimedia(Places.numbered(60)) as wikimedia:
        wikimedia.refuse = lambda asked: "Category:Place 7" in asked.keys
        asking = {"contact": CONTACT, "requests_per_minute": 100000, "backoff": 0.001, **wikimedia.options}
        yield wikimedia, {"instances": None, "scrape": asking}


def test_a_plan_stops_before_clustering_when_landmarks_failed_and_asks_again(plan, refusing, tmp_path, capsys):
    wikimedia, sections = refusing
    with pytest.raises(IncompleteScrapeError, match="1 of 60 landmarks failed: expected at most a share of 0"):
        plan(**sections)
    assert [path for path in (tmp_path / "out").iterdir() if path.is_dir()] == []
    assert status_of("labels", "build", tmp_path / "labels.yaml", "--out", tmp_path / "out") == 3
    assert "set allow_failed" in capsys.readouterr().err
    wikimedia.refuse = lambda asked: False
    assert plan(**sections)[0] == ["scraped", "cleaned", "clustered", "exported", "tree"]


def test_a_share_of_failed_landmarks_may_be_allowed(plan, refusing):
    wikimedia, sections = refusing
    done, messages = plan(**sections, allow_failed=0.02)
    assert "1 failed" in messages[0]
    assert done == ["scraped", "cleaned", "clustered", "exported", "tree"]
    wikimedia.refuse = lambda asked: False
    assert plan(**sections)[0][:2] == ["scraped", "cleaned"]


def test_the_tree_is_drawn_again_when_an_image_that_it_shows_has_changed(plan, tmp_path):
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (4, 4), "red").save(tmp_path / "photos" / "0.png")
    tree = {"images": "photos"}
    plan(tree=tree)
    assert plan(tree=tree)[0] == []
    Image.new("RGB", (4, 4), "blue").save(tmp_path / "photos" / "0.png")
    assert plan(tree=tree)[0] == ["tree"]
    Image.new("RGB", (4, 4), "blue").save(tmp_path / "photos" / "3.png")
    assert plan(tree=tree)[0] == ["tree"]
    (tmp_path / "photos" / "notes.txt").write_text("not shown")
    assert plan(tree=tree)[0] == []


def exported_from(store, landmarks, folder):
    """All steps after the scrape, from one store."""
    clean_step(landmarks, store=store, out=folder / "cleaned")
    cluster_step(folder / "cleaned", out=folder / "clustered", settings=ClusterSettings(clusters=5, restarts=2))
    return export_step(folder / "clustered", out=folder / "exported").folder


@pytest.mark.parametrize(
    ("plan_values", "complaint"),
    [
        ({}, "landmarks: Field required"),
        ({"landmarks": "a", "cluster": {"k": 3}}, "cluster: unknown key 'k', there are .*clusters"),
        ({"landmarks": "a", "cluster": {"clusterz": 3}}, "cluster: unknown key 'clusterz'.* mean 'clusters'"),
        ({"landmark": "a"}, "unknown key 'landmark'.* mean 'landmarks'"),
        ({"landmarks": "a", "cluster": {"clusters": 0}}, "cluster: clusters=0"),
        ({"landmarks": "a", "clean": {"multi": "some"}}, "clean: multi='some'"),
        ({"landmarks": "a", "scrape": {}}, "scrape: no contact"),
        (["landmarks"], "list: expected a mapping"),
    ],
)
def test_a_plan_that_says_nothing_sensible_is_refused_by_its_place(plan_values, complaint):
    with pytest.raises(RecipeError, match=complaint):
        check_plan(plan_values)


def test_broken_files_lost_options_and_foreign_folders_are_refused(plan, tmp_path, capsys):
    (tmp_path / "twice.yaml").write_text("landmarks: a\nlandmarks: b\n")
    with pytest.raises(RecipeError, match="'landmarks' is given twice"):
        read_plan(tmp_path / "twice.yaml")
    with pytest.raises(RecipeError, match=r"absent\.yaml"):
        read_plan(tmp_path / "absent.yaml")
    with pytest.raises(TableError, match=r"nowhere\.csv|No such file"):
        plan(landmarks="nowhere.csv")
    with pytest.raises(SystemExit):
        main(["labels", "build", str(tmp_path / "labels.yaml"), "--seed", "3"])
    assert "the option seed with a plan" in capsys.readouterr().err
    (tmp_path / "out" / "cleaned").mkdir(parents=True)
    (tmp_path / "out" / "cleaned" / "mine.txt").write_text("mine")
    with pytest.raises(OptionError, match=r"other files, 'mine\.txt'"):
        plan()
    assert (tmp_path / "out" / "cleaned" / "mine.txt").read_text() == "mine"
