"""The curve of a run: one row per epoch in ``history.jsonl``; the same, and every step, in TensorBoard's files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hiertree.errors import require_package
from hiertree.io import files


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write all rows, one JSON object per line."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    files.write_text(path, "".join(f"{line}\n" for line in lines))


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read ``history.jsonl``: epoch, step, loss and its terms, lr, speed, and metrics of epochs that were evaluated."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class TensorBoardLog:
    """TensorBoard event files, in which later values than those of ``step`` are hidden."""

    def __init__(self, folder: Path | None, *, step: int) -> None:
        require_package("tensorboard", extra="train")
        from torch.utils.tensorboard import SummaryWriter

        self._writer = None if folder is None else SummaryWriter(str(folder), purge_step=step + 1)

    def add(self, values: Mapping[str, float], *, group: str, step: int) -> None:
        """Log scalars under ``group/name``."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        """Flush and close the files."""
        if self._writer is not None:
            self._writer.close()
