"""Descriptions of benchmarks: splits and their published sizes, license, how to get the files; and checks against them.

A loader passes images and labels to :meth:`Benchmark.dataset`, which compares their numbers with the published ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import yaml

from ..errors import MissingResourceError, OptionError, OtherLayoutError, TableError, some_of
from ..io.files import AnyPath
from ..options import check_choice
from ..tree.label_tree import label_paths
from .image_dataset import ImageDataset
from .readers.images import FileImages, inside

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ..tree.label_rows import LeafKey, Row, Where
    from .readers.images import ImageSource
    from .readers.text_lists import SplitRows

Verify = Literal["published", "structure"]
LOOKED_FOR = 64  # images of a split that a loader looks for


class SplitOptions(TypedDict, total=False):
    """Options of :meth:`Benchmark.dataset`, which explains them, that its callers pass on."""

    leaf: LeafKey
    ancestors: Mapping[Any, Row] | None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Published sizes of a split; None if not published.

    Attributes:
        images: number of images.
        classes: number of classes of the finest level.
        within: the tolerance of ``images``, if it was published in thousands.
    """

    images: int | None = None
    classes: int | None = None
    within: int = 0

    def differences(self, images: int, classes: int) -> list[str]:
        """The differences as phrases.

        >>> Counts(images=343_100, within=100).differences(343_149, 7), Counts(classes=12).differences(5, 11)
        ([], ['11 classes instead of 12'])
        """
        phrases = []
        if self.images is not None and abs(images - self.images) > self.within:
            phrases.append(f"{images:,} images instead of {self.images:,}")
        if self.classes is not None and classes != self.classes:
            phrases.append(f"{classes:,} classes instead of {self.classes:,}")
        return phrases


@dataclass(frozen=True, kw_only=True)
class Download:
    """A published file that may be downloaded: its address, its published MD5, and whether to unpack it."""

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
        title: its full name.
        levels: coarse → fine.
        splits: the published sizes of every split.
        license: in a few words.
        url: of its description.
        steps: how to get it, in order.
        protocol: the evaluation protocol of :mod:`hiertree.metrics`, or None for hiertree's defaults.
        folder: the folder that its archive unpacks to. Loaders accept it or its parent as root.
        downloads: files that may be downloaded, by their license and from a stable address.
        by_hand: the steps that remain after these downloads.
        loader: the loader's name without ``load_``, by default the benchmark's; None for what is no benchmark alone.
        options: of the loader, that stand for this benchmark.
        trees: files of levels above its classes, by the name that ``above=`` of :func:`hiertree.datasets.load` takes.
        verification: whether sizes of splits are compared with these, as ``verify=`` of its loader asks.
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
    loader: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, str] = field(default_factory=dict)
    verification: Verify = "published"

    def checked(self, split: str, verify: Verify) -> Benchmark:
        """The benchmark with what a loader was asked for; an unknown split or value of ``verify`` is refused."""
        if split not in self.splits:
            raise OptionError(f"split={split!r} of {self.name}", expected=f"one of {', '.join(map(repr, self.splits))}")
        check_choice("verify", verify, Verify)
        return replace(self, verification=verify)

    def files(self, root: AnyPath, *names: str | tuple[str, ...]) -> tuple[Path, ...]:
        """The benchmark's folder, which is ``root`` or ``root / folder``, and the named files or folders in it.

        Of a tuple of names, the first that is there is taken.

        Raises:
            MissingResourceError: files are missing; the message names them and says where to get them.
        """
        choices = [(name,) if isinstance(name, str) else name for name in names]
        candidates = [Path(root), Path(root) / self.folder]
        folder = next(
            (folder for folder in candidates if any((folder / name).exists() for name in choices[0])), candidates[0]
        )
        matches = [[folder / name for name in choice if (folder / name).exists()] for choice in choices]
        missing = [" or ".join(choice) for choice, paths in zip(choices, matches, strict=True) if not paths]
        if missing:
            error = self.missing(f"{', '.join(missing)} not in {folder}", expected=", ".join(map(" or ".join, choices)))
            if any(matches):
                raise error
            raise OtherLayoutError(error.given, expected=error.expected, remedy=error.remedy, choose=error.choose)
        return (folder, *(paths[0] for paths in matches))

    def missing(self, problem: str, *, expected: str) -> MissingResourceError:
        """The error for missing files, with the steps to get them."""
        return MissingResourceError(f"{self.title}: {problem}", expected=expected, remedy="; ".join(self.steps))

    def image_files(
        self, folder: Path, names: Iterable[str], row_name: Where, boxes: NDArray[np.float64] | None = None
    ) -> FileImages:
        """The image files of these names below a folder, some of which are looked for; ``row_name`` names row i.

        Raises:
            TableError: a name leads out of the folder.
            MissingResourceError: some of the images looked for are missing.
        """
        images = FileImages(folder, inside(names, folder, row_name), boxes)
        rows = np.unique(np.linspace(0, len(images) - 1, LOOKED_FOR).astype(int)).tolist() if len(images) else []
        missing = [name for name in map(images.name, rows) if not Path(folder, name).is_file()]
        if missing:
            problem = f"{len(missing)} of {len(rows)} images looked for are not in {folder} ({some_of(missing, 3)})"
            raise self.missing(problem, expected="every image of the list")
        return images

    def dataset(
        self,
        split: str,
        labels: Sequence[Any],
        images: ImageSource,
        where: Where = str,
        earlier_rows: int = 0,
        *,
        compare_sizes: bool = True,
        level_names: Sequence[str] | None = None,
        fields: Mapping[str, Any] = MappingProxyType({}),
        **options: Unpack[SplitOptions],
    ) -> ImageDataset:
        """The data set of a split, whose sizes are compared with the published ones unless they were before.

        ``labels`` are columns, which :func:`label_paths` takes with ``where``, ``earlier_rows`` and ``options``; the
        levels are the benchmark's unless ``level_names`` says otherwise. ``fields`` are others of the data set; with
        ``queries`` and ``gallery``, the images are those of "test", from which the splits "query" and "gallery" are
        selected with the same tree.

        Raises:
            TableError: the sizes differ, and ``verify`` is "published".
        """
        tree, paths = label_paths(labels, level_names or self.levels, where, earlier_rows, **options)
        rows = {"query": fields.get("queries"), "gallery": fields.get("gallery")}.get(split)
        full_split = split if rows is None else "test"
        dataset = ImageDataset(
            name=self.name, split=full_split, protocol=self.protocol, images=images, tree=tree, paths=paths, **fields
        )
        if compare_sizes:
            self.verify(full_split, len(images), len(np.unique(paths[:, -1])))
        if rows is None:
            return dataset
        if compare_sizes:
            self.verify(split, len(rows), len(np.unique(paths[rows, -1])))
        return dataset.select(rows, split=split)

    def listed_dataset(
        self,
        split: str,
        rows: SplitRows,
        labels: Sequence[Any],
        folder: Path,
        names: Sequence[str] | pd.Series[str],
        *,
        level_names: Sequence[str] | None = None,
        fields: Mapping[str, Any] = MappingProxyType({}),
        **options: Unpack[SplitOptions],
    ) -> ImageDataset:
        """As :meth:`dataset`, of image files below a folder: ``labels`` and ``names`` are columns of all the rows."""
        images = self.image_files(folder, names[rows.earlier_rows :], lambda row: rows.where(rows.earlier_rows + row))
        return self.dataset(
            split, labels, images, rows.where, rows.earlier_rows, level_names=level_names, fields=fields, **options
        )

    def verify(self, split: str, images: int, classes: int) -> None:
        """Compare the sizes of a split with the published ones; a TableError says how they differ."""
        is_wanted = self.verification == "published"
        differences = self.splits[split].differences(images, classes) if is_wanted else []
        if differences:
            problem = f"{self.title}, {split}: {' and '.join(differences)}"
            remedy, choose = "download the lists again", {"verify": ["structure"]}
            raise TableError(problem, expected="the published numbers", remedy=remedy, choose=choose)


def query_and_gallery(num_queries: int, num_images: int) -> dict[str, NDArray[np.int64]]:
    """The fields of a test whose images are the queries, then the gallery."""
    rows = np.arange(num_images)
    return {"queries": rows[:num_queries], "gallery": rows[num_queries:]}


def _published() -> Mapping[str, Benchmark]:
    text = resources.files(__package__).joinpath("benchmarks").joinpath("benchmarks.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built
    entries: dict[str, dict[str, Any]] = loader(text).get_single_data()
    return MappingProxyType({name: _benchmark(name, values) for name, values in entries.items()})


def _benchmark(name: str, values: dict[str, Any]) -> Benchmark:
    typed: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    typed["splits"] = _counts(values["splits"])
    typed["downloads"] = tuple(Download(**file) for file in values.get("downloads", ()))
    return Benchmark(**{"name": name, "loader": name, **typed})


def _counts(sizes: dict[str, Any]) -> Mapping[str, Counts]:
    return MappingProxyType({split: Counts(**size) for split, size in sizes.items()})


BENCHMARKS = _published()
