"""Evaluations as any number of processes share them, in a module that a process started anew can import."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiertree.arrays import StoredRows
from hiertree.errors import HiertreeError
from hiertree.metrics import evaluate
from hiertree.metrics.engine import compute, shared, similarity

QUERIES, ITEMS = 70, 423


def cases(folder: Path) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Retrievals by name: what is evaluated, and with which options."""
    random = np.random.default_rng(4)
    leaf = random.integers(0, 40, ITEMS)
    paths = np.stack([leaf // 10, leaf // 3, leaf], axis=1)
    items = random.standard_normal((ITEMS, 12)).astype(np.float32)
    items[200:260] = items[50:110]  # equal vectors in parts of several processes
    queries, of_queries = items[:QUERIES] + random.standard_normal((QUERIES, 12)).astype(np.float32), paths[:QUERIES]
    integers = random.integers(-2, 3, (ITEMS, 12)).astype(np.float32)
    integers[~integers.any(axis=1)] = 1
    mapped = folder / "items.npy"
    if not mapped.exists():
        np.save(mapped, items)
    two_sides = [queries, of_queries, items, paths]
    junk = [random.integers(0, ITEMS, 5) for _ in range(QUERIES)]
    yield "of themselves", [items, paths], {}
    yield "a gallery", two_sides, {}
    yield "by index", two_sides, {"ties": "index"}
    yield "of themselves, by index", [integers, paths], {"ties": "index"}
    yield "integers", [integers, paths], {"ties": "worst"}
    yield "double", [items.astype(np.float64), paths], {"metrics": ["H-AP", "NDCG@10", "first-error[1]"]}
    yield "tiles", [items, paths], {"tile_size": 100}
    yield "blocks", [items, paths], {"tile_size": 64, "block_size": 16}
    yield "masked", two_sides, {"junk": junk, "query_ids": of_queries[:, 2], "gallery_ids": paths[:, 2] + 1}
    yield "distractors", two_sides, {"distractors": np.arange(ITEMS) % 7 == 0}
    yield "the first hit dropped", [items, paths], {"compat": "revisitop"}
    yield "a map", [items, paths, np.load(mapped, mmap_mode="r"), paths], {"tile_size": 100}
    yield "on a device", two_sides, {"device": "cpu", "tile_size": 50}
    yield "on a device, by index", [integers, paths], {"device": "cpu", "tile_size": 60, "ties": "index"}
    yield "rounded", [items, paths], {"device": "cpu", "tile_size": 60, "precision": "bfloat16"}


def make_small() -> None:
    """Small products and parts, so that few items are divided as millions are."""
    similarity.PRODUCT_ITEMS, similarity.LONGEST_TILE = 32, 64
    similarity.LARGEST_COPY = shared.LARGEST_COPY = 0
    compute.PRODUCT_ROWS = 16


class Rows(StoredRows):
    """Rows that count as a file's; which were read is noted."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.shape, self._array, self.identity, self.read = array.shape, array, "", list[int]()

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        self.read += np.arange(len(self))[rows].tolist()
        return self._array[rows]


def evaluate_all(folder: Path, **options: Any) -> dict[str, Any]:
    """The values of each case."""
    return {name: evaluate(*inputs, **switches, **options).values.tobytes() for name, inputs, switches in cases(folder)}


def take_part(rank: int, numbers: Sequence[int], folder: str) -> None:
    """In groups of so many processes, evaluate all cases together, and save what was found."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    make_small()
    for number in numbers:
        if rank < number:
            meeting = f"file://{folder}/meeting-{number}"
            distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=number)
            results = evaluate_all(Path(folder), distributed=True) | _more(Path(folder), rank)
            Path(folder, f"{rank} of {number}.pickle").write_bytes(pickle.dumps(results))
            distributed.destroy_process_group()


def _more(folder: Path, rank: int) -> dict[str, Any]:
    """With finished blocks of a group before; of rows that are read when asked for; and of a damaged one."""
    from torch import distributed

    items, paths = next(iter(cases(folder)))[1]
    run = folder / "run"
    if rank == 0 and (block_files := sorted(run.glob("*.npy"))):
        block_files[len(block_files) // 2].unlink()
    distributed.barrier()
    rows, broken = Rows(items), Rows(np.where(np.arange(ITEMS)[:, None] == 300, np.nan, items))
    results: dict[str, Any] = {
        "resumed": evaluate(items, paths, resume=run, block_size=48, distributed=True).values.tobytes(),
        "in parts": evaluate(rows, paths, distributed=True).values.tobytes(),
        "read": sorted(rows.read[1:]),  # after the first, which tells the type
    }
    results["not finite"] = _refused(broken, paths)
    results["other embeddings"] = _refused(items + np.float32(rank), paths)
    return results


def _refused(*given: Any) -> str:
    try:
        evaluate(*given, distributed=True)
    except HiertreeError as error:
        return f"{type(error).__name__}: {error}"
    return ""
