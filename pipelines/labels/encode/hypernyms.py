"""Hypernyms: Wikidata's "subclass of" (P279), what stands above a label and how near two labels lie to each other.

``place_classes.parquet`` is the part of the graph below *geographical object* and *architectural structure*, of 2021;
it serves where no table was scraped, and for classes that the scraped table lacks.

The graph is tangled: it has cycles, classes with several parents, homonyms, and ancestors that nearly all classes
share. So nearness is not counted in steps. From each label a random walk goes up and down the edges for a few steps,
and may end at each (Tong et al. 2006, "random walk with restart"); two labels are alike if their walks visit the same
classes. A walk that has come to a common ancestor spreads over its many children, so that such ancestors weigh little.

Nor is a kind that of the nearest class whose kind is known. A walk that only goes up ends at such a class; a label's
*support* is how often it ends at a natural one less how often at a human-made one, where every step counts less.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import TableError
from hiertree.io.files import AnyPath
from hiertree.io.tables import read_table, write_table

from .place_nouns import class_key, head_endings, parse, thesaurus, words_of
from .text_encoders import truncated_svd, unit_rows

if TYPE_CHECKING:
    import networkx as nx
EDGE_COLUMNS = ("child_qid", "child_label", "parent_qid", "parent_label")
SOURCE_COLUMN = "source"
PLACE_CLASSES = files(__package__).joinpath("place_classes.parquet")
ARROW = " → "
KIND_OF_ROOT = {  # 1: natural, −1: human-made
    "Q35145263": 1,  # natural geographic object
    "Q27096220": 1,  # natural geographic entity
    "Q15324": 1,  # body of water
    "Q20719696": 1,  # physico-geographical object
    "Q473972": 1,  # protected area
    "Q811979": -1,  # architectural structure
    "Q811430": -1,  # human-made geographic feature
    "Q41176": -1,  # building
    "Q27096235": -1,  # artificial geographic entity
    "Q102074988": -1,  # artificial physical structure
    "Q12376661": -1,  # artificial body of water
    "Q19816755": -1,  # artificial landform
}
WALK_WEIGHT = 1 / 4  # of a label's square norm
_GOES_ON, _STEPS = 0.85, 5
_STEPS_UP = 12  # of a walk that only goes up; what is left of it is a seventh
_LEAST = 1e-4  # of a walk: what is visited less is left out
_DIMENSIONS = 256
_ROWS = 256  # walks at a time
_LONGEST_CHAIN = 5


@dataclass(frozen=True)
class Hypernyms:
    """Edges between classes."""

    edges: Mapping[tuple[str, str], str]  # (child, parent), ids of classes → source; a class above itself is left out
    names: Mapping[str, str]  # what classes are called; one that is not named is called by its id
    # the classes that labels stand for, where the source says so; other labels are found by name
    items: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def classes(self, label: str) -> tuple[str, ...]:
        """The ids that a label stands for: by id, by name, by the end of its head noun, or by that noun's sense.

        A head noun that says little ("system") is passed over. Of several classes of one name, those count that have a
        place among their ancestors, if any have.
        """
        return self.items_of(label) or self._called(_names_of(label))

    def items_of(self, label: str) -> tuple[str, ...]:
        """The ids of the classes that the source gives a label, or of those of its very name."""
        return self._given(label) or self._called([words_of(label)])

    def _given(self, label: str) -> tuple[str, ...]:
        return tuple(item for item in self.items.get(label, ()) if item in self._graph)

    def find_unconnected(self) -> list[str]:
        """The labels whose classes the source names, and of which no edge is known."""
        return sorted(label for label in self.items if not self._given(label))

    def _called(self, names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        items = next((self._named[tokens] for tokens in names if tokens in self._named), ())
        return tuple(item for item in items if item in self._below_roots) or items

    def chain(self, label: str) -> tuple[str, ...]:
        """Names of what stands above a label: the shortest way to a class whose kind is known, or a few steps.

        A label of which only the list knows a sense has none: the source says nothing of it.
        """
        import networkx as nx

        for item in (self.items_of(label) or self._called(_heads_of(label)))[:1]:
            paths = nx.single_source_shortest_path(self._graph, item, cutoff=_LONGEST_CHAIN)
            roots = [path for end, path in paths.items() if end in KIND_OF_ROOT]
            steps = min(roots, key=len) if roots else max((path for path in paths.values() if len(path) < 4), key=len)
            names = [self._name(step) for step in steps]
            return tuple(names[1:] if words_of(names[0]) == words_of(label) else names)
        return ()

    def parents(self, label: str) -> tuple[str, ...]:
        """The classes right above those of a label itself."""
        return tuple(parent for item in self.items_of(label) for parent in self._graph.successors(item))

    def lineage(self, label: str) -> frozenset[str]:
        """What the classes of a label itself and all above them are called, in the singular; empty if none is known."""
        return frozenset[str]().union(*map(self._lineage, self.items_of(label)))

    def no_landmark(self, label: str) -> str | None:
        """The class above a label that says that it is no place, if no class of places stands above it, too."""
        items = frozenset().union(*(self._ancestors(item) for item in self.items_of(label)))
        classes = sorted((items | self.lineage(label)) & thesaurus().no_landmark)
        return classes[0] if classes and items.isdisjoint(KIND_OF_ROOT) else None

    def support(self, label: str) -> float:
        """From 1, all that stands above a label is natural, to −1, all of it is human-made; 0 where nothing is."""
        natural, human_made = self._reach(label)
        return natural - human_made

    def is_either(self, label: str) -> bool:
        """Whether what stands above a label is natural as well as human-made, by a third of it at least."""
        natural, human_made = self._reach(label)
        return min(natural, human_made) * 3 >= natural + human_made > 0

    def _reach(self, label: str) -> tuple[float, float]:
        """How often a walk up from a label ends at what is natural, and at what is human-made."""
        indices = [self._indices[item] for item in self.classes(label)]
        natural, human_made = self._reaches[indices].mean(axis=0).tolist() if indices else (0.0, 0.0)
        return natural, human_made

    def _ancestors(self, item: str) -> frozenset[str]:
        """A class and all above it."""
        import networkx as nx

        return self._ancestors_of.get(item) or self._ancestors_of.setdefault(
            item, frozenset({item, *nx.descendants(self._graph, item)})
        )

    def _lineage(self, item: str) -> frozenset[str]:
        return frozenset(class_key(self._name(parent)) or parent for parent in self._ancestors(item))

    def name(self, label: str) -> str:
        """What a label's class is called here, if the source gives it one: so labels of other languages get a name."""
        return next((self.names[item] for item in self._given(label) if words_of(self.names.get(item, ""))), label)

    def text(self, label: str) -> str:
        """What to encode for a label: its name, and behind a name that the list lacks the nearest known class above.

        With "onsen" below "hot spring": "onsen" → "onsen hot spring".
        """
        name, noun = self.name(label), self.noun_above(label)
        return name if parse(name).certain or noun is None else f"{name} {noun}"

    def noun_above(self, label: str) -> str | None:
        """What the nearest class from a label's own on is called that the list knows by another head noun."""
        import networkx as nx

        head = parse(self.name(label)).head
        for item in self.classes(label)[:1]:
            distances = nx.single_source_shortest_path_length(self._graph, item, cutoff=_LONGEST_CHAIN)
            names = map(self._name, distances)
            return next((name for name in names if parse(name).certain and parse(name).head != head), None)
        return None

    def ancestors(self, labels: Iterable[str]) -> frozenset[str]:
        """The classes that labels stand for, and all above them."""
        items = {item for label in labels for item in self.classes(label)}
        return frozenset[str]().union(*map(self._ancestors, items))

    def join(self, labels: Sequence[str], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors of labels, with where their walks lead beside them; unchanged in their cosines without any."""
        walks = self.walks(labels)
        return unit_rows(np.hstack([np.sqrt(1 - WALK_WEIGHT) * vectors, np.sqrt(WALK_WEIGHT) * walks]), labels)

    def walks(self, labels: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32: where walks from each label lead, unit rows, or zeros for labels outside the graph."""
        from scipy.sparse import vstack
        from sklearn.preprocessing import normalize

        starts = [self.classes(label) for label in labels]
        row_of = {start: row for row, start in enumerate(dict.fromkeys(((), *starts)))}
        distinct_starts = list(row_of)[1:]  # equal or empty rows would leave the last dimensions to chance
        if not distinct_starts:
            return np.zeros((len(labels), 1), dtype=np.float32)
        blocks = (distinct_starts[row : row + _ROWS] for row in range(0, len(distinct_starts), _ROWS))
        visits = vstack([self._visits(block) for block in blocks])
        coordinates = truncated_svd(visits, min(_DIMENSIONS, *visits.shape))
        rows = np.vstack([np.zeros(coordinates.shape[1]), normalize(coordinates)])
        return np.asarray(rows[[row_of[start] for start in starts]], dtype=np.float32)

    def _visits(self, starts: Sequence[Sequence[str]]) -> Any:
        """Square roots of how often walks from each row's classes visit each class, unit rows."""
        from scipy.sparse import csr_matrix
        from sklearn.preprocessing import normalize

        walkers = np.zeros((len(self._indices), len(starts)), dtype=np.float32)
        for column, items in enumerate(starts):
            walkers[[self._indices[item] for item in items], column] = 1 / max(len(items), 1)
        visits = walkers.copy()
        for _ in range(_STEPS):
            walkers = _GOES_ON * (self._steps @ walkers)
            visits += walkers
        visits[visits < _LEAST] = 0
        return normalize(csr_matrix(np.sqrt(visits.T)))

    @cached_property
    def _graph(self) -> nx.DiGraph[str]:
        import networkx as nx

        return nx.DiGraph(edge for edge in self.edges if edge[0] != edge[1])

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {item: index for index, item in enumerate(self._graph)}

    @cached_property
    def _steps(self) -> Any:
        """From each column's class to its parents and children, with equal chances."""
        from networkx import to_scipy_sparse_array
        from sklearn.preprocessing import normalize

        adjacency = to_scipy_sparse_array(self._graph.to_undirected()).astype(np.float32)
        return normalize(adjacency.tocsc(), norm="l1", axis=0)

    @cached_property
    def _ancestors_of(self) -> dict[str, frozenset[str]]:
        return {}

    @cached_property
    def _reaches(self) -> NDArray[np.float64]:
        """How often a walk up from each class ends at a natural one, and at a human-made one."""
        from networkx import to_scipy_sparse_array
        from sklearn.preprocessing import normalize

        parents = normalize(to_scipy_sparse_array(self._graph).astype(np.float64), norm="l1")
        kinds = np.array([KIND_OF_ROOT.get(item, 0) for item in self._graph])
        ends = np.stack([kinds == 1, kinds == -1], axis=1).astype(np.float64)
        reaches = ends
        for _ in range(_STEPS_UP):
            reaches = np.where(kinds[:, None] != 0, ends, _GOES_ON * (parents @ reaches))
        return reaches

    @cached_property
    def _named(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        items_of_words: dict[tuple[str, ...], tuple[str, ...]] = {}
        for item in self._graph:
            if tokens := words_of(self._name(item)):
                items_of_words[tokens] = (*items_of_words.get(tokens, ()), item)
        return items_of_words

    @cached_property
    def _below_roots(self) -> frozenset[str]:
        import networkx as nx

        roots = [root for root in KIND_OF_ROOT if root in self._graph]
        return frozenset(roots).union(*(nx.ancestors(self._graph, root) for root in roots))

    def _name(self, item: str) -> str:
        return self.names.get(item) or item


def _heads_of(label: str) -> Iterator[tuple[str, ...]]:
    """What a label ends in, but for a head noun alone that says little."""
    endings = list(head_endings(label))
    yield from (tokens for tokens in endings[1:] if len(tokens) > 1 or tokens[0] not in thesaurus().light)


def _names_of(label: str) -> Iterator[tuple[str, ...]]:
    yield from _heads_of(label)
    phrase = parse(label)
    if phrase.sense is not None and phrase.certain:
        yield words_of(phrase.sense)


def read_hypernyms(
    table: AnyPath | Sequence[Sequence[str]] = (), *, items: Mapping[str, Sequence[str]] | None = None
) -> Hypernyms:
    """The edges of a table, and those of ``place_classes.parquet`` for the classes that it lacks.

    Args:
        table: child_qid, child_label, parent_qid, parent_label and source of edges, or a file of them, perhaps without
            their source; default: none.
        items: the classes that labels stand for.
    """
    edges: dict[tuple[str, str], str] = {}
    names: dict[str, str] = {}
    with as_file(PLACE_CLASSES) as file:
        shipped = list(_rows(file))
    for rows in (_rows(table) if isinstance(table, str | os.PathLike) else table, shipped):
        earlier_children = {child for child, _ in edges}
        for child, child_name, parent, parent_name, source in rows:
            if child not in earlier_children:
                edges.setdefault((child, parent), source)
                for item, name in ((child, child_name), (parent, parent_name)):
                    if name:
                        names.setdefault(item, name)
    return Hypernyms(edges, names, items or {})


def _rows(path: AnyPath) -> Iterator[tuple[str, ...]]:
    table = read_table(path, required=EDGE_COLUMNS).reindex(columns=[*EDGE_COLUMNS, SOURCE_COLUMN], fill_value="")
    for line, *cells in table.itertuples(name=None):
        child, child_name, parent, parent_name, source = (cell.strip() for cell in cells)
        if not child or not parent:
            raise TableError(f"{path}, line {line}: an edge from {child!r} to {parent!r}", expected="two ids")
        yield child, child_name, parent, parent_name, source


def write_hypernyms(path: AnyPath, hypernyms: Hypernyms, labels: Iterable[str]) -> None:
    """Write the edges that lead up from the classes of labels."""
    children, names = hypernyms.ancestors(labels), hypernyms.names
    edges = ((*edge, source) for edge, source in hypernyms.edges.items() if edge[0] in children)
    rows = ((child, names.get(child), parent, names.get(parent), source) for child, parent, source in edges)
    write_table(path, (*EDGE_COLUMNS, SOURCE_COLUMN), rows)
