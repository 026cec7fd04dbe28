"""Resolve paths: a run, a comparison of runs, a folder that ``hiertree embed`` wrote, shards, or a file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from hiertree.errors import CheckpointError, OptionError, nearest_name
from hiertree.io.provenance import MANIFEST

from .shards import SHARDS as SUFFIXES
from .shards import shard_files

Kind = Literal["run", "comparison", "embedded", "shards", "file"]
UNFINISHED = "shards"  # the folder of an embedding that is under way
_LISTED = 10_000  # files among which a similar name is looked for


class StoredSide(NamedTuple):
    """Embeddings, and the table of their names or labels if it is a file of its own."""

    embeddings: Path
    table: Path | None = None


class Location(NamedTuple):
    """The files of embeddings in one place."""

    kind: Kind
    queries: StoredSide
    gallery: StoredSide | None = None
    tree: Path | None = None  # of the labels that the paths of a run number


def kind_of(path: Path) -> Kind:
    """What a path stands for; an OptionError where nothing is there, or nothing that hiertree knows."""
    if not path.is_dir():
        if path.exists() or any(sign in str(path) for sign in "*?["):
            return "file"
        raise no_such(path)
    if (path / "comparison.csv").is_file():
        return "comparison"
    if (path / "recipe.yaml").is_file():
        return "run"
    if (path / UNFINISHED).is_dir() and not (path / MANIFEST).is_file():
        remedy = "run the same `hiertree embed` again to finish it"
        raise CheckpointError(f"{path} holds embeddings that are not finished", remedy=remedy)
    if (path / "queries.npy").is_file() or _table_of_all(path) is not None:
        return "embedded"
    sides = [path, path / "queries", path / "gallery"]
    if any(any(side.glob(f"[!.]*{suffix}")) for side in sides for suffix in SUFFIXES):
        return "shards"
    runs = sorted(file.parent for file in path.glob("*/metrics.json"))
    raise OptionError(
        f"{path} holds neither a run nor embeddings",
        expected="the folder of a finished run, or one that `hiertree embed` wrote",
        remedy=f"name a run in it, such as {runs[0]}" if runs else None,
    )


def locate(source: Path) -> Location:
    """The files of the embeddings of a run, of a folder, of shards or in a file."""
    kind = kind_of(source)
    if kind == "comparison":
        runs = sorted(file.parent for file in source.glob("**/seed-*/metrics.json"))
        remedy = f"name one of its runs, such as {runs[0]}" if runs else None
        raise OptionError(f"{source} holds a comparison", expected="one run, or embeddings", remedy=remedy)
    if kind == "run":
        return _of_run(source)
    if kind == "embedded":
        return _of_arrays(source)
    if kind == "shards" and all((source / side).is_dir() for side in ("queries", "gallery")):
        return Location(kind, StoredSide(source / "queries"), StoredSide(source / "gallery"))
    tree, is_of_run = source.parent / "tree.json", (source.parent / "recipe.yaml").is_file()
    is_numbered = source.suffix == ".npz" and is_of_run and tree.is_file()
    return Location(kind, StoredSide(source), tree=tree if is_numbered else None)


def files_read(source: Path) -> list[Path]:
    """The files that a source of embeddings stands for, shards one by one."""
    place = locate(source)
    sides = [side for side in (place.queries, place.gallery) if side is not None]
    files = [file for side in sides for file in shard_files(side.embeddings)]
    return files + [side.table for side in sides if side.table is not None]


def no_such(path: Path) -> OptionError:
    """The error for a path that does not exist, with a similar one that does."""
    parent, pattern = path.parent, f"*/{path.name}"
    siblings = [entry.name for entry in islice(parent.glob("[!.]*"), _LISTED)]
    name = nearest_name(path.name, siblings)
    suggestions = [] if name is None else [parent / name]
    suggestions += [*parent.glob(pattern), *parent.parent.glob(pattern)]
    return OptionError(
        f"no such run, folder or file: {path}", remedy=f"did you mean {suggestions[0]}?" if suggestions else None
    )


def _of_run(run: Path) -> Location:
    embeddings = run / "embeddings.npz"
    if not (run / "metrics.json").is_file():
        remedy = f"`hiertree train {run / 'recipe.yaml'} --out {run}` finishes it"
        raise CheckpointError(f"{run} holds a run that is not finished", expected="a finished run", remedy=remedy)
    if not embeddings.is_file():
        remedy = f"`hiertree embed {run} PHOTOS --out embedded` makes some"
        raise OptionError(f"{run} holds a model without embeddings", expected="a run's own folder", remedy=remedy)
    tree = run / "tree.json"
    return Location("run", StoredSide(embeddings), tree=tree if tree.is_file() else None)


def _of_arrays(folder: Path) -> Location:
    table = _table_of_all(folder)
    if not (folder / "queries.npy").is_file() and table is not None:
        return Location("embedded", StoredSide(folder / "embeddings.npy", table))
    sides = [StoredSide(folder / f"{name}.npy", folder / f"{name}.csv") for name in ("queries", "gallery")]
    missing = [file.name for side in sides for file in side if file is not None and not file.is_file()]
    if missing:
        problem = f"{folder} without {' and '.join(missing)}"
        raise OptionError(problem, expected="all files that `hiertree embed` wrote there")
    queries, gallery = sides
    return Location("embedded", queries, gallery)


def _table_of_all(folder: Path) -> Path | None:
    tables = [folder / name for name in ("labels.csv", "images.csv") if (folder / "embeddings.npy").is_file()]
    return next(filter(Path.is_file, tables), None)
