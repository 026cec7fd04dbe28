"""Evaluations that go on where they were interrupted."""

from __future__ import annotations

import numpy as np
import pytest

from hiertree.errors import CheckpointError
from hiertree.io.parts import PartStore
from hiertree.metrics import evaluate
from hiertree.metrics.engine import compute


@pytest.fixture
def retrieval():
    random = np.random.default_rng(0)
    paths = np.stack([np.arange(50) // 25, np.arange(50) // 5], axis=1)
    return random.standard_normal((50, 6)).astype(np.float32), paths


def test_an_interrupted_evaluation_goes_on_from_its_finished_blocks(retrieval, tmp_path, monkeypatch):
    monkeypatch.setattr(compute, "PRODUCT_ROWS", 16)
    expected = evaluate(*retrieval)
    blocks: list[int] = []
    save = PartStore.save

    def interrupted(complete, rows, values):
        if len(blocks) == 1:
            raise KeyboardInterrupt
        blocks.append(rows.start)
        save(complete, rows, values)

    with monkeypatch.context() as patched:
        patched.setattr(PartStore, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            evaluate(*retrieval, resume=tmp_path)
    assert [part.name for part in tmp_path.glob("queries-*.npy")] == ["queries-000000000-000000016.npy"]
    blocks[:] = [-1, -1]
    with monkeypatch.context() as patched:
        patched.setattr(PartStore, "save", lambda finished, rows, values: blocks.append(rows.start))
        np.testing.assert_array_equal(evaluate(*retrieval, resume=tmp_path).values, expected.values)
    assert sorted(blocks) == [-1, -1, 16, 32, 48]  # the first block is read


def test_the_blocks_of_another_evaluation_are_refused(retrieval, tmp_path):
    embeddings, paths = retrieval
    evaluate(embeddings, paths, resume=tmp_path)
    reversed_embeddings = embeddings.copy()
    reversed_embeddings[0, 0] += 1e-3
    for words, arguments, options in (
        ("embeddings", (reversed_embeddings, paths), {}),
        ("labels", (embeddings, paths[::-1].copy()), {}),
        ("metrics", (embeddings, paths), {"ties": "worst"}),
        ("metrics", (embeddings, paths), {"alpha": 2.0}),
        ("mask", (embeddings, paths), {"junk": [[(query + 1) % 50] for query in range(50)]}),
    ):
        with pytest.raises(CheckpointError, match=words):
            evaluate(*arguments, **options, resume=tmp_path)


def test_a_damaged_block_is_named(retrieval, tmp_path):
    evaluate(*retrieval, resume=tmp_path)
    block = next(tmp_path.glob("queries-*.npy"))
    content = block.read_bytes()
    flipped = bytearray(content)
    for damaged in (content[:50], content[:-1], content + b"\0", b""):
        block.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=f"{block.name} cannot be read.*remove it"):
            evaluate(*retrieval, resume=tmp_path)
    for bit in np.random.default_rng(0).integers(0, 8 * len(content), 20):
        flipped[bit // 8] ^= 1 << (bit % 8)
        block.write_bytes(flipped)
        with pytest.raises(CheckpointError, match="cannot be read"):
            evaluate(*retrieval, resume=tmp_path)
        flipped[bit // 8] ^= 1 << (bit % 8)
    block.unlink()
    np.testing.assert_array_equal(evaluate(*retrieval, resume=tmp_path).values, evaluate(*retrieval).values)
