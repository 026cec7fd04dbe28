"""Bad tables and names at the command line: one line that names the place, status 2, nothing half-made."""

import csv
from functools import partial

import numpy as np
import pytest
from printed_commands import status_of

from hiertree.errors import EmbeddingError
from hiertree.pipelines.labels import CleanSettings, ClusterSettings, clean_step, cluster_step, export_step
from hiertree.pipelines.labels.encode.text_encoders import unit_rows

HEADER = "landmark_id,category,instance_of\n"
TRAVERSAL = "../../../etc/passwd"


run = partial(status_of, "labels")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1,http://x,lake\n2,http://y,pond\n", "no column 'landmark_id'"),
        (HEADER + '"1\n2",a,lake\n', "landmark_id '1\\n2'"),
        (HEADER + '1,a,"lake\n', "line 2"),
        (HEADER + f"1,a,{'x' * 10_000_000}\n", "field larger than"),
        (HEADER.encode() + b"1,a,l\xe9ke\n", "bytes that are not UTF-8"),
        ("", "is empty"),
        (HEADER, "lists no landmark"),
        (HEADER + "1,a,la\0ke\n", "line 2: a NUL character"),
        (HEADER.replace("category", "landmark_id"), "several columns named 'landmark_id'"),
    ],
)
def test_a_bad_table_is_told_in_one_line_and_leaves_nothing(tmp_path, capsys, text, complaint):
    table = tmp_path / "landmarks.csv"
    table.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert run("clean", table, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert complaint in error
    assert error.count("\n") == 1
    assert len(error) < 500
    assert [path.name for path in tmp_path.iterdir()] == ["landmarks.csv"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--seed", "-1"], "seed=-1"),
        (["--prompt", "a picture"], "templates with {label}"),
        (["--prompt", "a {label}"], "none with the encoder place-nouns"),
        (["--clusters", "many"], "clusters='many'"),
        (["--levels", "-1"], "levels=-1"),
        (["--restarts", "0"], "restarts=0"),
        (["--reference", "classes.csv"], "TABLE:column"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_is_read(tmp_path, capsys, options, complaint):
    (tmp_path / "unreadable").write_bytes(b"\xff")
    for command in ("cluster", "build"):
        assert run(command, tmp_path / "unreadable", "--out", tmp_path / "out", *options) == 2
        error = capsys.readouterr().err
        assert complaint in error
        assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["unreadable"]


def test_a_plan_nested_too_deeply_is_refused(tmp_path, capsys):
    (tmp_path / "labels.yaml").write_text("landmarks: " + "[" * 20_000)
    assert run("build", tmp_path / "labels.yaml") == 2
    assert "nested too deeply" in capsys.readouterr().err


@pytest.fixture
def cleaned_folder(landmarks, instances, tmp_path):
    clean_step(landmarks, instances=instances, out=tmp_path / "cleaned")
    return tmp_path / "cleaned"


@pytest.fixture
def clustered(cleaned_folder, tmp_path):
    cluster_step(cleaned_folder, out=tmp_path / "clustered", settings=ClusterSettings(clusters=3, restarts=1))
    return tmp_path / "clustered"


def test_names_like_paths_stay_names(tmp_path):
    """Labels and categories that look like paths, formulas or markup end up in cells and nowhere else."""
    names = [TRAVERSAL, "=cmd|' /C calc'!A0", "<img src=x onerror=alert(1)>", "..\\..\\windows", "lake", "pond"]
    with (tmp_path / "listed.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER.strip().split(","))
        writer.writerows((index, f"http://x/{TRAVERSAL}", name) for index, name in enumerate(names))
    clean_step(tmp_path / "listed.csv", out=tmp_path / "cleaned", settings=CleanSettings(separator=";"))
    cluster_step(tmp_path / "cleaned", out=tmp_path / "clustered", settings=ClusterSettings(clusters=2, restarts=2))
    exported = export_step(tmp_path / "clustered", out=tmp_path / "exported").folder
    assert {path.name for path in tmp_path.iterdir()} == {"listed.csv", "cleaned", "clustered", "exported"}
    with (exported / "hierarchical.csv").open(newline="") as file:
        labels = {row["supercategory"] for row in csv.DictReader(file)}
    assert {TRAVERSAL, "=cmd/' /C calc'!A0", "<img src=x onerror=alert(1)>"} <= labels


def test_folders_of_another_step_are_refused(cleaned_folder, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for command in (("export", cleaned_folder), ("cluster", tmp_path / "empty")):
        assert run(*command, "--out", tmp_path / "out") == 2
        assert "holds no" in capsys.readouterr().err
    assert run("tree", cleaned_folder, "--out", tmp_path / "page.html") == 2
    assert "labels export" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"landmarks": 3}'])
def test_a_report_that_was_changed_is_named(clustered, tmp_path, capsys, text):
    (clustered / "report.json").write_text(text)
    assert run("export", clustered, "--out", tmp_path / "out") == 2
    assert "report.json" in capsys.readouterr().err


def test_paths_in_names_lead_nowhere(clustered, tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    table = tmp_path / "images.csv"
    table.write_text(f"landmark_id,image_id\n0,{TRAVERSAL}\n")
    files = sorted(tmp_path.rglob("*"))
    assert run("review", clustered, "--annotator", "../anna", "--no-browser") == 2
    assert "annotator" in capsys.readouterr().err
    assert run("export", clustered, "--split", "../x", "--out", tmp_path / "out") == 2
    assert "split='../x'" in capsys.readouterr().err
    images = ("--images", tmp_path / "photos", "--image-table", table)
    assert (
        run("review", clustered, "--annotator", "anna", "--log", tmp_path / "new.jsonl", "--no-browser", *images) == 2
    )
    assert "line 2: image_id '../../../etc/passwd': expected a plain file name" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == files


def test_labels_that_an_encoder_cannot_read_are_named_with_what_to_do():
    with pytest.raises(EmbeddingError, match=r"2 texts: '\.\.\.', '🏰': .*correct these labels in the table"):
        unit_rows(np.array([[1.0, 0.0], [0.0, 0.0], [np.nan, 1.0]]), ["lake", "...", "🏰"])
