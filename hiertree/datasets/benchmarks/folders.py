"""Benchmarks whose labels are the names of folders: ``inaturalist-2021`` and ``rp2k``.

* Van Horn et al., *Benchmarking Representation Learning for Natural World Image Collections* (CVPR 2021): 10,000
  species. Retrieval splits with different species are not published: all splits have the same.
* Peng, Xiao and Li, *RP2K: A Large-Scale Retail Product Dataset for Fine-Grained Image Classification* (2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...errors import TableError
from ...io.files import AnyPath
from ..description import BENCHMARKS, Benchmark, Verify
from ..image_dataset import ImageDataset
from ..readers.file_names import image_files
from ..readers.text_lists import SplitRows
from ..user_images import folders_in
from .multilevel import RANKS

INATURALIST_2021, RP2K = BENCHMARKS["inaturalist-2021"], BENCHMARKS["rp2k"]
INATURALIST_FOLDERS = {"train": "train", "train_mini": "train_mini", "test": "val"}
RP2K_FOLDERS = {"train": "all/train", "test": "all/test"}


def load_inaturalist2021(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of iNaturalist-2021 from folders such as ``03111_Animalia_Chordata_Aves_…_Turdus_merula``.

    The id of a leaf is the number of its folder, the category id of the published JSON, which is not read.

    Args:
        root: the folder of ``train``, ``train_mini`` and ``val``.
        split: "train", "train_mini" (50 images of each species), or "test", the validation images.
        verify: as in :func:`hiertree.datasets.load`.
    """
    folder, rows = _images_by_class(INATURALIST_2021, root, split, INATURALIST_FOLDERS, verify)
    classes = rows.table["class"].tolist()
    words = {name: name.split("_") for name in dict.fromkeys(classes)}
    bad = next((name for name, parts in words.items() if len(parts) != 8 or not parts[0].isdecimal()), None)
    if bad is not None:
        raise TableError(f"{folder}: the folder {bad!r}", expected=f"<number>_<{'>_<'.join(RANKS)}>_<species>")
    ranks = {int(number): tuple(labels) for number, *labels, _ in words.values()}
    species = [int(words[name][0]) for name in classes]
    names = rows.table["name"]
    return INATURALIST_2021.listed_dataset(split, rows, [species], folder, names, ancestors=ranks, verify=verify)


def load_rp2k(root: AnyPath, split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of RP2K, whose folders are named after products.

    Args:
        root: the folder of ``all/train`` and ``all/test``.
        split: "train" or "test", of the same products.
        verify: as in :func:`hiertree.datasets.load`.
    """
    folder, rows = _images_by_class(RP2K, root, split, RP2K_FOLDERS, verify)
    return RP2K.listed_dataset(split, rows, [rows.table["class"].tolist()], folder, rows.table["name"], verify=verify)


def _images_by_class(
    benchmark: Benchmark, root: AnyPath, split: str, folder_of: Mapping[str, str], verify: str
) -> tuple[Path, SplitRows]:
    """The folder of a split, and the names and the classes of its images, after the classes of ``train``."""
    import pandas as pd

    benchmark.check_options(split, verify)
    data_folder, folder = benchmark.files(root, folder_of[split])
    earlier_classes = [] if split == "train" else folders_in(data_folder / folder_of["train"])
    names = image_files(folder)
    classes = [*earlier_classes, *(name.partition("/")[0] for name in names)]
    table = pd.DataFrame({"class": classes, "name": [*earlier_classes, *names]})
    return folder, SplitRows(table, classes.__getitem__, len(earlier_classes))
