"""Resolve paths: a run, a comparison of runs, a folder of shards as ``hiertree embed`` writes it, or a file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from hiertree.errors import CheckpointError, OptionError, nearest_name
from hiertree.io.provenance import MANIFEST

from .shards import SHARD_ENDINGS, shard_files

LocationKind = Literal["run", "comparison", "shards", "file"]
UNFINISHED = "shards"  # the folder of an embedding that is under way
_LISTED = 10_000  # files among which a similar name is looked for


class Location(NamedTuple):
    """The files of embeddings in one place."""

    embeddings: Path  # a file, or a folder or pattern of shards
    tree: Path | None = None  # of the labels that the paths of a run number


def kind_of(path: Path) -> LocationKind:
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
    if any(any(path.glob(f"[!.]*{suffix}")) for suffix in SHARD_ENDINGS):
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
        return _locate_run(source)
    tree, is_of_run = source.parent / "tree.json", (source.parent / "recipe.yaml").is_file()
    is_numbered = source.suffix == ".npz" and is_of_run and tree.is_file()
    return Location(source, tree if is_numbered else None)


def files_read(source: Path) -> list[Path]:
    """The files that a source of embeddings stands for, shards one by one."""
    return shard_files(locate(source).embeddings)


def no_such(path: Path, kind: str = "run, folder or file") -> OptionError:
    """The error for a path of some kind that does not exist, with a similar one that does."""
    parent, pattern = path.parent, f"*/{path.name}"
    siblings = [entry.name for entry in islice(parent.glob("[!.]*"), _LISTED)]
    name = nearest_name(path.name, siblings)
    suggestions = [] if name is None else [parent / name]
    suggestions += [*parent.glob(pattern), *parent.parent.glob(pattern)]
    return OptionError(f"no such {kind}: {path}", remedy=f"did you mean {suggestions[0]}?" if suggestions else None)


def _locate_run(run: Path) -> Location:
    embeddings = run / "embeddings.npz"
    if not (run / "metrics.json").is_file():
        remedy = f"`hiertree train {run / 'recipe.yaml'} --out {run}` finishes it"
        raise CheckpointError(f"{run} holds a run that is not finished", expected="a finished run", remedy=remedy)
    if not embeddings.is_file():
        remedy = f"`hiertree embed {run} PHOTOS --out embedded` makes some"
        raise OptionError(f"{run} holds a model without embeddings", expected="a run's own folder", remedy=remedy)
    tree = run / "tree.json"
    return Location(embeddings, tree if tree.is_file() else None)
