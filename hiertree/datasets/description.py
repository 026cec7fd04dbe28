"""What a benchmark is known by: its splits and their published sizes, its license, and how to get it.

A loader reads lists, makes labels of them, and hands both to :meth:`Benchmark.dataset`, which compares them with what
was published and with the files that are there. Every image is looked for by ``hiertree datasets check``; a loader
looks for some, spread evenly, so that a training begins in seconds and a missing folder is noticed all the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import MissingResourceError, OptionError, TableError
from ..options import check_choice
from .image_dataset import ImageDataset
from .readers.image_names import inside, missing_files
from .readers.images import FileImages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .labels_to_paths import Labeled
    from .readers.images import ImageSource

Verify = Literal["published", "structure"]
LOOKED_FOR = 64  # files of a split that a loader looks for


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Published sizes of a split; None where none was published.

    Attributes:
        images: number of images.
        classes: number of classes of the finest level.
        within: by how much ``images`` may differ, where it was published in thousands.
    """

    images: int | None = None
    classes: int | None = None
    within: int = 0

    def differences(self, images: int, classes: int) -> list[str]:
        """What differs, in words.

        >>> Counts(images=343_100, within=100).differences(343_149, 7), Counts(classes=12).differences(5, 11)
        ([], ['11 classes instead of 12'])
        """
        found = []
        if self.images is not None and abs(images - self.images) > self.within:
            found.append(f"{images:,} images instead of {self.images:,}")
        if self.classes is not None and classes != self.classes:
            found.append(f"{classes:,} classes instead of {self.classes:,}")
        return found


@dataclass(frozen=True, kw_only=True)
class Download:
    """A published file that may be fetched: its address, its MD5 as published, and whether it is to be unpacked."""

    url: str
    md5: str
    unpack: bool = True

    @property
    def name(self) -> str:
        """The file's name."""
        return self.url.split("?")[0].rsplit("/", 1)[-1]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: as :func:`hiertree.datasets.load` takes it.
        title: what it is called.
        levels: coarse → fine.
        splits: the published sizes of every split.
        protocol: of :mod:`hiertree.metrics`, or None for the package's defaults.
        license: in a few words.
        url: where it is described.
        steps: how to get it, in order.
        folder: what its archive unpacks to; the root or its parent may be given.
        downloads: files that license and a stable address allow to fetch.
        by_hand: the steps that remain after these are fetched.
        verifiable: whether its loader compares with published sizes.
    """

    name: str
    title: str
    levels: tuple[str, ...]
    splits: Mapping[str, Counts]
    license: str
    url: str
    steps: tuple[str, ...]
    protocol: str | None = None
    folder: str = "."
    downloads: tuple[Download, ...] = ()
    by_hand: tuple[str, ...] = ()
    verifiable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", MappingProxyType(dict(self.splits)))

    def check_options(self, split: str, verify: str) -> None:
        """Refuse a split that there is not, or an unknown way to verify.

        Raises:
            OptionError: one of these.
        """
        if split not in self.splits:
            raise OptionError(f"split={split!r} of {self.name}", expected=f"one of {', '.join(map(repr, self.splits))}")
        check_choice("verify", verify, Verify)

    def files(self, root: str | os.PathLike[str], *names: str) -> tuple[Path, ...]:
        """The folder of the benchmark, and files in it: ``root`` itself, or what the archive unpacked there.

        Raises:
            MissingResourceError: some are missing; the message names them and says where to get them.
        """
        homes = [Path(root), Path(root) / self.folder]
        home = next((home for home in homes if names and (home / names[0]).exists()), homes[0])
        missing = [name for name in names if not (home / name).exists()]
        if missing or not home.is_dir():
            raise self.missing(
                f"{', '.join(missing) or 'folder'} not in {home}", expected=", ".join(names) or "a folder"
            )
        return (home, *(home / name for name in names))

    def missing(self, given: str, *, expected: str) -> MissingResourceError:
        """The error for what is not there, with the steps to get it."""
        return MissingResourceError(f"{self.title}: {given}", expected=expected, remedy="; ".join(self.steps))

    def image_files(self, home: Path, names: Iterable[str], where: Callable[[int], str]) -> FileImages:
        """Images in files below a folder.

        Raises:
            TableError: a name leads out of the folder.
            MissingResourceError: of those looked for, some are missing.
        """
        images = FileImages(home, inside(names, where))
        rows = np.unique(np.linspace(0, len(images) - 1, LOOKED_FOR).astype(int)).tolist() if len(images) else []
        absent = missing_files(home, map(images.name, rows), listing=False)
        if absent:
            shown = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
            raise self.missing(
                f"{len(absent)} of {len(rows)} images looked for are not in {home} ({shown})",
                expected="every image of the list",
            )
        return images

    def dataset(
        self,
        split: str,
        labeled: Labeled,
        images: ImageSource,
        *,
        verify: str,
        queries: NDArray[np.int64] | None = None,
        gallery: NDArray[np.int64] | None = None,
        ids: NDArray[np.str_] | None = None,
    ) -> ImageDataset:
        """The split, after its sizes are compared with the published ones.

        Raises:
            TableError: they differ, and ``verify`` is "published".
        """
        self.verify(split, len(images), labeled.tree.level_sizes[-1], verify)
        return ImageDataset(
            name=self.name,
            split=split,
            tree=labeled.tree,
            paths=labeled.paths,
            images=images,
            queries=queries,
            gallery=gallery,
            ids=ids,
            protocol=self.protocol,
        )

    def query_and_gallery(
        self,
        split: str,
        labeled: Labeled,
        images: ImageSource,
        *,
        verify: str,
        queries: NDArray[np.int64],
        gallery: NDArray[np.int64],
    ) -> ImageDataset:
        """The "test" split of queries and gallery, or one of its parts, "query" or "gallery", with the same tree.

        Raises:
            TableError: as :meth:`dataset`.
        """
        test = self.dataset("test", labeled, images, verify=verify, queries=queries, gallery=gallery)
        if split == "test":
            return test
        part = test.select(queries if split == "query" else gallery, split=split)
        self.verify(split, len(part), len(np.unique(part.paths[:, -1])), verify)
        return part

    def verify(self, split: str, images: int, classes: int, verify: str) -> None:
        """Compare the sizes of a split with the published ones.

        Raises:
            TableError: they differ, and ``verify`` is "published".
        """
        differences = self.splits[split].differences(images, classes) if verify == "published" else []
        if differences:
            raise TableError(
                f"{self.title}, {split}: {' and '.join(differences)}",
                expected="the published numbers",
                remedy="get the lists again, or pass verify='structure' for a part of the benchmark",
            )
