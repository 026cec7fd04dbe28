"""``labels.yaml``: every step from landmark ids to an export, in one file.

::

    landmarks: train_label_to_category.csv     # ids and Commons categories
    allow_failed: 0.01                         # share of landmarks that may fail to be scraped; default: none
    scrape: {contact: me@university.edu}       # and, or instead, dump: latest-all.json.bz2; or instances: scraped.csv
    clean: {multi: drop}
    fill: {images: photos, method: knn}        # if wanted
    cluster: {encoder: tfidf, clusters: 78, levels: 1}
    review: washington-review.jsonl            # once there is one
    export: {split: train}
    tree: {title: Washington}

Paths are relative to the file. Everything but ``landmarks`` may be left out; the keys of a section are the settings of
its step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hiertree.errors import OptionError, RecipeError

from ..yaml_files import read_yaml
from .clean.step import CleanSettings
from .cluster.step import ClusterSettings
from .export.step import ExportSettings
from .export.tree_page.step import TreeSettings
from .fill.step import FillSettings
from .landmarks import ColumnNames
from .scrape.settings import ScrapeSettings
from .settings import Settings, beside


class LabelsPlan(Settings):
    """The whole file."""

    landmarks: Path
    instances: Path | None = None
    columns: ColumnNames = ColumnNames()
    scrape: ScrapeSettings | None = None
    allow_failed: Annotated[float, Field(ge=0, le=1)] = 0.0
    clean: CleanSettings = CleanSettings()
    fill: FillSettings | None = None
    cluster: ClusterSettings = ClusterSettings()
    review: Path | None = None
    export: ExportSettings = ExportSettings()
    tree: TreeSettings = TreeSettings()


def read_plan(path: str | os.PathLike[str]) -> LabelsPlan:
    """Read and check a plan; its paths are then relative to the working directory.

    Args:
        path: a YAML file.

    Raises:
        RecipeError: no such file, no valid YAML, a key given twice, an unknown key, a value out of range, both
            ``instances`` and ``scrape``, or a ``scrape`` with neither ``contact`` nor ``dump``; the message names
            the place.
    """
    file = Path(path)
    try:
        values = read_yaml(file)
    except OSError as error:
        raise RecipeError(f"{file}: {error.strerror}", expected="a plan in YAML") from None
    return beside(check_plan(values, source=file.name), file.parent)


def check_plan(values: Any, *, source: str = "plan") -> LabelsPlan:
    """The plan that a mapping describes.

    Args:
        values: what the YAML file holds.
        source: what error messages call it.

    Raises:
        RecipeError: as :func:`read_plan`.

    >>> check_plan({"landmarks": "ids.csv", "cluster": {"clusters": 78}}).cluster.clusters
    78
    """
    if not isinstance(values, Mapping):
        raise RecipeError(f"{source}: {type(values).__name__}", expected="a mapping of settings")
    try:
        plan = LabelsPlan(**values)
    except OptionError as error:
        raise RecipeError(f"{source}: {error.given}", expected=error.expected, remedy=error.remedy) from None
    if plan.instances is not None and plan.scrape is not None:
        raise RecipeError(f"{source}: both instances and scrape", expected="one of them")
    if plan.scrape is not None and plan.scrape.contact is None and plan.scrape.dump is None:
        raise RecipeError(f"{source}: scrape: neither contact nor dump", expected="whom Wikimedia can reach, or a dump")
    return plan
