"""Labels, paths and options that the samplers allow, drawn by hypothesis, and samplers to compare."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from hiertree.samplers import ClassBalancedSampler, SuperCategoryPairSampler, TreeSampler
from hiertree.samplers.tree_aware import ClassTree

Sampler = ClassBalancedSampler | SuperCategoryPairSampler | TreeSampler


LABELS = np.repeat(np.arange(30), 6)
PATHS = np.stack([LABELS // 10, LABELS], axis=1)
TREE = np.stack([LABELS // 15, LABELS // 5, LABELS], axis=1)


def assert_classes_are_whole(batch: list[int], labels: NDArray[np.int64], m: int) -> None:
    """Exactly m items of each class, distinct where the class has so many."""
    sizes, items = Counter(labels.tolist()), Counter(batch)
    assert set(Counter(labels[batch].tolist()).values()) == {m}
    for item, times in items.items():
        assert times <= -(-m // sizes[labels[item]])


@st.composite
def class_balanced(draw: st.DrawFn) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Labels in random order, and options that they allow."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=12))
    m, policy = draw(st.integers(1, 5)), draw(st.sampled_from(["replace", "drop"]))
    num_classes = sum(size >= m for size in sizes) if policy == "drop" else len(sizes)
    if num_classes == 0:
        sizes, num_classes = [*sizes, m], 1
    labels = np.random.default_rng(draw(st.integers(0, 99))).permutation(np.repeat(np.arange(len(sizes)) * 3, sizes))
    batch_size = m * draw(st.integers(1, num_classes))
    seed = draw(st.integers(0, 5))
    return labels, {"batch_size": batch_size, "images_per_class": m, "small_classes": policy, "seed": seed}


@st.composite
def super_pairs(draw: st.DrawFn) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Paths of three levels with super-categories at level 2, and options that they allow."""
    supers = draw(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=6), min_size=2, max_size=5))
    rows, leaf = [], 0
    for group, sizes in enumerate(supers):
        for size in sizes:
            rows += [[group % 2, group, leaf]] * size
            leaf += 1
    paths = np.random.default_rng(draw(st.integers(0, 99))).permutation(np.array(rows))
    m, half = draw(st.integers(1, 4)), draw(st.integers(1, min(map(len, supers))))
    options = {"batch_size": 2 * m * half, "images_per_class": m, "batches_per_pair": draw(st.integers(1, 4))}
    return paths, {**options, "super_level": 2, "seed": draw(st.integers(0, 5))}


@st.composite
def trees(draw: st.DrawFn) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Paths of one to four levels, some known in part, of very uneven nodes and classes, and options they allow."""
    branching = st.sampled_from([1, 1, 2, 2, 3, 5])
    rows: list[list[int]] = [[]]
    for _ in range(draw(st.integers(1, 4))):
        # Numbered within the level: a few paths numbered within their parents may look as if given fine → coarse.
        rows = [[*row, 5 * node + child] for node, row in enumerate(rows) for child in range(draw(branching))][:40]
    known = [draw(st.sampled_from([len(row), len(row), len(row), 1])) for row in rows]
    rows = [row[:depth] + [-1] * (len(row) - depth) for row, depth in zip(rows, known, strict=True)]
    paths = np.repeat(np.array(rows), [draw(st.integers(1, 4)) for _ in rows], axis=0)
    paths = np.random.default_rng(draw(st.integers(0, 99))).permutation(paths)
    m, policy = draw(st.integers(2, 4)), draw(st.sampled_from(["replace", "drop"]))
    class_paths, counts = np.unique(paths, axis=0, return_counts=True)
    if policy == "drop" and not (counts >= m).any():
        policy = "replace"
    class_paths = class_paths if policy == "replace" else class_paths[counts >= m]
    classes = ClassTree(class_paths.astype(np.int64)).largest_cost() + draw(st.integers(0, 6))
    options = {"images_per_class": m, "small_classes": policy, "seed": draw(st.integers(0, 5))}
    return paths, {"batch_size": m * classes, "tree": True, **options}


def build(case: Any) -> Sampler:
    paths, options = case
    if "tree" in options:
        return TreeSampler(paths, **{name: value for name, value in options.items() if name != "tree"})
    return (SuperCategoryPairSampler if "super_level" in options else ClassBalancedSampler)(paths, **options)


def samplers(seed: int = 0) -> list[Sampler]:
    return [
        ClassBalancedSampler(PATHS, batch_size=20, images_per_class=2, seed=seed),
        SuperCategoryPairSampler(PATHS, batch_size=20, images_per_class=2, seed=seed),
        TreeSampler(TREE, batch_size=20, images_per_class=2, seed=seed),
    ]
