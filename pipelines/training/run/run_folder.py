"""The folder of a run: what each file is called, whose run it is, and what is written when it is done."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hiertree.errors import CheckpointError, OptionError, RecipeError
from hiertree.io import files
from hiertree.io.provenance import manifest

from ...yaml_files import read_yaml
from ..network.embedder import Embedder, save_embedder
from ..recipe.reading import check_recipe
from ..recipe.schema import Recipe
from .measuring import Measured

_RESULTS = (
    "metrics.json",
    "manifest.json",
    "model.safetensors",
    "model.json",
    "embeddings.npz",
    "per_query.parquet",
    "failed_batch.npz",
    "history.jsonl",
    "recipe.yaml",
)


class RunFolder:
    """Where one experiment keeps what it makes.

    ``recipe.yaml`` (every setting, defaults included), ``history.jsonl``, ``checkpoints/``, ``tensorboard/``, and when
    it is done ``model.safetensors`` with ``model.json``, ``embeddings.npz`` and ``per_query.parquet`` of the test split
    (``embeddings-middle.npz`` and ``per_query-middle.parquet`` of a list beside it), ``manifest.json``, and last of all
    ``metrics.json``: a run with that file is finished.

    Args:
        path: the folder; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.yaml"
        self.history = path / "history.jsonl"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.metrics = path / "metrics.json"

    def require_usable(self, recipe: Recipe, *, fresh: bool) -> None:
        """See that it is a new or empty folder, or that of this very recipe.

        Args:
            recipe: the experiment.
            fresh: a run of any recipe will do, as it is about to be cleared.

        Raises:
            RecipeError: it holds a run of another recipe; the message names the settings that differ.
            OptionError: it holds something else.
        """
        if self.recipe.is_file():
            if not fresh:
                self._require_same(recipe)
        elif self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise OptionError(f"out={self.path}", expected="a new or empty folder, or that of an earlier run")

    def claim(self, recipe: Recipe) -> None:
        """Make it the folder of this recipe."""
        if not self.recipe.is_file():
            files.write_text(self.recipe, yaml.safe_dump(recipe.as_dict(), sort_keys=False, allow_unicode=True))

    def clear(self) -> None:
        """Remove an earlier run, whatever its recipe; files that no run writes stay."""
        if not self.recipe.is_file():
            return
        for folder in (self.checkpoints, self.tensorboard):
            shutil.rmtree(folder, ignore_errors=True)
        beside = [*self.path.glob("embeddings-*.npz"), *self.path.glob("per_query-*.parquet")]
        for path in [*beside, *(self.path / name for name in _RESULTS)]:
            path.unlink(missing_ok=True)

    def finished(self) -> dict[str, Any] | None:
        """The content of ``metrics.json``, or None while the run is not finished.

        Raises:
            CheckpointError: the file is damaged.
        """
        if not self.metrics.is_file():
            return None
        try:
            content = json.loads(self.metrics.read_text(encoding="utf-8"))
            return {**content, "metrics": dict(content["metrics"])}
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.metrics} ({error!r})", expected="the metrics of a finished run") from error

    def finish(
        self, recipe: Recipe, embedder: Embedder, measured: Measured, summary: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Write the results; returns the content of ``metrics.json``."""
        written = [*save_embedder(embedder, self.path), *self._write_results(measured)]
        content = {**summary, "metrics": measured.metrics(), **_card(measured)}
        made = manifest(
            command=f"hiertree train {recipe.name}",
            parameters=recipe.as_dict(),
            inputs=_files_read(recipe),
            outputs=[self.recipe, self.history, *written],
            seed=recipe.seed,
        )
        files.write_json(self.path / "manifest.json", made)
        files.write_json(self.metrics, content)
        return content

    def _write_results(self, measured: Measured) -> Sequence[Path]:
        written = []
        for number, (name, found) in enumerate(measured.lists.items()):
            beside = f"-{name}" if number else ""
            embeddings, per_query = self.path / f"embeddings{beside}.npz", self.path / f"per_query{beside}.parquet"
            with files.replacing(embeddings) as temporary:
                np.savez(temporary, **dict[str, Any](found.arrays))
            with files.replacing(per_query) as temporary:
                found.result.per_query().to_parquet(temporary)
            written += [embeddings, per_query]
        return written

    def _require_same(self, recipe: Recipe) -> None:
        earlier = check_recipe(read_yaml(self.recipe), source=str(self.recipe))
        if earlier.fingerprint() != recipe.fingerprint():
            differing = _differences(earlier.experiment(), recipe.experiment())
            raise RecipeError(
                f"{self.path} holds a run of another recipe ({'; '.join(differing[:5])})",
                expected="a run of the same recipe",
                remedy="choose another folder, or remove that run (--fresh)",
            )


def _files_read(recipe: Recipe) -> list[Path]:
    """The tables and archives that the recipe's data names; folders are not gone through."""
    values = [Path(value) for value in recipe.data.options().values() if isinstance(value, (str, os.PathLike))]
    return [path for path in values if path.is_file()]


def _card(measured: Measured) -> dict[str, Any]:
    """What must be known to compare these numbers with others: of the split, and of the lists beside it."""
    cards = {
        name: {
            "queries": len(found.result),
            "skipped": dict(found.result.skipped),
            "convention": found.result.convention.as_dict(),
        }
        for name, found in measured.lists.items()
    }
    first, *others = cards
    return cards[first] | ({"beside": {name: cards[name] for name in others}} if others else {})


def _differences(earlier: Any, now: Any, place: str = "") -> list[str]:
    """Settings that differ, as ``optimizer.lr: 0.001 there, 0.01 here``."""
    if not (isinstance(earlier, dict) and isinstance(now, dict)):
        return [] if earlier == now else [f"{place}: {earlier!r} there, {now!r} here"]
    found = []
    for key in dict.fromkeys([*earlier, *now]):
        found += _differences(earlier.get(key), now.get(key), f"{place}.{key}" if place else str(key))
    return found
