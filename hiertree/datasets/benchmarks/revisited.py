"""``revisited``: ROxford5k and RParis6k, 70 queries, each with its lists of easy, hard and junk images.

Radenović, Iscen, Tolias, Avrithis and Chum, *Revisiting Oxford and Paris: Large-Scale Image Retrieval Benchmarking*
(CVPR 2018). The gallery may be followed by a million distractors, R1M.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ...errors import TableError
from ...options import check_choice
from ..description import Benchmark, Counts, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_paths
from ..readers.images import FileImages, JoinedImages
from ..readers.plain_pickles import read_plain_pickle
from ..readers.text_lists import read_words

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

    from ..readers.images import ImageSource

City = Literal["roxford5k", "rparis6k"]
LISTS = ("easy", "hard", "junk")
_TITLE = {"roxford5k": "ROxford5k", "rparis6k": "RParis6k"}
_IMAGES = {"roxford5k": 4_993, "rparis6k": 6_322}
_ARCHIVES = {
    "roxford5k": "oxbuild_images.tgz from https://www.robots.ox.ac.uk/~vgg/data/oxbuildings/",
    "rparis6k": "paris_1.tgz and paris_2.tgz from https://www.robots.ox.ac.uk/~vgg/data/parisbuildings/",
}


def _benchmark(city: City) -> Benchmark:
    images = _IMAGES[city]
    return Benchmark(
        name=city,
        title=_TITLE[city],
        levels=("tag",),
        splits={"test": Counts(images=70 + images), "query": Counts(images=70), "gallery": Counts(images=images)},
        protocol="revisitop",
        license="research; photographs of Flickr under their own licenses",
        url="http://cmp.felk.cvut.cz/revisitop/",
        steps=(
            f"get {_ARCHIVES[city]} and unpack all images, without folders of their own, into {city}/jpg",
            f"put gnd_{city}.pkl from http://cmp.felk.cvut.cz/revisitop/data/datasets/{city}/ there; pass {city}",
        ),
        folder=city,
    )


REVISITED = {city: _benchmark(city) for city in get_args(City)}
DISTRACTORS = Benchmark(
    name="revisitop1m",
    title="R1M, the distractors of ROxford5k and RParis6k",
    levels=("tag",),
    splits={},
    license="research; photographs of Flickr under their own licenses",
    url="http://cmp.felk.cvut.cz/revisitop/",
    steps=(
        "get revisitop1m.txt from http://ptak.felk.cvut.cz/revisitop/revisitop1m/",
        "get its 100 archives jpg/revisitop1m.1.tar.gz and on, and unpack them into revisitop1m/jpg; pass revisitop1m",
    ),
    folder="revisitop1m",
)
DISTRACTOR = "distractor"  # tag of every image of R1M


@dataclass(frozen=True, kw_only=True)
class RevisitedDataset(ImageDataset):
    """Queries, cropped to their boxes, and the gallery.

    The labels are the search tags of the images, taken from their names. Relevance is defined by the ground truth,
    which :func:`hiertree.metrics.revisitop_levels` turns into levels and a mask.

    Attributes:
        ground_truth: for each query, gallery indices under "easy", "hard" and "junk"; empty for the split "gallery".
    """

    ground_truth: tuple[Mapping[str, NDArray[np.int64]], ...] = ()


class BoxedImages(FileImages):
    """Images in files, cropped to boxes (left, upper, right, lower); NaN keeps the whole image."""

    def __init__(self, root: Path, names: Iterable[str], boxes: NDArray[np.float64]) -> None:
        super().__init__(root, names)
        self.boxes = boxes

    def __getitem__(self, index: int) -> Image:
        image, box = super().__getitem__(index), self.boxes[index]
        return image if np.isnan(box[0]) else image.crop(tuple(map(round, box.tolist())))


def load_revisited(
    root: str | os.PathLike[str],
    split: str = "test",
    *,
    city: City = "roxford5k",
    distractors: str | os.PathLike[str] | None = None,
    verify: Verify = "published",
) -> RevisitedDataset:
    """Read ROxford5k or RParis6k from ``gnd_roxford5k.pkl`` or ``gnd_rparis6k.pkl`` and the folder ``jpg``.

    The ground truth is published as a pickle; no code in it is run (see
    :mod:`hiertree.datasets.readers.plain_pickles`).

    Args:
        root: the folder ``roxford5k`` or ``rparis6k``, or its parent.
        split: "test" (queries and gallery, which the data set's ``queries`` and ``gallery`` index), "query" or
            "gallery". There is no training split.
        city: "roxford5k" or "rparis6k".
        distractors: the folder ``revisitop1m`` of R1M, or its parent. The images of ``revisitop1m.txt`` follow the
            gallery's own, so that the indices in the ground truth stay valid. None adds none.
        verify: "published" compares the number of images with the published one; "structure" does not.

    Raises:
        MissingResourceError: files are missing; the message says where to get them.
        TableError: the ground truth is not as published.
        OptionError: an unknown split or city.

    Example:
        ``load_revisited("data/rparis6k", city="rparis6k", distractors="data/revisitop1m").ground_truth``
    """
    check_choice("city", city, City)
    benchmark = REVISITED[city]
    benchmark.check_options(split, verify)
    home, file = benchmark.files(root, f"gnd_{city}.pkl")
    queries, gallery, boxes, truth = _ground_truth(file)
    boxed = queries if split in ("test", "query") else []
    names = [*boxed, *(gallery if split in ("test", "gallery") else [])]

    def where(row: int) -> str:
        return f"{file.name}, image {row}"

    checked = benchmark.image_files(home, [f"jpg/{name}.jpg" for name in names], where)
    benchmark.verify(split, len(names), 0, verify)
    all_boxes = np.full((len(names), 4), np.nan)
    all_boxes[: len(boxed)] = boxes[: len(boxed)]
    images: ImageSource = BoxedImages(home, map(checked.name, range(len(checked))), all_boxes)
    tags = [name.rpartition("_")[0] or name for name in names]
    if distractors is not None and split != "query":
        added = _distractors(distractors)
        images, tags = JoinedImages(images, added), tags + [DISTRACTOR] * len(added)
    labeled = label_paths([tags], level_names=benchmark.levels, where=where)
    both = split == "test"
    return RevisitedDataset(
        name=city,
        split=split,
        tree=labeled.tree,
        paths=labeled.paths,
        images=images,
        queries=np.arange(len(queries)) if both else None,
        gallery=np.arange(len(queries), len(tags)) if both else None,
        protocol=benchmark.protocol,
        ground_truth=() if split == "gallery" else truth,
    )


def _distractors(folder: str | os.PathLike[str]) -> FileImages:
    """The images of R1M in the order of its list, whose lines name files below ``jpg``."""
    home, file = DISTRACTORS.files(folder, "revisitop1m.txt")
    listed = read_words(file, ("image",))
    return DISTRACTORS.image_files(home, [f"jpg/{name}" for name in listed["image"]], listed.where)


def _ground_truth(file: Path) -> tuple[list[str], list[str], NDArray[np.float64], tuple[Any, ...]]:
    """Names of queries and gallery, boxes (Q, 4), and each query's lists."""
    content = read_plain_pickle(file)
    try:
        queries, gallery = [str(name) for name in content["qimlist"]], [str(name) for name in content["imlist"]]
        entries = content["gnd"]
        boxes = np.array([np.asarray(entry["bbx"], dtype=np.float64).ravel() for entry in entries])
        truth = tuple({name: np.asarray(entry[name], dtype=np.int64).ravel() for name in LISTS} for entry in entries)
    except (KeyError, TypeError, ValueError) as error:
        raise TableError(
            f"{file} ({error!r})", expected="imlist, qimlist, and gnd with bbx, easy, hard, junk"
        ) from error
    listed = np.concatenate([entry[name] for entry in truth for name in LISTS]) if truth else np.zeros(0, np.int64)
    if boxes.shape != (len(queries), 4) or (listed.size and not 0 <= listed.min() <= listed.max() < len(gallery)):
        raise TableError(
            f"{file}: boxes {boxes.shape}, indices up to {listed.max(initial=-1)}",
            expected=f"{len(queries)} boxes of 4, indices below {len(gallery)}",
        )
    return queries, gallery, boxes, truth
