"""Rows of a comparison that are only measured: pretrained networks, finished runs, and embeddings on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hiertree.datasets import ImageDataset
from hiertree.datasets.input_images import IMAGE
from hiertree.errors import OptionError, TableError
from hiertree.io.tables import read_table
from hiertree.metrics import evaluate

from ..report.sources import read_run
from ..stored_embeddings.embedded_files import written_in
from ..stored_embeddings.embedding import embed, images_to_embed, recipe_of
from ..stored_embeddings.embeddings_files import SUFFIXES, LabeledEmbeddings, naming_files, read_embeddings
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
    labels: str | None = None  # a table, one row for each image, of images and of embeddings that have no labels


class MeasuredNetwork(NamedTuple):
    """A row: its name as it was typed, and the run or the embeddings that are measured."""

    name: str
    source: Path
    images: Images = Images()
    data: Data | None = None  # of the recipe whose test split it embeds; None where it embeds other images
    overrides: tuple[str, ...] | None = None  # with which a network embeds; None where there is nothing to embed

    def measure(self, options: Mapping[str, Any]) -> tuple[dict[str, float], QueryValues]:
        """Its means and the values of its queries; those of a run as its training has measured them."""
        if kind_of(self.source) == "run":
            run = read_run(self.source)
            return run.metrics, lists_of_run(self.source, run.recipe.data.options())
        embeddings = self.read()
        with naming_files(self.source, None):
            result = evaluate(*embeddings.arguments, progress=True, **{**embeddings.masks, **options})
        per_query = result.per_query().reset_index(drop=True)
        return dict(result.summary()), [ListValues(per_query, embeddings.named_paths(), self.data)]

    def read(self, *, in_parts: bool = False) -> LabeledEmbeddings:
        """Its embeddings, with the labels beside them or else those of the table."""
        labels, levels = self.images.labels, self.images.levels
        try:
            return read_embeddings(self.source, in_parts=in_parts)
        except OptionError:
            if labels is None:
                raise
        return read_embeddings(self.source, labels=labels, levels=levels, in_parts=in_parts)

    def require_images(self) -> None:
        """Refuse embeddings without labels, and images without labels before a network sees them."""
        images = self.images
        if self.overrides is None:
            if kind_of(self.source) != "run":
                self.read(in_parts=True)
            return
        if images.place is None:
            return
        input_images = images_to_embed(self.name, images.place, **self._options())
        if images.labels is not None:
            _require_rows(Path(images.labels), input_images.dataset, images.place)
        elif not input_images.labeled:
            raise OptionError(
                f"{images.place}: {input_images.about}",
                expected="images with labels, by which networks are compared",
                remedy="name a table of them by --labels, a row for each image, or of images and labels by --data",
            )

    def embed_images(self) -> None:
        """Embed its images, unless it has done so or there is nothing to embed."""
        if self.overrides is not None and written_in(self.source) is None:
            embed(self.name, self.images.place, self.source, own_format=False, **self._options())

    def _options(self) -> Any:
        images, is_labeled = self.images, self.images.labels is None
        levels = images.levels if is_labeled else ()
        return {"split": images.split, "levels": levels, "labeled": is_labeled, "overrides": self.overrides or ()}


def is_measured(name: str) -> bool:
    """Whether a name is not a recipe's, but that of a pretrained network, a folder, or a file of embeddings."""
    return is_pretrained(name) or Path(name).is_dir() or Path(name).suffix in SUFFIXES


def prepare_networks(
    names: Sequence[str], out: Path, images: Images, recipes: Sequence[Recipe]
) -> list[MeasuredNetwork]:
    """Embed the images with the networks that have not done so; what is embedded already, and runs, stay as they are.

    Without images, pretrained networks embed the test split of the first recipe or run. All that is to be read is
    looked at before the first network embeds.
    """
    paths = [Path(name) for name in names if not is_pretrained(name)]
    runs = [path for path in paths if kind_of(path) == "run"]
    for path in paths:
        if images.place is None or path not in runs:
            locate(path)
    data_recipes = [*recipes, *(load_recipe(run / "recipe.yaml", trusted=False) for run in runs)]
    if images.place is None and not data_recipes and (pretrained := [name for name in names if is_pretrained(name)]):
        problem = f"{pretrained[0]} without images"
        raise OptionError(problem, expected="--data IMAGES, or a recipe or a run whose test split it embeds")
    networks = [_planned(name, out, images, data_recipes) for name in names]
    for network in networks:
        network.require_images()
    for network in networks:
        network.embed_images()
    return networks


def _require_rows(table: Path, dataset: ImageDataset, place: str) -> None:
    """Refuse a table of labels whose rows are not those of the images, in their order."""
    rows, names = read_table(table), [dataset.images.name(row) for row in range(len(dataset))]
    if len(rows) != len(names):
        raise TableError(f"{table} with {len(rows)} rows", expected=f"{len(names)}, one for each image of {place}")
    image_names = rows[IMAGE].tolist() if IMAGE in rows else names
    for number, (image, name) in enumerate(zip(image_names, names, strict=True), start=1):
        if image != name:
            remedy = "name this table by --data, which needs no order"
            raise TableError(f"{table}: image {number} is {image}", expected=name, remedy=remedy)


def _planned(name: str, out: Path, images: Images, data_recipes: Sequence[Recipe]) -> MeasuredNetwork:
    if not (is_pretrained(name) or (images.place is not None and kind_of(Path(name)) == "run")):
        return MeasuredNetwork(name, Path(name), images)
    data, overrides = None, []
    if images.place is None:
        data_recipes[0].data.require_trusted()  # as it becomes an override, which is
        data, overrides = data_recipes[0].data.options(), [f"data={json.dumps(data_recipes[0].as_dict()['data'])}"]
    place = str(Path(images.place).resolve()) if images.place and Path(images.place).exists() else images.place
    levels: Any = images.levels if images.labels is None else "unlabeled"
    fingerprint = hash_of([place, images.split, levels, recipe_of(name, overrides).fingerprint()])
    folder = out / EMBEDDED / f"{safe_name(name)},{fingerprint}"  # each has a folder of its own
    return MeasuredNetwork(name, folder, images, data, tuple(overrides))
