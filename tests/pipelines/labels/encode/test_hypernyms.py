"""Hypernyms: what stands above labels, in graphs with cycles, homonyms and several parents."""

import numpy as np
import pytest

from hiertree.errors import TableError
from hiertree.pipelines.labels.encode.hypernyms import Hypernyms, read_hypernyms, write_hypernyms

STRUCTURE, LANDFORM = "Q811979", "Q35145263"
NAMES = {
    STRUCTURE: "architectural structure",
    LANDFORM: "natural geographic object",
    "Q1": "lighthouse",
    "Q2": "tower",
    "Q3": "bay",
    "Q4": "bay",  # the color of a horse
    "Q5": "color",
    "Q6": "minaret",
    "Q7": "inlet",
}
EDGES = (
    ("Q1", "Q2"),
    ("Q2", STRUCTURE),
    ("Q6", "Q2"),
    ("Q4", "Q5"),
    ("Q3", "Q7"),
    ("Q7", LANDFORM),
    (STRUCTURE, STRUCTURE),
    (LANDFORM, "Q7"),  # a cycle
)


def made(edges, names=NAMES, items=None):
    return Hypernyms(dict.fromkeys(edges, "api"), names, items or {})


@pytest.fixture
def graph():
    return made(EDGES)


def test_a_label_has_the_chain_to_the_class_that_says_its_kind(graph):
    assert graph.chain("lighthouse") == ("tower", "architectural structure")
    assert graph.chain("inlet") == ("natural geographic object",)
    assert graph.chain("railway station") == ()
    assert made((*EDGES, ("Q20", "Q21")), {**NAMES, "Q20": "₹"}).chain("studio glass") == ()  # a name without words


def test_a_compound_stands_below_its_head_noun(graph):
    assert graph.chain("Lighthouses of Brazil") == ("lighthouse", "tower", "architectural structure")
    assert graph.classes("co-minaret of a mosque") == ("Q6",)


def test_all_ways_up_say_a_kind_and_near_ones_say_more(graph):
    supports = [graph.support(label) for label in ("lighthouse", "inlet", "quay")]
    assert supports == pytest.approx([-(0.85**2), 0.85, 0])
    first_graph, second_graph = (made((*EDGES, ("Q1", parent))).support("lighthouse") for parent in ("Q7", LANDFORM))
    assert first_graph == pytest.approx(0)  # as far to either kind
    assert second_graph == pytest.approx(0.85 * (1 - 0.85) / 2)


def test_of_homonyms_the_place_counts_and_a_scraped_id_before_either(graph):
    assert graph.classes("bay") == ("Q3",)
    assert made(EDGES, items={"bay": ("Q4",)}).classes("bay") == ("Q4",)


def test_a_label_is_read_by_the_name_of_its_class_and_by_the_noun_above_what_the_list_lacks():
    names = {**NAMES, "Q8": "onsenkan", "Q9": "hot spring"}
    graph = made((*EDGES, ("Q8", "Q9"), ("Q9", LANDFORM)), names, {"phare": ("Q1",), "温泉館": ("Q8",)})
    texts = [graph.text(label) for label in ("phare", "温泉館", "onsenkan", "phare rouge", "lighthouse")]
    assert texts == ["lighthouse", "onsenkan hot spring", "onsenkan hot spring", "phare rouge", "lighthouse"]


def test_the_classes_that_come_along_serve_what_a_table_lacks(tmp_path):
    table = tmp_path / "edges.csv"
    table.write_text("child_qid,child_label,parent_qid,parent_label\nQ39715,lighthouse,Q1,odd thing\n")
    graph = read_hypernyms(table, items={"étang": ("Q3253281",)})
    assert graph.chain("lighthouse") == ("odd thing",)
    assert graph.text("étang") == "pond"
    assert graph.chain("suspension bridge")[0] == "bridge"
    assert all("Wikidata 20" in source for source in read_hypernyms().edges.values())


def test_labels_near_in_the_graph_are_alike_whatever_their_letters(graph):
    labels = ["lighthouse", "minaret", "inlet", "quay"]
    groups = graph.join(labels, np.eye(4, dtype=np.float32))
    cosines = groups @ groups.T
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-6)
    assert cosines[0, 1] > 0.1 > cosines[0, 2]
    assert cosines[3, :3].max() == 0  # it is not in the graph


def test_only_what_stands_above_the_labels_is_written_and_read_again(graph, tmp_path):
    write_hypernyms(tmp_path / "edges.csv", graph, ["lighthouse", "inlet"])
    header, *rows = (tmp_path / "edges.csv").read_text().splitlines()
    assert (header, rows[0]) == ("child_qid,child_label,parent_qid,parent_label,source", "Q1,lighthouse,Q2,tower,api")
    assert len(rows) == len(EDGES) - 3
    hypernyms = read_hypernyms(tmp_path / "edges.csv")
    assert not {("Q6", "Q2"), ("Q4", "Q5"), ("Q3", "Q7")} & set(hypernyms.edges)
    assert hypernyms.chain("lighthouse") == graph.chain("lighthouse")


def test_an_edge_without_an_end_is_refused_with_its_line(tmp_path):
    (tmp_path / "edges.csv").write_text("child_qid,child_label,parent_qid,parent_label\nQ1,lake,Q2,water\nQ1,lake,,\n")
    with pytest.raises(TableError, match=r"edges\.csv, line 3"):
        read_hypernyms(tmp_path / "edges.csv")


def walks_below(parents, labels):
    """The walks from labels right below parents: many singular values are alike."""
    edges = tuple((f"Q{index}", f"P{index % parents}") for index in range(labels))
    items = {f"label {index}": (f"Q{index}",) for index in range(labels)}
    return made(edges, {}, items).walks(list(items))


@pytest.mark.parametrize("parents", [1, 100])
def test_a_shallow_table_gives_800_labels_the_same_walks_every_time(parents):
    walks = walks_below(parents, 800)
    assert np.isfinite(walks).all()
    assert np.array_equal(walks, walks_below(parents, 800))


def test_a_label_that_only_the_list_knows_has_no_chain_of_wikidatas():
    graph = read_hypernyms()
    assert (graph.classes("fresco"), graph.chain("fresco")) == (graph.classes("monument"), ())
    assert graph.chain("town hall")[0] == "hall"
