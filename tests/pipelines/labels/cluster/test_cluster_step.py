"""From cleaned landmarks to a folder that people can review: files, groups, references, repeatability."""

import csv
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from printed_commands import printed_by

from hiertree.errors import OptionError, OutputError, ShapeError, TableError
from hiertree.pipelines.labels import (
    CleanSettings,
    ClusterSettings,
    clean_step,
    cluster_step,
    export_step,
    read_kept,
    read_proposal,
)
from hiertree.pipelines.labels.cluster.naming import groups_above, name_groups
from hiertree.pipelines.labels.cluster.step import agreement, describe_clustered, read_reference

FILES = {
    "proposal.json",
    "clusters.csv",
    "labels.csv",
    "quality.json",
    "hypernyms.csv",
    "landmarks.csv",
    "dropped.csv",
    "report.json",
    "history.json",
    "manifest.json",
}


@pytest.fixture
def clean_folder(landmarks, instances, tmp_path):
    clean_step(landmarks, instances=instances, out=tmp_path / "cleaned", settings=CleanSettings(multi="first"))
    return tmp_path / "cleaned"


@pytest.fixture
def reference(tmp_path):
    """Nature or culture for most labels; "lake" is called culture once and nature twice."""
    path = tmp_path / "reference.csv"
    rows = ["Lake,culture", "lake,nature", "lake,nature", "mountain,nature", "waterfall,nature", "Road bridge,culture"]
    path.write_text("\n".join(["label,class", *rows, "art museum,culture", "unheard of,culture", "castle,"]) + "\n")
    return f"{path}:class"


def test_a_folder_for_review_holds_all_it_takes(clean_folder, reference, tmp_path):
    settings = ClusterSettings(clusters=5, restarts=3, references=(reference,))
    result = cluster_step(clean_folder, out=tmp_path / "out", settings=settings)
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert read_proposal(tmp_path / "out") == result.proposal
    assert read_kept(tmp_path / "out") == read_kept(clean_folder)
    report = json.loads((tmp_path / "out" / "quality.json").read_text())
    assert report == result.quality
    assert report["labels"] == sum(len(cluster.labels) for cluster in result.proposal.clusters) == 11
    assert report["landmarks"] == len(read_kept(clean_folder))
    assert report["references"]["reference.csv:class"]["labels"] == 5
    assert report["references"]["reference.csv:class"]["purity"] == 1
    assert "reference.csv:class: 5 labels in 2 classes" in describe_clustered(result)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["seed"] == 0
    assert manifest["parameters"]["restarts"] == 3
    assert [file["name"] for file in manifest["inputs"]] == [
        "landmarks.csv",
        "dropped.csv",
        "report.json",
        "reference.csv",
    ]


def test_groups_above_nest_within_kinds_and_thin_out(clean_folder, tmp_path):
    settings = ClusterSettings(clusters=8, levels=2, restarts=3)
    clusters = cluster_step(clean_folder, out=tmp_path / "out", settings=settings).proposal.clusters
    assert all(len(cluster.above) == 2 for cluster in clusters)
    fine = {(cluster.kind, cluster.above[1]): cluster.above[0] for cluster in clusters}
    assert all(fine[cluster.kind, cluster.above[1]] == cluster.above[0] for cluster in clusters)
    sizes = [len({(cluster.kind, *cluster.above[:depth]) for cluster in clusters}) for depth in range(3)]
    assert sizes == sorted(sizes)
    with (tmp_path / "out" / "clusters.csv").open(encoding="utf-8", newline="") as file:
        assert [row["above"].split("|") for row in csv.DictReader(file)] == [list(c.above) for c in clusters]


def test_no_group_takes_most_of_clusters_that_are_all_about_equally_alike():
    """Average linkage would leave 20 of these 36 in one group."""
    centers = np.random.default_rng(0).normal(0.5, size=(36, 64)).astype(np.float32)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    names = [f"xq{index}" for index in range(36)]
    clusters = [{name: 1} for name in names]
    groups = groups_above(centers, ["natural"] * 36, names, clusters, levels=1)
    assert 6 <= len(set(groups)) <= 12
    assert max(Counter(groups).values()) <= 12
    with pytest.raises(OptionError, match="levels=-1"):
        groups_above(centers, ["natural"] * 36, names, clusters, levels=-1)


def test_clusters_of_one_theme_make_a_group_though_their_vectors_have_nothing_in_common():
    clusters = [{"park": 9}, {"stadium": 2}, {"zoo": 1}, {"museum": 4}, {"theatre": 3}, {"bridge": 5}, {"railway": 1}]
    names = [next(iter(cluster)) for cluster in clusters]
    groups = groups_above(np.eye(7, dtype=np.float32), ["human-made"] * 7, names, clusters, levels=1)
    assert groups == [("leisure",)] * 3 + [("culture",)] * 2 + [("ways",)] * 2


def test_a_group_is_called_by_what_its_labels_share_or_else_by_its_clusters():
    clusters = [{"lake": 5}, {"river": 3}, {"church": 4}, {"farm": 1}, {"xylo": 2}, {"zorg": 2}]
    names = ["lake", "river", "church", "farm", "xylo", "zorg"]
    groups = [[0, 1], [2, 3], [4, 5]]
    assert name_groups(groups, names, clusters) == ["water", "religion and memory", "xylo and others"]
    chains = {"xylo": ("tower", "structure"), "zorg": ("tower", "structure"), "church": ("building", "structure")}
    assert name_groups(groups, names, clusters, chains=chains)[2] == "tower"
    assert name_groups([[0, 1], [2], [3], [4], [5]], names, clusters)[1:] == names[2:]


def test_agreement_by_hand():
    """Two clusters {a, a, b} and {b, b, a}: of 15 pairs 6 are together in each, 2 in both."""
    scores = agreement([0, 0, 0, 1, 1, 1], ["a", "a", "b", "b", "b", "a"])
    assert scores["ari"] == pytest.approx((2 - 6 * 6 / 15) / (6 - 6 * 6 / 15), abs=1e-4)
    entropy = -(2 / 3 * np.log2(2 / 3) + 1 / 3 * np.log2(1 / 3))
    assert scores["nmi"] == scores["v_measure"] == scores["homogeneity"] == pytest.approx(1 - entropy, abs=1e-4)
    assert scores["purity"] == pytest.approx(4 / 6, abs=1e-4)
    assert set(agreement("xxy", "bba").values()) == {1.0}
    with pytest.raises(ShapeError, match="2 groups for 1 classes"):
        agreement([0, 1], [0])


def test_references_are_read_with_care(reference, tmp_path):
    name, classes = read_reference(reference)
    assert name == "reference.csv:class"
    assert (classes["lake"], classes["road bridge"]) == ("nature", "culture")
    assert "castle" not in classes
    with pytest.raises(OptionError, match="TABLE:column"):
        read_reference("reference.csv")
    with pytest.raises(TableError, match="no column 'kind'"):
        read_reference(reference.replace(":class", ":kind"))


@pytest.fixture
def vectors(tmp_path):
    """A table of vectors by meaning, in three languages; that of "cafetière" is near nothing."""
    rows = {"bridge": [1, 0, 0], "köprü": [1, 0.1, 0], "橋": [1, 0, 0.1], "lake": [0, 1, 0], "tó": [0.1, 1, 0]}
    rows["cafetière"] = [0.5, 0.5, 1]
    pq.write_table(pa.table({"label": list(rows), "vector": [*rows.values()]}), tmp_path / "vectors.parquet")
    return tmp_path / "vectors.parquet"


def test_labels_of_other_languages_are_read_as_the_lists_nearest_nouns(vectors, tmp_path):
    labels = ["bridge", "köprü", "橋", "lake", "tó", "cafetière", "missing from the vectors", "castle"]
    rows = [f"{index},Category:{index},{label}" for index, label in enumerate(labels)]
    (tmp_path / "landmarks.csv").write_text("\n".join(["landmark_id,category,label", *rows]), encoding="utf-8")
    cleaned, out = tmp_path / "cleaned", tmp_path / "clustered"
    printed_by(f"hiertree labels clean {tmp_path}/landmarks.csv --instance-column label --out {cleaned}")
    printed_by(f"hiertree labels cluster {cleaned} --reader vectors --vectors {vectors} --clusters 3 --out {out}")
    clusters = {cluster.name: {member.label for member in cluster.labels} for cluster in read_proposal(out).clusters}
    assert clusters == {
        "bridge": {"bridge", "köprü", "橋"},
        "lake": {"lake", "tó"},
        "castle": {"castle"},
        "unknown": {"cafetière", "missing from the vectors"},
    }
    member = next(
        member for cluster in read_proposal(out).clusters for member in cluster.labels if member.label == "tó"
    )
    assert member.doubt.startswith("kind, read as lake")
    assert json.loads((out / "manifest.json").read_text())["parameters"]["reader"]["table"] == "vectors.parquet"


@pytest.mark.parametrize(
    "settings", [{"encoder": "clip", "reader": "clip"}, {"reader": "vectors"}, {"reader": "clip", "prompts": ("a",)}]
)
def test_a_reader_is_for_place_nouns_and_needs_its_own_settings(settings):
    with pytest.raises(OptionError):
        ClusterSettings(**settings)


def test_wrong_folders_and_references_leave_nothing_behind(clean_folder, reference, landmarks, tmp_path):
    with pytest.raises(TableError, match=r"holds no landmarks\.csv: .*labels clean"):
        cluster_step(tmp_path, out=tmp_path / "out")
    empty = tmp_path / "foreign.csv"
    empty.write_text("label,class\nnowhere,x\n")
    with pytest.raises(TableError, match="knows none of the labels"):
        cluster_step(clean_folder, out=tmp_path / "out", settings=ClusterSettings(references=(f"{empty}:class",)))
    with pytest.raises(OutputError, match="an input, inside"):
        cluster_step(clean_folder, out=clean_folder)
    assert not (tmp_path / "out").exists()


def test_hypernyms_say_kinds_and_come_with_the_labels_to_the_export(clean_folder, tmp_path):
    edges = tmp_path / "edges.csv"
    rows = ["Q1,waterfall,Q2,watercourse", "Q2,watercourse,Q35145263,natural geographic object", "Q9,opera,Q8,work"]
    edges.write_text("\n".join(["child_qid,child_label,parent_qid,parent_label", *rows]) + "\n")
    result = cluster_step(clean_folder, out=tmp_path / "out", settings=ClusterSettings(clusters=5, hypernyms=edges))
    member = next(p for cluster in result.proposal.clusters for p in cluster.labels if p.label == "waterfall")
    assert (member.margin, member.hypernyms) == (2, ("watercourse", "natural geographic object"))
    assert read_proposal(tmp_path / "out") == result.proposal
    with (tmp_path / "out" / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows_by_label = {row["label"]: row for row in csv.DictReader(file)}
    assert rows_by_label["waterfall"]["hypernyms"] == "waterfall → watercourse → natural geographic object"
    assert float(rows_by_label["waterfall"]["kind_margin"]) == 2
    assert rows_by_label["castle"]["hypernyms"].startswith("castle → ")  # by the classes that come along
    exported = export_step(tmp_path / "out", out=tmp_path / "exported").folder
    assert (exported / "hypernyms.csv").read_text().splitlines()[1:3] == [f"{row}," for row in rows[:2]]
    assert "hypernyms.csv" in (exported / "README.md").read_text()
