"""The plots of a report are functions that return axes, and the page holds them."""

from __future__ import annotations

import base64
import re
from io import BytesIO

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from PIL import Image

from hiertree import levels
from hiertree.metrics import h_ap
from hiertree.pipelines.pages import RUN_COLORS
from hiertree.pipelines.report import make_report
from hiertree.pipelines.report.figures import learning_curves
from hiertree.pipelines.report.plots import (
    confusion_matrix,
    error_severity,
    first_wrong_items,
    interpolated_precision,
    plot_error_severity,
    plot_learning,
    plot_precision_recall,
    project_embeddings,
)
from hiertree.pipelines.report.queries_and_gallery import sample_of


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    path = make_report(runs, tmp_path_factory.mktemp("page") / "report.html", queries=1, hits=2)
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def scored_run(folder):
    """Scores, levels and mask of all queries of a run whose images retrieve each other."""
    with np.load(folder / "embeddings.npz") as arrays:
        vectors, paths = arrays["embeddings"].astype(np.float64), arrays["paths"]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T, levels(paths, paths), ~np.eye(len(paths), dtype=bool)


def test_severity_is_the_height_at_which_a_query_and_its_first_wrong_item_meet(runs, page):
    scores, shared_levels, valid = scored_run(runs[1])
    heights = []
    for score, level, mask in zip(scores, shared_levels, valid, strict=True):
        ranked = level[np.flatnonzero(mask)[np.argsort(-score[mask], kind="stable")]]
        wrong = ranked[: (ranked == 3).sum()]
        heights.append(3 - wrong[wrong < 3][0] if (wrong < 3).any() else 0)
    severities = error_severity(scores, shared_levels, valid=valid)
    assert severities.mean(axis=0) == pytest.approx(
        [np.mean(np.array(heights) == height) for height in (1, 2, 3)], abs=0.02
    )
    axes = plot_error_severity({"one": severities, "other": severities}, level_names=["family", "kind", "instance"])
    assert [bar.get_height() for bar in axes.patches[:3]] == pytest.approx(100 * severities.mean(axis=0))
    figure = page.select("#errors figure")[1]
    assert f"HAPPIER: {100 * severities[:, 0].mean():.0f} at 1: same" in figure.img["alt"]
    drawing = base64.b64decode(figure.img["src"].removeprefix("data:image/svg+xml;base64,")).decode()
    assert "3: nothing shared" in drawing
    assert RUN_COLORS[1] in drawing


def test_precision_falls_with_recall_and_encloses_h_ap(runs, page):
    scores, shared_levels, valid = scored_run(runs[1])
    curves = interpolated_precision(scores, shared_levels, valid=valid)
    assert (np.diff(curves, axis=1) <= 0).all()
    assert (curves.mean(axis=1) >= h_ap(scores, shared_levels, valid=valid) - 0.01).all()
    perfect = interpolated_precision(shared_levels, shared_levels, valid=valid)
    assert perfect == pytest.approx(np.ones_like(perfect))
    axes = plot_precision_recall({"HAPPIER": curves, "perfect": perfect})
    assert axes.lines[0].get_ydata() == pytest.approx(100 * curves.mean(axis=0))
    description = page.select_one("#errors figure img")["alt"]
    assert f"HAPPIER: {100 * curves[:, 25].mean():.0f} at recall 25" in description


def test_the_first_wrong_item_of_each_query_is_counted_where_it_lies(runs, page):
    scores, shared_levels, valid = scored_run(runs[1])
    wrong = first_wrong_items(scores, shared_levels, valid=valid)
    severity = error_severity(scores, shared_levels, valid=valid)
    assert (wrong >= 0).mean() == pytest.approx(severity.sum(axis=1).mean(), abs=0.02)
    with np.load(runs[1] / "embeddings.npz") as arrays:
        _, node = np.unique(arrays["paths"][:, :2], axis=0, return_inverse=True)
    node = node.reshape(-1)
    matrix = confusion_matrix(node, np.where(wrong >= 0, node[wrong], -1), num_nodes=6)
    count = sum(node[item] == 3 for item in wrong[(node == 0) & (wrong >= 0)])
    assert matrix[0, 3] == count / (node == 0).sum()
    table = page.select("#errors table")[1]
    assert table.caption.text.startswith("HAPPIER: confused the most, in percent of the queries: ")
    cells = [[cell.text for cell in row.select("td")] for row in table.select("tbody tr")]
    assert cells == [[f"{100 * value:.0f}" if value >= 0.005 else "" for value in row] for row in matrix.tolist()]
    assert [int(head["rowspan"]) for head in table.select("th[scope=rowgroup]")] == [2, 2, 2]
    strengths = [cell["style"] for cell in table.select("td[style]")]
    assert strengths == [f"--strength: {100 * value**0.5:.0f}%" for value in matrix[matrix > 0].tolist()]


@pytest.mark.parametrize("method", ["pca", "t-sne"])
def test_a_map_keeps_groups_apart_and_is_the_same_each_time(method):
    if method == "t-sne":
        pytest.importorskip("sklearn")
    random = np.random.default_rng(0)
    embeddings = np.repeat(np.eye(8)[:2], 20, axis=0) + 0.05 * random.normal(size=(40, 8))
    points = project_embeddings(embeddings, method=method)
    assert np.array_equal(points, project_embeddings(embeddings, method=method))
    first, second = points[:20], points[20:]
    distance = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0))
    assert distance > 3 * max(first.std(), second.std()) / 2


def test_queries_without_an_item_of_their_class_have_no_severity(tmp_path):
    paths = np.stack([np.arange(5) // 3, np.arange(5)], axis=1)
    np.savez(tmp_path / "e.npz", embeddings=np.random.default_rng(0).normal(size=(5, 4)), paths=paths)
    page = make_report([tmp_path / "e.npz"], tmp_path / "report.html").read_text(encoding="utf-8")
    errors = BeautifulSoup(page, "html.parser").select_one("#errors")
    assert [figure.figcaption.text for figure in errors.select("figure")] == ["Hierarchical precision over recall"]
    assert errors.h3 is None
    assert "nan" not in errors.text


@pytest.mark.parametrize("method", ["pca", "t-sne"])
@pytest.mark.parametrize(
    "embeddings",
    [np.arange(1.0, 9.0)[:, None], np.ones((8, 3)), 1e200 * np.eye(8), np.eye(8, dtype=np.float16), np.ones((1, 3))],
    ids=["one number each", "all the same", "huge", "float16", "one point"],
)
def test_any_embeddings_have_a_map(embeddings, method):
    if method == "t-sne":
        pytest.importorskip("sklearn")
    points = project_embeddings(embeddings, method=method)
    assert points.shape == (len(embeddings), 2)
    assert np.isfinite(points).all()


def test_every_point_of_the_page_says_which_image_it_is(runs, page):
    with np.load(runs[1] / "embeddings.npz") as arrays:
        count, top = len(arrays["paths"]), len(np.unique(arrays["paths"][:, 0]))
    for figure in page.select("#map figure"):
        titles = [title.text for title in figure.select("svg title")]
        assert len(titles) == count
        assert all(" › " in title for title in titles)
        assert len({title.split(" › ")[0] for title in titles}) == top


def test_training_curves_are_axes():
    axes = plot_learning({"a": [(1, 2.0), (2, 1.0)], "b": []}, first_color=1)
    assert [list(line.get_ydata()) for line in axes.lines] == [[2.0, 1.0]]
    assert axes.lines[0].get_color() == "C1"


def test_a_drawing_needs_no_latex_and_no_font_of_matplotlibs_whatever_it_is_told(recwarn):
    history = {"run_1 & 2 风景": [{"epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2)]}
    figures = learning_curves(history, metrics=())
    with mpl.rc_context({"text.usetex": True}):
        assert learning_curves(history, metrics=()) == figures
    assert not recwarn


def test_every_label_stands_in_the_legend_of_a_map_and_no_two_look_alike(tmp_path):
    kinds = [f"_{letter}" for letter in "abcdefghijklmn"]  # two more than have a color
    labels = pd.DataFrame(
        {"kind": np.repeat(kinds, 4), "name": [f"{kind}{n // 2}" for kind in kinds for n in range(4)]}
    )
    labels.to_csv(tmp_path / "l.csv", index=False)
    np.save(tmp_path / "e.npy", np.random.default_rng(0).normal(size=(56, 4)))
    path = make_report([tmp_path / "e.npy"], tmp_path / "page.html", options={"labels": tmp_path / "l.csv"})
    section = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").select_one("#map")
    entries = {entry.text: entry.svg.find(class_="mark-of") for entry in section.select(".groups li")}
    assert [*entries] == [*kinds[:12], "others"]
    looks = {text: (mark.name, *mark["class"]) for text, mark in entries.items()}
    assert len(set(looks.values())) == 13
    for mark in section.select("figure .mark-of"):
        kind = mark.title.text.partition(" › ")[0]
        assert (mark.name, *mark["class"]) == looks[kind if kind in looks else "others"]


def test_a_large_set_of_queries_is_sampled_alike_each_time():
    rows = np.arange(100_000)
    assert len(sample_of(rows, 1000)) == 1000
    assert np.array_equal(sample_of(rows, 1000), sample_of(rows, 1000))


def test_pictures_of_points_lie_over_them(page):
    for figure in page.select("#map figure"):
        width, height = map(float, figure.svg["viewbox"].split()[2:])
        centers = {mark.title.text: center_of(mark) for mark in figure.select("svg .mark-of")}
        pictures = figure.select(".point")
        assert {point["title"] for point in pictures} == set(centers)
        for point in pictures:
            x, y = [float(percent) / 100 for percent in re.findall(r"[\d.]+", point["style"])]
            assert (x * width, y * height) == pytest.approx(centers[point["title"]], abs=0.2)
            assert point.img["alt"] == point["title"]
            picture = Image.open(BytesIO(base64.b64decode(point.img["src"].partition(",")[2])))
            assert max(picture.size) <= 32


def center_of(mark):
    """The center of a circle, a square or a diamond."""
    if mark.name == "circle":
        return float(mark["cx"]), float(mark["cy"])
    if mark.name == "rect":
        return float(mark["x"]) + 2.6, float(mark["y"]) + 2.6
    left, middle = map(float, re.match(r"M([\d.]+) ([\d.]+)l", mark["d"]).groups())
    return left + 3.6, middle
