"""Make ``place_classes.parquet``, the part of Wikidata's "subclass of" graph that comes with hiertree.

``python scripts/place_classes.py edges.csv`` takes the classes below *geographical object* and *architectural
structure* from a table of child_qid, child_label, parent_qid and parent_label; Wikidata is CC0.
"""

from __future__ import annotations

import sys

import networkx as nx

from hiertree.io.tables import read_table
from hiertree.pipelines.labels.encode.hypernyms import EDGE_COLUMNS, KIND_OF_ROOT, PLACE_CLASSES, SOURCE_COLUMN

TOP = "Q27096213", "Q618123", *KIND_OF_ROOT  # geographic entity, geographical object
SOURCE = (
    "Wikidata 2021, by usc-isi-i2/kgtk-notebooks e654c8f",
    "Wikidata 2013, by notconfusing/wikidata-subclass-chains a811215",
)


def main(edges: str) -> None:
    table = read_table(edges, required=EDGE_COLUMNS)
    graph = nx.from_pandas_edgelist(table, "child_qid", "parent_qid", create_using=nx.DiGraph)
    below = set(TOP).union(*(nx.ancestors(graph, top) for top in TOP if top in graph))
    kept = table[table["child_qid"].isin(below) & table["parent_qid"].isin(below)]
    kept = kept.assign(**{SOURCE_COLUMN: kept[SOURCE_COLUMN].map(dict(zip("12", SOURCE, strict=True)))})
    kept[[*EDGE_COLUMNS, SOURCE_COLUMN]].to_parquet(PLACE_CLASSES, index=False, compression="zstd")
    print(f"{PLACE_CLASSES}: {len(kept)} edges")


if __name__ == "__main__":
    main(sys.argv[1])
