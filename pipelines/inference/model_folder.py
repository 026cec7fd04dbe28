"""A trained model as a folder to share, with a model card, locally or on the Hugging Face hub."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import yaml

from hiertree.errors import CheckpointError, MissingResourceError, OptionError, raised_as, require_package
from hiertree.io import files
from hiertree.io.provenance import MANIFEST, manifest, map_texts
from hiertree.io.reading import read_json_object, reading_file
from hiertree.tree import LabelTree

from ..networks.clip import HUB
from ..networks.embedder import Embedder
from ..networks.loading import SETTINGS, WEIGHTS, save_embedder
from ..networks.settings import Preprocessing
from ..pages import fill_card
from ..yaml_files import read_yaml

TREE, RECIPE, METRICS, CARD = "tree-train.json", "recipe.yaml", "metrics.json", "README.md"


class ModelRecord(NamedTuple):
    """How a model was made and its metrics, as far as known."""

    recipe: dict[str, Any] | None = None  # every setting
    metrics: dict[str, Any] | None = None  # the content of the run's ``metrics.json``

    @classmethod
    def read(cls, folder: Path) -> ModelRecord:
        """Read the two files of a run or of a model, where they are."""
        recipe, metrics = folder / RECIPE, folder / METRICS
        expected = "the metrics of a finished run"
        values = read_json_object(metrics, expected=expected, kind=CheckpointError) if metrics.is_file() else None
        with reading_file(recipe, expected="a recipe", kind=CheckpointError):
            return cls(dict(read_yaml(recipe)) if recipe.is_file() else None, values)

    @property
    def text_encoder(self) -> str | None:
        """The encoder of the texts that it was trained with, if it was."""
        texts = (self.recipe or {}).get("texts")
        return str(texts["encoder"]) if isinstance(texts, dict) and "encoder" in texts else None

    def numbers(self) -> dict[str, float]:
        """The metrics that are numbers, by name."""
        values = (self.metrics or {}).get("metrics") or {}
        return {name: value for name, value in values.items() if isinstance(value, (int, float))}


def save_model(
    folder: str | os.PathLike[str],
    network: Embedder,
    preprocessing: Preprocessing,
    tree: LabelTree | None,
    record: ModelRecord,
) -> list[Path]:
    """Write a model's files and its card, whole, into a new folder or over an earlier model."""
    target, recipe = Path(folder), map_texts(record.recipe, _strip_place)
    if target.exists() and not _is_replaceable(target):
        raise OptionError(f"{target} holds other files", expected="a new or empty folder, or that of a saved model")
    with files.replacing_folder(target) as new_folder:
        save_embedder(network, new_folder, preprocessing)
        if tree is not None:
            tree.to_json(new_folder / TREE)
        if recipe is not None:
            files.write_text(new_folder / RECIPE, _yaml(recipe))
        if record.metrics is not None:
            files.write_json(new_folder / METRICS, record.metrics)
        files.write_text(new_folder / CARD, _card(network, preprocessing, tree, recipe, record.numbers()))
        outputs = sorted(new_folder.iterdir())
        provenance = manifest(command="TrainedModel.save", parameters=recipe or {}, outputs=outputs)
        files.write_json(new_folder / MANIFEST, provenance)
    return [target / path.name for path in outputs]


def _card(
    network: Embedder,
    preprocessing: Preprocessing,
    tree: LabelTree | None,
    recipe: dict[str, Any] | None,
    metrics: Mapping[str, float],
) -> str:
    """The model card; its head is the metadata that the hub reads, with the metrics as ``model-index``."""
    name, data = (recipe or {}).get("name", "model"), (recipe or {}).get("data", {}).get("name")
    tags, task = ["image-retrieval", "hierarchical-retrieval", "metric-learning"], "image-feature-extraction"
    metadata: dict[str, Any] = {"library_name": "hiertree", "pipeline_tag": task, "tags": tags}
    if metrics and data:
        values = [{"type": metric, "value": value} for metric, value in metrics.items()]
        results = [{"task": {"type": task}, "dataset": {"type": data, "name": data}, "metrics": values}]
        metadata["model-index"] = [{"name": name, "results": results}]
    facts = {"name": name, "size": network.embedding_size, "backbone": network.settings.backbone, "metrics": metrics}
    facts |= {"levels": [] if tree is None else _described_levels(tree), "recipe": recipe and _yaml(recipe).rstrip()}
    facts |= {"metadata": _yaml(metadata).rstrip()}
    facts |= {"preprocessing": yaml.safe_dump(preprocessing.model_dump(mode="json")).rstrip()}
    return fill_card(__package__, facts)


def _yaml(settings: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))


def download_model(name: str, *, revision: str | None = None, token: str | None = None) -> Path:
    """The folder of a model of the hub, from the local cache or fetched: weights, settings, tree and card, no code."""
    require_package("huggingface_hub", extra="train")  # timm needs it too
    from huggingface_hub import snapshot_download

    repository, _, tagged = name.removeprefix(HUB).partition("@")
    patterns = [WEIGHTS, SETTINGS, TREE, RECIPE, METRICS]
    with raised_as(
        MissingResourceError,
        f"{HUB}{repository}",
        expected="a model that model.push_to_hub has put there, and a connection or the hub's cache",
        remedy=f"where there is a connection, `hf download {repository}` brings it",
        on=Exception,
    ):
        snapshot = snapshot_download(
            repository, revision=revision or tagged or None, token=token, allow_patterns=patterns
        )
    return Path(snapshot)


def _is_replaceable(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir() if not files.is_remnant(path)}
    return not names or {WEIGHTS, CARD} <= names <= {WEIGHTS, SETTINGS, TREE, RECIPE, METRICS, CARD, MANIFEST}


def _strip_place(text: str) -> str:
    """An absolute path without this machine's folders; other texts as they are."""
    library, colon, path = text.rpartition(":")  # local-dir:/…, but no address of the web
    is_local = PurePath(path).is_absolute() and not path.startswith("//")
    return f"{library}{colon}{PurePath(path).name}" if is_local else text


def _described_levels(tree: LabelTree) -> list[tuple[str, int, list[str]]]:
    """The name and the size of each level, and its labels."""
    rows = [tree.labels_of(path) for path in tree.paths(tree.leaves).tolist()]
    labels = [dict.fromkeys(str(row[level]) for row in rows if len(row) > level) for level in range(tree.num_levels)]
    return list(zip(map(str, tree.level_names), tree.level_sizes, map(list, labels), strict=True))
