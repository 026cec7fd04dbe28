"""``hiertree report``: pages of runs, comparisons and embeddings, with galleries or not, with images or not."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from benchmark_files import write_benchmark
from bs4 import BeautifulSoup
from PIL import Image
from printed_commands import status_of

from hiertree import LabelTree
from hiertree.errors import OptionError, TableError
from hiertree.pipelines.comparison.recipe_comparison import compare
from hiertree.pipelines.inference.embedding import embed
from hiertree.pipelines.pages import data_uri
from hiertree.pipelines.report import EmbeddingsOptions, make_report
from hiertree.pipelines.report.queries_and_gallery import QueriesAndGallery
from hiertree.pipelines.report.rankings import extreme_queries
from hiertree.pipelines.report.sources import read_sources
from hiertree.pipelines.report.tables import node_table
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.recipe.reading import check_recipe
from hiertree.pipelines.training.run.experiment import train

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"


def parsed(path):
    """The page, after what every page must be: whole by itself, well-formed for those who do not see it."""
    page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    (script,) = page.find_all("script")
    digest = base64.b64encode(hashlib.sha256(script.string.encode()).digest()).decode()
    policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
    assert policy == f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert script.attrs == {}
    assert HOSTILE not in script.string
    assert not [tag for tag in page.find_all(True) if any(name.startswith("on") for name in tag.attrs)]
    for tag in page.find_all(True):
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            assert tag.get(name, "#").startswith(("#", "data:")), tag
    assert all(image["alt"].strip() for image in page.find_all("img"))
    assert all(cell.get("scope") in ("row", "col", "rowgroup") for cell in page.find_all("th"))
    assert all(table.caption.text.strip() for table in page.find_all("table"))
    assert all(figure.figcaption.text.strip() for figure in page.find_all("figure"))
    headings = [int(heading.name[1]) for heading in page.find_all(re.compile("h[1-6]"))]
    assert headings[0] == 1
    assert all(next_level <= level + 1 for level, next_level in pairwise(headings))
    ids = [tag["id"] for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids))
    assert {tag["href"][1:] for tag in page.select("nav a")} <= set(ids)
    return page


def benchmark_run(name, data, folder, **evaluation):
    """A run of two epochs on a small benchmark with queries and gallery, and its test split."""
    write_benchmark(name, folder / "data")
    return small_run({"verify": "structure", "root": str(folder / "data"), **data}, folder / "run", **evaluation)


def small_run(data, out, **evaluation):
    """A run of two epochs, and its test split."""
    recipe = check_recipe(
        {
            "name": out.name,
            "data": data,
            "images": {"size": 16, "augmentation": {"name": "photo"}},
            "sampler": {"name": "ClassBalancedSampler", "batch_size": 4, "images_per_class": 2},
            "model": {"width": 4, "embedding_size": 8},
            "loss": {"name": "HAPPIER"},
            "training": {"epochs": 2, "device": "cpu"},
            "evaluation": {"every": 1, **evaluation},
        }
    )
    return train(recipe, out).folder, load_split(recipe, "test")


def test_a_run_with_queries_and_a_gallery_has_a_page_with_and_without_its_images(tmp_path):
    run, test = benchmark_run("inshop", {"name": "inshop"}, tmp_path, metrics=["H-AP", "R@1", "AP[1]"])
    page = parsed(make_report([run], tmp_path / "with.html", hits=3))
    assert "2 queries in a gallery of 4 of inshop" in page.select_one(".facts").text
    sections = [section["id"] for section in page.find_all("section")]
    assert sections == ["metrics", "queries", "classes", "errors", "map", "retrievals", "learning", "reproduce"]

    results = json.loads((run / "metrics.json").read_text())
    table = {next(iter(row.th.stripped_strings)): float(row.data["value"]) for row in page.select("#metrics tbody tr")}
    assert table == results["metrics"]
    values = pd.read_parquet(run / "per_query.parquet")["H-AP"].to_numpy()
    spread = [float(cell["value"]) for cell in page.select("#queries tbody data")]
    assert spread == pytest.approx(np.quantile(values, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]))
    titles = [caption.text for caption in page.select("#learning figcaption")]
    assert titles == ["HAPPIER: training loss", "H-AP on the test split, percent", "R@1 on the test split, percent",
                      "AP[1] on the test split, percent", "learning rate after each epoch"]  # fmt: skip

    with np.load(run / "embeddings.npz") as arrays:
        scores = arrays["embeddings"] @ arrays["gallery_embeddings"].T
        levels = (arrays["paths"][:, None] == arrays["gallery_paths"][None]).cumprod(axis=2).sum(axis=2)
    worst = int(np.argmin(values))
    nearest = np.argsort(-scores[worst], kind="stable")[:3]
    pictures = page.select_one(".query").select(".hits li")
    assert len(page.select("#retrievals img")) == 2 * (1 + 3)
    marks = {3: "✓", 2: test.tree.level_names[1], 1: test.tree.level_names[0], 0: "✗"}
    assert [picture.select_one(".mark").find(string=True) for picture in pictures] == [
        marks[level] for level in levels[worst, nearest]
    ]

    (tmp_path / "data").rename(tmp_path / "elsewhere")
    bare = parsed(make_report([run], tmp_path / "without.html", hits=3))
    assert "no pictures of these images" in bare.select_one("#retrievals .missing").text
    assert bare.select_one("img:not(.drawing)") is None
    assert len(bare.select(".nopicture")) == 2 * (1 + 3)
    assert [cell["value"] for cell in bare.select("data")] == [cell["value"] for cell in page.select("data")]
    override = f"data.root={tmp_path / 'elsewhere'}"
    main_exits(["report", str(run), "--out", str(tmp_path / "moved.html"), "--set", override, "--hits", "3"], 0)
    second_page = (tmp_path / "moved.html").read_bytes()
    assert second_page == (tmp_path / "with.html").read_bytes()
    next((tmp_path / "elsewhere").glob("img/**/id_00000003/01_1_front.jpg")).write_bytes(b"no image")
    broken = parsed(make_report([run], tmp_path / "broken.html", overrides=[override]))
    assert "1 of the pictures below cannot be read" in broken.select_one("#retrievals .missing").text


def test_runs_on_a_folder_and_on_a_table_of_the_same_images_share_a_page(tmp_path):
    random, rows = np.random.default_rng(0), []
    for split, kind, leaf, image in product(("train", "test"), ("lake", "peak"), range(2), range(3)):
        file = tmp_path / "photos" / split / kind / f"{kind} {leaf}" / f"{image}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(file)
        rows.append((file.relative_to(tmp_path).as_posix(), kind, f"{kind} {leaf}", split))
    table = pd.DataFrame(rows, columns=["file", "kind", "leaf", "split"]).sample(frac=1, random_state=1)
    table.to_csv(tmp_path / "photos.csv", index=False)
    table["leaf"] = [f"{leaf}{int(file[-5]) % 2}" for leaf, file in zip(table["leaf"], table["file"], strict=True)]
    table.to_csv(tmp_path / "other.csv", index=False)
    columns = {"root": str(tmp_path), "image": "file", "levels": ["kind", "leaf"], "split": "split"}
    data = {"name": "table", "path": str(tmp_path / "photos.csv"), **columns}
    first, images = small_run({"name": "folder", "root": str(tmp_path / "photos")}, tmp_path / "folder")
    second, _ = small_run(data, tmp_path / "table")
    page = parsed(make_report([first, second], tmp_path / "page.html", queries=9, hits=2))
    with np.load(second / "embeddings.npz") as arrays:
        names = [name.removeprefix("photos/test/") for name in arrays["names"].tolist()]
        scores = arrays["embeddings"] @ arrays["embeddings"].T
    values = pd.read_parquet(second / "per_query.parquet")["H-AP"].to_numpy()
    file_names = [images.images.name(row) for row in range(len(images))]
    assert names != file_names
    for article in page.select(".query"):
        label = article.select_one(".asked img")["src"]
        (row,) = [row for row in range(len(images)) if data_uri(images.images[row]) == label]
        query = names.index(file_names[row])
        answer = article.select(".answer")[1]
        assert answer.select_one(".score").text.endswith(f" {100 * values[query]:.1f}")
        nearest = [item for item in np.argsort(-scores[query], kind="stable") if item != query][:2]
        expected = [data_uri(images.images[file_names.index(names[item])]) for item in nearest]
        assert [image["src"] for image in answer.select(".hits img")] == expected
    third, _ = small_run({**data, "path": str(tmp_path / "other.csv")}, tmp_path / "other")
    with pytest.raises(OptionError, match="same images with different labels"):
        make_report([first, third], tmp_path / "page.html")


@pytest.mark.parametrize("separate", [False, True])
def test_junk_stays_with_its_images_where_a_file_has_another_order(tmp_path, separate):
    random, items, junk = np.random.default_rng(0), np.arange(8), [(0, 5), (0, 2), (3, 7), (2, 1)]
    queries = np.arange(4) if separate else items
    vectors, paths, names = random.normal(size=(8, 4)), items // 2, np.array([f"{item}.png" for item in items])
    for name in ("first", "second"):
        arrays = {"embeddings": vectors[queries], "paths": paths[queries], "names": names[queries]}
        if separate:
            arrays |= {
                "gallery_embeddings": vectors[items],
                "gallery_paths": paths[items],
                "gallery_names": names[items],
            }
        pairs = [(queries.tolist().index(query), items.tolist().index(item)) for query, item in junk]
        np.savez(tmp_path / f"{name}.npz", **arrays, junk=pairs)
        items = random.permutation(items)
        queries = random.permutation(queries) if separate else items
    measurements, _ = read_sources([tmp_path / "first.npz", tmp_path / "second.npz"])
    first, second = measurements.values()
    pd.testing.assert_frame_equal(first.per_query, second.per_query.reset_index(drop=True))
    for query in range(len(queries)):
        hidden = {item for asking, item in junk if asking == query} | (set() if separate else {query})
        assert first.left_out(query).tolist() == second.left_out(query).tolist() == sorted(hidden)


def test_a_run_on_dymls_lists_shows_the_first_and_masks_the_query_in_its_gallery(tmp_path):
    data = {"name": "dyml", "collection": "vehicle"}
    run, _ = benchmark_run("dyml-vehicle", data, tmp_path, select="mean AP")
    page = parsed(make_report([run], tmp_path / "page.html", queries=1))
    metrics = [next(iter(row.th.stripped_strings)) for row in page.select("#metrics tbody tr")]
    assert {"mean AP", "AP[fine]", "AP[middle]", "R@1[coarse]"} <= set(metrics)
    assert page.select_one(".score").text.startswith("AP[fine]")
    assert [len(answer.select(".hits li")) for answer in page.select(".answer")] == [5, 5, 5]  # of six, less itself
    assert "mean AP on the test split" in page.select_one("#learning").decode()


def test_the_worst_the_median_and_the_best_queries_are_shown(runs, tmp_path):
    page = parsed(make_report(runs, tmp_path / "page.html", queries=3, hits=2))
    values = sum(pd.read_parquet(run / "per_query.parquet")["H-AP"].to_numpy() for run in runs) / 2
    scores = [float(score.text.removeprefix("H-AP")) for score in page.select(".score")]
    pairs = np.array(scores).reshape(5, 3, 2)
    means = pairs[:3].mean(axis=2)
    sorted_values = 100 * np.sort(values)
    assert [heading.text for heading in page.select(".group")] == [
        "Worst queries",
        "Median queries",
        "Best queries",
        "Most improved from SmoothAP to HAPPIER",
        "Most damaged from SmoothAP to HAPPIER",
    ]
    first_values, second_values = (100 * pd.read_parquet(run / "per_query.parquet")["H-AP"].to_numpy() for run in runs)
    gains = pairs[3:, 0, 1] - pairs[3:, 0, 0]
    assert gains == pytest.approx([(second_values - first_values).max(), (second_values - first_values).min()], abs=0.2)
    assert [means[0, 0], means[2, 0]] == pytest.approx([sorted_values[0], sorted_values[-1]], abs=0.1)
    assert [list(group) for group in (means[0], means[1], means[2][::-1])] == [sorted(group) for group in means]
    labels = np.array([caption.text for caption in page.select(".asked figcaption")]).reshape(5, 3)
    assert [len(set(group)) for group in labels] == [3] * 5  # classes
    assert extreme_queries(np.array([np.nan, 0.5]), count=3) == {"worst": [1], "median": [], "best": []}


def test_every_node_has_the_mean_of_its_queries(runs, images, tmp_path):
    page = parsed(make_report(runs, tmp_path / "page.html"))
    values = pd.concat([pd.read_parquet(run / "per_query.parquet")["H-AP"] for run in runs], axis=1)
    labels = ["/".join(map(str, images.tree.labels_of(path[:2]))) for path in images.paths.tolist()]
    expected = values.groupby(np.array(labels)).mean()
    table = page.select("#classes table")[1]
    means = [[float(cell["value"]) for cell in row.select("data")] for row in table.select("tbody tr")]
    assert np.array(means) == pytest.approx(expected.to_numpy()[np.argsort(expected.mean(axis=1), kind="stable")])


def test_the_table_of_nodes_has_every_metric_of_every_level(runs, images, tmp_path):
    page = parsed(make_report(runs, tmp_path / "page.html"))
    per_query = [pd.read_parquet(run / "per_query.parquet") for run in runs]
    heads = [head.text for head in page.select("#nodes thead th")]
    names = [f"{metric} {model}" for metric in ("H-AP", "AP[3]", "R@1") for model in ("SmoothAP", "HAPPIER")]
    assert heads == ["Node", "Level", "Queries", *names]
    expected, label = {}, QueriesAndGallery.from_dataset(images).label
    for depth, level in enumerate(images.tree.level_names, start=1):
        for path in np.unique(images.paths[:, :depth], axis=0).tolist():
            in_node = (images.paths[:, :depth] == path).all(axis=1)
            means = [table[name][in_node].mean() for name in ("H-AP", "AP[3]", "R@1") for table in per_query]
            expected[level, label(np.array(path))] = [str(in_node.sum()), *(f"{100 * mean:.1f}" for mean in means)]
    rows = [[cell.text for cell in row.find_all(["th", "td"])] for row in page.select("#nodes tbody tr")]
    assert {(row[1], row[0]): row[2:] for row in rows} == expected
    assert len(rows) == sum(images.tree.level_sizes)
    assert [int(row[2]) for row in rows] == sorted((int(row[2]) for row in rows), reverse=True)


def test_the_table_of_nodes_is_no_longer_than_a_page_can_hold():
    leaves = np.stack([np.arange(5_000) // 50, np.arange(5_000)], axis=1).repeat(2, axis=0).astype(np.int32)
    tree = LabelTree.from_paths(np.unique(leaves, axis=0).tolist())
    data = QueriesAndGallery(tree=tree, paths=[leaves])
    half = np.where(np.arange(10_000) % 2 == 0, np.nan, 0.5)[:, None]
    table = node_table(data, ["one"], {"H-AP": np.ones((10_000, 1)), "AP": half})
    first = table["nodes"][0]
    assert (len(table["nodes"]), table["of"], first.queries, first.means) == (2_000, 5_100, 100, (1.0, 0.5))
    wide_table = node_table(data, ["one"] * 8, {"H-AP": np.ones((10_000, 8)), "AP": np.full((10_000, 8), np.nan)})
    assert len(wide_table["nodes"]) * 16 == 12_000


def test_a_comparison_shows_the_first_seed_of_each_row(tmp_path):
    small = ["data.families=2", "data.kinds=2", "data.instances=2", "data.images=3", "sampler.batch_size=8",
             "sampler.images_per_class=2", "model.width=4", "training.epochs=1", "training.device=cpu"]  # fmt: skip
    compare(
        ["synthetic-happier"], seeds=[10, 9], out=tmp_path / "table", overrides=small, grid={"optimizer.lr": (0.1, 0.2)}
    )
    page = parsed(make_report([tmp_path / "table"], tmp_path / "page.html", queries=1, hits=2))
    assert "comparison.html" in page.select_one(".lead").text
    names = [heading.text for heading in page.select("#metrics thead th.number")][:2]
    assert names == ["synthetic-happier/optimizer.lr=0.1", "synthetic-happier/optimizer.lr=0.2"]
    assert all("seed: 9\n" in block.text for block in page.select("#reproduce details code"))
    run = tmp_path / "table/synthetic-happier/optimizer.lr=0.1/seed-9"
    copies = [shutil.copytree(run, tmp_path / str(image)) for image in range(9)]
    with pytest.raises(OptionError, match="at most 8"):
        make_report(copies, tmp_path / "page.html")


def test_embeddings_with_tables_of_labels_and_images_have_a_page_that_trusts_none_of_them(tmp_path):
    random = np.random.default_rng(0)
    for collection, count in (("queries", 4), ("gallery", 8)):
        names = [f"{collection}-{image}.png" for image in range(count)]
        table = pd.DataFrame({"image": names, HOSTILE: [f"<b>{n % 2}" for n in range(count)]})
        table["leaf"] = [f"{HOSTILE}{image % 4}" for image in range(count)]
        table.to_csv(tmp_path / f"{collection}.csv", index=False)
        np.save(tmp_path / f"{collection}.npy", random.normal(size=(count, 4)))
        for name in names[1:]:
            Image.new("RGB", (400, 300), "red").save(tmp_path / name)
    options = EmbeddingsOptions(
        labels=tmp_path / "queries.csv",
        gallery=tmp_path / "gallery.npy",
        gallery_labels=tmp_path / "gallery.csv",
        ids="image",
        images=tmp_path,
    )
    out = make_report(
        [tmp_path / "queries.npy"], tmp_path / "page.html", title=HOSTILE, options=options, queries=9, hits=99
    )
    page = parsed(out)
    assert page.h1.text == HOSTILE
    assert f"{HOSTILE} (2) › leaf (4)" in page.select_one(".facts").text
    assert page.select_one("#classes tbody th").text in ("<b>0", "<b>1")
    pictures = page.select("#retrievals img")
    unseen = {tag.text for tag in page.select(".nopicture .unseen")}
    assert len(pictures) + len(page.select(".nopicture")) == 3 * (1 + 8)
    assert all(HOSTILE in image["alt"] for image in pictures)
    assert unseen
    assert "gallery-0.png" in page.select_one("#retrievals .missing").text
    assert page.find(id="learning") is None
    assert out.stat().st_size < 200_000

    (tmp_path / "queries.csv").write_text("image,leaf\n../../etc/passwd,a\nb,a\nc,a\nd,a\n")
    with pytest.raises(TableError, match="below root"):
        make_report(
            [tmp_path / "queries.npy"],
            out,
            options=EmbeddingsOptions(labels=tmp_path / "queries.csv", ids="image", images=tmp_path),
        )


def test_embedded_folders_find_their_images_and_stand_beside_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random, photos = np.random.default_rng(0), tmp_path / "photos"
    for split, kind, leaf, image in product(("train", "test"), ("lake", "peak"), range(2), range(3)):
        file = photos / split / kind / f"{kind} {leaf}" / f"{image}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(file)
    run, _ = small_run({"name": "folder", "root": str(photos), "levels": ["kind", "leaf"]}, tmp_path / "run")
    folders = [tmp_path / "again", tmp_path / "shards"]
    for folder, size in zip(folders, (99, 5), strict=True):
        embed(run, photos / "test", folder, shard_size=size)
    page = parsed(make_report([folders[0]], tmp_path / "one.html", hits=3))
    assert len(page.select("#retrievals img")) == 9 * (1 + 3)
    heads = parsed(make_report([run, *folders], tmp_path / "several.html", hits=3)).select("#metrics thead th.number")
    assert [head.text for head in heads][:3] == ["HAPPIER", "again", "shards"]
    rows = {row.th.text: row.select("data") for row in page.select("#metrics tbody tr")}
    metrics = json.loads((run / "metrics.json").read_text())["metrics"]
    assert float(next(cells[0]["value"] for name, cells in rows.items() if "H-AP" in name)) == pytest.approx(
        metrics["H-AP"]
    )
    out = tmp_path / "compared"
    compare(["run", "shards"], seeds=[0], out=out)
    heads = parsed(make_report([out], tmp_path / "compared.html", hits=3)).select("#metrics thead th.number")
    assert [head.text for head in heads][:2] == ["run", "shards"]
    photos.rename(tmp_path / "moved")
    bare = parsed(make_report([folders[0]], tmp_path / "bare.html", hits=3))
    assert "not where they were embedded from" in bare.select_one("#retrievals .missing").text
    options = EmbeddingsOptions(images=tmp_path / "moved" / "test")
    assert (
        make_report([folders[0]], tmp_path / "moved.html", hits=3, options=options).read_bytes()
        == (tmp_path / "one.html").read_bytes()
    )


def test_sources_that_make_no_page_are_refused(runs, tmp_path, capsys):
    file, out = runs[0] / "embeddings.npz", tmp_path / "page.html"
    bare = tmp_path / "bare.npz"
    np.savez(bare, embeddings=np.eye(4), paths=np.arange(4) // 2)
    cases = [
        ([file], {"overrides": ["seed=1"]}, "--set with embeddings: expected a run"),
        (runs, {"options": EmbeddingsOptions(ids="image")}, "them only with a single file"),
        (runs, {"options": EmbeddingsOptions(images=tmp_path)}, "by --set data.root=PATH"),
        ([tmp_path / "absent"], {}, "no such run, folder or file"),
        ([tmp_path], {}, "finished run"),
        (runs, {"hits": 0}, "at least 1"),
        (runs, {"queries": 0}, "at least 1"),
        (runs, {"queries": 500}, "at most 3,000 on a page"),
        ([], {}, "at least 1 of each"),
        ([bare], {"options": EmbeddingsOptions(images=tmp_path)}, "--ids"),
    ]
    for sources, options, message in cases:
        with pytest.raises(OptionError, match=message):
            make_report(sources, out, **options)
    assert not out.exists()
    (tmp_path / "empty").mkdir()
    main_exits(["report", str(tmp_path / "empty"), "--out", str(out)], 2)
    assert "expected the folder of a finished run" in capsys.readouterr().err
    main_exits(["report", str(file), "--out", str(out)], 0)
    assert capsys.readouterr().out == ""  # every command says on standard error what it has written
    assert "instance (18)" in parsed(out).select_one(".facts").text


def main_exits(arguments, status):
    assert status_of(*arguments) == status
