"""Archives of WebDataset: ``.tar`` files of images, with members beside each image that hold its labels."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..errors import ImageError, OptionError, TableError, some_of
from ..io.files import AnyPath
from ..io.reading import reading_file
from .image_dataset import ImageDataset
from .labels_to_paths import label_paths
from .readers.images import IMAGE_SUFFIXES
from .readers.tar_images import TarImages, tar_index
from .splits import SPLIT_NAMES, names_of_split, split_to_measure

CLASS = "cls"  # the member of a sample that holds its class
MOST_ARCHIVES = 100_000
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def load_archives(root: AnyPath, split: str | None = None, *, levels: Sequence[str] = (CLASS,)) -> ImageDataset:
    """Read ``.tar`` files of WebDataset, image by image, without unpacking them.

    A sample is what shares a name up to the first dot of its last part: ``0001.jpg``, ``0001.json``, ``0001.cls``; or
    else up to the last dot, so that of ``track 2.0.png`` is ``track 2.0.cls``.

    Args:
        root: an archive, a folder of them, or a pattern such as ``images-{000..015}.tar``.
        split: the archives of a folder whose names begin with it, or those in its folder of that name.
        levels: fields of the samples' ``json`` members, coarse → fine; ``cls`` is what a member of that name holds.

    Raises:
        ImageError: no image, no archive, or one that is damaged.
        TableError: a sample without these labels; the message names it.
        HierarchyError: labels that do not form a tree.

    Example:
        ``load_archives("shards/train-{000..015}.tar", levels=["kind", "landmark"])``
    """
    archives = named_archives(root, split)
    if not archives:
        raise ImageError(f"{root} without archives{f' of {split}' if split else ''}", expected=".tar files")
    order = list(SPLIT_NAMES)
    place = next((place for place, name in enumerate(order) if split in SPLIT_NAMES[name]), 0)
    earlier_archives = filter(None, (named_archives(root, name) for name in order[:place]))
    return LabeledArchives(archives).dataset(levels, split, map(LabeledArchives, earlier_archives))


class LabeledArchives:
    """The images of archives in one folder; with labels, the sample of each, and the members by kind and sample."""

    def __init__(self, archives: Sequence[Path], *, with_labels: bool = True) -> None:
        folder = archives[0].parent
        if {path.parent for path in archives} != {folder}:
            raise OptionError(f"archives in several folders, such as {folder}", expected="archives of one folder")
        self._archives, self._index = archives, tar_index(folder, archives)
        self._order = np.lexsort((self._index.offsets, self._index.archives))
        names = [self._index.names[row].decode("utf-8", "surrogateescape") for row in self._order]
        places = [place for place, name in enumerate(names) if name.lower().endswith(IMAGE_SUFFIXES)]
        if not places:
            expected = f"files in {', '.join(IMAGE_SUFFIXES)}"
            raise ImageError(f"{some_of(archives, 2)} without images", expected=expected)
        rows = self._order[places]
        files = [archives[number].name for number in self._index.archives[rows].tolist()]
        image_names = [f"{file}/{names[place]}" for file, place in zip(files, places, strict=True)]
        self.images = TarImages(folder, self._index, image_names, rows=rows)
        self.members = {suffix: self._contents(names, suffix) for suffix in (CLASS, "json") if with_labels}
        stems = {stem for contents in self.members.values() for stem in contents}
        self.samples = [_sample(name, stems) for name in image_names] if with_labels else []

    def _contents(self, names: Sequence[str], suffix: str) -> dict[str, bytes]:
        """The contents of all members of one kind, by their names without its suffix."""
        contents, index = {}, self._index
        has_suffix = np.array([name.endswith(f".{suffix}") for name in names])
        for number, path in enumerate(self._archives):
            places = np.flatnonzero(has_suffix & (index.archives[self._order] == number)).tolist()
            with reading_file(path, expected="the archive", kind=ImageError), path.open("rb") as file:
                for place in places:
                    row = self._order[place]
                    file.seek(int(index.offsets[row]))
                    content = file.read(int(index.sizes[row]))
                    contents[f"{path.name}/{names[place].removesuffix(f'.{suffix}')}"] = content
        return contents

    def labels(self, sample: str, levels: Sequence[str]) -> tuple[str, ...]:
        """The labels of a sample, coarse → fine."""
        try:
            fields = json.loads(self.members["json"].get(sample, b"{}"))
            if sample in self.members[CLASS]:
                fields = {CLASS: self.members[CLASS][sample].decode().strip(), **fields}
            if empty := [level for level in levels if fields[level] is None]:
                raise KeyError(*empty)
            if any(isinstance(fields[level], list | dict) for level in levels):
                raise ValueError("several labels of one level")
            return tuple(str(fields[level]) for level in levels)
        except (KeyError, TypeError, ValueError) as error:
            problem = f"{sample}: {error!r}" if isinstance(error, ValueError) else f"{sample} without {error}"
            expected = f"{', '.join(levels)} in its json or cls member"
            raise TableError(problem, expected=expected) from error

    def dataset(
        self, levels: Sequence[str], split: str | None, earlier_parts: Iterable[LabeledArchives] = ()
    ) -> ImageDataset:
        """The images with the labels of their samples; the classes of ``earlier_parts`` are numbered before theirs."""
        numbered: dict[tuple[str, ...], None] = {}
        for part in earlier_parts:
            for sample in part.samples:
                with suppress(TableError):  # one without labels, which reading that split reports
                    numbered[part.labels(sample, levels)] = None
        rows = [*numbered, *(self.labels(sample, levels) for sample in self.samples)]
        places = [*map("/".join, numbered), *map(self.images.name, range(len(self.images)))]
        labeling = label_paths(
            [list(column) for column in zip(*rows, strict=True)],
            level_names=levels,
            leaf="path",
            where=places.__getitem__,
            earlier_rows=len(numbered),
        )
        name = self.images.root.name
        return ImageDataset(name=name, split=split or "all", images=self.images, **labeling._asdict())


def _sample(name: str, stems: Collection[str]) -> str:
    """The name of a member's sample: without its suffix where a member with labels is called so."""
    if (stem := name.rpartition(".")[0]) in stems:
        return stem
    folder, slash, file_name = name.rpartition("/")
    return f"{folder}{slash}{file_name.partition('.')[0]}"


def named_archives(source: AnyPath, split: str | None = None) -> list[Path]:
    """The ``.tar`` files that a text stands for: a file, a range ``images-{000..015}.tar``, a pattern, or a folder.

    Of a folder, a split has those in its folder of that name, or those whose names begin with it; unless one is named,
    a folder with archives of ``train`` and ``test`` stands for those of ``test``. Nothing of the kind gives none.
    """
    source, path = os.fspath(source), Path(source)
    if path.is_dir():
        folder = next((path / name for name in names_of_split(split or "") if name and (path / name).is_dir()), None)
        if folder is not None:
            return named_archives(folder)
        archives = sorted(path.glob("[!.]*.tar"))
        of_split = {
            part: next(filter(None, ([file for file in archives if file.name.startswith(name)] for name in names)), [])
            for part, names in {**SPLIT_NAMES, **({} if split is None else {split: names_of_split(split)})}.items()
        }
        split_name = split or split_to_measure([part for part, files in of_split.items() if files])
        return archives if split_name is None else of_split[split_name]
    if not source.endswith(".tar"):
        return []
    if not path.exists() and any(sign in source for sign in "*?["):
        return sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    number = math.prod(max(int(last) - int(first) + 1, 0) for first, last in _RANGE.findall(source))
    if number > MOST_ARCHIVES:
        raise ImageError(f"{source} stands for {number} archives", expected=f"at most {MOST_ARCHIVES}")
    archives = [Path(name) for name in _expanded(source)]
    missing = [archive for archive in archives if not archive.is_file()]
    if missing:
        problem = f"{len(missing)} of {len(archives)} archives are missing ({some_of(map(str, missing), 3)})"
        raise ImageError(problem, expected="every archive of the range")
    return archives


def _expanded(text: str) -> list[str]:
    """The names in a range, ``{000..015}`` with zeros in front.

    >>> _expanded("a-{08..10}.tar")
    ['a-08.tar', 'a-09.tar', 'a-10.tar']
    """
    match = _RANGE.search(text)
    if match is None:
        return [text]
    first, last = match.groups()
    numbers = [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return [name for number in numbers for name in _expanded(text[: match.start()] + number + text[match.end() :])]
