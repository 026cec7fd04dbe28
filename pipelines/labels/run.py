"""``hiertree labels build labels.yaml``: all steps of a plan into one folder; what did not change is not run again.

The folder gets ``store.sqlite`` (where the plan scrapes or reads a dump), ``cleaned``, ``filled`` (where it fills),
``clustered``, ``exported`` and ``tree``. A step is current when its folder's manifest names the same command, settings,
seed, version and hashes of inputs, and its files still have the hashes that were written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .clean.step import CleanSettings, clean_making, clean_step
from .cluster.step import ClusterSettings, cluster_making, cluster_step
from .encode.clip_encoder import ClipEncoder
from .encode.encoders import make_encoder
from .export.differences import hierarchical_table
from .export.step import export_making, export_step
from .export.tables import TREE
from .export.tree_page import example_images, show_tree
from .fill.step import FillSettings, ImageSource, fill_making, fill_step
from .folders import Making
from .plan import LabelsPlan, read_plan
from .scrape import describe_outcomes
from .scrape.step import STORE, dump_step, scrape_step

CLEANED, FILLED, CLUSTERED, EXPORTED, SHOWN = "cleaned", "filled", "clustered", "exported", "tree"
PAGE = "index.html"
Say = Callable[[str], None]


def run_plan(path: str | os.PathLike[str], *, out: str | os.PathLike[str], say: Say = print) -> list[str]:
    """Run the steps of a plan that are not current.

    Args:
        path: ``labels.yaml``.
        out: the folder for all steps.
        say: what is told, a line a step.

    Returns:
        The steps that were run.

    Raises:
        RecipeError: the plan cannot be read.
        HiertreeError: what a step refuses; the folders of earlier steps stay.
    """
    plan, base = read_plan(path), Path(path).parent
    run = _Run(Path(out), say)
    store = _scraped(plan, base, run)
    cleaned = _cleaned(plan, base, store, run)
    filled = _filled(plan, base, cleaned, run)
    clustered = _clustered(plan, base, filled, run)
    exported = _exported(plan, base, clustered, run)
    _shown(plan, base, exported, run)
    return run.done


class _Run:
    """The folder of all steps, and which were run."""

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder, self._say = folder, say
        self.done: list[str] = []

    def step(self, name: str, making: Making, work: Callable[[Path], object]) -> Path:
        """The folder of a step, made unless it is current."""
        folder = self.folder / name
        if making.is_current(folder):
            self.told(name, None)
        else:
            work(folder)
            self.told(name, f"written to {folder}")
        return folder

    def told(self, name: str, text: str | None) -> None:
        """Note that a step was run, or by None that nothing had changed."""
        if text is not None:
            self.done.append(name)
        self._say(f"{name}: {text or 'unchanged'}")


def _scraped(plan: LabelsPlan, base: Path, run: _Run) -> Path | None:
    """The store: a dump is read once, Wikimedia is asked only for what is lacking."""
    asked = plan.scrape
    if asked is None:
        return None
    landmarks, columns = base / plan.landmarks, plan.columns
    if asked.dump is not None:
        settings = asked.model_copy(update={"dump": base / asked.dump})
        run.told("dump", dump_step(landmarks, settings=settings, columns=columns, folder=run.folder))
    if asked.contact is not None:
        found = scrape_step(landmarks, settings=asked, columns=columns, folder=run.folder)
        run.told("scraped", describe_outcomes(found))
    return run.folder / STORE


def _cleaned(plan: LabelsPlan, base: Path, store: Path | None, run: _Run) -> Path:
    landmarks = base / plan.landmarks
    instances = None if plan.instances is None else base / plan.instances
    settings = CleanSettings(plan.clean.multi, plan.clean.separator, plan.columns)
    making = clean_making(landmarks, instances=instances, store=store, settings=settings)
    return run.step(
        CLEANED,
        making,
        lambda out: clean_step(landmarks, out=out, instances=instances, store=store, settings=settings),
    )


def _filled(plan: LabelsPlan, base: Path, cleaned: Path, run: _Run) -> Path:
    if plan.fill is None:
        return cleaned
    asked = plan.fill
    images, table, embeddings = (
        None if path is None else base / path for path in (asked.images, asked.image_table, asked.embeddings)
    )
    weights = _file_or_name(base, asked.clip_weights)
    encoder = ClipEncoder(asked.clip_model, weights, asked.prompts, asked.batch_size, asked.device)
    source = ImageSource(images, table, embeddings, encoder)
    settings = FillSettings(asked.method, asked.threshold, asked.neighbours, asked.temperature)
    making = fill_making(cleaned, source=source, vectors=source.vectors(), settings=settings)
    return run.step(FILLED, making, lambda out: fill_step(cleaned, out=out, source=source, settings=settings))


def _file_or_name(base: Path, weights: str) -> str:
    """A file beside the plan, or a name that open_clip knows."""
    return str(base / weights) if (base / weights).is_file() else weights


def _clustered(plan: LabelsPlan, base: Path, cleaned: Path, run: _Run) -> Path:
    asked = plan.cluster
    encoder = make_encoder(
        asked.encoder,
        clip_model=asked.clip_model,
        clip_weights=_file_or_name(base, asked.clip_weights),
        sentence_model=asked.sentence_model,
        prompts=asked.prompts,
        batch_size=asked.batch_size,
        device=asked.device,
        cache=None if asked.cache is None else base / asked.cache,
    )
    settings = ClusterSettings(asked.clusters, asked.seed, asked.restarts, asked.levels, asked.scan)
    references = [str(base / spec) for spec in asked.references]
    making = cluster_making(cleaned, encoder=encoder, settings=settings, references=references)
    return run.step(
        CLUSTERED,
        making,
        lambda out: cluster_step(cleaned, out=out, encoder=encoder, settings=settings, references=references),
    )


def _exported(plan: LabelsPlan, base: Path, clustered: Path, run: _Run) -> Path:
    review = None if plan.review is None else base / plan.review
    making = export_making(clustered, review=review, split=plan.export.split)
    return run.step(
        EXPORTED, making, lambda out: export_step(clustered, out=out, review=review, split=plan.export.split)
    )


def _shown(plan: LabelsPlan, base: Path, exported: Path, run: _Run) -> None:
    asked = plan.tree
    images, table = (None if path is None else base / path for path in (asked.images, asked.image_table))
    pictures = () if images is None else tuple(example_images(exported, images, table))
    read = (hierarchical_table(exported), exported / TREE, *([] if table is None else [table]), *pictures)
    making = Making("hiertree labels tree", asked.model_dump(), read)

    def work(out: Path) -> None:
        with making.into(out) as folder:
            show_tree(exported, out=folder / PAGE, title=asked.title, images=images, image_table=table)

    run.step(SHOWN, making, work)
