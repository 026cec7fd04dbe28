"""Small files of every kind that commands read, and ways to damage them."""

from __future__ import annotations

import contextlib
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pandas as pd
from benchmark_files import write_benchmark
from PIL import Image

from hiertree.pipelines.cli.application import commands, main
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.run.experiment import train

ITEMS = 12
TYPES = ("mountain", "mountain peak", "lake", "river", "church", "chapel", "museum", "art museum", "bridge")


def call(typed: str | list[str]) -> tuple[int, str, str]:
    """Status, standard output and standard error of a command."""
    typed_words = typed.split() if isinstance(typed, str) else typed
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(typed_words)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 0
    return status, out.getvalue(), err.getvalue()


def command_of(typed_words: list[str]) -> tuple[click.Command, list[str]]:
    """The command of some words, and its name."""
    command: click.Command = commands
    context, name = click.Context(commands), []
    for token in typed_words:
        if not isinstance(command, click.Group):
            break
        following = command.get_command(context, token)
        if following is None:
            break
        command, name = following, [*name, token]
    return command, name


def names_of(group: click.Group) -> Iterator[str]:
    """The names of all commands in a group, those of its groups with both words."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield name
        if isinstance(command, click.Group):
            yield from (f"{name} {subcommand}" for subcommand in names_of(command))


def make_world(folder: Path) -> None:
    """Fill a folder, which is the current one.

    ``s.npz`` holds embeddings and paths, ``e.npy`` embeddings alone with ``l.csv``, ``run`` is a finished run on
    ``data``, ``embedded`` what embed makes of it, ``cleaned``, ``clustered`` and ``exported`` are made of
    ``landmarks.csv``.
    """
    rng = np.random.default_rng(0)
    paths = np.stack([np.arange(ITEMS) // 6, np.arange(ITEMS) // 3], axis=1)
    vectors = rng.normal(size=(ITEMS, 4)).astype(np.float32)
    np.savez(folder / "s.npz", embeddings=vectors, paths=paths)
    np.save(folder / "e.npy", vectors)
    labels = pd.DataFrame({"kind": [f"k{kind}" for kind in paths[:, 0]], "name": [f"n{name}" for name in paths[:, 1]]})
    labels.to_csv(folder / "l.csv", index=False)
    labels.assign(vector=list(vectors)).to_parquet(folder / "s.parquet")
    (folder / "junk.csv").write_text("query,item\n0,1\n1,2\n")
    (folder / "run.txt").write_text("a Q0 b 1 0.9 t\na Q0 c 2 0.8 t\n")
    (folder / "qrels.txt").write_text("a 0 b 1\na 0 c 0\n")
    np.save(folder / "grades.npy", (paths[:, None] == paths[::-1]).sum(axis=2))
    rows = [f"{row + 1},http://commons.wikimedia.org/wiki/Category:P{row},{name}" for row, name in enumerate(TYPES)]
    (folder / "landmarks.csv").write_text("\n".join(["landmark_id,category,instance_of", *rows, ""]))
    (folder / "plan.yaml").write_text("landmarks: landmarks.csv\n")
    (folder / "photos").mkdir()
    for row in range(len(TYPES)):
        for photo in range(2):
            (folder / "photos" / str(row + 1)).mkdir(exist_ok=True)
            Image.new("RGB", (8, 8), (20 * row, 90, 10 * photo)).save(folder / "photos" / str(row + 1) / f"{photo}.jpg")
    write_benchmark("sop", folder / "data")
    train(load_recipe("sop-happier", [*SMALL, f"data.root={folder / 'data'}"]), folder / "run")
    (folder / "recipe.yaml").write_bytes((folder / "run" / "recipe.yaml").read_bytes())
    for typed in (
        "embed run data --out embedded",
        "labels clean landmarks.csv --out cleaned",
        "labels cluster cleaned --out clustered --clusters 3",
        "labels export clustered --out exported",
    ):
        assert call(typed)[0] == 0, typed
    log = json.dumps({"nothing": "yet"})
    (folder / "log.jsonl").write_text(log + "\n")


SMALL = (
    *("images.size=16", "images.workers=0", "model.backbone=small_cnn", "model.pretrained=false", "model.width=4"),
    *("sampler.batch_size=4", "sampler.images_per_class=2", "model.embedding_size=8", "training.epochs=1"),
    *("training.device=cpu", "training.precision=32-true", "data.verify=structure"),
)


def signature(folder: Path) -> dict[str, tuple[int, int, int]]:
    """What changes when a file is written: its inode, size and time."""
    file_stats = {str(path): path.stat() for path in folder.rglob("*") if path.is_file()}
    return {path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in file_stats.items()}


def _arrays(path: Path, **arrays: object) -> None:
    np.savez(path, **{name: np.asarray(value) for name, value in arrays.items()})


def _array(value: object) -> Callable[[Path], None]:
    """Write an array in place of the file, in its format."""

    def write(path: Path) -> None:
        array = np.asarray(value)
        if path.suffix == ".npz":
            _arrays(path, embeddings=array, paths=np.zeros((len(array) if array.ndim else 1, 2), np.int64))
        else:
            with path.open("wb") as file:
                np.save(file, array)

    return write


def _bytes(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("embeddings.npy", b"no array")


ANY_FILE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": _bytes(b""),
    "garbage": _bytes(bytes(range(256)) * 4),
    "truncated": _truncate,
    "folder": _replace_by_folder,
    "zeros": _bytes(bytes(1000)),
}
TEXT_FILE: dict[str, Callable[[Path], object]] = {
    "utf-16": lambda path: path.write_bytes(path.read_text().encode("utf-16")),
    "latin-1": lambda path: path.write_bytes(path.read_bytes() + "\nä,ö,ü\n".encode("latin-1")),
    "header only": lambda path: path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n"),
    "one more cell": lambda path: path.write_bytes(path.read_bytes() + b"1,2,3,4,5,6,7,8,9\n"),
    "NUL": lambda path: path.write_bytes(path.read_bytes().replace(b"n", b"n\0")),
    "no header": lambda path: path.write_bytes(path.read_bytes().partition(b"\n")[2]),
    "an open quote": lambda path: path.write_bytes(path.read_bytes() + b'"a\n'),
    "columns of one name": lambda path: path.write_bytes(b"a,a,a\n1,2,3\n"),
    "deep": _bytes(b"[" * 3_000),
    "blank cells": lambda path: path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n" + b",,\n" * ITEMS),
}
ARRAY_FILE: dict[str, Callable[[Path], object]] = {
    "NaN": _array(np.full((ITEMS, 4), np.nan, np.float32)),
    "infinite": _array(np.full((ITEMS, 4), np.inf, np.float64)),
    "zero norm": _array(np.zeros((ITEMS, 4), np.float32)),
    "no rows": _array(np.zeros((0, 4), np.float32)),
    "no columns": _array(np.zeros((ITEMS, 0), np.float32)),
    "one row": _array(np.ones((1, 4), np.float32)),
    "vector": _array(np.ones(ITEMS, np.float32)),
    "three axes": _array(np.ones((ITEMS, 2, 2), np.float32)),
    "a number": _array(3.0),
    "texts": _array(np.array([["a", "b"]] * ITEMS)),
    "complex": _array(np.ones((ITEMS, 4), np.complex64)),
    "integers": _array(np.arange(ITEMS * 4).reshape(ITEMS, 4) + 1),
    "booleans": _array(np.ones((ITEMS, 4), np.bool_)),
    "half": _array(np.ones((ITEMS, 4), np.float16)),
    "huge": _array(np.full((ITEMS, 4), 1e300)),
    "dates": _array(np.full((ITEMS, 4), np.datetime64("2020-01-01"))),
    "void": _array(np.zeros(ITEMS, [("a", "f4"), ("b", "f4")])),
}
ZIP_FILE: dict[str, Callable[[Path], object]] = {
    "another zip": _other_zip,
    "no paths": lambda path: _arrays(path, embeddings=np.ones((ITEMS, 4))),
    "one array more": lambda path: _arrays(path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros((ITEMS, 2), int), x=1),
    "few paths": lambda path: _arrays(path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros((3, 2), int)),
    "negative paths": lambda path: _arrays(path, embeddings=np.ones((ITEMS, 4)), paths=np.full((ITEMS, 2), -1)),
    "fractional paths": lambda path: _arrays(path, embeddings=np.ones((ITEMS, 4)), paths=np.full((ITEMS, 2), 0.5)),
    "flat paths": lambda path: _arrays(path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros(ITEMS, int)),
    "no levels": lambda path: _arrays(path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros((ITEMS, 0), int)),
    "all alone": lambda path: _arrays(path, embeddings=np.eye(ITEMS), paths=np.stack([np.arange(ITEMS)] * 2, axis=1)),
    "a gallery of other width": lambda path: _arrays(
        path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros((ITEMS, 2), int), gallery_embeddings=np.ones((3, 5)),
        gallery_paths=np.zeros((3, 2), int),
    ),
    "half a gallery": lambda path: _arrays(
        path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros((ITEMS, 2), int), gallery_embeddings=np.ones((3, 4))
    ),
    "junk beyond": lambda path: _arrays(
        path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros((ITEMS, 2), int), junk=np.array([[0, 99]])
    ),
    "few ids": lambda path: _arrays(
        path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros((ITEMS, 2), int), ids=np.arange(3)
    ),
    "distractors alone": lambda path: _arrays(
        path, embeddings=np.ones((ITEMS, 4)), paths=np.zeros((ITEMS, 2), int), distractors=np.ones(ITEMS, bool)
    ),
}  # fmt: skip


def flips(data: bytes, copies: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Copies with a changed bit or byte, a block of noise, a hole or an insertion at a random place, or cut there."""
    chance = random.Random(seed)
    for _ in range(copies):
        offset, kind = chance.randrange(len(data)), chance.choice(("bit", "byte", "noise", "hole", "insert", "cut"))
        size = chance.choice((1, 4, 16, 64))
        changed = {
            "bit": bytes([data[offset] ^ 1 << chance.randrange(8)]) + data[offset + 1 :],
            "byte": bytes([chance.choice((0, 1, 127, 128, 255))]) + data[offset + 1 :],
            "noise": chance.randbytes(size) + data[offset + size :],
            "hole": data[offset + size :],
            "insert": chance.randbytes(size) + data[offset:],
            "cut": b"",
        }[kind]
        yield f"{kind} of {size} at {offset}", data[:offset] + changed


def damages(path: str) -> dict[str, Callable[[Path], object]]:
    """The ways to damage a file, by its suffix."""
    kinds = dict(ANY_FILE)
    if path.endswith((".csv", ".yaml", ".json", ".jsonl")):
        kinds |= TEXT_FILE
    if path.endswith((".npy", ".npz")):
        kinds |= ARRAY_FILE
    if path.endswith(".npz"):
        kinds |= ZIP_FILE
    return kinds
