"""A command that is killed before any of its file operations succeeds when it is given again, with the same files."""

from __future__ import annotations

import os
from contextlib import nullcontext

import numpy as np
import pytest
from commands_page import every_command
from stops import StoppedCommands
from wikimedia import Places, Wikimedia
from wikimedia.tools import CONTACT

from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.cli.checked_paths import DECLARED

MOST = 40  # stops of a command
TINY = (
    "--set data.families=2 --set data.kinds=2 --set data.instances=2 --set data.images=4 --set data.image_size=16"
    " --set images.size=16 --set images.workers=0 --set sampler.batch_size=8 --set sampler.images_per_class=2"
    " --set model.width=4 --set model.embedding_size=8 --set training.epochs=1 --set training.device=cpu"
)
# Each command with options by which it writes; IN is a folder of inputs, OUT the folder that is compared.
CASES = {
    "split": "IN/labels.csv --levels kind,name --out OUT/split.csv",
    "qrels": "IN/labels.csv --levels kind,name --out OUT/qrels.txt",
    "tree": "IN/leaves.csv --levels kind,name --out OUT/tree.json",
    "evaluate": "IN/e.npz --metrics R@1 --per-query OUT/values.csv --out OUT/means.json",
    "evaluate-run": "IN/run.txt --qrels IN/qrels.txt --per-query OUT/values.csv --out OUT/means.json",
    "evaluate-pairs": "IN/e.npy IN/grades.npy --gallery IN/e.npy --per-query OUT/values.csv --out OUT/means.json",
    "report": "IN/e.npz --queries 1 --hits 1 --out OUT/report.html",
    "train": f"synthetic-happier {TINY} --out OUT/run",
    "embed": "IN/run IN/photos --no-labels --shard-size 3 --out OUT/embedded",
    "export": "IN/run --images IN/photos --out OUT/exported",
    "compare": f"synthetic-happier synthetic-smooth-ap {TINY} --out OUT/compared",
    "demo": "--quick --out OUT/demo",
    "labels scrape": "IN/places.csv --store OUT/s.sqlite --table OUT/scraped.csv WIKIMEDIA",
    "labels status": "IN/store.sqlite --table OUT/table.csv",
    "labels retry": "OUT/store.sqlite --table OUT/table.csv WIKIMEDIA",
    "labels clean": "IN/landmarks.csv --out OUT/cleaned",
    "labels cluster": "IN/built/cleaned --clusters 4 --out OUT/clustered",
    "labels export": "IN/built/clustered --out OUT/exported",
    "labels tree": "IN/built/exported --out OUT/tree.html",
    "labels images": "IN/built/exported --images IN/landmark-photos --out OUT/listed",
    "labels build": "IN/landmarks.csv --clusters 4 --out OUT/built",
}
# Commands that are stopped elsewhere, and where.
ELSEWHERE = {
    "datasets download": "tests/hiertree/datasets/test_resumable_download.py",
    "labels hypernyms": "tests/pipelines/labels/test_build_drill.py",
    "labels review": "tests/pipelines/labels/review/test_review_log.py",
    "labels fill": "as the other steps, by hiertree.pipelines.labels.steps",
    "labels agreement": "as evaluate: one JSON file that holds its manifest",
}


def writes(found):
    """Whether a command has an output."""
    return any(isinstance(param.type, DECLARED) and param.type.role != "input" for param in found.params)


def test_every_command_that_writes_is_stopped():
    writing = {name.removeprefix("hiertree ") for name, command in every_command(commands) if writes(command)}
    assert writing == {*CASES, *ELSEWHERE}


@pytest.fixture(scope="module")
def stopping():
    if not hasattr(os, "fork"):
        pytest.skip("processes are forked")
    with StoppedCommands() as opened:
        yield opened


@pytest.fixture(scope="module")
def inputs(stopping, tmp_path_factory):
    """Tables, embeddings, photos, a run, a build and a store."""
    from PIL import Image

    from hiertree.pipelines.demo import LANDMARKS

    folder, rng = tmp_path_factory.mktemp("inputs"), np.random.default_rng(0)
    paths = np.stack([np.arange(24) // 12, np.arange(24) // 4], axis=1)
    np.save(folder / "e.npy", embeddings := rng.normal(size=(24, 4)).astype(np.float32))
    np.savez(folder / "e.npz", embeddings=embeddings, paths=paths)
    np.save(folder / "grades.npy", rng.integers(0, 3, (24, 24)))
    (folder / "run.txt").write_text("q Q0 a 1 0.9 tag\nq Q0 b 2 0.5 tag\n")
    (folder / "qrels.txt").write_text("q 0 a 0\nq 0 b 1\n")
    rows = "".join(f"{row}.png,k{kind},n{name}\n" for row, (kind, name) in enumerate(paths.tolist()))
    (folder / "labels.csv").write_text(f"image,kind,name\n{rows}")
    (folder / "leaves.csv").write_text("kind,name\na,b\na,c\nd,e\n")
    (folder / "landmarks.csv").write_bytes(LANDMARKS.read_bytes())
    url = "http://commons.wikimedia.org/wiki/Category:Place_{}"
    categories = "".join(f"{landmark},{url.format(landmark)}\n" for landmark in range(60))
    (folder / "places.csv").write_text(f"landmark_id,category\n{categories}")
    (folder / "photos").mkdir()
    for row in range(8):
        pixels = rng.integers(0, 255, (16, 16), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{row}.png")
    landmarks = [line.split(",")[0] for line in LANDMARKS.read_text(encoding="utf-8").splitlines()[1:7]]
    for landmark in landmarks:
        (folder / "landmark-photos" / landmark).mkdir(parents=True)
        for row in range(2):
            Image.fromarray(pixels + row).save(folder / "landmark-photos" / landmark / f"{row}.png")
    made = [f"train synthetic-happier {TINY} --out IN/run", "labels build IN/landmarks.csv --clusters 4 --out IN/built"]
    with Wikimedia(Places.numbered(60)) as wikimedia:
        made.append("labels scrape IN/places.csv --store IN/store.sqlite WIKIMEDIA")
        for line in made:
            status, output, _ = stopping.run(words(line, folder, folder, wikimedia))
            assert status == 0, output
    return folder


def words(line, folder, out, wikimedia):
    """The words of a command."""
    if wikimedia is not None:
        endpoints = {name.replace("_", "-"): url for name, url in wikimedia.options.items()}
        asked = {"contact": CONTACT, "requests-per-minute": 6000, **endpoints}
        line = line.replace("WIKIMEDIA", " ".join(f"--{name} {value}" for name, value in asked.items()))
    return [argument.replace("IN/", f"{folder}/").replace("OUT/", f"{out}/") for argument in line.split()]


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("earlier", [False, True], ids=["new", "again"])
def test_a_command_killed_anywhere_succeeds_when_it_is_given_again(name, earlier, stopping, inputs, tmp_path):
    out = tmp_path / "out"
    with Wikimedia(Places.numbered(60)) if "WIKIMEDIA" in CASES[name] else nullcontext() as wikimedia:
        typed = words(f"{name} {CASES[name]}", inputs, out, wikimedia)

        def prepare(folder):
            if name == "labels retry":
                (folder / "store.sqlite").write_bytes((inputs / "store.sqlite").read_bytes())
            if earlier:
                status, output, _ = stopping.run(typed)
                assert status == 0, output

        stops, faults = stopping.stopped(typed, out, prepare=prepare, max_stops=MOST // 4 if earlier else MOST)
    assert stops or earlier
    assert faults == []
    print(f"{name}: {stops} stops")


def parts_of(out):
    """The parts that embed has written."""
    return {path.name: path.read_bytes() for path in (out / "embedded").glob("part-*")}


@pytest.mark.nightly
def test_another_model_never_joins_what_a_killed_call_left(stopping, inputs, tmp_path):
    out, alone, other = tmp_path / "out", tmp_path / "alone", tmp_path / "other"
    typed = f"train synthetic-happier {TINY} --set seed=1 --out OUT/run"
    assert stopping.run(words(typed, inputs, other, None))[0] == 0
    case = f"embed {CASES['embed']}"

    def second(folder):
        return words(case.replace("IN/run", f"{other}/run"), inputs, folder, None)

    assert stopping.run(second(alone))[0] == 0
    expected = parts_of(alone)
    first = words(case, inputs, out, None)
    out.mkdir()
    operations = stopping.run(first, under=out)[2]
    for at in range(1, len(operations) + 1):
        for path in sorted(out.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        stopping.run(first, under=out, at=at)
        status, output, _ = stopping.run(second(out))
        if status == 0:
            assert parts_of(out) == expected, operations[at - 1]
        else:
            assert "was computed from other weights" in output
