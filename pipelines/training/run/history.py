"""The curve of a run: one row per epoch in ``history.jsonl``; the same, and every step, in a logger of Lightning."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from hiertree.errors import CheckpointError, MissingPackageError, require_package
from hiertree.io import files
from hiertree.io.reading import read_text, reading_file

from ..recipe.schema import Recipe


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write all rows, one JSON object per line."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    files.write_text(path, "".join(f"{line}\n" for line in lines))


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read ``history.jsonl``: epoch, step, loss and its terms, lr, speed, and metrics of epochs that were evaluated."""
    expected = "lines that `hiertree train` wrote"
    lines = read_text(path, kind=CheckpointError).splitlines()
    with reading_file(path, expected=expected, kind=CheckpointError):
        return [dict(json.loads(line)) for line in lines]


class RunLog:
    """Every step and epoch of a run, by Lightning's logger that the recipe names; ``folder`` None logs nothing."""

    def __init__(self, recipe: Recipe, folder: Path | None, *, step: int) -> None:
        self._logger = None if folder is None else _logger(recipe, folder, step)

    def add(self, values: Mapping[str, float], *, group: str, step: int) -> None:
        """Log numbers under ``group/name``."""
        if self._logger is not None:
            self._logger.log_metrics({f"{group}/{name}": value for name, value in values.items()}, step)

    def close(self) -> None:
        """Write pending data."""
        if self._logger is not None:
            self._logger.finalize("success")


def _logger(recipe: Recipe, folder: Path, step: int) -> Any:
    """The logger, or None; TensorBoard hides what a killed process logged of later steps than ``step``."""
    kind, place = recipe.training.logger, os.fspath(folder)
    if kind == "none":
        return None
    if kind == "tensorboard":
        require_package("tensorboard", extra="train")
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        return TensorBoardLogger(folder / "tensorboard", name="", version="", purge_step=step + 1)
    if kind == "csv":
        from lightning_fabric.loggers.csv_logs import CSVLogger

        return CSVLogger(place, name="csv", version=f"from-step-{step + 1}", flush_logs_every_n_steps=1)
    require_package("lightning", extra="interop")
    from lightning.pytorch.loggers import MLFlowLogger, WandbLogger

    try:
        if kind == "mlflow":
            here = f"sqlite:///{folder.resolve() / 'mlflow.db'}"  # MLflow 3 has given up folders of files
            return MLFlowLogger(
                "hiertree", run_name=recipe.name, tracking_uri=os.environ.get("MLFLOW_TRACKING_URI", here)
            )
        run = sha256(f"{folder.resolve()} {recipe.fingerprint()}".encode()).hexdigest()[:16]
        return WandbLogger(recipe.name, save_dir=place, id=run, project="hiertree", resume="allow")
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"training.logger={kind}: {kind} is missing", remedy=f"pip install {kind}") from error
