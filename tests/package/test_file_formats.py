"""The table of files in docs/datasets.md names what the readers take."""

from __future__ import annotations

import re

import pytest
from project import ROOT

from hiertree.io.tables import PACKED_SUFFIXES, TABLE_SUFFIXES
from hiertree.metrics.runs import READERS
from hiertree.pipelines.cli.tree import TREE_SUFFIXES
from hiertree.pipelines.stored_embeddings.embeddings_files import SUFFIXES
from hiertree.pipelines.stored_embeddings.judged_pairs import TRUTH_SUFFIXES

FILES = {
    "tables of labels, images or edges": {*TABLE_SUFFIXES, *PACKED_SUFFIXES},
    "embeddings": {*SUFFIXES},
    "ranked lists, judgments": {*READERS, ".npy"} - {*TABLE_SUFFIXES},
    "judgments of pairs": {*TRUTH_SUFFIXES},
    "trees": {*TREE_SUFFIXES},
}


@pytest.mark.parametrize("row", FILES)
def test_the_table_of_files_names_what_the_readers_take(row):
    lines = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {row} |")]
    assert set(re.findall(r"`(\.[a-z0-9]+)`", line)) == FILES[row]
