"""Benchmarks whose labels are the names of folders: ``inaturalist-2021`` and ``rp2k``.

* Van Horn et al., *Benchmarking Representation Learning for Natural World Image Collections* (CVPR 2021): 10,000
  species. Retrieval splits with different species are not published: all splits have the same.
* Peng, Xiao and Li, *RP2K: A Large-Scale Retail Product Dataset for Fine-Grained Image Classification* (2020).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import TableError
from ..description import BENCHMARKS, Benchmark, Verify
from ..image_dataset import ImageDataset
from ..labels_to_paths import label_leaves, label_paths
from ..readers.images import FileImages, image_files
from ..user_images import folders_in
from .multilevel import RANKS

INATURALIST_2021, RP2K = BENCHMARKS["inaturalist-2021"], BENCHMARKS["rp2k"]
INATURALIST_FOLDERS = {"train": "train", "train_mini": "train_mini", "test": "val"}
RP2K_FOLDERS = {"train": "all/train", "test": "all/test"}


def load_inaturalist2021(
    root: str | os.PathLike[str], split: str = "train", *, verify: Verify = "published"
) -> ImageDataset:
    """Read a split of iNaturalist-2021 from folders such as ``03111_Animalia_Chordata_Aves_…_Turdus_merula``.

    The id of a leaf is the number of its folder, the category id of the published JSON, which is not read.

    Args:
        root: the folder of ``train``, ``train_mini`` and ``val``.
        split: "train", "train_mini" (50 images of each species), or "test", the validation images.
        verify: as in :func:`hiertree.datasets.load`.
    """
    images, folders, earlier_rows = _images_by_class(INATURALIST_2021, root, split, INATURALIST_FOLDERS, verify)
    words = {folder: folder.split("_") for folder in dict.fromkeys(folders)}
    bad = next((folder for folder, parts in words.items() if len(parts) != 8 or not parts[0].isdecimal()), None)
    if bad is not None:
        expected = f"<number>_<{'>_<'.join(RANKS)}>_<species>"
        raise TableError(f"{images.root}: the folder {bad!r}", expected=expected)
    ranks = {int(number): tuple(labels) for number, *labels, _ in words.values()}
    species = [int(words[folder][0]) for folder in folders]
    numbering: Any = {"where": folders.__getitem__, "earlier_rows": earlier_rows}
    labeling = label_leaves(species, ranks, level_names=INATURALIST_2021.levels, **numbering)
    return INATURALIST_2021.dataset(split, labeling, images, verify=verify)


def load_rp2k(root: str | os.PathLike[str], split: str = "train", *, verify: Verify = "published") -> ImageDataset:
    """Read a split of RP2K, whose folders are named after products.

    Args:
        root: the folder of ``all/train`` and ``all/test``.
        split: "train" or "test", of the same products.
        verify: as in :func:`hiertree.datasets.load`.
    """
    images, folders, earlier_rows = _images_by_class(RP2K, root, split, RP2K_FOLDERS, verify)
    numbering: Any = {"where": folders.__getitem__, "earlier_rows": earlier_rows}
    return RP2K.dataset(split, label_paths([folders], level_names=RP2K.levels, **numbering), images, verify=verify)


def _images_by_class(
    benchmark: Benchmark, root: str | os.PathLike[str], split: str, folder_of: Mapping[str, str], verify: str
) -> tuple[FileImages, list[str], int]:
    """The images of a split, and the folders of their classes after those of ``train``, whose number is the third."""
    benchmark.check_options(split, verify)
    data_folder, folder = benchmark.files(root, folder_of[split])
    names, earlier_folders = image_files(folder), folders_in(data_folder / folder_of["train"])
    earlier_folders = [] if split == "train" else earlier_folders
    classes = [name.partition("/")[0] for name in names]
    return FileImages(folder, names), [*earlier_folders, *classes], len(earlier_folders)
