"""``labels.yaml``: every step from landmark ids to an export, in one file.

::

    landmarks: train_label_to_category.csv     # ids and Commons categories
    scrape: {contact: me@university.edu}       # and, or instead, dump: latest-all.json.bz2; or instances: scraped.csv
    clean: {multi: drop}
    fill: {images: photos, method: knn}        # if wanted
    cluster: {encoder: tfidf, clusters: 78, levels: 1}
    review: washington-review.jsonl            # once there is one
    export: {split: train}
    tree: {title: Washington}

Paths are relative to the file. Everything but ``landmarks`` may be left out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hiertree.errors import RecipeError

from ..yaml_files import complaint, parse_yaml
from .clean.rules import Multi
from .encode.clip_encoder import ClipEncoder
from .encode.sentence_encoder import SentenceEncoder
from .export.tree_page import TITLE
from .fill.filling import NEIGHBOURS, TEMPERATURE, THRESHOLD
from .landmarks import ColumnNames
from .scrape.settings import ScrapeSettings

Count = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class CleanPlan(_Section):
    """``labels clean``."""

    multi: Multi = "drop"
    separator: str = "|"


class FillPlan(_Section):
    """``labels fill``: labels from images, for landmarks that have none."""

    images: str | None = None
    image_table: str | None = None
    embeddings: str | None = None
    method: Literal["clip", "knn"] = "clip"
    threshold: Annotated[float, Field(ge=0, le=1)] = THRESHOLD
    neighbours: Count = NEIGHBOURS
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = TEMPERATURE
    clip_model: str = ClipEncoder.model
    clip_weights: str = ClipEncoder.weights
    prompts: tuple[str, ...] = ClipEncoder.prompts
    batch_size: Count = 128
    device: str = "cpu"


class ClusterPlan(_Section):
    """``labels cluster``."""

    encoder: Literal["tfidf", "clip", "sentence-transformers"] = "tfidf"
    clip_model: str = ClipEncoder.model
    clip_weights: str = ClipEncoder.weights
    sentence_model: str = SentenceEncoder.model
    prompts: tuple[str, ...] = ()
    batch_size: Count = 128
    device: str = "cpu"
    cache: str | None = None
    clusters: Count | Literal["auto"] = "auto"
    seed: int = 0
    restarts: Count = 20
    levels: Annotated[int, Field(ge=0)] = 0
    scan: bool = False
    references: tuple[str, ...] = ()


class ExportPlan(_Section):
    """``labels export``."""

    split: str = ""


class TreePlan(_Section):
    """``labels tree``."""

    title: str = TITLE
    images: str | None = None
    image_table: str | None = None


class LabelsPlan(_Section):
    """The whole file."""

    landmarks: str
    instances: str | None = None
    columns: ColumnNames = ColumnNames()
    scrape: ScrapeSettings | None = None
    clean: CleanPlan = CleanPlan()
    fill: FillPlan | None = None
    cluster: ClusterPlan = ClusterPlan()
    review: str | None = None
    export: ExportPlan = ExportPlan()
    tree: TreePlan = TreePlan()


def read_plan(path: str | os.PathLike[str]) -> LabelsPlan:
    """Read and check a plan.

    Args:
        path: a YAML file.

    Raises:
        RecipeError: no such file, no valid YAML, a key given twice, an unknown key, a value out of range, both
            ``instances`` and ``scrape``, or a ``scrape`` with neither ``contact`` nor ``dump``; the message names
            the place.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file}: {error}", expected="a plan in YAML") from None
    return check_plan(parse_yaml(text, source=file.name), source=file.name)


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
    try:
        plan = LabelsPlan.model_validate(values)
    except ValidationError as error:
        raise RecipeError(f"{source}: {'; '.join(map(complaint, error.errors()))}") from None
    if plan.instances is not None and plan.scrape is not None:
        raise RecipeError(f"{source}: both instances and scrape", expected="one of them")
    if plan.scrape is not None and plan.scrape.contact is None and plan.scrape.dump is None:
        raise RecipeError(f"{source}: scrape: neither contact nor dump", expected="whom Wikimedia can reach, or a dump")
    return plan
