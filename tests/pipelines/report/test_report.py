"""The page holds what the runs hold, and trusts no label."""

from __future__ import annotations

import base64
import json
import re
import shutil
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from PIL import Image, ImageFilter

from hiertree.errors import CheckpointError, OptionError
from hiertree.metrics import evaluate
from hiertree.pipelines.labels.export.tree_page import TreeNode
from hiertree.pipelines.pages import data_uri
from hiertree.pipelines.report import make_report
from hiertree.pipelines.report.queries_and_gallery import sample_of
from hiertree.pipelines.report.tables import side_by_side

HOSTILE = "<script>alert('label')</script>"


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    lake = TreeNode("lake", "label", 2, (), ((1, "Lake Chelan"), (2, HOSTILE)))
    hostile = TreeNode(HOSTILE, "label", 1, (), ((3, "3"),))
    kinds = TreeNode("natural", "kind", 2, (lake,), ()), TreeNode("human-made", "kind", 1, (hostile,), ())
    path = make_report(
        runs,
        tmp_path_factory.mktemp("page") / "index.html",
        title=HOSTILE,
        lead=[HOSTILE],
        tree=TreeNode("all landmarks", "root", 3, kinds, ()),
        queries=1,
        hits=5,
    )
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def test_numbers_of_the_table_are_those_of_the_runs(page, runs):
    expected = [json.loads((run / "metrics.json").read_text())["metrics"] for run in runs]
    table = {}
    for row in page.select("#metrics tbody tr"):
        metric = next(row.th.stripped_strings)
        table[metric] = [float(cell["value"]) for cell in row.select("data")]
        assert [cell.text for cell in row.select("data")] == [f"{100 * value:.1f}" for value in table[metric]]
    assert table == {name: [metrics[name] for metrics in expected] for name in expected[0]}


def test_the_best_of_each_row_is_said_in_words_too(page):
    for row in page.select("#metrics tbody tr"):
        values = [float(cell["value"]) for cell in row.select("data")]
        best_cells = ["best" in cell.text for cell in row.select("td") if cell.data]
        assert best_cells == [value == max(values) for value in values]


def test_labels_and_titles_are_escaped(page):
    assert HOSTILE not in str(page)
    assert page.h1.text == page.title.text == page.select_one(".lead").text == HOSTILE
    assert [node.text for node in page.select("#tree b")] == ["natural", "lake", "human-made", HOSTILE]
    assert [leaves.text for leaves in page.select("#tree small")] == [f"Lake Chelan · {HOSTILE}", "3"]


def test_colors_are_not_the_only_difference_between_hits(page):
    finds = page.select(".hits li")
    assert len(finds) == 5 * 2 * 5
    for find in finds:
        (verdict,), mark = find["class"], find.span.find(string=True)
        assert (find.bdi is None) == (verdict == "same")
        if find.bdi is not None:  # what lies below the level that is shared
            *_, shown = find.img["title"].partition(" › ") if verdict == "near" else ("", find.img["title"])
            assert find.bdi.text == (shown.rpartition(" › ")[2] if mark == "kind" else shown)
        assert (verdict, mark) in [("same", "✓"), ("near", "kind"), ("near", "family"), ("wrong", "✗")]
        assert ("nothing shared" if mark == "✗" else "same ") in find.img["alt"]
    borders = re.findall(r"\.(same|near|wrong) \{[^}]*--stroke: (\w+)", page.style.text)
    assert len({stroke for _, stroke in borders}) == 3
    legend = page.select("#retrievals .legend li")
    assert [entry.span.text for entry in legend] == ["✓", "kind", "family", "✗"]
    assert [entry.get("style") for entry in legend] == [None, "--depth: 67%", "--depth: 33%", None]


def test_each_ranking_shows_the_h_ap_of_its_query(page, runs):
    scores = [float(score.text.removeprefix("H-AP")) for score in page.select(".score")]
    run_values = [set((100 * pd.read_parquet(run / "per_query.parquet")["H-AP"]).round(1)) for run in runs]
    assert len(scores) == 10
    assert all(score in run_values[index % 2] for index, score in enumerate(scores))


def test_strips_say_how_far_the_longer_ranking_agrees(page, images):
    for answer in page.select(".answer"):
        bars = [(int(bar["width"]), bar["class"][0]) for bar in answer.select(".strip rect")]
        assert sum(width for width, _ in bars) == min(100, len(images) - 1)
        assert sum(width for width, verdict in bars if verdict == "same") == 3
        assert answer.p is None  # counts of the whole gallery are the same for every model


def test_the_convention_and_the_recipes_stand_on_the_page(page, runs):
    text = page.select_one("#metrics .card").text
    convention = json.loads((runs[0] / "metrics.json").read_text())["convention"]
    assert all(convention[name] in text for name in ("self_rule", "scores", "relevance", "counts", "ties"))
    assert "{" not in text
    assert "None" not in text
    recipes = [block.text for block in page.select("#reproduce details code")]
    assert recipes == [(run / "recipe.yaml").read_text() for run in runs]


def test_curves_are_described_by_their_ends(page, runs):
    first, *_, last = [json.loads(line) for line in (runs[0] / "history.jsonl").read_text().splitlines()]
    description = page.select_one("#learning figure img")["alt"]
    assert f"{first['loss']:.3g} in epoch 1" in description
    assert f"{last['loss']:.3g} in epoch 2" in description


def test_the_same_run_gives_the_same_bytes_and_is_no_competition(runs, tmp_path):
    pages = [make_report(runs[:1], tmp_path / name).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]
    assert "★" not in pages[0].decode()


def test_large_photos_are_reduced_and_small_ones_kept_exactly(images):
    photo = Image.effect_noise((640, 480), 60).convert("CMYK")
    kind, _, encoded = data_uri(photo).partition(",")
    large_picture = Image.open(BytesIO(base64.b64decode(encoded)))
    assert (kind, large_picture.size, large_picture.mode) == ("data:image/jpeg;base64", (160, 120), "RGB")
    noise = Image.effect_noise((128, 128), 60).convert("RGB").filter(ImageFilter.BoxBlur(1))
    assert data_uri(noise).partition(",")[0] == "data:image/jpeg;base64"  # a photograph, which is larger as PNG
    small_picture = Image.open(BytesIO(base64.b64decode(data_uri(images.images[0]).partition(",")[2])))
    assert np.array_equal(small_picture, images.images[0])


def test_a_metric_that_one_run_lacks_is_left_out():
    rows = side_by_side([{"H-AP": 0.1, "TR@5[1]": 0.2}, {"TR@5[1]": 0.3}], level_names=["kind", "place"])
    assert [(row.metric, row.values) for row in rows] == [("TR@5[1]", (0.2, 0.3))]
    assert "kind" in rows[0].meaning


def test_a_folder_without_a_finished_run_is_refused(tmp_path):
    with pytest.raises(OptionError, match="finished run"):
        make_report([tmp_path], tmp_path / "index.html")
    assert not (tmp_path / "index.html").exists()


def test_the_error_for_a_folder_of_runs_names_one_of_them(runs, tmp_path):
    shutil.copytree(runs[0], tmp_path / "runs" / "first")
    with pytest.raises(OptionError, match=r"name a run in it, such as .*first"):
        make_report([tmp_path / "runs"], tmp_path / "page.html")


def test_a_damaged_run_is_refused(runs, tmp_path):
    broken = shutil.copytree(runs[0], tmp_path / "broken")
    (broken / "embeddings.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(CheckpointError, match="broken"):
        make_report([broken], tmp_path / "index.html")


def test_changed_values_of_queries_are_refused(runs, tmp_path):
    changed = shutil.copytree(runs[0], tmp_path / "changed")
    values = pd.read_parquet(changed / "per_query.parquet")
    values.iloc[::-1].to_parquet(changed / "per_query.parquet")
    with pytest.raises(CheckpointError, match=r"per_query\.parquet has changed"):
        make_report([changed], tmp_path / "index.html")


def test_queries_of_a_large_file_are_drawn_and_measured_in_the_whole_gallery(tmp_path, monkeypatch):
    monkeypatch.setattr("hiertree.pipelines.report.sources.MOST_QUERIES", 20)
    vectors, classes = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) // 3
    paths = np.stack([classes // 5, classes], axis=1)
    np.savez(tmp_path / "e.npz", embeddings=vectors, paths=paths)
    text = make_report([tmp_path / "e.npz"], tmp_path / "page.html", queries=1, hits=2).read_text(encoding="utf-8")
    page = BeautifulSoup(text, "html.parser")
    values = evaluate(vectors, paths).per_query().iloc[sample_of(np.arange(60), 20)]
    table = {next(row.th.stripped_strings): float(row.data["value"]) for row in page.select("#metrics tbody tr")}
    assert table == pytest.approx(values.mean().to_dict())
    assert page.select_one(".lead").text == "The queries are a draw from 60; `hiertree evaluate` measures all."
    assert "20 queries in a gallery of 60" in page.select_one(".facts").text


def test_runs_on_other_images_are_refused(runs, tmp_path):
    other_run = shutil.copytree(runs[1], tmp_path / "other")
    with np.load(other_run / "embeddings.npz") as arrays:
        np.savez(other_run / "embeddings.npz", embeddings=arrays["embeddings"], paths=arrays["paths"][::-1])
    with pytest.raises(OptionError, match="different images"):
        make_report([runs[0], other_run], tmp_path / "index.html")
    assert "with the same paths" in make_report([other_run], tmp_path / "index.html").read_text(encoding="utf-8")


def test_published_values_stand_beside_those_of_a_run_of_that_recipe(runs, tmp_path):
    renamed = shutil.copytree(runs[1], tmp_path / "run")
    recipe = (renamed / "recipe.yaml").read_text(encoding="utf-8")
    (renamed / "recipe.yaml").write_text(recipe.replace("synthetic-happier", "sop-happier"), encoding="utf-8")
    page = BeautifulSoup(make_report([renamed], tmp_path / "page.html").read_text(encoding="utf-8"), "html.parser")
    result = 100 * json.loads((renamed / "metrics.json").read_text(encoding="utf-8"))["metrics"]["H-AP"]
    rows = [[cell.get_text(strip=True) for cell in row.find_all(["td", "th"])] for row in page.select("#published tr")]
    difference = f"{result - 59.4:+.1f}".replace("-", "−")
    assert [row[1:] for row in rows if row[2] == "H-AP"] == [
        ["[S, Tab. V]", "H-AP", "59.4", f"{result:.1f}", difference]
    ]


def test_a_run_of_another_recipe_has_no_published_values(page):
    assert not page.select("#published")
