"""Seconds and peak memory to load lists of 1.4 million images, as the start of a training does.

``python benchmarks/dataset_startup.py`` writes lists in a temporary folder, in the formats of H-GLDv2 and
iNaturalist-2018, and loads each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

LANDMARKS = 81_313
SPECIES = 8_142
RANKS = {"kingdom": 6, "phylum": 24, "class": 48, "order": 240, "family": 960, "genus": 3840}


def write_gldv2(root: Path, images: int) -> None:
    """One row per landmark; every ninth landmark has no label."""
    rng = np.random.default_rng(0)
    ids = [f"{number:016x}" for number in rng.integers(0, 2**63, images).tolist()]
    ends = np.sort(rng.choice(np.arange(1, images), min(LANDMARKS, images) - 1, replace=False)).tolist()
    groups = zip([0, *ends], [*ends, images], strict=True)
    rows = [f"{number},{' '.join(ids[start:end])}" for number, (start, end) in enumerate(groups)]
    (root / "train_clean.csv").write_text("\n".join(["landmark_id,images", *rows]) + "\n")
    labels = (f"{n},url,type,{'' if n % 9 == 0 else f'label {n % 78}'},{'natural' if n % 78 < 20 else 'human-made'}"
              for n in range(len(rows)))  # fmt: skip
    header = "landmark_id,category,supercategory,hierarchical_label,natural_or_human_made"
    (root / "train_label_to_hierarchical.csv").write_text("\n".join([header, *labels]) + "\n")
    (root / "train").mkdir()


def write_inaturalist(root: Path, images: int) -> None:
    """A split list and a table of categories."""
    names = (f"train_val2018/Super{n % 14}/{n % SPECIES}/{n:032x}.jpg" for n in range(images))
    (root / "Inat_dataset_splits").mkdir()
    (root / "Inat_dataset_splits" / "Inaturalist_train_set1.txt").write_text("\n".join(names) + "\n")
    categories = [{"id": n, **{rank: f"{rank} {n % size}" for rank, size in RANKS.items()}} for n in range(SPECIES)]
    (root / "categories.json").write_text(json.dumps(categories))


def load(name: str, root: Path) -> None:
    """Load the lists, of whose images no file is looked for."""
    from hiertree import datasets
    from hiertree.datasets import description

    description.LOOKED_FOR = 0
    started = time.perf_counter()
    train = datasets.load(name, root, "train", verify="structure")
    seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    used = f"{seconds:.1f} s, {time.process_time():.1f} s of processor, {memory:.2f} GB at most"
    print(f"{name}: {len(train):,} images, {train.tree!r}: {used}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=1_580_000)
    images = parser.parse_args().images
    writers: dict[str, Callable[[Path, int], None]] = {"h-gldv2": write_gldv2, "inaturalist-full": write_inaturalist}
    processes = multiprocessing.get_context("spawn")
    for name, write in writers.items():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), images)
            process = processes.Process(target=load, args=(name, Path(folder)))
            process.start()
            process.join()


if __name__ == "__main__":
    main()
