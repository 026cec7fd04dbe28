"""The sampler whose batches contain positives of every level, by construction.

A choice of classes is *closed* if every node that is above a chosen class and has two or more children is above chosen
classes through at least two of them. The *cost* of a node is the size of the smallest closed choice below it: 1 for a
class, the cost of its child for a node with one child, and the sum of its two cheapest children's otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import as_paths
from ..errors import OptionError
from ..level_columns import path_nodes
from ..options import require, with_options_of
from .epochs import PlannedBatches, SamplerOptions, SmallClasses  # noqa: F401 - recipes read the signatures

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

LOOKAHEAD = 4  # classes tried per class that a batch takes


class TreeSampler(PlannedBatches):
    r"""Batches in which every item has positives at each level at which it has any in the data set.

    *Guarantee.* Let level(i, j) be the number of leading path elements that two items share. For every item i of a
    batch and every level l from 0 to L: if the data set has an item other than i at exactly level l to i, so has the
    batch. (At level 0 these are negatives of i. With ``small_classes="drop"`` the dropped classes are not part of the
    data set.) So each query meets an example of every relevance that a hierarchical loss can assign to it.

    *Proof.* The classes of a batch are a *closed choice*: if a node of the tree, the root included, is above a chosen
    class and has two or more children, then at least two of its children are above chosen classes. Take an item i of
    class c, with the nodes v_0 (the root), v_1 … v_L = c, and a level l < L. Items at exactly level l to i lie below
    children of v_l other than v_{l+1}. If there are any, v_l has two or more children and is above c, so a chosen class
    lies below some child w ≠ v_{l+1}. Every chosen class contributes items to the batch, and these are at exactly level
    l to i. At level L: if c has another item, a visit to c, which takes two or more items, takes different ones.

    A closed choice starts with the class that has waited longest and takes the next ones as far as they fit; the
    further classes that each of them requires are drawn at random. How many a class requires is the sum of the
    cheapest siblings along its path: at most 15 classes in the seven levels of iNaturalist-2018. An epoch has
    max(1, ``n // batch_size``) batches, where n is the number of items it may show. Classes with few relatives are
    drawn more often than others, because their relatives require them.

    Args:
        paths: (n, L) or (n,) integers, coarse → fine; a class is a whole path. Items known to one node alone are a
            class of it, too, whose items have that node's level to one another.
        batch_size: items per batch, a multiple of ``images_per_class``.
        images_per_class: items per visit to a class, at least 2. Where no further class fits, a class is visited twice.
        seed: this and the next two as for :class:`ClassBalancedSampler`.
        small_classes: see there.
        reduce_per_class: see there.

    Raises:
        OptionError: a batch size that is not such a multiple or too small for the tree, or an unknown policy.
        PathError: paths that are not non-negative integers.

    >>> paths = [[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2], [1, 3], [1, 3]]
    >>> batch = next(iter(TreeSampler(paths, batch_size=8, images_per_class=2)))
    >>> sorted(batch)
    [0, 1, 2, 3, 4, 5, 6, 7]
    """

    @with_options_of(PlannedBatches.__init__)
    def __init__(self, paths: Any, **options: Unpack[SamplerOptions]) -> None:
        label_paths = as_paths(paths)
        super().__init__(path_nodes(label_paths)[:, -1], **options)
        require(self.images_per_class > 1, "images_per_class", 1, "at least 2, for positives of a class")
        first_items = np.unique(self._class_of_item, return_index=True)[1]
        self._tree = ClassTree(label_paths[self._items[first_items]])
        largest_cost = self._tree.largest_cost()
        if largest_cost > self.classes_per_batch:
            expected = f"at least {largest_cost}, for positives at every level of this tree"
            choose = {"batch_size": [largest_cost * self.images_per_class]}
            raise OptionError(f"batches of {self.classes_per_batch} classes", expected=expected, choose=choose)

    def _batches(self, start: int, stop: int, generator: np.random.Generator) -> NDArray[np.int64]:
        plan = closed_batches(self._tree, self.classes_per_batch, len(self), generator)
        return self._items_of_plan(plan, generator)[start:stop]


class ClassTree:
    """The tree above C classes of different (C, L) paths, with the cost of every node."""

    def __init__(self, paths: NDArray[np.int64]) -> None:
        self.nodes = path_nodes(paths)
        count = int(self.nodes.max()) + 1
        children: list[list[int]] = [[] for _ in range(count)]
        for column in range(self.nodes.shape[1] - 1):
            for parent, child in np.unique(self.nodes[:, column : column + 2], axis=0).tolist():
                children[parent].append(child)
        self.cost = [1] * count
        classes = [int(not siblings) for siblings in children]  # below or at each node
        for node in reversed(range(count)):  # a child has a larger number than its parent
            if children[node]:
                children[node].sort(key=lambda child: self.cost[child])
                self.cost[node] = sum(self.cost[child] for child in children[node][:2])
                classes[node] = sum(classes[child] for child in children[node])
        self.children = children
        self.child_costs = [[self.cost[child] for child in siblings] for siblings in children]
        self.classes_before = [[0, *accumulate(classes[child] for child in siblings)] for siblings in children]
        self.rank = {child: rank for siblings in children for rank, child in enumerate(siblings)}
        self.class_of = {leaf: label for label, leaf in enumerate(self.nodes[:, -1].tolist())}
        self.path_of_class: list[list[int]] = self.nodes.tolist()

    def cheapest_other(self, node: int, child: int) -> int:
        """The cost of the cheapest other child of a node; 0 if it has no other."""
        costs = self.child_costs[node]
        if len(costs) < 2:
            return 0
        return costs[1] if self.rank[child] == 0 else costs[0]

    def cost_from(self, path: list[int], depth: int) -> int:
        """The cost of choosing a class whose path is already chosen down to ``depth``; −1: not even the root is."""
        return 1 + sum(self.cheapest_other(path[at], path[at + 1]) for at in range(depth + 1, len(path) - 1))

    def largest_cost(self) -> int:
        """The size of the smallest closed choice that contains the most demanding class."""
        return max(self.cost_from(path, -1) for path in self.path_of_class)


class ClosedChoice:
    """A closed choice of at most ``budget`` classes, initially empty, driven by random numbers in [0, 1)."""

    def __init__(self, tree: ClassTree, budget: int, draws: Iterator[float]) -> None:
        self.tree, self.budget, self._draws = tree, budget, draws
        self._chosen: set[int] = set()
        self.classes: list[int] = []

    def add(self, label: int) -> bool:
        """Choose a class and those that it requires; return False and choose none if the budget is too small."""
        tree, path = self.tree, self.tree.path_of_class[label]
        depth = next((at for at in reversed(range(len(path))) if path[at] in self._chosen), -1)
        if depth == len(path) - 1:
            return True
        slack = self.budget - len(self.classes) - tree.cost_from(path, depth)
        if slack < 0:
            return False
        for at in range(depth + 1, len(path)):
            self._choose(path[at])
        for at in range(depth + 1, len(path) - 1):
            if len(tree.children[path[at]]) > 1:
                slack = self._add_other(path[at], path[at + 1], slack)
        return True

    def _add_other(self, node: int, child: int, slack: int) -> int:
        """Choose classes below another child of the node within the slack; return the rest of it."""
        tree = self.tree
        smallest_cost = tree.cheapest_other(node, child)
        sibling = self._draw(node, smallest_cost + slack, besides=tree.rank[child])
        return self._fill(sibling, slack - (tree.cost[sibling] - smallest_cost))

    def _fill(self, node: int, slack: int) -> int:
        """Choose classes below a node; return the rest of the slack."""
        tree = self.tree
        self._choose(node)
        children = tree.children[node]
        if not children:
            return slack
        if len(children) == 1:
            return self._fill(children[0], slack)
        first = self._draw(node, tree.cost[node] + slack - tree.child_costs[node][0], besides=-1)
        slack -= tree.cost[first] + tree.cheapest_other(node, first) - tree.cost[node]
        return self._fill(first, self._add_other(node, first, slack))

    def _draw(self, node: int, budget: int, *, besides: int) -> int:
        """Draw a child of cost ≤ ``budget``, but not that at ``besides``; its chance is its number of classes."""
        classes_before = self.tree.classes_before[node]
        count = bisect_right(self.tree.child_costs[node], budget)
        first, end = (besides, besides + 1) if 0 <= besides < count else (count, count)
        start, stop = classes_before[first], classes_before[end]
        ticket = int(next(self._draws) * (classes_before[count] - (stop - start)))
        return self.tree.children[node][bisect_right(classes_before, ticket + (stop - start) * (ticket >= start)) - 1]

    def _choose(self, node: int) -> None:
        self._chosen.add(node)
        if not self.tree.children[node]:
            self.classes.append(self.tree.class_of[node])


def closed_batches(tree: ClassTree, per_batch: int, batches: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The class visits of every batch, (batches, per_batch); the different classes of a batch are a closed choice.

    Each batch starts with the class that has waited longest and takes the next ones as far as they fit. Where no
    further class fits, classes of the batch are visited a second time.
    """
    visits = np.empty((batches, per_batch), dtype=np.int64)
    waiting: deque[int] = deque()
    draws = _uniform(generator)
    for batch in range(batches):
        choice = ClosedChoice(tree, per_batch, draws)
        passed: list[int] = []
        for _ in range(LOOKAHEAD * per_batch):
            if len(choice.classes) == per_batch:
                break
            if not waiting:
                waiting.extend(generator.permutation(len(tree.path_of_class)).tolist())
            candidate = waiting.popleft()
            if not choice.add(candidate):
                passed.append(candidate)
        waiting.extendleft(reversed(passed))
        repeats = generator.permutation(choice.classes)
        visits[batch] = np.resize(np.concatenate([choice.classes, repeats]), per_batch)
    return visits


def _uniform(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(1024).tolist()
