"""Numbers that other projects publish in their own tests and documentation, computed here.

Facts alone are taken: from trec_eval's ``test/out.test.aq`` (NIST), the tests of pytorch-metric-learning's
AccuracyCalculator (MIT), and scikit-learn's tests of ranking metrics and their documentation (BSD).
"""

from __future__ import annotations

import numpy as np
import pytest

from hiertree.metrics import Rules, average_precision, evaluate_ranking, ndcg, recall_at_k

# trec_eval's results.test against its qrels.test: the ranks of the relevant ones of 500 items, and how many there are
RANKS = {
    "301": (
        """
        6 7 16 18 20 26 30 32 37 39 43 49 54 56 57 59 63 67 70 83 92 96 100 103 112 115 116 122 125 130 131
        133 143 144 145 158 172 178 184 197 199 200 207 210 212 219 224 229 240 249 253 263 267 274 280 290
        307 309 315 317 318 320 327 342 348 384 394 419 435 491 495
        """,
        474,
    ),
    "302": (
        """
        1 2 4 5 6 8 9 11 12 13 14 15 16 17 18 19 21 22 24 27 28 30 31 34 36 37 39 42 43 44 47 48 49 50 51 53
        56 58 72 79 82 84 116 154 289 301 331 353 394 458
        """,
        77,
    ),
    "303": ("19 37 41 43 44 65 67 89 99 107", 10),
}
MEASURES = {  # ours: those of 301, 302, 303 and of all
    "AP": (0.0324, 0.4175, 0.0858, 0.1785),
    "mAP@1000": (0.0324, 0.4175, 0.0858, 0.1785),
    "P@5": (0.0, 0.8, 0.0, 0.2667),
    "P@10": (0.2, 0.7, 0.0, 0.3),
    "P@100": (0.23, 0.42, 0.09, 0.2467),
    "R@10": (0.0042, 0.0909, 0.0, 0.0317),
    "R@100": (0.0485, 0.5455, 0.9, 0.4980),
    "R@1000": (0.1498, 0.6494, 1.0, 0.5997),
    "NDCG": (0.1584, 0.6617, 0.3862, 0.4021),
    "NDCG@10": (0.1518, 0.7530, 0.0, 0.3016),
    "NDCG@100": (0.2166, 0.6046, 0.3537, 0.3916),
}


def write_trec_fixture(folder):
    """The run and qrels as files that trec_eval reads: with comments, and with text after the tag."""
    run, qrels = ["# 3 queries"], ["# judged by hand"]
    for query, (ranks, item) in RANKS.items():
        relevant = set(map(int, ranks.split()))
        run += [f"{query} Q0 d{rank} {rank} {1000 - rank} mine and more" for rank in range(1, 501)]
        qrels += [f"{query} 0 d{rank} {int(rank in relevant)}" for rank in range(1, 501)]
        qrels += [f"{query} 0 unlisted{item} 1" for item in range(item - len(relevant))]
    (folder / "run.txt").write_text("\n".join(run))
    (folder / "qrels.txt").write_text("\n".join(qrels))
    return folder / "run.txt", folder / "qrels.txt"


def test_the_numbers_of_trec_evals_own_test(tmp_path):
    files = write_trec_fixture(tmp_path)
    result = evaluate_ranking(*files, metrics=MEASURES, compat=Rules(recall="share"))
    assert result.query_ids == ["301", "302", "303"]
    for name, (*by_query, mean) in MEASURES.items():
        np.testing.assert_allclose(result.per_query()[name], by_query, atol=5.1e-5, err_msg=name)
        assert result[name] == pytest.approx(mean, abs=5.1e-5), name


def test_means_with_empty_queries_at_0_are_trec_evals():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    random = np.random.default_rng(0)
    items = [f"d{item}" for item in range(40)]
    run = {
        f"q{query}": dict(zip(items, map(float, random.permutation(40)), strict=True)) for query in range(30)
    }  # trec_eval takes no mean over queries that nobody judged: all but every third
    qrels = {
        query: {item: int(random.random() < 0.2 and row % 2) for item in items}
        for row, query in enumerate(run)
        if row % 3 == 0
    }
    reference = pytrec_eval.RelevanceEvaluator(qrels, {"map", "P_10", "ndcg"}).evaluate(run)
    result = evaluate_ranking(run, qrels, metrics=["AP", "P@10", "NDCG"], compat=Rules(empty_queries="zero"))
    assert result.skipped == {"AP": 20, "P@10": 20, "NDCG": 20}
    for metric, name in (("AP", "map"), ("P@10", "P_10"), ("NDCG", "ndcg")):
        expected = [reference[query][name] for query in qrels]
        np.testing.assert_allclose(result.per_query()[metric].dropna(), expected, atol=1e-6)
        assert result[metric] == pytest.approx(np.mean(expected), abs=1e-6)


# pytorch-metric-learning: the labels of five neighbors of five queries, and how many items each label has
LABELS = [1, 1, 2, 3, 4]
NEIGHBORS = [[0, 1, 1, 2, 2], [1, 0, 1, 1, 3], [4, 4, 4, 4, 2], [3, 1, 3, 1, 3], [0, 0, 4, 2, 2]]
NUMBERS = {1: 3, 2: 5, 3: 4, 4: 5}


@pytest.mark.parametrize(
    ("first", "precision_at_1", "map_at_r"),
    [
        (0, 0.4, [(1 / 2 + 2 / 3) / 3, (1 + 2 / 3) / 3, 1 / 5 / 5, (1 + 2 / 3) / 4, 1 / 3 / 5]),
        (1, 0.2, [1, 1 / 2 / 2, 1 / 4 / 4, 1 / 2 / 3, 1 / 2 / 4]),  # the query itself, which stands first, is left out
    ],
)
def test_the_numbers_of_the_accuracy_calculators_own_test(first, precision_at_1, map_at_r):
    run, qrels = {}, {}
    for query, (label, neighbors) in enumerate(zip(LABELS, NEIGHBORS, strict=True)):
        qrels_of_query = {f"n{rank}": int(item_label == label) for rank, item_label in enumerate(neighbors[first:])}
        missing = NUMBERS[label] - first - sum(qrels_of_query.values())
        run[query], qrels[query] = (
            list(qrels_of_query),
            qrels_of_query | {f"unlisted{item}": 1 for item in range(missing)},
        )
    result = evaluate_ranking(run, qrels, metrics=["R@1", "mAP@R"])
    assert result["R@1"] == pytest.approx(precision_at_1)
    np.testing.assert_allclose(result.per_query()["mAP@R"], map_at_r)


def test_the_numbers_of_scikit_learns_ranking_metrics():
    assert average_precision([[0.1, 0.4, 0.35, 0.8]], [[0, 0, 1, 1]])[0] == pytest.approx(0.83, abs=0.004)
    perfect = [[0, 0.1, 0.1, 0.5, 0.5, 0.6, 0.6, 0.9, 0.9, 1, 1]], [[0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]]
    assert average_precision(*perfect)[0] == 1
    for scores, tied in (([0.5, 0.5, 0.6], [0, 1, 1]), ([0.5, 0.5, 0.6, 0.5], [1, 0, 1, 1])):
        assert average_precision([scores], [tied])[0] < 1
    ranking = average_precision([[0.75, 0.5, 1], [1, 0.2, 0.1]], [[1, 0, 0], [0, 0, 1]])
    assert ranking.mean() == pytest.approx(0.416, abs=0.001)
    scores_of_rows = np.tile(np.arange(6, -1, -1), (5, 1))
    gains_of_3 = 2 * np.eye(7, dtype=int)[:5]
    np.testing.assert_allclose(ndcg(scores_of_rows, gains_of_3), 1 / np.log2(np.arange(2, 7)))
    np.testing.assert_allclose(ndcg(np.zeros((5, 7)), gains_of_3), np.mean(1 / np.log2(np.arange(2, 9))))
    scores = [[0.5, 0.2, 0.2], [0.3, 0.4, 0.2], [0.2, 0.4, 0.3], [0.7, 0.2, 0.1]]
    top = [recall_at_k(scores, np.eye(3, dtype=int)[[0, 1, 2, 2]], k=k, ties="index").mean() for k in (1, 2, 3)]
    assert top == [0.5, 0.75, 1.0]
