"""An evaluation as two processes share it, in a module that a process started anew can import."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from hiertree.errors import ShapeError
from hiertree.metrics import evaluate

PROCESSES = 2


def retrieval() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    random = np.random.default_rng(3)
    paths = np.stack([np.arange(600) // 60, np.arange(600) // 7], axis=1)
    return random.standard_normal((600, 8), dtype=np.float32), paths


def share_of_an_evaluation(rank: int, folder: str, backend: str, device: str) -> None:
    """Save the values found by numpy, on a device, with a folder of blocks and from it, and what was refused."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    distributed.init_process_group(backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    embeddings, paths = retrieval()
    resumed = {"resume": Path(folder, "run"), "block_size": 256}
    options = ({}, {"device": device}, resumed, resumed)
    values = [evaluate(embeddings, paths, distributed=True, **chosen).values for chosen in options]
    np.save(Path(folder, f"{rank}.npy"), values)
    try:
        evaluate(embeddings + np.float32(rank), paths, distributed=True)
    except ShapeError as error:
        Path(folder, f"{rank}.txt").write_text(str(error))
    distributed.destroy_process_group()
