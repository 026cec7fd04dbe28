"""Comparisons: every recipe with every seed, once."""

from __future__ import annotations

import json
import re
import signal
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from bs4 import BeautifulSoup
from printed_commands import status_of

import hiertree as ht
from hiertree.errors import OptionError, RecipeError, TrainingError
from hiertree.metrics import evaluate
from hiertree.metrics.statistics import paired_randomization_test
from hiertree.pipelines.cli.application import main
from hiertree.pipelines.comparison.planned_runs import read_grid
from hiertree.pipelines.comparison.recipe_comparison import compare
from hiertree.pipelines.comparison.result_table import html, latex, make_table, markdown
from hiertree.pipelines.comparison.significance import (
    choose_reference,
    compare_with_reference,
    describe_tests,
    query_values,
)
from hiertree.pipelines.inference.embedding import embed, untrained_network
from hiertree.pipelines.report.retrieval_report import make_report
from hiertree.pipelines.stored_embeddings.embedded_files import write_embeddings
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.training.data.batches import BatchKey
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.data.views import ImageViews
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.run.learner import Learner

TESTS = "comparison-tests.csv"
TWO = ["synthetic-happier", "synthetic-smooth-ap"]


@pytest.fixture(scope="module")
def overrides(tiny_recipe):
    values = tiny_recipe().as_dict()
    return [
        f"{section}={json.dumps(values[section])}" for section in ("data", "images", "sampler", "model", "evaluation")
    ] + ["training={epochs: 1, device: cpu}", "evaluation.metrics=[H-AP, R@1]"]  # a figure for each metric


def test_runs_are_made_once_and_tabled(tmp_path, overrides):
    runs = compare(TWO, seeds=[0, 1], out=tmp_path, overrides=overrides)
    assert list(zip(runs["recipe"], runs["seed"], strict=True)) == [(name, seed) for name in TWO for seed in (0, 1)]
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/seed-*/*")}
    pd.testing.assert_frame_equal(compare(TWO, seeds=[0, 1], out=tmp_path, overrides=overrides), runs)
    assert times == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/seed-*/*")}
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "comparison.csv"), runs)
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    output_names = {path.name for path in tmp_path.glob("comparison*")}
    assert {output["name"] for output in manifest["outputs"]} == output_names
    assert output_names == {f"comparison.{suffix}" for suffix in ("csv", "html", "json", "md", "png", "tex", "txt")} | {
        TESTS
    }


def test_network_that_a_validation_picked_is_the_one_compared(tmp_path, overrides):
    picked = [
        *overrides,
        "data.families=3",
        "data.instances=3",
        "training.epochs=3",
        "optimizer.lr=0.3",
        "validation={classes: 0.4}",
    ]
    (row,) = compare(TWO[:1], seeds=[0], out=tmp_path, overrides=picked).to_dict("records")
    record = json.loads((tmp_path / TWO[0] / "seed-0" / "metrics.json").read_text())
    assert {metric: row[metric] for metric in record["best_metrics"]} == record["best_metrics"]
    assert record["best_metrics"] != record["metrics"]
    assert f"Of the epoch that a validation picked: {TWO[0]}" in (tmp_path / "comparison.md").read_text()


def test_marks_are_the_paired_tests_of_the_values_kept_by_the_runs(tmp_path, overrides):
    compare(TWO, seeds=[0, 1], out=tmp_path, overrides=overrides, against=TWO[1])
    tests = pd.read_csv(tmp_path / TESTS).set_index("metric")
    first, second = (
        sum(pd.read_parquet(tmp_path / name / f"seed-{seed}" / "per_query.parquet") for seed in (0, 1)) / 2
        for name in TWO
    )
    paths = np.load(tmp_path / TWO[0] / "seed-0" / "embeddings.npz")["paths"]
    classes = np.unique(paths, axis=0, return_inverse=True)[1].reshape(-1)
    assert list(tests.index) == list(first.columns)
    assert tests.loc["H-AP", "p"] == paired_randomization_test(first["H-AP"], second["H-AP"], clusters=classes)
    assert tests.loc["H-AP", "difference"] == pytest.approx((first["H-AP"] - second["H-AP"]).mean())
    assert set(tests["reference"]) == {TWO[1]}
    assert f"differs from {TWO[1]} with p < 0.05" in (tmp_path / "comparison.md").read_text().replace("&lt;", "<")


def test_rows_are_tested_on_means_over_seeds_with_holms_correction_and_only_on_the_same_queries(tmp_path):
    random = np.random.default_rng(0)
    paths = np.stack([np.arange(40) // 10, np.arange(40) // 2], axis=1)
    base = random.uniform(0.2, 0.6, 40)
    rows = {
        "base": [base, base],
        "above, k=1": [base + 0.3, base - 0.1],
        "equal": [base + 0.2, base - 0.2],
        "other": [base[:20], base[:20]],
    }
    for name, seeds in rows.items():
        for seed, values in enumerate(seeds):
            folder = tmp_path / name / str(seed)
            folder.mkdir(parents=True)
            table = pd.DataFrame({"R@1": values, "AP": np.where(np.arange(len(values)) < 2, np.nan, values)})
            table.to_parquet(folder / "per_query.parquet")
            np.savez(folder / "embeddings.npz", paths=paths[: len(values)])
            pd.DataFrame({"AP[middle]": values[:10]}).to_parquet(folder / "per_query-middle.parquet")
            np.savez(folder / "embeddings-middle.npz", paths=paths[:10])
    values = {name: query_values([tmp_path / name / seed for seed in "01"], data={"seed": 0}) for name in rows}
    values["of other data"] = query_values([tmp_path / "equal" / "0"], data={"seed": 1})
    tests = compare_with_reference(values, "base")
    assert tests["row"].tolist() == ["above, k=1", "equal"] * 3
    assert tests["metric"].tolist() == [name for name in ("AP[middle]", "R@1", "AP") for _ in range(2)]
    assert tests["queries"].tolist() == [10, 10, 40, 40, 38, 38]
    assert tests["classes"].tolist() == [5, 5, 20, 20, 19, 19]
    better, equal = tests.to_dict("records")[2:4]
    assert (better["difference"], equal["difference"]) == pytest.approx((0.1, 0.0))
    assert (better["p"], better["p_holm"]) == pytest.approx((2 / 2**20, 4 / 2**20))  # all or none of 20 classes
    assert equal["p_holm"] > 0.05
    notes = describe_tests(tests, values, "base")
    assert notes[1:] == [
        "Not tested against base, as queries or labels differ: of other data.",
        "Not tested against base, as the numbers of queries differ: other.",
    ]
    assert query_values([tmp_path / "base" / "0", tmp_path / "other" / "0"], data={}) is None


def test_runs_and_embeddings_stand_beside_trained_recipes(tmp_path, overrides):
    compare(TWO[:1], seeds=[0], out=tmp_path / "trained", overrides=overrides)
    run = str(tmp_path / "trained" / TWO[0] / "seed-0")
    with np.load(f"{run}/embeddings.npz") as arrays:
        order = np.random.default_rng(0).permutation(len(arrays["embeddings"]))
        shuffled = arrays["embeddings"][order]
        tree = ht.LabelTree.from_json(f"{run}/tree.json")
        labels = [tree.labels_of(path) for path in arrays["paths"][order].tolist()]
        table = pd.DataFrame(labels, columns=tree.level_names).assign(image=arrays["names"][order])
    (tmp_path / "shuffled").mkdir()
    write_embeddings(tmp_path / "shuffled" / "part.parquet", shuffled, dict(table.astype(str)), {})
    names = [TWO[1], run, str(tmp_path / "shuffled")]
    grid = {"loss.tau": [0.01, 0.1]}
    runs = compare(names, seeds=[0], out=tmp_path / "out", overrides=overrides, grid=grid, against=run)
    assert runs["recipe"].tolist() == [TWO[1], TWO[1], *names[1:]]
    assert runs["seed"].isna().tolist() == [False, False, True, True]
    metrics = json.loads(Path(run, "metrics.json").read_text())["metrics"]
    assert runs.loc[2, ["H-AP", "R@1"]].to_dict() == metrics
    assert runs.loc[3, ["H-AP", "R@1"]].to_dict() == pytest.approx(metrics)
    tests = pd.read_csv(tmp_path / "out" / TESTS).set_index(["metric", "row"])
    rows = [*(f"{TWO[1]}, loss.tau={tau}" for tau in grid["loss.tau"]), names[2]]
    assert list(tests.index) == list(product(["H-AP", "R@1"], rows))
    assert tests.loc[("H-AP", names[2]), ["difference", "p"]].tolist() == pytest.approx([0, 1], abs=1e-6)


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """Two searches of thirty named items as arrays, ranked lists and rows of a table, and what they are worth."""
    monkeypatch.chdir(tmp_path)
    random, paths = np.random.default_rng(0), np.stack([np.arange(30) // 15, np.arange(30) // 3], axis=1)
    names = [f"{row}.jpg" for row in range(30)]
    labels = pd.DataFrame(
        {"file": names, "kind": [f"k{kind}" for kind in paths[:, 0]], "leaf": paths[:, 1].astype(str)}
    )
    labels.to_csv("labels.csv", index=False)
    results = {}
    for name, noise in (("poor", 2.0), ("good", 0.3)):
        vectors = random.standard_normal((10, 6))[paths[:, 1]] + noise * random.standard_normal((30, 6))
        scores = vectors @ vectors.T / np.outer(*2 * [np.linalg.norm(vectors, axis=1)]) - 9 * np.eye(30)
        order = np.argsort(-scores, axis=1)[:, :-1]
        np.save(f"{name}.npy", order)
        np.save(f"{name}-vectors.npy", vectors)
        rows = [f"{names[q]} Q0 {names[i]} {rank} {9 - rank} tag" for q in range(30) for rank, i in enumerate(order[q])]
        Path(f"{name}.txt").write_text("\n".join(rows) + "\n")
        results[name] = evaluate(vectors, paths)
    return results


@pytest.mark.parametrize("suffix", [".txt", ".npy", "-vectors.npy"])
def test_ranked_lists_rows_and_embeddings_with_one_table_are_compared_alike(searched, suffix):
    labels = {"levels": ["kind", "leaf"]}
    options = {"labels": {"labels": "labels.csv", **labels}} if "vectors" in suffix else {}
    options = options or {"lists": {"tree": "labels.csv", **labels}}
    names = [f"{name}{suffix}" for name in searched]
    runs = compare(names, seeds=[0], out="out", **options)
    for row, result in enumerate(searched.values()):
        assert runs["H-AP"][row] == pytest.approx(result["H-AP"])
    tests = pd.read_csv(f"out/{TESTS}").set_index("metric")
    poor, good = (result.per_query()["H-AP"] for result in searched.values())
    assert tests.loc["H-AP", "p"] == paired_randomization_test(good, poor, clusters=np.arange(30) // 3)
    assert "Not tested" not in Path("out/comparison.tex").read_text()
    assert "p < 0.05" in Path("out/comparison.txt").read_text()


def test_runs_are_tabulated_side_by_side_in_every_format(searched, capsys):
    typed = ["evaluate-run", "poor.txt", "good.txt", "--tree=labels.csv", "--metrics=R@1,H-AP", "--levels=kind,leaf"]
    values = {f"{name}.txt": f"{100 * result['H-AP']:.1f}" for name, result in searched.items()}
    p = paired_randomization_test(
        *(result.per_query()["H-AP"] for result in searched.values()), clusters=np.arange(30) // 3
    )
    texts = {}
    for suffix in ("csv", "tex", "md", "txt", "json"):
        assert status_of(*typed, "--out", f"table.{suffix}") == 0
        texts[suffix] = Path(f"table.{suffix}").read_text(encoding="utf-8")
    assert capsys.readouterr().out.count(texts["txt"].splitlines()[0]) == 5
    for suffix, mark in (("tex", r"$^\dagger$"), ("md", "**†"), ("txt", "†")):
        line = next(line for line in texts[suffix].splitlines() if "good" in line)
        assert values["good.txt"] + ("}" * (suffix == "tex")) + mark in line
    table = pd.read_csv("table.csv", index_col="row")
    assert table["H-AP"].tolist() == pytest.approx([result["H-AP"] for result in searched.values()], abs=1e-12)
    assert table.loc["good.txt", "p of H-AP"] == p
    assert json.loads(texts["json"])["tests"][0]["reference"] == "poor.txt"
    with pytest.raises(SystemExit):
        main(["compare", *typed[1:4], "--against=good.txt"])
    printed = capsys.readouterr().out
    assert f"{values['poor.txt']}†" in printed
    assert "p < 0.05" in printed


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("compare poor.txt good.txt --out out", "ranked lists in poor.txt: expected what judges them: --tree TABLE"),
        ("compare poor.txt good.txt", "Missing option '--out'"),
        ("compare poor.txt absent.txt --tree labels.csv", "absent.txt"),
        ("compare timm:resnet50 poor.txt --out out", "`hiertree embed timm:resnet50 PHOTOS --out embedded`"),
        ("compare poor.txt good.txt --tree labels.csv --against bad.txt", "one of poor.txt; good.txt"),
        ("evaluate-run poor.npy --qrels labels.csv", "--tree TABLE, whose rows it lists"),
        ("evaluate-run poor-vectors.npy --tree labels.csv", "integers, the rows of a table from 0, best first"),
        ("evaluate-run poor.txt good.txt --tree labels.csv --out table.xml", "ends in .csv, .tex, .md, .txt, .json"),
        ("evaluate-run poor.txt good.txt --tree labels.csv --per-query q.csv", "a single run"),
    ],
)
def test_lists_that_cannot_be_compared_are_refused_in_one_line(searched, typed, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    errors = capsys.readouterr().err
    assert (ended.value.code, errors.count("\n"), message in errors) == (2, 1, True), errors
    assert not Path("out").exists()


def test_code_that_a_run_names_is_not_imported(tmp_path, overrides):
    compare(TWO[:1], seeds=[0], out=tmp_path / "trained", overrides=overrides)
    run = tmp_path / "trained" / TWO[0] / "seed-0"
    recipe = yaml.safe_load((run / "recipe.yaml").read_text()) | {"data": {"name": "antigravity:geohash"}}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    compare([str(run)], seeds=[0], out=tmp_path / "out")
    assert "antigravity" not in sys.modules


def test_sigterm_in_a_run_ends_the_comparison_with_status_143(tmp_path, overrides, monkeypatch):
    take_step = Learner.step

    def stopped(self, *arguments, **options):
        signal.raise_signal(signal.SIGTERM)
        return take_step(self, *arguments, **options)

    monkeypatch.setattr(Learner, "step", stopped)
    with pytest.raises(SystemExit) as ended:
        compare(TWO, seeds=[0], out=tmp_path / "out", overrides=overrides)
    assert ended.value.code == 143
    assert not (tmp_path / "out" / "comparison.csv").exists()


UNTRAINED = ["model.pretrained=false", "training.epochs=0"]


def test_embeddings_without_labels_are_refused_before_anything_is_trained(tmp_path, overrides):
    np.save(tmp_path / "vectors.npy", np.eye(8))
    with pytest.raises(OptionError, match=r"vectors\.npy without labels.*--labels"):
        compare([TWO[0], str(tmp_path / "vectors.npy")], seeds=[0], out=tmp_path / "out", overrides=overrides)
    assert not (tmp_path / "out").exists()


def test_an_untrained_network_is_a_row(tmp_path, overrides):
    zero = [*overrides, *UNTRAINED]
    runs = compare(TWO, seeds=[0, 1], out=tmp_path / "out", overrides=zero)
    assert len(runs) == 4
    run, recipe = tmp_path / "out" / TWO[0] / "seed-0", load_recipe(TWO[0], zero)
    embedder = untrained_network(recipe).eval()
    embedded = embed(TWO[0], None, tmp_path / "embedded", overrides=zero)
    embeddings = read_embeddings(embedded.folder).queries.embeddings
    np.testing.assert_allclose(embeddings, np.load(run / "embeddings.npz")["embeddings"], atol=1e-6)
    images = ImageViews(load_split(recipe, "test").images, recipe.images)[BatchKey(0, 0, [0, 1])].images
    with torch.inference_mode():
        np.testing.assert_allclose(embeddings[:2], embedder(images).numpy(), atol=1e-6)
    make_report([run], tmp_path / "report.html")


def test_what_cannot_be_measured_is_refused_before_anything_is_run(tmp_path):
    out = tmp_path / "out"
    (tmp_path / "run").mkdir()
    with pytest.raises(OptionError, match=r"no such run, folder or file: .*did you mean .*run"):
        compare([TWO[0], str(tmp_path / "rnu")], seeds=[0], out=out)
    with pytest.raises(OptionError, match="neither a run nor embeddings"):
        compare([TWO[0], str(tmp_path / "run")], seeds=[0], out=out)
    assert not out.exists()


def test_reference_is_the_first_row_or_the_one_named():
    rows = ["a, x=1", "a, x=2", "b, x=1", "b, x=2"]
    assert [choose_reference(rows, against) for against in (None, "b", "a, x=2")] == ["a, x=1", "b, x=1", "a, x=2"]
    with pytest.raises(OptionError, match="one of a, x=1; a, x=2"):
        choose_reference(rows, "c")


@pytest.fixture(scope="module")
def table():
    """Two rows with their published ones: one metric marked, one that a row lacks, a name that formats must escape."""
    names = ["NDCG", "H-AP", "ASI", "AP[1]", "AP[2]", "R@10", "R@1"]
    rows = [["sop-happier", 0, *[0.5] * 7], ["sop-happier", 1, *[0.7] * 7], ["<b> & 100%_", 0, *[0.5] * 6, None]]
    runs = pd.DataFrame(rows, columns=["recipe", "seed", *names])
    tests = pd.DataFrame({"metric": ["ASI"], "row": ["<b> & 100%_"], "reference": ["sop-happier"], "p_holm": [0.01]})
    return make_table(runs, tests=tests, published=True, notes=["† differs."])


def test_columns_stand_as_in_papers_and_published_rows_below_ours(table):
    assert table.metrics == ["R@1", "R@10", "AP[2]", "AP[1]", "H-AP", "ASI", "NDCG"]
    assert list(table.groups) == ["finest level", "level 1", "hierarchy"]
    tree = ["59.4 (+0.6)", "65.9 (−5.9)", "91.5 (−31.5) |"]
    assert markdown(table).splitlines()[2:6] == [
        "| sop-happier | 2 |" + 7 * " **60.0 ± 14.1** |",
        " | ".join(["| *published [S, Tab. V]*", "", "81.0 (−21.0)", "–", "60.4 (−0.4)", "–", *tree]),
        "| *published [S, Tab. IX]* |  | 81.0 (−21.0) | – | 60.4 (−0.4) | 58.4 (+1.6) | – | – | – |",
        r"| &lt;b&gt; &amp; 100%\_ | 1 | – | 50.0 | 50.0 | 50.0 | 50.0 | 50.0† | 50.0 |",
    ]


def test_latex_is_a_booktabs_table_of_even_rows(table):
    lines = latex(table).splitlines()
    body = [line for line in lines if line.endswith(r"\\")]
    assert lines[1] == r"\begin{tabular}{lrccccccc}"
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert {line.count(" & ") for line in body[1:]} == {8}
    assert body[2].startswith(r"sop-happier & 2 & \textbf{60.0 $\pm$ 14.1} & ")
    assert body[5].startswith(r"$<$b$>$ \& 100\%\_ & 1 & -- & 50.0")
    assert r" & 50.0$^\dagger$ & " in body[5]


def test_page_is_one_file_whose_table_reads_as_the_others(table):
    text = html(table, title="T", lead="L", figures=[("data:,", "What it shows")])
    page = BeautifulSoup(text, "html.parser")
    assert not page.select("script, link[rel=stylesheet], [src^=http], [href^=http]")
    assert [drawing["alt"] for drawing in page.select("img")] == ["What it shows"]
    rows = [[cell.get_text(" ", strip=True) for cell in row.select("th, td")] for row in page.select("tbody tr")]
    assert rows[0] == ["sop-happier", "2", *7 * ["★ 60.0 ± 14.1 best"]]
    assert rows[3] == ["<b> & 100%_", "1", "–", *4 * ["50.0"], "50.0 †", "50.0"]
    assert sum(int(head["colspan"]) for head in page.select("thead th[colspan]")) == len(table.metrics)


def test_table_shows_mean_and_sample_deviation_with_the_best_in_bold():
    runs = pd.DataFrame(
        {"recipe": ["a", "a", "b", "b"], "seed": [0, 1, 0, 1], "X": [0.1, 0.3, 0.15, 0.15], "Y": 4 * [0.5]}
    )
    lines = markdown(make_table(runs)).splitlines()
    assert lines[0] == "| system | runs | X | Y |"
    assert lines[2] == "| a | 2 | **20.0 ± 14.1** | **50.0 ± 0.0** |"
    assert lines[3] == "| b | 2 | 15.0 ± 0.0 | **50.0 ± 0.0** |"


def test_a_row_of_other_queries_is_never_the_best_and_single_runs_are_not_counted():
    runs = pd.DataFrame({"recipe": ["a", "b", "fewer queries"], "seed": [0, 0, 0], "X": [0.1, 0.3, 0.9]})
    tests = pd.DataFrame({"metric": ["X"], "row": ["b"], "reference": ["a"], "p_holm": [0.5]})
    assert markdown(make_table(runs, tests=tests)).splitlines() == [
        "| system | X |", "|---|---|", "| a | 10.0 |", "| b | **30.0** |", "| fewer queries | 90.0 |"
    ]  # fmt: skip


@pytest.mark.parametrize(("recipes", "seeds"), [([], [0]), (TWO, []), (TWO, [1, 1]), ([TWO[0]] * 2, [0])])
def test_nothing_to_compare_is_refused(tmp_path, recipes, seeds):
    with pytest.raises(OptionError, match="at least one, each once"):
        compare(recipes, seeds=seeds, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "manifest.json").write_text("mine")
    with pytest.raises(OptionError, match=r"with 'manifest\.json': expected a new or empty folder"):
        compare(TWO[:1], seeds=[0], out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json"]
    assert (tmp_path / "manifest.json").read_text() == "mine"


def test_misspelt_recipe_is_refused_before_the_first_is_run(tmp_path, overrides):
    with pytest.raises(RecipeError, match="did you mean 'synthetic-happier'"):
        compare([TWO[1], "synthetic-hapier"], seeds=[0], out=tmp_path / "out", overrides=overrides)
    assert not (tmp_path / "out").exists()


def test_a_run_that_fails_lets_the_others_finish_and_is_named(tmp_path, overrides):
    grid = {"loss.lambda_": [2, 0.1]}
    with pytest.raises(
        TrainingError, match=r"1 of 2 runs failed \(synthetic-happier, loss.lambda_=2, seed 0: .*lambda_"
    ):
        compare(TWO[:1], seeds=[0], out=tmp_path, overrides=overrides, grid=grid)
    assert (tmp_path / TWO[0] / "loss.lambda_=0.1" / "seed-0" / "metrics.json").is_file()
    grid = {"loss.lambda_": [0.1]}
    assert len(compare(TWO[:1], seeds=[0], out=tmp_path, overrides=overrides, grid=grid)) == 1


def test_a_key_that_is_set_and_varied_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"loss\.lambda_ in both the overrides and the grid"):
        compare(TWO[:1], seeds=[0], out=tmp_path, overrides=["loss.lambda_=0.3"], grid={"loss.lambda_": [0.1]})


def test_grid_runs_every_combination_in_a_folder_of_its_own(tmp_path, overrides):
    grid = read_grid(["training.epochs=1,2,3", "images.augmentation={name: none},{name: glyph, shear: 0.0}"])
    overrides = [override for override in overrides if not override.startswith("images=")]
    overrides += ["images.size=16", "images.channels=1"]
    runs = compare(TWO[:1], seeds=[0], out=tmp_path, overrides=overrides, grid=grid)
    assert list(runs.columns[:4]) == ["recipe", "training.epochs", "images.augmentation", "seed"]
    assert runs["training.epochs"].tolist() == [1, 1, 2, 2, 3, 3]
    folders = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("**/seed-0"))
    assert len(folders) == 6
    assert all(re.fullmatch(r"synthetic-happier/[A-Za-z0-9_.,=+-]+/seed-0", folder) for folder in folders)
    recipes = [load_recipe(path) for path in tmp_path.glob("**/recipe.yaml")]
    assert sorted(recipe.training.epochs for recipe in recipes) == [1, 1, 2, 2, 3, 3]
    names = [f"images.augmentation={value}" for value in ('{"name": "none"}', '{"name": "glyph", "shear": 0.0}')]
    assert [row.name for row in make_table(runs).rows][2:4] == [
        f"{TWO[0]}, training.epochs=2, {name}" for name in names
    ]
    assert (
        rf'{TWO[0]}, training.epochs=3, images.augmentation=\{{"name": "none"\}} & '
        in (tmp_path / "comparison.tex").read_text()
    )
    assert set(pd.read_csv(tmp_path / TESTS)["row"]) < {row.name for row in make_table(runs).rows}
    assert (tmp_path / "comparison-lines.png").read_bytes().startswith(b"\x89PNG")
    other_order = {"images.augmentation": grid["images.augmentation"], "training.epochs": [3.0]}
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("**/seed-0/*")}
    compare(TWO[:1], seeds=[0], out=tmp_path, overrides=overrides, grid=other_order)
    assert times == {path: path.stat().st_mtime_ns for path in tmp_path.glob("**/seed-0/*")}


@pytest.mark.parametrize("name", ["..", "a/b", "/a"])
def test_recipe_whose_name_leads_out_of_the_folder_is_refused(tmp_path, name):
    with pytest.raises(OptionError, match="a name that a folder can have"):
        compare(TWO[:1], seeds=[0], out=tmp_path / "out", overrides=[f"name={name}"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["loss.alpha"], "KEY=V1,V2"),
        (["loss.alpha="], "KEY=V1,V2"),
        (["loss.alpha=1", "loss.alpha=2"], "each key once"),
        (["loss.alpha=1,1.0"], "each once"),
        (["seed=1,2"], "give --seeds"),
        (["data.root=2020-01-01"], "a text, number"),
    ],
)
def test_impossible_grids_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        read_grid(options)


def test_settings_that_do_not_fit_a_recipe_are_refused_before_the_first_is_run(tmp_path):
    with pytest.raises(RecipeError, match="unknown key 'alpha'"):
        compare(TWO, seeds=[0], out=tmp_path / "out", grid={"loss.alpha": [1, 2]})
    assert not (tmp_path / "out").exists()
