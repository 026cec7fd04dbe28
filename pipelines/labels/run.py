"""``hiertree labels build``: all steps of a plan into one folder; what did not change is not run again.

The folder gets ``store.sqlite`` (where the plan scrapes or reads a dump), ``cleaned``, ``filled`` (where it fills),
``clustered``, ``exported`` and ``tree``. A step is current when its folder's manifest names the same command, settings,
seed, version and hashes of inputs, and its files still have the hashes that were written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hiertree.errors import IncompleteScrapeError, OptionError, RecipeError
from hiertree.io.provenance import MANIFEST
from hiertree.tree import LabelTree

from .clean.step import clean_record, clean_step
from .cluster.step import cluster_record, cluster_step
from .export.step import Exported, describe_exported, export_record, export_step
from .export.tables import EXPORTED, TREE
from .export.tree_page.step import tree_record, tree_step
from .fill.step import fill_record, fill_step
from .folders import REPORT, AnyPath, StepRecord
from .plan import LabelsPlan, check_plan, read_plan
from .scrape.outcomes import Tally
from .scrape.reporting import count_failed, describe_outcomes
from .scrape.step import STORE, dump_step, scrape

CLEANED, FILLED, CLUSTERED, SHOWN = "cleaned", "filled", "clustered", "tree"
Say = Callable[[str], object]


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


def build(plan: LabelsPlan | Mapping[str, Any] | AnyPath, *, out: AnyPath, say: Say = bool) -> BuildResult:
    """Run the steps of a plan that are not current.

    The same inputs, settings and seed give the same bytes, the time in manifests apart.

    Args:
        plan: ``labels.yaml``, the mapping that such a file holds, or a checked plan.
        out: the folder for all steps; an earlier build there is brought up to date.
        say: receives a line per step, and a summary of the export.

    Raises:
        RecipeError: the plan cannot be read, or names a review that is not there.
        IncompleteScrapeError: more landmarks failed than ``allow_failed`` allows.
        OptionError: ``out`` or the folder of a step holds other files.
        HiertreeError: as the steps do; the folders of earlier steps stay.
    """
    if isinstance(plan, str | os.PathLike):
        plan = read_plan(plan)
    elif not isinstance(plan, LabelsPlan):
        plan = check_plan(plan)
    if plan.review is not None and not plan.review.is_file():
        raise RecipeError(
            f"review: no file {plan.review}",
            expected="the log of 'hiertree labels review'",
            remedy="leave review out until there is one",
        )
    run = _Run(_checked_folder(Path(out)), say)
    clean = {"instances": plan.instances, "store": _scrape(plan, run), "columns": plan.columns}
    folder = run.step(CLEANED, clean_record, clean_step, plan.landmarks, settings=plan.clean, **clean)
    if plan.fill is not None:
        record = partial(fill_record, vectors=plan.fill.vectors())
        folder = run.step(FILLED, record, fill_step, folder, settings=plan.fill)
    encoder = plan.cluster.build()
    folder = run.step(CLUSTERED, cluster_record, cluster_step, folder, settings=plan.cluster, encoder=encoder)
    exported = run.step(EXPORTED, export_record, export_step, folder, settings=plan.export, review=plan.review)
    run.step(SHOWN, tree_record, tree_step, exported, settings=plan.tree)
    if isinstance(made := run.results.get(EXPORTED), Exported):
        say(describe_exported(made, clusters=True))
    report = json.loads((exported / REPORT).read_text(encoding="utf-8"))
    return BuildResult(run.folder, tuple(run.results), LabelTree.from_json(exported / TREE), report)


def _checked_folder(folder: Path) -> Path:
    if folder.exists() and (not folder.is_dir() or (folder / MANIFEST).exists()):
        raise OptionError(
            f"out={str(folder)!r} holds other files",
            expected="a new folder or an earlier one of 'hiertree labels build'",
        )
    return folder


class _Run:
    """The folder of all steps, and what came of those that were run."""

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder, self._say = folder, say
        self.results: dict[str, object] = {}

    def step(
        self, name: str, record: Callable[..., StepRecord], work: Callable[..., object], source: Path, **inputs: Any
    ) -> Path:
        """The folder of a step, made unless it is current; ``record`` and ``work`` take the same inputs."""
        folder = self.folder / name
        if record(source, **inputs).is_current(folder):
            self.note(name, None)
        else:
            result = work(source, out=folder, **inputs)
            self.note(name, f"written to {folder}", result)
        return folder

    def note(self, name: str, message: str | None, result: object = None) -> None:
        """Report that a step was run, or by None that nothing had changed."""
        if message is not None:
            self.results[name] = result
        self._say(f"{name}: {message or 'unchanged'}")


def _scrape(plan: LabelsPlan, run: _Run) -> Path | None:
    """The store: a dump is read once, Wikimedia is asked only for what is lacking."""
    settings = plan.scrape
    if settings is None:
        return None
    if settings.dump is not None:
        report = dump_step(plan.landmarks, settings=settings, columns=plan.columns, folder=run.folder)
        run.note("dump", report)
    if settings.contact is not None:
        store = run.folder / STORE
        found = scrape(plan.landmarks, store=store, settings=settings, columns=plan.columns, failed_too=True)
        run.note("scraped", describe_outcomes(found))
        _check_failures(found, allowed=plan.allow_failed)
    return run.folder / STORE


def _check_failures(found: Tally, *, allowed: float) -> None:
    failed, landmarks = count_failed(found)
    if failed > allowed * landmarks:
        raise IncompleteScrapeError(
            f"{failed} of {landmarks} landmarks failed",
            expected=f"at most a share of {allowed:g}",
            remedy="run the plan again, which asks for them again, or set allow_failed",
        )
