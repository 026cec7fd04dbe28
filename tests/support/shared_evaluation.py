"""An evaluation and a metric as two processes share them, in a module that a process started anew can import."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from hiertree.errors import OptionError, ShapeError
from hiertree.metrics import RetrievalMetric, Rules, evaluate

PROCESSES = 2


def retrieval() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    random = np.random.default_rng(3)
    paths = np.stack([np.arange(600) // 60, np.arange(600) // 7], axis=1)
    return random.standard_normal((600, 8), dtype=np.float32), paths


def share_of_an_evaluation(rank: int, folder: str, backend: str, device: str) -> None:
    """Save the values found by numpy, on a device and in other blocks, and what was refused."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    distributed.init_process_group(backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    embeddings, paths = retrieval()
    options: tuple[dict[str, Any], ...] = ({}, {"device": device}, {"block_size": 256 * (rank + 1)})
    values = [evaluate(embeddings, paths, distributed=True, **case).values for case in options]
    np.save(Path(folder, f"{rank}.npy"), values)
    other_embeddings, other_rules = embeddings + np.float32(rank), Rules(empty_queries=("skip", "zero")[rank])
    for name, query, rules in (("embeddings", other_embeddings, None), ("rules", embeddings, other_rules)):
        with suppress(ShapeError):
            evaluate(query, paths, distributed=True, compat=rules)
            Path(folder, f"{rank} shares with other {name}").touch()
    distributed.destroy_process_group()


def share_of_a_metric(rank: int, folder: str) -> None:
    """Save what a torchmetrics metric finds whose items both processes have, and one whose items one of them has."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    embeddings, paths, names = torch.load(Path(folder, "retrieval.pt"), weights_only=True)
    rank_rows = torch.cat([torch.arange(rank, 40, PROCESSES), torch.tensor([0])])  # a sampler repeats an item
    metric, late = RetrievalMetric(names), RetrievalMetric(names)
    for rows in rank_rows.split(6 + rank):
        metric.update(embeddings[rows], paths[rows], ids=rows)
    if rank == 0:
        late.update(embeddings, paths)
    copies = RetrievalMetric("R@1")
    copies.update(embeddings, paths)  # as accelerate's gather_for_metrics gives them to all
    with suppress(OptionError):
        copies.compute()
        Path(folder, f"{rank} took copies").touch()
    tables = [torch.stack(list(metric_part.compute().values())) for metric_part in (metric, late)]
    torch.save([*tables, torch.tensor(metric.evaluation().values)], Path(folder, f"{rank}.pt"))
    distributed.destroy_process_group()
