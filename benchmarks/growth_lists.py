"""The lists of benchmarks for the growth table, with as many images as asked for and none of their files."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

LISTS = {  # of benchmarks: the file, what it begins with, and the line of an image
    "sop": (
        "Ebay_train.txt",
        "image_id class_id super_class_id path\n",
        "{row} {leaf} {kind} kind{kind}_final/{row}.JPG",
    ),
    "inshop": (
        "Eval/list_eval_partition.txt",
        "{count}\nimage_name item_id evaluation_status\n",
        "img/MEN/Shirts/id_{leaf:08d}/{row}.jpg id_{leaf:08d} train",
    ),
    "vehicleid": ("train_test_split/train_list.txt", "", "{row:07d} {leaf}"),
    "vggface2": ("data/train_list.txt", "", "n{leaf:06d}/{row:07d}_01.jpg"),
    "dyml": ("train/label.csv", "fname, coarse_id, middle_id, fine_id\n", "{row}.jpg, {kind}, {group}, {leaf}"),
    "ijbc": (
        "protocols/ijbc_metadata.csv",
        "SUBJECT_ID,FILENAME,SIGHTING_ID,FACE_X,FACE_Y,FACE_WIDTH,FACE_HEIGHT,GENDER\n",
        "{leaf},img/{row}.jpg,{row},1,1,4,4,1",
    ),
}


def write_list(name: str, count: int) -> None:
    """The list of a benchmark with as many images."""
    file, head, line = LISTS[name]
    path = Path(file)
    path.with_name("train").mkdir(parents=True, exist_ok=True)
    lines = (line.format(row=row, leaf=row // 5, group=row // 100, kind=row // 2000) for row in range(count))
    path.write_text(head.format(count=count) + "\n".join(lines) + "\n", encoding="utf-8")


def write_products(count: int) -> None:
    """Stanford Online Products with as many images, which are empty."""
    write_list("sop", count)
    for row in range(count):
        file = Path(f"kind{row // 2000}_final/{row}.JPG")
        file.parent.mkdir(exist_ok=True)
        file.touch()


def write_pickle(count: int) -> None:
    """SfM-120k's pickle."""
    names = [f"{row:032x}" for row in range(count)]
    split = {"cids": names, "cluster": [row // 5 for row in range(count)], "qidxs": [], "pidxs": []}
    Path("retrieval-SfM-120k.pkl").write_bytes(pickle.dumps({"train": split, "val": split}, protocol=2))


def write_flags(count: int) -> None:
    """NUS-WIDE's list, and a file for each of its 21 labels."""
    lines = (f"C:\\ImageData\\Flickr\\actor\\{row:07d}_1.jpg\n" for row in range(count))
    Path("Imagelist.txt").write_text("".join(lines), encoding="utf-8")
    folder, random = Path("Groundtruth", "AllLabels"), np.random.default_rng(0)
    folder.mkdir(parents=True)
    for label in range(21):
        np.savetxt(folder / f"Labels_label{label}.txt", random.random(count) < 0.1, fmt="%d")


def write_classes(count: int) -> None:
    """iNaturalist-2019's folders with five images in each, and the tree above them."""
    groups = [f"group{row}" for row in range(-(-count // 100))]
    pairs = [("root", group) for group in groups]
    for leaf in range(-(-count // 5)):
        pairs.append((groups[leaf // 20], f"nat{leaf:07d}"))
        folder = Path("train", f"nat{leaf:07d}")
        folder.mkdir(parents=True)
        for view in range(5):
            (folder / f"{view}.jpg").touch()
    Path("inaturalist19_isa.txt").write_text("\n".join(map(" ".join, pairs)) + "\n", encoding="utf-8")


def write_gldv2(count: int) -> None:
    """H-GLDv2's training lists."""
    from dataset_startup import write_gldv2

    write_gldv2(Path(), count)


def write_inaturalist(count: int) -> None:
    """iNaturalist-2018's training list, and its categories."""
    from dataset_startup import write_inaturalist

    write_inaturalist(Path(), count)
