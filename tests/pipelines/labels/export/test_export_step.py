"""A data set to publish: the files agree, provenance says what people did, the same inputs give the same bytes."""

import json
import shutil
import sys

import pytest
from loopback_hub import REFUSED, serving_hub

import hiertree as ht
from hiertree.errors import HiertreeError, OptionError, TableError
from hiertree.io.tables import read_table
from hiertree.pipelines.cli.application import main
from hiertree.pipelines.labels import (
    CleanSettings,
    ClusterSettings,
    ColumnNames,
    ExportSettings,
    build,
    clean_step,
    cluster_step,
    export_step,
    read_proposal,
)
from hiertree.pipelines.labels.export.step import describe_exported
from hiertree.pipelines.labels.review.actions import MarkLabels, Move, Rename, SetKind
from hiertree.pipelines.labels.review.serving import Session
from hiertree.tree import H_GLDV2_LEVELS


@pytest.fixture(scope="module")
def proposal_folder(tmp_path_factory):
    """Thirteen landmarks of ten labels in six clusters with a level above, one landmark dropped."""
    folder = tmp_path_factory.mktemp("export")
    labels = ["lake", "glacial lake", "lake", "waterfall", "mountain", "road bridge", "road bridge", "footbridge"]
    labels += ["church building", "Catholic cathedral", "art museum", "history museum", "lake|church building", ""]
    cells = [(label, "|".join("Q5" for _ in label.split("|") if label)) for label in labels]
    rows = [f"{index},C{index},{label},{ids}" for index, (label, ids) in enumerate(cells)]
    (folder / "listed.csv").write_text("\n".join(["landmark_id,category,instance_of,ids", *rows]))
    columns, reading = ColumnNames(item_ids="ids"), CleanSettings(multi="all")
    clean_step(folder / "listed.csv", out=folder / "cleaned", columns=columns, settings=reading)
    settings = ClusterSettings(clusters=6, levels=1, restarts=3)
    cluster_step(folder / "cleaned", out=folder / "clustered", settings=settings)
    return folder / "clustered"


@pytest.fixture
def log(proposal_folder, tmp_path):
    """Lakes are renamed, mountains called human-made, footbridges moved to the lakes, churches irrelevant."""
    proposal = read_proposal(proposal_folder)
    index = {member.label: n for n, cluster in enumerate(proposal.clusters) for member in cluster.labels}
    actions = [
        Rename(cluster=index["lake"], name="standing water"),
        SetKind(clusters=(index["mountain"],), kind="human-made"),
        Move(labels=("footbridge",), to=index["waterfall"]),
        MarkLabels(labels=("church building",), irrelevant=True),
    ]
    session = Session(proposal, tmp_path / "anna.jsonl", "anna", clock=lambda: "2026-01-01T00:00:00Z")
    for seq, action in enumerate(actions):
        session.act(action, seq=seq)
    return tmp_path / "anna.jsonl"


def places(tree):
    return dict(zip(tree.leaves, map(tree.labels_of, tree.paths(tree.leaves).tolist()), strict=True))


def provenance(folder):
    import pyarrow.parquet as pq

    return {row["landmark_id"]: row for row in pq.read_table(folder / "provenance.parquet").to_pylist()}


def test_the_files_of_an_export_agree(proposal_folder, tmp_path):
    export = export_step(proposal_folder, out=tmp_path / "out", settings=ExportSettings(split="train"))
    table = ht.LabelTree.from_csv(export.folder / "train_label_to_hierarchical.csv", levels=H_GLDV2_LEVELS)
    tree = ht.LabelTree.from_json(export.folder / "tree.json")
    assert places(tree) == places(export.tree)
    assert tree.level_names == ("natural_or_human_made", "group_1", "hierarchical_label", "landmark_id")
    assert places(ht.LabelTree.from_csv(export.folder / "tree.csv", levels=tree.level_names)) == places(tree)
    assert {leaf: (kind, *rest) for leaf, (kind, _, *rest) in places(tree).items()} == places(table)
    assert len(tree.leaves) == 13
    rows = provenance(export.folder)
    assert len(rows) == export.report["landmarks"] == 14
    assert (rows["13"]["status"], rows["13"]["reason"]) == ("dropped", "no label")
    assert (rows["12"]["labels"], rows["12"]["label_ids"]) == (["lake", "church building"], ["Q5", "Q5"])
    assert rows["0"]["proposed_label"] == rows["0"]["hierarchical_label"]
    assert rows["0"]["review"] is None
    card = (export.folder / "README.md").read_text()
    assert "Nobody has reviewed" in card
    assert "where they are those of Google Landmarks Dataset v2" in card  # a table may hold others
    assert "where they come from Wikidata" in card
    assert "13 kept, with 10 distinct labels" in describe_exported(export)


def test_the_library_datasets_loads_the_table_of_landmarks(proposal_folder, tmp_path, monkeypatch):
    huggingface = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    export_step(proposal_folder, out=tmp_path / "exported", settings=ExportSettings(split="train"))
    rows = huggingface.load_dataset(str(tmp_path / "exported"), cache_dir=str(tmp_path / "cache"))["train"]
    table = read_table(tmp_path / "exported" / "train_label_to_hierarchical.csv")
    assert rows.column_names == list(table.columns)
    assert list(map(str, rows["landmark_id"])) == table["landmark_id"].tolist()
    assert list(rows["hierarchical_label"]) == table["hierarchical_label"].tolist()


def test_the_card_counts_the_images_of_the_landmarks_it_has(proposal_folder, log, tmp_path):
    unreviewed = export_step(proposal_folder, out=tmp_path / "plain", review=log)
    assert "images of" not in (unreviewed.folder / "README.md").read_text().replace("of images", "")
    gone = next(row for row in provenance(unreviewed.folder).values() if row["status"] == "dropped")["landmark_id"]
    of_image = [gone, gone, *unreviewed.tree.leaves, unreviewed.tree.leaves[0], 10**6]
    rows = [f"{index:016x},http://x/{index},{landmark}" for index, landmark in enumerate(of_image)]
    (tmp_path / "train.csv").write_text("\n".join(["id,url,landmark_id", *rows]) + "\n")
    counting = ExportSettings(image_table=tmp_path / "train.csv")
    export = export_step(proposal_folder, out=tmp_path / "out", review=log, settings=counting)
    assert "`train.csv` has 16 images, 13 of them of these landmarks." in (export.folder / "README.md").read_text()
    assert json.loads((export.folder / "manifest.json").read_text())["inputs"][-1]["name"] == "train.csv"
    leaves = "\n".join(f"{leaf},a b  c" for leaf in export.tree.leaves)
    (tmp_path / "train_clean.csv").write_text(f"landmark_id,images\n{leaves}\n{gone},d e\n999999,\n")
    counting_clean = ExportSettings(image_table=tmp_path / "train_clean.csv")
    clean = export_step(proposal_folder, out=tmp_path / "c", review=log, settings=counting_clean)
    assert "`train_clean.csv` has 38 images, 36 of them of these landmarks." in (clean.folder / "README.md").read_text()
    repeated = f"{gone},d e d\n{export.tree.leaves[0]},a a.jpg a\n"
    (tmp_path / "train_clean.csv").write_text(f"landmark_id,images\n{repeated}")
    repeats = export_step(proposal_folder, out=tmp_path / "r", review=log, settings=counting_clean)
    assert "has 4 images, 2 of them" in (repeats.folder / "README.md").read_text()
    (tmp_path / "train.csv").write_text("id,landmark\n1,2\n")
    with pytest.raises(TableError, match="landmark_id"):
        export_step(proposal_folder, out=tmp_path / "bad", review=log, settings=counting)
    assert not (tmp_path / "bad").exists()


def test_a_review_is_carried_out_and_told_row_by_row(proposal_folder, log, tmp_path):
    log.write_bytes(log.read_bytes() + b'{"seq"')
    export = export_step(proposal_folder, out=tmp_path / "out", review=log)
    assert "last line is incomplete: its 6 bytes do not count" in describe_exported(export)
    rows = provenance(export.folder)
    assert rows["0"]["hierarchical_label"] == "standing water"
    assert rows["7"]["hierarchical_label"] == rows["3"]["hierarchical_label"]
    reviews = {"0": "cluster renamed", "4": "kind changed", "7": "label moved, kind changed", "8": "irrelevant"}
    assert {key: rows[key]["review"] for key in (*reviews, "10")} == {**reviews, "10": "as proposed"}
    assert (rows["8"]["status"], rows["8"]["reason"]) == ("dropped", "irrelevant label")
    assert rows["12"]["labels"] == ["lake"]
    assert export.report["dropped"] == {"irrelevant label": 1, "no label": 1}
    assert export.report["kept"] == len(export.tree.leaves) == 12
    assert export.report["review"] == {"events": 4, "approved": 0, "irrelevant": 1, "either": 0, "torn_bytes": 6}
    assert "People reviewed the proposal: 4 actions" in (export.folder / "README.md").read_text()
    manifest = json.loads((export.folder / "manifest.json").read_text())
    assert manifest["inputs"][-1]["name"] == "anna.jsonl"


@pytest.mark.parametrize("damage", [lambda text: text[: len(text) // 2], lambda text: bytes(len(text)), lambda _: b""])
@pytest.mark.parametrize("cut_at_a_line", [False, True])
def test_hypernyms_that_are_not_as_they_were_written_do_not_enter_a_data_set(
    proposal_folder, tmp_path, damage, cut_at_a_line
):
    folder = tmp_path / "clustered"
    shutil.copytree(proposal_folder, folder)
    table = folder / "hypernyms.csv"
    text = damage(table.read_bytes())
    table.write_bytes(text[: text.rfind(b"\n") + 1] if cut_at_a_line else text)
    with pytest.raises(TableError, match=r"hypernyms\.csv is missing or has changed: expected as its step wrote it"):
        export_step(folder, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_labels_that_are_no_landmarks_are_left_out_unless_they_are_to_be_kept(tmp_path):
    labels = ["lake", "lake", "film", "lake|film", "human", "pond"]
    (tmp_path / "t.csv").write_text("landmark_id,instance_of\n" + "".join(f"{i},{x}\n" for i, x in enumerate(labels)))
    clean_step(tmp_path / "t.csv", out=tmp_path / "cleaned", settings=CleanSettings(multi="all"))
    settings = ClusterSettings(clusters=3, restarts=1)
    clusters = cluster_step(tmp_path / "cleaned", out=tmp_path / "clustered", settings=settings).proposal.clusters
    marked = {member.label for cluster in clusters for member in cluster.labels if "no landmark" in member.doubt}
    assert marked == {"film", "human"}
    export = export_step(tmp_path / "clustered", out=tmp_path / "exported")
    assert {landmark.landmark_id: landmark.labels for landmark in export.kept} == {
        **dict.fromkeys("013", ("lake",)),
        "5": ("pond",),
    }
    dropped = {drop.landmark_id: (drop.reason, drop.origin.reason) for drop in export.dropped}
    assert dropped == {"2": ("no landmark", "creative work"), "4": ("no landmark", "person")}
    assert "2 dropped: no landmark" in describe_exported(export)
    assert {row["status"] for row in provenance(export.folder).values() if row["labels"] == ["film"]} == {"dropped"}
    every = export_step(tmp_path / "clustered", out=tmp_path / "all", settings=ExportSettings(keep_unfit=True))
    assert (every.report["kept"], every.report["dropped"]) == (6, {})
    (tmp_path / "t.csv").write_text("landmark_id,instance_of\n1,film\n2,human\n")
    with pytest.raises(TableError, match="--keep-unfit keeps what is marked as no landmark"):
        build({"landmarks": tmp_path / "t.csv", "cluster": {"clusters": 2}}, out=tmp_path / "built")


def test_an_export_counts_the_labels_of_unknown_words_and_an_edited_table_is_named_next(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HIERTREE_PROGRESS", "1")
    labels = ["lake", "church", "Berg", "Schlucht", "pond", "Berg"]
    (tmp_path / "t.csv").write_text("landmark_id,instance_of\n" + "".join(f"{i},{x}\n" for i, x in enumerate(labels)))
    folder = build(
        {"landmarks": tmp_path / "t.csv", "cluster": {"clusters": 2, "restarts": 1}}, out=tmp_path / "b"
    ).folder
    with pytest.raises(SystemExit):
        main(["labels", "review", str(folder / "clustered"), "--annotator", "a", "--table", str(tmp_path / "e.csv")])
    following = f"hiertree labels export {folder / 'clustered'} --edited {tmp_path / 'e.csv'} --out exported"
    assert capsys.readouterr().err.splitlines()[-2:] == [f"written to {tmp_path / 'e.csv'}", f"next: {following}"]
    export = export_step(folder / "clustered", out=tmp_path / "out", review=tmp_path / "e.csv")
    table = read_table(export.folder / "labels.csv")
    unknown = table["label"][table["cluster"] == "unknown"].tolist()
    assert (sorted(unknown), export.report["kinds_guessed"]) == (["Berg", "Schlucht"], 2)
    assert "unknown words, whose kind is a guess: 2 ('unknown' in labels.csv); --reader" in describe_exported(export)
    assert "2 of the latter are unknown words" in (export.folder / "README.md").read_text()
    (tmp_path / "e.csv").write_text(
        (tmp_path / "e.csv").read_text().replace("Berg,2,unknown,human-made", "Berg,2,lake,natural")
    )
    assert export_step(folder / "clustered", out=tmp_path / "o", review=tmp_path / "e.csv").report["kinds_guessed"] == 1


def test_what_cannot_be_exported_is_refused(proposal_folder, log, tmp_path):
    with pytest.raises(TableError, match=r"holds no proposal\.json"):
        export_step(tmp_path, out=tmp_path / "out")
    with pytest.raises(OptionError, match=r"split='\.\./train'"):
        export_step(proposal_folder, out=tmp_path / "out", settings=ExportSettings(split="../train"))
    log.write_bytes(log.read_bytes().replace(b'"rename"', b'"renamed"'))
    with pytest.raises(HiertreeError, match="anna"):
        export_step(proposal_folder, out=tmp_path / "out", review=log)
    assert not (tmp_path / "out").exists()


def test_an_export_goes_to_the_hub_or_says_in_one_line_why_not(proposal_folder, tmp_path, monkeypatch, capsys):
    def exit_status(name):
        command = ["labels", "export", str(proposal_folder), "--out", str(tmp_path / name)]
        with pytest.raises(SystemExit) as ended:
            main([*command, "--push-to-hub", "someone/labels"])
        return ended.value.code

    with serving_hub(tmp_path / "cache", monkeypatch) as hub:
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        assert exit_status("exported") in (None, 0)
        assert "commit/0" in capsys.readouterr().out
        assert hub == {path.name: path.read_bytes() for path in (tmp_path / "exported").iterdir()}
        monkeypatch.setenv("HF_TOKEN", REFUSED)
        assert exit_status("refused") == 2
    assert exit_status("absent") == 2  # the hub has gone
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert exit_status("without") == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert ["someone/labels on the hub" in line for line in errors] == [True, True, False]
    assert "`hf auth login` sets your token" in errors[0]
    assert "huggingface_hub" in errors[2]
    assert (tmp_path / "refused" / "tree.json").is_file()
