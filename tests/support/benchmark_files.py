"""Small trees of files in the formats in which the benchmarks are published, with real images of a few pixels.

``write_benchmark("sop", folder)`` writes one; :data:`SHAPES` says what a loader finds in it.
"""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from scipy.io import savemat


class Shape(NamedTuple):
    """Images of a split, nodes at each level, the first image's name, and how many are queries and gallery."""

    images: int
    level_sizes: tuple[int, ...]
    first: str
    query_and_gallery: tuple[int, int] | None = None


def write_image(path: Path, image_id: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jpeg(image_id))


def jpeg(image_id: int) -> bytes:
    """A plain image whose color tells its number."""
    record = io.BytesIO()
    Image.new("RGB", (8, 6), (image_id * 37 % 256, image_id * 91 % 256, 128)).save(record, "JPEG")
    return record.getvalue()


def write_sop(root: Path) -> None:
    """Two super-categories of two products for training, two others for the test, three images each."""
    rows = []
    for product in range(1, 9):
        name = ["bicycle", "chair"][product % 2]
        for view in range(3):
            path = f"{name}_final/{111085122871 + product}_{view}.JPG"
            write_image(root / path, product)
            rows.append(f"{len(rows) + 1} {product} {2 - product % 2} {path}")
    header = "image_id class_id super_class_id path"
    parts = {"train": rows[:12], "test": rows[12:], "info": rows}
    for split, lines in parts.items():
        (root / f"Ebay_{split}.txt").write_text("\n".join([header, *lines]) + "\n")


TAXONOMY = (
    ("Animalia", "Chordata", "Aves", "Piciformes", "Picidae", "Picus", "Aves"),
    ("Animalia", "Chordata", "Aves", "Piciformes", "Picidae", "Dendrocopos", "Aves"),
    ("Animalia", "Arthropoda", "Insecta", "Odonata", "Libellulidae", "Libellula", "Insecta"),
    ("Plantae", "Tracheophyta", "Liliopsida", "Poales", "Poaceae", "Poa", "Plantae"),
)
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "supercategory")


def write_inaturalist(root: Path) -> None:
    """Species 0–3 train, 4–7 test, two images each; the categories inside a whole ``train2018.json``."""
    categories = [
        {"id": image_id, "name": f"species {image_id}", **dict(zip(RANKS, TAXONOMY[image_id % 4], strict=True))}
        for image_id in range(8)
    ]
    split_paths: dict[str, list[str]] = {"train": [], "test": []}
    for category in categories:
        for view in range(2):
            path = f"train_val2018/{category['supercategory']}/{category['id']}/{category['id']}{view}ab.jpg"
            write_image(root / path, int(category["id"]))
            split_paths["train" if category["id"] < 4 else "test"].append(path)
    (root / "Inat_dataset_splits").mkdir()
    for split, paths in split_paths.items():
        (root / f"Inat_dataset_splits/Inaturalist_{split}_set1.txt").write_text("\n".join(paths) + "\n")
    images = [{"id": 1, "file_name": "a.jpg", "rights_holder": 'the "categories" of a name'}]
    document = {"info": {}, "images": images, "categories": categories, "annotations": [], "licenses": []}
    (root / "train2018.json").write_text(json.dumps(document))


def write_better_mistakes(root: Path, tree: str, pairs: str, classes: tuple[str, ...]) -> None:
    """An image of each class in each split, and two in the first class of the test, with the pairs of the tree."""
    for image_id, name in enumerate(classes):
        for split in ("train", "val", "test"):
            write_image(root / split / name / f"{split}{image_id}.jpg", image_id)
    write_image(root / "test" / classes[0] / "test9.jpg", 9)
    (root / f"{tree}_isa.txt").write_text(pairs)


CHAINS = ("root kingdom phylum class order family", "root other phylum2 class2 order2 family2")
SPECIES = ("family genus1", "family genus2", "family2 genus3", "genus2 nat0002", "genus1 nat0000", "genus1 nat0001")
INATURALIST_2019 = "\n".join([*map(" ".join, (pair for chain in CHAINS for pair in pairwise(chain.split()))), *SPECIES])
INATURALIST_2019 += "\ngenus3 nat0003\n"
TIERED_IMAGENET = "n1 n2\nn1 n9\nn2 n3\nn3 n01530575\nn2 n01531178\nn9 n04482393\n"


def write_ilias(root: Path) -> None:
    """Three objects with a query and one or two positives each, in lists with the sizes of objects behind the names."""
    objects = {"bold_bimp_000": 1, "perky_puff_655": 2, "zippy_zootlenibble_999": 1}
    queries = [f"{name}/query/Q{name[-3:]}_00.jpg" for name in objects]
    positives = [f"{name}/pos/P{name[-3:]}_0{view}.jpg" for name, views in objects.items() for view in range(views)]
    for image_id, name in enumerate([*queries, *positives]):
        write_image(root / "ilias_core" / name, image_id)
    (root / "image_ids").mkdir()
    (root / "image_ids" / "image_query_ids.txt").write_text("".join(f"{name},0.41,12\n" for name in queries))
    (root / "image_ids" / "positive_ids.txt").write_text("".join(f"{name},0.07,33\n" for name in positives))
    names = list(objects)
    taxonomy = {"toy": {"other": {"other": names[:1], "card": names[1:2]}}, "landmark": {"sign": {"other": names[2:]}}}
    (root / "taxonomy.json").write_text(json.dumps(taxonomy))


def write_dyml(root: Path, collection: str) -> None:
    """Fine classes 0–3 in two middle and one or two coarse ones; lists whose header has lost its line break."""
    header = "fname, coarse_id, middle_id, fine_id"
    split = "mini-bmk_all_in_one"
    for folder in ("train", split) if collection == "product" else ("train",):
        rows = [f"{image_id}.jpg, {image_id // 4}, {image_id // 2}, {image_id}" for image_id in range(4)]
        rows += [f"{image_id + 4}.jpg, {image_id // 4}, {image_id // 2}, {image_id}" for image_id in range(4)]
        for image_id in range(8):
            write_image(root / folder / "imgs" / f"{image_id}.jpg", image_id)
        (root / folder / "label.csv").write_text(header + "\n".join(rows) + "\n")
    if collection == "product":
        return
    for scale, classes in (("fine", 3), ("middle", 2), ("coarse", 1)):
        for name, count in (("query", 3), ("gallery", 6)):
            rows = [f"{image_id}.jpg, {100 + image_id % classes}" for image_id in range(count)]
            for image_id in range(count):
                write_image(root / f"bmk_{scale}" / name / f"{image_id}.jpg", image_id)
            (root / f"bmk_{scale}" / f"{name}.csv").write_text("fname, labels" + "\n".join(rows) + "\n")


LANDMARKS = {  # landmark → images, kind, hierarchical label; the last has no label
    "train": {
        "17": (3, "natural", "lake"),
        "4": (2, "human-made", "church"),
        "230": (2, "human-made", "dam"),
        "9": (1, "", ""),
    },
    "index": {"5": (2, "natural", "lake"), "8": (3, "human-made", "church"), "11": (1, "", "")},
}


def write_gldv2(root: Path, *, archives: bool = True) -> None:
    """Images in archives, as published, or unpacked; ids of 16 hexadecimal digits."""
    files: dict[str, list[str]] = {"train": [], "index": [], "test": []}
    of_landmark: dict[tuple[str, str], list[str]] = {}
    for split, landmarks in LANDMARKS.items():
        rows = ["landmark_id,category,supercategory,hierarchical_label,natural_or_human_made"]
        for landmark, (count, kind, label) in landmarks.items():
            ids = [f"{int(landmark):03x}{split[0].encode().hex()}{image_id:011x}" for image_id in range(count)]
            of_landmark[split, landmark] = ids
            files[split] += ids
            rows.append(f'{landmark},"http://commons.wikimedia.org/wiki/Category:{split},_{landmark}",x,{label},{kind}')
        (root / f"{split}_label_to_hierarchical.csv").write_text("\n".join(rows) + "\n")
    clean = [f"{landmark},{' '.join(ids)}" for (split, landmark), ids in of_landmark.items() if split == "train"]
    (root / "train_clean.csv").write_text("\n".join(["landmark_id,images", *clean]) + "\n")
    every = [
        f"{image},http://x/{image},{landmark}"
        for (split, landmark), ids in of_landmark.items()
        if split == "train"
        for image in ids
    ]
    (root / "train.csv").write_text("\n".join(["id,url,landmark_id", *every]) + "\n")
    listed = {landmark: ids for (split, landmark), ids in of_landmark.items() if split == "index"}
    index = [f"{image},{landmark}" for landmark, ids in listed.items() for image in ids]
    (root / "index_image_to_landmark.csv").write_text("\n".join(["id,landmark_id", *index]) + "\n")
    files["test"] = [f"abc{image_id:013x}" for image_id in range(4)]
    truth = [" ".join(of_landmark["index", "8"]), "None", of_landmark["index", "5"][0], of_landmark["index", "11"][0]]
    solution = [
        f"{image},{images},{'Public' if image_id else 'Private'}"
        for image_id, (image, images) in enumerate(zip(files["test"], truth, strict=True))
    ]
    (root / "retrieval_solution_v2.1.csv").write_text("\n".join(["id,images,Usage", *solution]) + "\n")
    for split, ids in files.items():
        _write_landmark_images(root / split, ids, archives=archives)


def _write_landmark_images(folder: Path, ids: list[str], *, archives: bool) -> None:
    folder.mkdir()
    for image_id, image in enumerate(ids):
        name = f"{image[0]}/{image[1]}/{image[2]}/{image}.jpg"
        if not archives:
            write_image(folder / name, image_id)
            continue
        with tarfile.open(folder / f"images_{image_id % 2:03d}.tar", "a") as archive:
            member = tarfile.TarInfo(f"./{name}" if image_id % 3 else name)
            member.size = len(jpeg(image_id))
            archive.addfile(member, io.BytesIO(jpeg(image_id)))


def write_cub(root: Path) -> None:
    """Classes 99 to 102, of which the first two train, two images each."""
    images, labels = [], []
    for class_id in range(99, 103):
        for view in range(2):
            path = f"{class_id:03d}.Bird_{class_id}/Bird_{class_id}_{view:04d}.jpg"
            write_image(root / "images" / path, class_id)
            images.append(f"{len(images) + 1} {path}")
            labels.append(f"{len(labels) + 1} {class_id}")
    (root / "images.txt").write_text("\n".join(images) + "\n")
    (root / "image_class_labels.txt").write_text("\n".join(labels) + "\n")
    (root / "classes.txt").write_text("".join(f"{bird} {bird:03d}.Bird_{bird}\n" for bird in range(1, 201)))


def write_aircraft(root: Path) -> None:
    """Three variants of two families and manufacturers, two images each for training and one for the test."""
    planes = (("Boeing", "Boeing 707", "707-320"), ("Boeing", "Boeing 707", "727 200"), ("Airbus", "A300", "A300B4"))
    for split, views in {"trainval": 2, "test": 1}.items():
        rows = [
            (f"{split[0].encode().hex()}{plane}{view}".zfill(7), plane) for view in range(views) for plane in (2, 0, 1)
        ]
        for level, name in enumerate(("manufacturer", "family", "variant")):
            lines = "".join(f"{image} {planes[plane][level]}\n" for image, plane in rows)
            (root / "data" / "images").mkdir(parents=True, exist_ok=True)
            (root / "data" / f"images_{name}_{split}.txt").write_text(lines)
        for image, plane in rows:
            pixels = np.zeros((26, 8, 3), np.uint8)  # a banner of 20 black pixels below
            pixels[:6] = 80 * (plane + 1)
            Image.fromarray(pixels).save(root / "data" / "images" / f"{image}.jpg", quality=100)


def write_cars(root: Path) -> None:
    """Classes 97 to 100 of 196, of which the first two train, two images each."""
    fields = [("relative_im_path", object), ("bbox_x1", object), ("class", object), ("test", object)]
    rows = []
    for image_id in range(8):
        path = f"car_ims/{image_id + 1:06d}.jpg"
        write_image(root / path, image_id)
        rows.append((path, 1, 97 + image_id // 2, image_id % 2))
    names = np.array([f"Make Model {image_id} 2012" for image_id in range(1, 197)], dtype=object)
    savemat(root / "cars_annos.mat", {"annotations": np.array(rows, dtype=fields), "class_names": names})


def write_cars_devkit(root: Path, *, test_annotations: str) -> None:
    """The same images as the second release lays them out: halves of every class, and a devkit."""
    fields = [("bbox_x1", object), ("class", object), ("fname", object)]
    rows: dict[str, list[tuple[int, int, str]]] = {"cars_train": [], "cars_test": []}
    for image_id in range(8):
        folder = ["cars_train", "cars_test"][image_id % 2]
        rows[folder].append((1, 97 + image_id // 2, f"{len(rows[folder]) + 1:05d}.jpg"))
        write_image(root / folder / rows[folder][-1][2], image_id)
    (root / "devkit").mkdir()
    names = np.array([f"Make Model {image_id} 2012" for image_id in range(1, 197)], dtype=object)
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": names})
    train, test = (np.array(rows[folder], dtype=fields) for folder in rows)
    savemat(root / "devkit" / "cars_train_annos.mat", {"annotations": train})
    savemat(root / test_annotations / "cars_test_annos_withlabels.mat", {"annotations": test})


def write_inshop(root: Path) -> None:
    """Two items train; two others have a query and two gallery images each."""
    rows = []
    for item, (status, count) in enumerate([("train", 2), ("train", 2), ("query", 1), ("query", 1)], start=1):
        for view in range(count + 2 * (status == "query")):
            split = status if view < count else "gallery"
            path = f"img/{['MEN', 'WOMEN'][item % 2]}/Shirts/id_{item:08d}/{view + 1:02d}_1_front.jpg"
            write_image(root / path, item)
            rows.append(f"{path:<70} id_{item:08d} {split}")
    (root / "Eval").mkdir(parents=True)
    lines = [str(len(rows)), "image_name item_id evaluation_status", *rows]
    (root / "Eval" / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")


def write_vehicleid(root: Path) -> None:
    """Vehicles 1 and 2 train; 7, 8 and 9 are tested, three images each."""
    lists: dict[str, list[str]] = {"train_list": [], "test_list_800": []}
    for image_id, vehicle in enumerate([1, 1, 2, 2, 7, 7, 7, 8, 8, 8, 9, 9, 9], start=1):
        write_image(root / "image" / f"{image_id:07d}.jpg", image_id)
        lists["train_list" if vehicle < 7 else "test_list_800"].append(f"{image_id:07d} {vehicle}")
    (root / "train_test_split").mkdir()
    long_lists = {f"test_list_{size}": lists["test_list_800"][:length] for size, length in ((1600, 9), (2400, 6))}
    for name, rows in (lists | long_lists).items():
        (root / "train_test_split" / f"{name}.txt").write_text("\n".join(rows) + "\n")


def write_revisited(root: Path, city: str) -> None:
    """Two queries with boxes, four gallery images, lists as numpy arrays and as plain ones."""
    queries, gallery = ["all_souls_000001", "radcliffe_000002"], [f"oxford_{image_id:06d}" for image_id in range(4)]
    for image_id, name in enumerate([*queries, *gallery]):
        write_image(root / "jpg" / f"{name}.jpg", image_id)
    entries = [
        {
            "bbx": [1.0, 1.0, 5.0, 4.0],
            "easy": np.array([0]),
            "hard": np.array([2]),
            "junk": np.array([], dtype=np.int64),
        },
        {"bbx": np.array([0.0, 0.0, 8.0, 6.0]), "easy": [], "hard": [1], "junk": [3]},
    ]
    record = {"gnd": entries, "imlist": gallery, "qimlist": queries}
    (root / f"gnd_{city}.pkl").write_bytes(pickle.dumps(record, protocol=2))


def write_distractors(root: Path) -> None:
    """Three images of R1M in two folders, and their list."""
    names = ["0a/0a1.jpg", "0a/0a2.jpg", "ff/ff3.jpg"]
    for image_id, name in enumerate(names):
        write_image(root / "jpg" / name, image_id)
    (root / "revisitop1m.txt").write_text("\n".join(names) + "\n")


def write_cifar(root: Path, classes: int) -> None:
    """Two images a class and batch for the first four classes, in pickles as Python 2 wrote them."""
    fine = [0, 0, 1, 1, 2, 2, 3, 3]
    labels = {"labels": fine} if classes == 10 else {"fine_labels": fine, "coarse_labels": [n // 2 for n in fine]}
    names = (
        {"label_names": [f"class{n}" for n in range(10)]}
        if classes == 10
        else {
            "fine_label_names": [f"fine{n}" for n in range(100)],
            "coarse_label_names": [f"coarse{n}" for n in range(20)],
        }
    )
    root.mkdir(parents=True, exist_ok=True)
    batches = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"] if classes == 10 else ["train", "test"]
    for image_id, name in enumerate(batches):
        data = np.random.default_rng(image_id).integers(0, 256, (8, 3072), dtype=np.uint8)
        record = {"data": data, "filenames": [f"{name}_{n}.png" for n in range(8)], "batch_label": name, **labels}
        (root / name).write_bytes(pickle.dumps(record, protocol=2))
    (root / ("batches.meta" if classes == 10 else "meta")).write_bytes(pickle.dumps(names, protocol=2))


def write_sfm120k(root: Path) -> None:
    """Two clusters of two images in either part of the pickle, and all of them in the MATLAB file."""
    record: dict[str, dict[str, list[object]]] = {}
    for image_id, split in enumerate(["train", "val"]):
        cids = [f"{image_id}{image}a1b2c3d4e5f60718{image}0{image_id}1" for image in range(4)]
        record[split] = {"cids": cids, "cluster": [7, 7, 9, 9], "qidxs": [0], "pidxs": [1]}
        for image, cid in enumerate(cids):
            write_image(root / "ims" / cid[-2:] / cid[-4:-2] / cid[-6:-4] / cid, image)
    (root / "retrieval-SfM-120k.pkl").write_bytes(pickle.dumps(record, protocol=2))
    every = np.array([cid for split in record.values() for cid in split["cids"]], dtype=object)
    clusters = np.array([[7, 7, 9, 9, 1007, 1007, 1009, 1009]])
    savemat(root / "retrieval-SfM-120k-imagenames-clusterids.mat", {"cids": every, "cluster": clusters})


def write_imagenet100(root: Path) -> None:
    """Three classes of two queries and three gallery images, of which two train; the lists of the test in two files."""
    lists: dict[str, list[str]] = {"train": [], "test0": [], "test1": [], "database0": [], "database1": []}
    for label in range(3):
        flags = " ".join("1" if column == label else "0" for column in range(100))
        for view in range(5):
            path = f"val_image/val_{label}{view}.JPEG" if view < 2 else f"image/n{label:08d}_{view}.JPEG"
            write_image(root / path, 5 * label + view)
            lists[f"{'test' if view < 2 else 'database'}{view % 2}"].append(f"./data/imagenet/{path} {flags}")
            if view > 2:
                lists["train"].append(f"./data/imagenet/{path} {flags}")
    (root / "test").mkdir()
    for name, rows in lists.items():
        (root / ("" if name == "train" else "test") / f"{name}.txt").write_text("\n".join(rows) + "\n")


NUS_LABELS = ("sky", "water", "clouds")  # of which nus-wide's writer gives an image those in the bits of its number


def write_nus_wide(root: Path) -> None:
    """2,500 images, of each set of the three labels, as published: a file for each label."""
    paths = [f"C:\\ImageData\\Flickr\\actor\\{image_id:04d}_2124494179.jpg" for image_id in range(2500)]
    for image_id in range(2500):
        (root / "Flickr" / "actor").mkdir(parents=True, exist_ok=True)
        (root / "Flickr" / "actor" / f"{image_id:04d}_2124494179.jpg").write_bytes(jpeg(image_id))
    (root / "Imagelist.txt").write_text("\n".join(paths) + "\n")
    folder = root / "Groundtruth" / "AllLabels"
    folder.mkdir(parents=True)
    for bit, label in enumerate(NUS_LABELS):
        rows = [str(image_id % 8 >> bit & 1) for image_id in range(2500)]
        (folder / f"Labels_{label}.txt").write_text("\n".join(rows) + "\n")


def write_vggface2(root: Path) -> None:
    """Two people of three images train, and two others are tested."""
    for split, people in {"train": (2, 3), "test": (1, 9)}.items():
        rows = [f"n{person:06d}/{view:04d}_01.jpg" for person in people for view in range(3)]
        for image_id, row in enumerate(rows):
            write_image(root / "data" / split / row, image_id)
        (root / "data" / f"{split}_list.txt").write_text("\n".join(rows) + "\n")


def write_ijbc(root: Path) -> None:
    """Two people with five faces each, one of them in a photograph of both; one with four; one row without a box."""
    rows = ["SUBJECT_ID,FILENAME,SIGHTING_ID,FACE_X,FACE_Y,FACE_WIDTH,FACE_HEIGHT,GENDER"]
    for person, count in {"12": 5, "7": 5, "30": 4}.items():
        for view in range(count):
            name = "img/both.jpg" if view == 4 else f"frames/{person}_{view}.png"
            write_image(root / "images" / name, view)
            rows.append(f"{person},{name},{view},{1 + int(person == '7')},1,4.0,4,1")
    rows.append("12,img/none.jpg,99,NaN,NaN,NaN,NaN,NaN")
    (root / "protocols").mkdir()
    (root / "protocols" / "ijbc_metadata.csv").write_text("\n".join(rows) + "\n")


_WRITERS: dict[str, Callable[[Path], None]] = {
    "sop": write_sop,
    "inaturalist-full": write_inaturalist,
    "inaturalist-base": write_inaturalist,
    "inaturalist-2019": lambda root: write_better_mistakes(
        root, "inaturalist19", INATURALIST_2019, ("nat0000", "nat0001", "nat0002", "nat0003")
    ),
    "tieredimagenet-h": lambda root: write_better_mistakes(
        root, "tiered_imagenet", TIERED_IMAGENET, ("n01530575", "n01531178", "n04482393")
    ),
    "ilias": write_ilias,
    "dyml-vehicle": lambda root: write_dyml(root, "vehicle"),
    "dyml-product": lambda root: write_dyml(root, "product"),
    "gldv2": write_gldv2,
    "h-gldv2": write_gldv2,
    "roxford5k": lambda root: write_revisited(root, "roxford5k"),
    "cub": write_cub,
    "aircraft": write_aircraft,
    "cars": write_cars,
    "inshop": write_inshop,
    "vehicleid-800": write_vehicleid,
    "sfm120k": write_sfm120k,
    "imagenet100": write_imagenet100,
    "nus-wide": write_nus_wide,
    "vggface2": write_vggface2,
    "ijb-c": write_ijbc,
    "cifar10": lambda root: write_cifar(root, 10),
    "cifar100": lambda root: write_cifar(root, 100),
}

SHAPES = {
    ("inaturalist-2019", "train"): Shape(4, (2, 2, 2, 2, 2, 3, 4), "nat0000/train0.jpg"),
    ("inaturalist-2019", "test"): Shape(5, (2, 2, 2, 2, 2, 3, 4), "nat0000/test0.jpg"),
    ("aircraft", "train"): Shape(6, (2, 2, 3), "images/0007420.jpg"),
    ("aircraft", "test"): Shape(3, (2, 2, 3), "images/0007420.jpg"),
    ("ilias", "test"): Shape(7, (2, 2, 3, 3), "ilias_core/bold_bimp_000/query/Q000_00.jpg", (3, 4)),
    ("ilias", "gallery"): Shape(4, (2, 2, 3, 3), "ilias_core/bold_bimp_000/pos/P000_00.jpg"),
    ("sop", "train"): Shape(12, (2, 4), "chair_final/111085122872_0.JPG"),
    ("sop", "test"): Shape(12, (2, 4), "chair_final/111085122876_0.JPG"),
    ("sop", "info"): Shape(24, (2, 8), "chair_final/111085122872_0.JPG"),
    ("inaturalist-full", "train"): Shape(8, (2, 3, 3, 3, 3, 4, 4), "train_val2018/Aves/0/00ab.jpg"),
    ("inaturalist-base", "test"): Shape(8, (3, 4), "train_val2018/Aves/4/40ab.jpg"),
    ("dyml-vehicle", "train"): Shape(8, (1, 2, 4), "train/imgs/0.jpg"),
    ("dyml-vehicle", "test"): Shape(9, (3,), "bmk_fine/query/0.jpg", (3, 6)),
    ("dyml-vehicle", "test_coarse"): Shape(9, (1,), "bmk_coarse/query/0.jpg", (3, 6)),
    ("dyml-product", "test"): Shape(8, (1, 2, 4), "mini-bmk_all_in_one/imgs/0.jpg"),
    ("h-gldv2", "train"): Shape(7, (2, 3, 3), "0/1/1/0117400000000000.jpg"),
    ("h-gldv2", "train_all"): Shape(7, (2, 3, 3), "0/1/1/0117400000000000.jpg"),
    ("h-gldv2", "index"): Shape(5, (2, 2, 2), "0/0/5/0056900000000000.jpg"),
    ("h-gldv2", "query"): Shape(2, (2, 2, 2), "a/b/c/abc0000000000000.jpg"),
    ("h-gldv2", "test"): Shape(7, (2, 2, 2), "a/b/c/abc0000000000000.jpg", (2, 5)),
    ("gldv2", "train"): Shape(8, (4,), "0/1/1/0117400000000000.jpg"),
    ("gldv2", "test"): Shape(9, (3,), "a/b/c/abc0000000000000.jpg", (3, 6)),
    ("roxford5k", "test"): Shape(6, (3,), "jpg/all_souls_000001.jpg", (2, 4)),
    ("roxford5k", "gallery"): Shape(4, (1,), "jpg/oxford_000000.jpg"),
    ("cub", "train"): Shape(4, (2,), "images/099.Bird_99/Bird_99_0000.jpg"),
    ("cub", "test"): Shape(4, (2,), "images/101.Bird_101/Bird_101_0000.jpg"),
    ("cars", "train"): Shape(4, (2,), "car_ims/000001.jpg"),
    ("cars", "test"): Shape(4, (2,), "car_ims/000005.jpg"),
    ("inshop", "train"): Shape(4, (2, 2, 2), "img/WOMEN/Shirts/id_00000001/01_1_front.jpg"),
    ("inshop", "test"): Shape(6, (2, 2, 2), "img/WOMEN/Shirts/id_00000003/01_1_front.jpg", (2, 4)),
    ("inshop", "gallery"): Shape(4, (2, 2, 2), "img/WOMEN/Shirts/id_00000003/02_1_front.jpg"),
    ("vehicleid-800", "train"): Shape(4, (2,), "image/0000001.jpg"),
    ("vehicleid-800", "test"): Shape(9, (3,), "image/0000005.jpg"),
    ("sfm120k", "train"): Shape(4, (2,), "ims/01/00/18/00a1b2c3d4e5f607180001"),
    ("sfm120k", "all"): Shape(8, (4,), "ims/01/00/18/00a1b2c3d4e5f607180001"),
    ("imagenet100", "train"): Shape(6, (3,), "image/n00000000_3.JPEG"),
    ("imagenet100", "test"): Shape(15, (3,), "val_image/val_00.JPEG", (6, 9)),
    ("imagenet100", "gallery"): Shape(9, (3,), "image/n00000000_2.JPEG"),
    ("nus-wide", "train"): Shape(1500, (7,), "Flickr/actor/0002_2124494179.jpg"),
    ("nus-wide", "test"): Shape(2187, (7,), "Flickr/actor/0001_2124494179.jpg", (300, 1887)),
    ("nus-wide", "query"): Shape(300, (7,), "Flickr/actor/0005_2124494179.jpg"),
    ("vggface2", "test"): Shape(6, (2,), "n000001/0000_01.jpg"),
    ("ijb-c", "test"): Shape(10, (2,), "images/frames/12_0.png"),
    ("cifar10", "train"): Shape(40, (4,), "data_batch_1_0.png"),
    ("cifar100", "test"): Shape(8, (2, 4), "test_0.png"),
}


NAMES = sorted(_WRITERS)
FEW_STEPS = [  # overrides by which a built-in recipe takes seconds on such files
    "images.size=16",
    "images.workers=0",
    "data.verify=structure",
    "sampler.batch_size=4",
    "sampler.images_per_class=2",
    "model.backbone=small_cnn",
    "model.backbone_options={}",
    "model.pretrained=false",
    "model.width=4",
    "model.embedding_size=8",
    "training.epochs=1",
    "training.device=cpu",
    "training.precision=32-true",
]


def write_benchmark(name: str, root: Path) -> None:
    """Write the files of a benchmark into a folder, which is made."""
    root.mkdir(parents=True, exist_ok=True)
    _WRITERS[name](root)
