"""The folder of a run: the names of its files, the recipe it belongs to, and the results."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import yaml

from hiertree.datasets import ImageDataset
from hiertree.errors import CheckpointError, HiertreeError, OptionError, RecipeError, some_of
from hiertree.io import files
from hiertree.io.provenance import MANIFEST, describe_file, manifest
from hiertree.io.reading import Complaint, read_json_object, read_text, reading_file, reading_json
from hiertree.tree import LabelTree

from ...networks.embedder import Embedder
from ...networks.loading import preprocessing_of, save_embedder
from ...yaml_files import read_yaml
from ..recipe.reading import check_recipe
from ..recipe.settings import Recipe
from .checkpoints import list_checkpoints
from .evaluator import SplitResult, list_name
from .history import TRACKER, write_history

LOOKED_AT = 16  # images of each split
_OF_IMAGES: Complaint = {"expected": "what a run notes of its images", "remedy": "remove it", "kind": CheckpointError}
_SETTINGS = {"recipe.yaml", "changes.jsonl"}  # read as text, whatever their layout
_RESULTS = (
    *("metrics.json", "manifest.json", "model.safetensors", "model.json", "embeddings.npz", "per_query.parquet"),
    *("images.json", "tree.json", "failed_batch.npz", "changes.jsonl", TRACKER, "history.jsonl"),
    *("embeddings-*.npz", "per_query-*.parquet", "tree-*.json", "recipe.yaml"),  # the recipe last: it marks the folder
)


class RunFolder:
    """The folder of one experiment.

    docs/recipes.md lists its files. ``metrics.json`` is written last: a run with that file is finished. Further lists
    of a benchmark have files of their own, ``embeddings-middle.npz`` for instance. With a validation, ``best/`` is a
    folder of the same files, without checkpoints, for the network of the best epoch.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.recipe, self.metrics = path, path / "recipe.yaml", path / "metrics.json"
        self.history, self.changes = path / "history.jsonl", path / "changes.jsonl"
        self.checkpoints, self.best, self.images = path / "checkpoints", path / "best", path / "images.json"

    def require_usable(self, recipe: Recipe, *, fresh: bool) -> None:
        """Refuse a folder that is neither new or empty nor of a run that this recipe is, or goes on from."""
        if self.recipe.is_file():
            if not fresh:
                self._require_same_or_earlier(recipe)
        elif not files.is_unused(self.path):
            raise OptionError(f"out={self.path}", expected="a new or empty folder, or that of an earlier run")

    def claim(self, recipe: Recipe, train_set: ImageDataset, test_set: ImageDataset) -> None:
        """Write the recipe, the label trees and digests of images, which a run that goes on must share.

        The metrics of a run that the recipe goes on from are removed.

        Settings that differ from an interrupted run's, and change no number, are noted in ``changes.jsonl``.
        """
        saved_recipe = self._earlier() if self.recipe.is_file() else None
        images = {dataset.split: _digests(dataset) for dataset in (train_set, test_set, *test_set.beside)}
        if saved_recipe is not None and self.images.is_file():
            self._require_same_images(images)
        if saved_recipe is not None:
            if recipe.goes_on_from(saved_recipe):
                self.metrics.unlink(missing_ok=True)
            if changed := _differences(saved_recipe.as_dict(), recipe.as_dict()):
                print(f"going on with other settings: {'; '.join(changed)}", file=sys.stderr)
                self._note_changes(changed)
        if saved_recipe != recipe:
            files.write_text(self.recipe, yaml.safe_dump(recipe.as_dict(), sort_keys=False, allow_unicode=True))
        trees = {"tree-train.json": train_set.tree, "tree.json": test_set.tree}
        trees |= {f"tree-{list_name(dataset)}.json": dataset.tree for dataset in test_set.beside}
        for name, tree in trees.items():
            self._write_tree(self.path / name, tree)
        if not self.images.is_file():
            files.write_json(self.images, images)
        if not self.history.is_file():
            write_history(self.history, [])

    def _write_tree(self, path: Path, tree: LabelTree) -> None:
        """Write a tree in place of none or of a damaged one; an intact one must be the same."""
        saved_tree = None
        if path.is_file():
            with suppress(HiertreeError):
                saved_tree = LabelTree.from_json(path)
        if saved_tree is None:
            tree.to_json(path)
        elif _json_of(saved_tree) != _json_of(tree):
            raise CheckpointError(
                f"{path} has labels that differ from those of the images now",
                expected="the labels that the run began with",
                remedy="restore them, or start again (--fresh)",
            )

    def _require_same_images(self, images: Mapping[str, Mapping[str, str]]) -> None:
        saved_images = read_json_object(self.images, **_OF_IMAGES)
        for split, digests in images.items():
            with reading_file(self.images, **_OF_IMAGES):
                saved_digests = dict(saved_images[split])
            names = sorted(digests.keys() | saved_digests.keys())
            if differing := [name for name in names if digests.get(name) != saved_digests.get(name)]:
                raise CheckpointError(
                    f"images of the split {split} differ from those that {self.images} notes: {some_of(differing, 3)}",
                    expected="the images that the run began with",
                    remedy=f"restore them, start again (--fresh), or remove {self.images.name} to go on with these",
                )

    def _note_changes(self, changed: Sequence[str]) -> None:
        """Add a line: the step from which the run goes on, and the settings that differ from then on."""
        lines = read_text(self.changes, kind=CheckpointError) if self.changes.is_file() else ""
        line = {"step": max(list_checkpoints(self.checkpoints), default=0), "changed": list(changed)}
        files.write_text(self.changes, f"{lines}{json.dumps(line, ensure_ascii=False)}\n")

    def clear(self) -> None:
        """Remove an earlier run of any recipe; files that no run writes stay."""
        if not self.recipe.is_file():
            return
        for folder in ("checkpoints", "tensorboard", "best"):
            shutil.rmtree(self.path / folder, ignore_errors=True)
        for name in _RESULTS:
            for path in self.path.glob(name):
                path.unlink()

    def finished(self, recipe: Recipe | None = None) -> dict[str, Any] | None:
        """Read ``metrics.json``; None if the run is not finished, or is one that ``recipe`` goes on from."""
        goes_on = recipe is not None and self.recipe.is_file() and recipe.goes_on_from(self._earlier())
        if goes_on or not self.metrics.is_file():
            return None
        with reading_json(self.metrics, expected="the metrics of a finished run", kind=CheckpointError) as record:
            return {**record, "metrics": dict(record["metrics"])}

    def require_whole(self) -> None:
        """Refuse a finished run whose network, trees or results are not as its manifest lists them."""
        for folder in (self.path, *([self.best] if self.best.is_dir() else [])):
            remedy = "start again (--fresh)"
            if list_checkpoints(self.checkpoints):
                remedy = (
                    f"remove {self.metrics}: the same command then writes all from the last checkpoint; or {remedy}"
                )
            complaint: Complaint = {"expected": "that of a finished run", "remedy": remedy, "kind": CheckpointError}
            with reading_json(folder / MANIFEST, **complaint) as record:
                entries = {str(entry["name"]): entry for entry in record["outputs"]}
            for name in entries.keys() - _SETTINGS:
                path = folder / Path(name).name
                if not path.is_file() or describe_file(path) != entries[name]:
                    problem = f"{path} of a finished run is {'damaged' if path.is_file() else 'missing'}"
                    raise CheckpointError(problem, expected="the file that its manifest.json lists", remedy=remedy)

    def write_network(self, recipe: Recipe, embedder: Embedder, result: SplitResult) -> list[Path]:
        """Write a network and its results on the test split, image by image; returns the files."""
        scales, precision = recipe.evaluation.scales, recipe.training.precision
        preprocessing = preprocessing_of(recipe.images, embedder.settings, scales=scales, precision=precision)
        paths = save_embedder(embedder, self.path, preprocessing)
        for index, (name, list_result) in enumerate(result.lists.items()):
            suffix = f"-{name}" if index else ""
            embeddings, per_query = self.path / f"embeddings{suffix}.npz", self.path / f"per_query{suffix}.parquet"
            with files.replacing(embeddings) as temporary:
                np.savez(temporary, **dict[str, Any](list_result.arrays))
            table = list_result.result.per_query()
            table.index = pd.Index(list_result.arrays["names"], name="image")
            with files.replacing(per_query) as temporary, temporary.open("wb") as file:
                table.to_parquet(file)
            paths += [embeddings, per_query]
        return paths

    def finish(
        self,
        recipe: Recipe,
        result: SplitResult,
        network_files: Sequence[Path],
        summary: Mapping[str, Any],
        started_from: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        """Write the manifest and the metrics, with a summary; returns the content of ``metrics.json``.

        ``started_from`` are path, size and hash of the weights that the network started with.
        """
        record = {**summary, "metrics": result.metrics, **_card(result)}
        command, outputs = f"hiertree train {recipe.name}", [*self._described(), *network_files]
        details: dict[str, Any] = {"parameters": recipe.as_dict(), "inputs": _files_read(recipe), "seed": recipe.seed}
        manifest_content = manifest(command=command, outputs=outputs, **details)
        if started_from is not None:
            manifest_content["inputs"].append(started_from)
        files.write_json(self.path / "manifest.json", manifest_content)
        files.write_json(self.metrics, record)
        return record

    def write_best(
        self,
        recipe: Recipe,
        embedder: Embedder,
        result: SplitResult,
        summary: Mapping[str, Any],
        started_from: Mapping[str, Any] | None,
    ) -> None:
        """Write ``best/`` as a whole: the network of the best epoch, its results, and this run's recipe and trees."""
        with files.replacing_folder(self.best) as temporary:
            folder = RunFolder(temporary)
            for path in self._described():
                shutil.copyfile(path, temporary / path.name)
            folder.finish(recipe, result, folder.write_network(recipe, embedder, result), summary, started_from)

    def _described(self) -> list[Path]:
        paths = [path for path in (self.recipe, self.history, self.changes) if path.is_file()]
        return [*paths, *sorted(self.path.glob("tree*.json"))]

    def _earlier(self) -> Recipe:
        return check_recipe(read_yaml(self.recipe), source=str(self.recipe))

    def _require_same_or_earlier(self, recipe: Recipe) -> None:
        saved_recipe = self._earlier()
        if recipe.goes_on_from(saved_recipe):
            if self.metrics.is_file() and not list_checkpoints(self.checkpoints):
                problem, remedy = f"{self.path} without checkpoints", "start a new run from it, by training.start_from"
                raise CheckpointError(problem, expected="those of the run, for more epochs", remedy=remedy)
        elif differing := _differences(saved_recipe.experiment(), recipe.experiment()):
            raise RecipeError(
                f"{self.path} holds a run of another recipe ({'; '.join(differing[:5])})",
                expected="a run of the same recipe",
                remedy="choose another folder, or remove that run (--fresh)",
            )


def _digests(dataset: ImageDataset) -> dict[str, str]:
    """A digest of all names and paths, and of the pixels of some images, evenly spread; not of those drawn anew."""
    names = [dataset.images.name(row) for row in range(len(dataset))]
    everything = hashlib.sha256("\n".join(names).encode("utf-8", "surrogateescape") + dataset.paths.tobytes())
    digests = {f"all {len(dataset)}": everything.hexdigest()}
    for row in np.linspace(0, len(dataset) - 1, min(len(dataset), LOOKED_AT)).astype(int).tolist():
        pixels = [hashlib.sha256(dataset.images[row].tobytes()).hexdigest() for _ in range(2)]
        if pixels[0] == pixels[1]:
            digests[names[row]] = pixels[0]
    return digests


def _json_of(tree: LabelTree) -> str:
    with TemporaryDirectory() as folder:
        tree.to_json(path := Path(folder, "tree.json"))
        return read_text(path)


def _files_read(recipe: Recipe) -> list[Path]:
    """The tables and archives that the recipe's data section names; not the files in its folders."""
    values = [Path(value) for value in recipe.data.options().values() if isinstance(value, (str, os.PathLike))]
    return [path for path in values if path.is_file()]


def _card(result: SplitResult) -> dict[str, Any]:
    """Queries, skipped queries and convention of each list: what a comparison with other numbers needs."""
    cards = {}
    for name, list_result in result.lists.items():
        evaluation = list_result.result
        counts = {"queries": len(evaluation), "skipped": dict(evaluation.skipped)}
        cards[name] = {**counts, "convention": evaluation.convention.as_dict()}
    first, *other_names = cards
    return cards[first] | ({"beside": {name: cards[name] for name in other_names}} if other_names else {})


def _differences(old_value: Any, new_value: Any, section: str = "") -> list[str]:
    """Describe settings that differ, as ``optimizer.lr: 0.001 there, 0.01 here``."""
    if not (isinstance(old_value, dict) and isinstance(new_value, dict)):
        return [] if old_value == new_value else [f"{section}: {old_value!r} there, {new_value!r} here"]
    differences = []
    for key in dict.fromkeys([*old_value, *new_value]):
        differences += _differences(old_value.get(key), new_value.get(key), f"{section}.{key}" if section else str(key))
    return differences
