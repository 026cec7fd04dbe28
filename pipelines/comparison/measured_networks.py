"""Rows of a comparison that are only measured: pretrained networks, finished runs, and embeddings on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hiertree.errors import OptionError
from hiertree.metrics import evaluate

from ..report.queries_and_gallery import NamedPaths
from ..report.sources import read_run
from ..stored_embeddings.embedded_files import written_in
from ..stored_embeddings.embedding import embed, recipe_of
from ..stored_embeddings.embeddings_files import SUFFIXES, naming_files, read_embeddings
from ..stored_embeddings.locations import kind_of, locate
from ..training.network.pretrained_recipe import is_pretrained
from ..training.recipe.reading import load_recipe
from ..training.recipe.schema import Recipe
from .planned_runs import EMBEDDED, hash_of, safe_name
from .significance import ListValues, QueryValues, lists_of_run

Data = Mapping[str, Any]


class Images(NamedTuple):
    """The images that networks embed, as :func:`hiertree.pipelines.stored_embeddings.embedding.embed` takes them."""

    place: str | None = None  # None takes the test split of a recipe
    split: str | None = None
    levels: tuple[str, ...] = ()


class MeasuredNetwork(NamedTuple):
    """A row: its name as it was typed, and the run or the embeddings that are measured."""

    name: str
    source: Path
    data: Data | None = None  # of the recipe whose test split it embeds; None where it embeds other images

    def measure(self, options: Mapping[str, Any]) -> tuple[dict[str, float], QueryValues]:
        """Its means and the values of its queries; those of a run as its training has measured them."""
        if kind_of(self.source) == "run":
            run = read_run(self.source)
            return run.metrics, lists_of_run(self.source, run.recipe.data.options())
        labeled = read_embeddings(self.source)
        with naming_files(self.source, None):
            result = evaluate(*labeled[:4], progress=True, **{**labeled.masks, **options})
        per_query = result.per_query().reset_index(drop=True)
        return dict(result.summary()), [ListValues(per_query, NamedPaths.of(labeled), self.data)]


def is_measured(name: str) -> bool:
    """Whether a name is not a recipe's, but that of a pretrained network, a folder, or a file of embeddings."""
    return is_pretrained(name) or Path(name).is_dir() or Path(name).suffix in SUFFIXES


def prepare_networks(
    names: Sequence[str], out: Path, images: Images, recipes: Sequence[Recipe]
) -> list[MeasuredNetwork]:
    """Embed the images with the networks that have not done so; what is embedded already, and runs, stay as they are.

    Without images, pretrained networks embed the test split of the first recipe or run.
    """
    paths = [Path(name) for name in names if not is_pretrained(name)]
    runs = [path for path in paths if kind_of(path) == "run"]
    for path in paths:
        if images.place is None or path not in runs:
            locate(path)
    known = [*recipes, *(load_recipe(run / "recipe.yaml", trusted=False) for run in runs)]
    if images.place is None and not known and (pretrained := [name for name in names if is_pretrained(name)]):
        given = f"{pretrained[0]} without images"
        raise OptionError(given, expected="--data IMAGES, or a recipe or a run whose test split it embeds")
    return [_prepared(name, out, images, known) for name in names]


def _prepared(name: str, out: Path, images: Images, known: Sequence[Recipe]) -> MeasuredNetwork:
    if not (is_pretrained(name) or (images.place is not None and kind_of(Path(name)) == "run")):
        return MeasuredNetwork(name, Path(name))
    data, overrides = None, []
    if images.place is None:
        known[0].data.require_trusted()  # as it becomes an override, which is
        data, overrides = known[0].data.options(), [f"data={json.dumps(known[0].as_dict()['data'])}"]
    place = str(Path(images.place).resolve()) if images.place and Path(images.place).exists() else images.place
    asked = hash_of([place, *images[1:], recipe_of(name, overrides).fingerprint()])  # each has a folder of its own
    folder = out / EMBEDDED / f"{safe_name(name)},{asked}"
    if written_in(folder) is None:
        options: Any = {**images._asdict(), "overrides": overrides, "own_format": False}
        embed(name, options.pop("place"), folder, **options)
    return MeasuredNetwork(name, folder, data)
