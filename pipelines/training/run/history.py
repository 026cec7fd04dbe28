"""The curve of a run: one row per epoch in ``history.jsonl``; the same, and every step, in a logger of Lightning."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from hiertree.errors import CheckpointError, HiertreeError, MissingPackageError, MissingResourceError, require_package
from hiertree.io import files
from hiertree.io.reading import read_text, reading_file, reading_json

from ..recipe.settings import Recipe

TRACKER = "tracker.json"


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


_WORDS = str.maketrans({"@": " at ", "[": " level ", "(": " with ", "=": " is ", "]": "", ")": ""})


def plain_name(name: str) -> str:
    """A metric's name in the letters that MLflow takes; different names stay different.

    >>> plain_name("test/R@1[2]"), plain_name("test/R@12"), plain_name("H-AP(alpha=3)")
    ('test/R at 1 level 2', 'test/R at 12', 'H-AP with alpha is 3')
    """
    return name.translate(_WORDS)


class RunLog:
    """Every step and epoch of a run, by Lightning's logger that the recipe names; ``folder`` None logs nothing.

    Settings are logged when the run begins. A run that goes on stays one run of MLflow and of W&B: ``tracker.json`` has
    its id. A tracker that fails later, on a full disk for instance, warns once and logs no more; ``history.jsonl`` is
    whole.
    """

    def __init__(self, recipe: Recipe, folder: Path | None, *, step: int) -> None:
        self._kind, self._folder = recipe.training.logger, folder
        try:
            self._logger = None if folder is None else _logger(recipe, folder, step)
        except HiertreeError:
            raise
        except Exception as error:  # whatever trackers raise
            problem = f"training.logger={self._kind} in {folder} ({error})"
            remedy = "correct its settings, or set training.logger=none"
            raise MissingResourceError(problem, expected="a tracker that takes the run", remedy=remedy) from error

    def add(self, values: Mapping[str, float], *, group: str, step: int) -> None:
        """Log numbers under ``group/name``."""
        metrics = {f"{group}/{name}": value for name, value in values.items()}
        if self._kind == "mlflow":
            metrics = {plain_name(name): value for name, value in metrics.items()}
        self._call("log_metrics", metrics, step)

    def close(self) -> None:
        """Write pending data."""
        self._call("finalize", "success")

    def _call(self, method: str, *arguments: Any) -> None:
        if self._logger is None:
            return
        try:
            getattr(self._logger, method)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever trackers raise: a long run does not end by it
            self._logger = None
            cause = error.__cause__ or error  # Lightning blames the number for whatever fails, a full disk too
            print(
                f"warning: {self._kind} logs no more in {self._folder} ({cause}); history.jsonl goes on",
                file=sys.stderr,
            )


def _logger(recipe: Recipe, folder: Path, step: int) -> Any:
    """The logger, or None; TensorBoard hides what a killed process logged of later steps than ``step``."""
    kind, settings = recipe.training.logger, recipe.as_dict()
    if kind == "none":
        return None
    if kind == "tensorboard":
        require_package("tensorboard", extra="train")
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        board = TensorBoardLogger(folder / "tensorboard", name="", version="", purge_step=step + 1)
        if step == 0:
            board.experiment.add_text("recipe", f"```yaml\n{yaml.safe_dump(settings, sort_keys=False)}```")
        return board
    require_package("lightning", extra="interop")
    from lightning.pytorch.loggers import MLFlowLogger, WandbLogger

    default_server = f"sqlite:///{folder.resolve() / 'mlflow.db'}"  # MLflow 3 has given up folders of files
    server = os.environ.get("MLFLOW_TRACKING_URI", default_server) if kind == "mlflow" else ""
    run = _tracked_run(folder, kind, server)
    try:
        if kind == "mlflow":
            logger: Any = MLFlowLogger("hiertree", run_name=recipe.name, tracking_uri=server, run_id=run)
        else:
            name = run or uuid4().hex
            logger = WandbLogger(recipe.name, save_dir=os.fspath(folder), id=name, project="hiertree", resume="allow")
        if run is None:
            logger.log_hyperparams(settings)
            files.write_json(folder / TRACKER, {"logger": kind, "server": server, "run": str(logger.version)})
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"training.logger={kind}: {kind} is missing", remedy=f"pip install {kind}") from error
    return logger


def _tracked_run(folder: Path, kind: str, server: str) -> str | None:
    """The id of the run that was begun there on this server, if one was."""
    if not (folder / TRACKER).is_file():
        return None
    remedy = "remove it; the run goes on as a new one of the tracker"
    with reading_json(
        folder / TRACKER, expected="the id of a tracked run", remedy=remedy, kind=CheckpointError
    ) as record:
        return str(record["run"]) if (record["logger"], record["server"]) == (kind, server) else None
