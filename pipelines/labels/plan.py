"""``labels.yaml``: every step from landmark ids to an export, in one file.

::

    landmarks: train_label_to_category.csv     # ids and Commons categories
    allow_failed: 0.01                         # share of landmarks that may fail to be scraped; default: none
    scrape: {contact: me@university.edu}
    instances: scraped.csv                     # instead; beside scrape, that asks only what stands above its ids
    clean: {multi: drop}
    fill: {images: photos}                     # if wanted
    cluster: {encoder: place-nouns, clusters: 78, levels: 1}
    review: washington-review.jsonl            # once there is one
    export: {split: train}
    tree: {title: Washington}

Paths are relative to the file. Everything but ``landmarks`` may be left out; the keys of a section are the settings of
its step. ``hiertree labels build`` runs the steps into one folder: ``store.sqlite`` (where the plan scrapes),
``cleaned``, ``filled`` (where it fills), ``clustered``, ``exported`` and ``tree``. A step is not run again when
its folder's manifest names the same command, settings, seed, version and inputs, and its files are as written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hiertree.errors import IncompleteScrapeError, OptionError, RecipeError
from hiertree.io.files import AnyPath, locked_folder
from hiertree.io.progress import is_progress_shown
from hiertree.io.provenance import MANIFEST
from hiertree.io.reading import read_json_object
from hiertree.tree import LabelTree

from ..yaml_files import read_yaml
from .cleaning import CleanStep, check_kept, read_report
from .cluster.step import ClusterStep, describe_unknown_ids
from .encode import clip_encoder, text_encoder
from .export.step import EXPORTED, TREE, ExportStep, describe_exported
from .export.tree_page import TreeStep
from .filling import FillStep
from .scrape.outcomes import count_failed, describe_outcomes, describe_status, status
from .scrape.scraping import STORE, scrape
from .settings import (
    CleanSettings,
    ClusterSettings,
    ColumnNames,
    ExportSettings,
    FillSettings,
    ScrapeSettings,
    Settings,
    TreeSettings,
    resolve_paths,
)
from .steps import REPORT, LabelStep, Result

CLEANED, FILLED, CLUSTERED, SHOWN = "cleaned", "filled", "clustered", "tree"


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


def read_plan(path: AnyPath) -> LabelsPlan:
    """Read and check a plan; its paths are then relative to the working directory.

    Args:
        path: a YAML file.

    Raises:
        RecipeError: no such file, no valid YAML, a key given twice, an unknown key, a value out of range, or a
            ``scrape`` without ``contact``; the message names the place.
    """
    file = Path(path)
    return resolve_paths(check_plan(read_yaml(file), source=file.name), file.parent)


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
        raise error.naming(source, RecipeError) from None
    if plan.scrape is not None and plan.scrape.contact is None:
        raise RecipeError(f"{source}: scrape: no contact", expected="your email address or web page, for the operators")
    return plan


@dataclass(frozen=True)
class BuildResult:
    """What a build made.

    Attributes:
        folder: where the steps' folders are.
        steps: the steps that were run; the others were current.
        tree: kind → groups above, if any → supercategory → landmark.
        report: the counts, as in ``exported/report.json``.
    """

    folder: Path
    steps: tuple[str, ...]
    tree: LabelTree
    report: dict[str, Any]

    @property
    def exported(self) -> Path:
        """The folder of the export."""
        return self.folder / EXPORTED


def build(
    plan: LabelsPlan | Mapping[str, Any] | AnyPath, *, out: AnyPath, say: Callable[[str], object] | None = None
) -> BuildResult:
    """Run the steps of a plan that are not current.

    The same inputs, settings and seed give the same bytes, the time in manifests apart.

    Args:
        plan: ``labels.yaml``, the mapping that such a file holds, or a checked plan. Its keys: ``landmarks``, the
            table; where it has no types, ``instances``, a table of them, or ``scrape`` (at least ``contact``) and
            ``allow_failed``, the share of landmarks that may fail; ``review``, a log; ``columns``, ``clean``, ``fill``,
            ``cluster``, ``export`` and ``tree``, mappings of the settings that ``ColumnNames``, ``CleanSettings``,
            ``FillSettings``, ``ClusterSettings``, ``ExportSettings`` and ``TreeSettings`` list. All but ``landmarks``
            may be left out.
        out: the folder for all steps; an earlier build there is brought up to date.
        say: receives a line per step, and a summary of the export, ``print`` for instance.

    Raises:
        RecipeError: the plan cannot be read, or names a review that is not there.
        IncompleteScrapeError: more landmarks failed than ``allow_failed`` allows.
        OptionError: ``out`` or the folder of a step holds other files.
        OutputError: another process builds there.
        HiertreeError: as the steps do; the folders of earlier steps stay.
    """
    if isinstance(plan, str | os.PathLike):
        plan = read_plan(plan)
    elif not isinstance(plan, LabelsPlan):
        plan = check_plan(plan)
    if plan.review is not None and not plan.review.is_file():
        expected, remedy = "the log of 'hiertree labels review'", "leave out review until there is one"
        raise RecipeError(f"review: no file {plan.review}", expected=expected, remedy=remedy)
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or (folder / MANIFEST).exists()):
        raise OptionError(f"out={str(out)!r} holds other files", expected="a new folder or one of 'labels build'")
    with locked_folder(folder):
        return _build(plan, _Run(folder, say or (lambda _: None)))


def _build(plan: LabelsPlan, run: _Run) -> BuildResult:
    encoder = text_encoder(plan.cluster)  # before work begins: a package may be missing
    if plan.fill is not None:
        clip_encoder(plan.fill)
    store = None if plan.scrape is None or plan.instances else _scrape(plan, plan.scrape, plan.landmarks, run)
    folder, _ = run.step(CLEANED, CleanStep(plan.landmarks, plan.instances, store, plan.columns, plan.clean))
    if plan.fill is None:
        check_kept(read_report(folder), folder)
    else:
        folder, _ = run.step(FILLED, FillStep(folder, plan.fill))
    cluster = plan.cluster
    if plan.scrape is not None and plan.instances and cluster.hypernyms is None:
        cluster = cluster.model_copy(update={"hypernyms": _scrape(plan, plan.scrape, folder, run)})
    folder, clusterings = run.step(CLUSTERED, ClusterStep(folder, cluster, encoder))
    exported, exports = run.step(EXPORTED, ExportStep(folder, plan.review, plan.export))
    run.step(SHOWN, TreeStep(exported, plan.tree))
    for export in exports:
        run.say(describe_exported(export, clusters=True))
    for line in chain.from_iterable(map(describe_unknown_ids, clusterings)):
        run.say(line)
    report = read_json_object(exported / REPORT, expected="the report of 'labels export'")
    return BuildResult(run.folder, tuple(run.steps), LabelTree.from_json(exported / TREE), report)


class _Run:
    """The folder of all steps, and which of them were run."""

    def __init__(self, folder: Path, say: Callable[[str], object]) -> None:
        self.folder, self.say, self.steps = folder, say, list[str]()

    def step(self, name: str, step: LabelStep[Result]) -> tuple[Path, list[Result]]:
        """The folder of a step, made unless it is current, and a list of its result, empty if it was current."""
        folder = self.folder / name
        if step.record().is_current(folder):
            self.note(name, None)
            return folder, []
        if is_progress_shown():
            print(f"{name}: under way", file=sys.stderr, flush=True)
        result = step.run(folder)
        self.note(name, f"written to {folder}")
        return folder, [result]

    def note(self, name: str, message: str | None) -> None:
        """Report that a step was run, or by None that nothing had changed."""
        if message is not None:
            self.steps.append(name)
        self.say(f"{name}: {message or 'unchanged'}")


def _scrape(plan: LabelsPlan, settings: ScrapeSettings, source: Path, run: _Run) -> Path:
    """The store, filled: Wikimedia is asked only for what is missing."""
    store = run.folder / STORE
    outcomes = scrape(source, store=store, settings=settings, columns=plan.columns, failed_too=True)
    run.note("scraped", describe_outcomes(outcomes) if outcomes else describe_status(status(store)))
    failed, landmarks = count_failed(outcomes)
    if failed > plan.allow_failed * landmarks:
        expected = f"at most a share of {plan.allow_failed:g}"
        remedy = "run the plan again to retry them, or set allow_failed"
        raise IncompleteScrapeError(f"{failed} of {landmarks} landmarks failed", expected=expected, remedy=remedy)
    return store
