"""Encoders by name."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from hiertree.errors import MissingResourceError, OptionError, TableError
from hiertree.pipelines.labels import EncoderSettings, PlaceNounEncoder, text_encoder
from hiertree.pipelines.labels.encode.text_encoders import SentenceEncoder, truncated_svd


@pytest.mark.parametrize("shape", [(60, 90), (90, 60), (3, 2), (41, 40), (540, 530)])
@pytest.mark.parametrize("dimensions", [1, 30, 90])
def test_rows_keep_the_cosines_of_a_dense_singular_value_decomposition(shape, dimensions):
    features = scipy.sparse.random(*shape, density=0.3, random_state=0, format="csr")
    rank = min(dimensions, *shape)
    left, values, _ = np.linalg.svd(features.toarray())
    slow = left[:, :rank] * values[:rank]
    projections = truncated_svd(features, rank)
    assert projections.shape == (shape[0], rank)
    assert np.allclose(projections @ projections.T, slow @ slow.T, atol=1e-10)
    assert np.array_equal(projections, truncated_svd(features, rank))


TYPES = ["lake", "church building", "waterfall", "museum", "castle", "glacial lake", "road bridge", "ferry ship"]


@pytest.mark.parametrize("count", range(1, len(TYPES) + 1))
def test_as_many_labels_as_differ_keep_their_cosines_and_stay_different(count):
    encoder, texts = PlaceNounEncoder(), [*TYPES[:count], TYPES[0]]
    features = encoder._features(texts).toarray()
    vectors = encoder.encode(texts)
    assert np.allclose(vectors @ vectors.T, features @ features.T, atol=1e-6)
    assert len(np.unique(np.round(vectors @ vectors.T, 4), axis=0)) == count


def test_encoders_are_made_by_name(tmp_path):
    assert text_encoder(EncoderSettings()).settings() == PlaceNounEncoder().settings()
    clip = text_encoder(EncoderSettings(encoder="clip", prompts=["a {label}"], batch_size=7))
    assert clip.settings()["prompts"] == ["a {label}"]
    sentences = text_encoder(EncoderSettings(encoder="sentence-transformers", prompts=["a {label}"]))
    assert sentences.settings()["model"] == "all-MiniLM-L6-v2"
    with pytest.raises(OptionError, match="'word2vec'"):
        EncoderSettings(encoder="word2vec")
    with pytest.raises(OptionError, match="templates with"):
        EncoderSettings(encoder="sentence-transformers", prompts=["a place"])
    with pytest.raises(OptionError, match="templates with"):
        EncoderSettings(prompts=["a place"])
    with pytest.raises(OptionError, match="none with the encoder place-nouns"):
        EncoderSettings(prompts=["a {label}"])
    for settings in ({"encoder": "vectors"}, {"vectors": tmp_path / "t.parquet"}):
        with pytest.raises(OptionError, match="a table if one of the encoders is vectors"):
            EncoderSettings(**settings)


def _encode(folder, vectors, texts):
    table = folder / "vectors.parquet"
    pq.write_table(pa.table({"label": list(vectors), "vector": list(vectors.values())}), table)
    return text_encoder(EncoderSettings(encoder="vectors", vectors=table)).encode(texts)


def test_a_label_of_a_table_has_its_vector_and_another_the_mean_of_its_longest_parts(tmp_path):
    vectors = {
        "natural arch": [2.0, 0.0],
        "arch": [0.0, 9.0],
        "Bridge": [0.0, 0.5],
        "bridge": [1.0, 0.0],
        "silent": [0.0, 0.0],
    }
    texts = ["Natural arch", "old natural arch bridge", "onsen", "silent", "ryokan"]
    encoded = _encode(tmp_path, vectors, texts)
    assert np.allclose(encoded[:2], [[1, 0, 0], [0.5**0.5, 0.5**0.5, 0]])
    assert np.allclose(encoded[2:], [[0, 0, 1]] * 3)
    assert encoded.dtype == np.float32


def test_a_table_of_vectors_that_cannot_serve_says_why(tmp_path):
    with pytest.raises(TableError, match="no vector for any of 1 texts"):
        _encode(tmp_path, {"lake": [1.0]}, ["abbey"])
    with pytest.raises(TableError, match="several lengths"):
        _encode(tmp_path, {"lake": [1.0], "pond": [1.0, 2.0]}, ["lake"])
    with pytest.raises(TableError, match="not finite"):
        _encode(tmp_path, {"lake": [1.0, float("nan")]}, ["lake"])
    table = tmp_path / "other.parquet"
    pq.write_table(pa.table({"label": ["lake"], "embedding": [[1.0]]}), table)
    with pytest.raises(TableError, match="has no column 'vector'"):
        text_encoder(EncoderSettings(encoder="vectors", vectors=table)).encode(["lake"])


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingResourceError, match=r'pip install "hiertree\[sentences\]"'):
        text_encoder(EncoderSettings(encoder="sentence-transformers")).encode(["lake"])


def test_a_model_that_names_code_of_its_own_is_refused_before_it_is_loaded(tmp_path):
    (tmp_path / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "evil.Module"}]')
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(OptionError, match=r"names the code 'evil\.Module'"):
        SentenceEncoder(str(tmp_path)).encode(["lake"])
