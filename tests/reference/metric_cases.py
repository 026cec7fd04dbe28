"""Random trees, scores and galleries, and the reference value of any metric name."""

from __future__ import annotations

from functools import partial

import numpy as np
import reference_metrics as reference
from hypothesis import strategies as st

NAMES = (
    "H-AP",
    "H-AP(alpha=3)",
    "NDCG",
    "NDCG@1",
    "NDCG@3",
    "ASI",
    "HP@1",
    "HP@3",
    "HP@5",
    "AHP",
    "AHP@3",
    "HD@1",
    "HD@4",
    *(
        f"{stem}[{level}]"
        for level in (1, 2)
        for stem in ("AP", "R@1", "R@3", "TR@2", "TR@4", "P@1", "P@3", "mAP@R", "mAP@2", "mAP@4", "P@R", "MRR", "MRR@3")
    ),
)


def names_for(num_levels):
    """The names that exist with so many levels."""
    return [name for name in NAMES if "[2]" not in name or num_levels >= 2]


def reference_metric(name, num_levels):
    """A function of (scores, levels, paper) that computes the metric by its definition."""
    stem, _, rest = name.partition("[")
    level = int(rest[:-1]) if rest else num_levels
    if stem.startswith("H-AP"):
        alpha = 3.0 if "alpha=3" in stem else 1.0
        return lambda scores, levels, paper: reference.h_ap(
            scores, levels, reference.hap_relevance(levels, num_levels, alpha), paper
        )
    if stem == "ASI":
        return reference.asi
    kind, _, cutoff = stem.partition("@")
    if kind == "NDCG":
        k = int(cutoff) if cutoff else float("inf")
        return lambda scores, levels, paper: reference.ndcg(scores, levels, k, paper)
    if kind == "HP":
        return lambda scores, levels, paper: reference.cut_hierarchical_precision(
            scores, levels, num_levels, int(cutoff), paper
        )
    if kind == "AHP":
        return lambda scores, levels, paper: reference.average_hierarchical_precision(
            scores, levels, num_levels, int(cutoff or len(scores)), paper
        )
    if kind == "HD":
        return lambda scores, levels, paper: reference.hierarchical_distance(
            scores, levels, num_levels, int(cutoff), paper
        )
    if kind == "MRR":
        k = int(cutoff) if cutoff else float("inf")
        return lambda scores, levels, paper: reference.reciprocal_rank(scores, levels, level, k, paper)
    if kind == "AP":
        return partial(_at_level, reference.average_precision, level)
    if cutoff == "R":
        return partial(_at_level, reference.map_at_r if kind == "mAP" else reference.r_precision, level)
    functions = {
        "R": reference.recall_at_k,
        "TR": reference.true_recall_at_k,
        "P": reference.precision_at_k,
        "mAP": reference.map_at_k,
    }
    return lambda scores, levels, paper: functions[kind](scores, levels, level, int(cutoff), paper)


def _at_level(metric, level, scores, levels, paper):
    return metric(scores, levels, level, paper)


def cosines(queries, items):
    """(Q, N) cosines of rows."""
    first, second = (np.asarray(rows, np.float64) for rows in (queries, items))
    lengths = [np.linalg.norm(rows, axis=1) for rows in (first, second)]
    return (first / lengths[0][:, None]) @ (second / lengths[1][:, None]).T


def random_paths(random, num_items, num_levels, branching=3):
    """Paths of a tree in which each node has so many children at most."""
    paths = random.integers(0, branching, (num_items, num_levels))
    for level in range(1, num_levels):
        paths[:, level] += branching * paths[:, level - 1]  # a label has one parent
    return paths


@st.composite
def score_matrices(draw, max_items=12, distinct=5):
    """Scores with many ties, perhaps infinite ones, levels, a mask with at least one item a row, and L."""
    num_levels = draw(st.integers(1, 7))
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, max_items)))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    scores = random.integers(-distinct, distinct + 1, shape) / 4.0
    if draw(st.booleans()):
        scores[random.random(shape) < 0.3] = -np.inf
        scores[random.random(shape) < 0.1] = np.inf
    if draw(st.booleans()):
        scores = scores.astype(np.float32)
    levels = random.integers(0, num_levels + 1, shape).astype(np.uint8)
    valid = random.random(shape) < draw(st.sampled_from([1.0, 0.7]))
    valid[:, 0] = True
    return scores, levels, valid, num_levels
