"""What ``hiertree train`` takes until its first step on 1.4 million images: seconds, and the memory of all processes.

``python benchmarks/training_startup.py`` writes H-GLDv2's lists, a small archive of JPEGs and an index that finds every
listed image in it, trains HAPPIER with a small network from there, and stops the run once its first step is kept.
Memory is the sum of what every process has for itself and its share of what they have together (PSS).
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
from dataset_startup import write_gldv2
from PIL import Image

from hiertree.datasets.archives import INDEX, TarIndex

PICTURES = 64
SETTINGS = (
    "data.verify=structure", "images.size=32", "model.backbone=small_cnn", "model.pretrained=false",
    "model.embedding_size=64", "model.projection_init=random", "training.epochs=1", "training.device=cpu",
    "training.precision=32-true", "training.checkpoint_every_steps=1",
)  # fmt: skip


def write_archive(folder: Path, ids: list[str]) -> None:
    """An archive of a few JPEGs, and the index of one in which every image is one of them."""
    archive, rng = folder / "images_000.tar", np.random.default_rng(0)
    with tarfile.open(archive, "w") as opened:
        for number in range(PICTURES):
            content = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (96, 128, 3), dtype=np.uint8)).save(content, "JPEG")
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = content.tell()
            content.seek(0)
            opened.addfile(member, content)
    with tarfile.open(archive) as opened:
        places = np.array([(member.offset_data, member.size) for member in opened])
    names = np.sort(np.array([f"{name[0]}/{name[1]}/{name[2]}/{name}.jpg" for name in ids], dtype=np.bytes_))
    offsets, sizes = places[np.arange(len(names)) % PICTURES].T
    stamps = np.array([f"{archive.name}/{archive.stat().st_size}/{archive.stat().st_mtime_ns}"])
    index = TarIndex(stamps, names, np.zeros(len(names), np.int32), offsets, sizes)
    np.savez(folder / INDEX.removesuffix(".npz"), **index._asdict())


def write_data(root: Path, images: int) -> None:
    """The training lists of H-GLDv2, and a test of a hundred images."""
    write_gldv2(root, images)
    rows = (root / "train_clean.csv").read_text().splitlines()[1:]
    listed = [row.partition(",")[2].split() for row in rows]
    write_archive(root / "train", [image for group in listed for image in group])
    tested = [image for group in listed for image in group][:100]
    (root / "index_image_to_landmark.csv").write_text(
        "\n".join(["id,landmark_id", *(f"{image},{number % 10 + 1}" for number, image in enumerate(tested))]) + "\n"
    )
    (root / "retrieval_solution_v2.1.csv").write_text(f"id,images,Usage\n{tested[0]},{tested[1]},Public\n")
    labels = (root / "train_label_to_hierarchical.csv").read_text().splitlines()[:12]
    (root / "index_label_to_hierarchical.csv").write_text("\n".join(labels) + "\n")
    for part in ("index", "test"):
        (root / part).mkdir()
        write_archive(root / part, tested)


def descendants(process: int) -> list[int]:
    """A process and all that it started, as far as they are alive."""
    found = [process]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def memory(process: int) -> tuple[float, int]:
    """Gigabytes of a process and all that it started, and how many they are."""
    total, processes = 0, descendants(process)
    for number in processes:
        try:
            lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1e6, len(processes)


def start(root: Path, out: Path, workers: int) -> None:
    """Train until the first checkpoint, and say what that took."""
    command = [sys.executable, "-m", "hiertree", "train", "h-gldv2-happier", "--out", str(out)]
    settings = (*SETTINGS, f"data.root={root}", f"images.workers={workers}")
    started, peak, most = time.perf_counter(), 0.0, 0
    arguments = [word for setting in settings for word in ("--set", setting)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL) as run:
        while run.poll() is None and not any((out / "checkpoints").glob("*")):
            time.sleep(0.1)
            gigabytes, processes = memory(run.pid)
            peak, most = max(peak, gigabytes), max(most, processes)
        seconds = time.perf_counter() - started
        run.send_signal(signal.SIGTERM)
    used = os.times()
    print(
        f"first step after {seconds:.1f} s; {peak:.2f} GB at most in {most} processes; "
        f"{used.children_user + used.children_system:.1f} s of processor until the end, status {run.returncode}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=1_580_000, help="of which an eighth has no hierarchical label")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "gldv2"
        root.mkdir()
        write_data(root, arguments.images)
        start(root, Path(folder) / "run", arguments.workers)


if __name__ == "__main__":
    main()
