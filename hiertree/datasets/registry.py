"""All benchmarks by name, with their descriptions and loaders."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import OptionError, nearest_name
from .benchmarks.faces import IJBC, VGGFACE2, load_ijbc, load_vggface2
from .benchmarks.folders import INATURALIST_2021, RP2K, load_inaturalist2021, load_rp2k
from .benchmarks.gldv2 import GLDV2, load_gldv2
from .benchmarks.hashing import (
    IMAGENET100,
    LABELME,
    NUS_WIDE,
    load_imagenet100,
    load_labelme,
    load_nus_wide,
)
from .benchmarks.lists import (
    CARS,
    CUB,
    INSHOP,
    SOP,
    VEHICLEID,
    load_cars,
    load_cub,
    load_inshop,
    load_sop,
    load_vehicleid,
)
from .benchmarks.multilevel import DYML, INATURALIST, load_dyml, load_inaturalist
from .benchmarks.objects import ILIAS, MET, load_ilias, load_met
from .benchmarks.omniglot import OMNIGLOT, load_omniglot
from .benchmarks.pickled import CIFAR, REVISITED, SFM120K, load_cifar, load_revisited, load_sfm120k
from .description import Benchmark, Verify
from .huggingface import load_huggingface
from .image_dataset import ImageDataset
from .input_images import load_archives
from .synthetic import load_synthetic
from .user_images import load_folder, load_table


class Entry(NamedTuple):
    """A benchmark, its loader, and the loader's options for it."""

    benchmark: Benchmark
    loader: Callable[..., ImageDataset]
    options: Mapping[str, Any] = MappingProxyType({})

    def load(self, root: str | os.PathLike[str], split: str, *, verify: Verify) -> ImageDataset:
        """Read one split."""
        verify_option = {"verify": verify} if self.benchmark.verifiable else {}
        return self.loader(root, split, **self.options, **verify_option)


def _variants(cards: Mapping[Any, Benchmark], loader: Callable[..., ImageDataset], option: str) -> list[Entry]:
    return [Entry(card, loader, MappingProxyType({option: value})) for value, card in cards.items()]


def _index_by_name(*entries: Entry) -> Mapping[str, Entry]:
    return MappingProxyType({entry.benchmark.name: entry for entry in entries})


ENTRIES = _index_by_name(
    Entry(SOP, load_sop),
    *_variants(INATURALIST, load_inaturalist, "hierarchy"),
    Entry(INATURALIST_2021, load_inaturalist2021),
    *_variants(DYML, load_dyml, "collection"),
    *_variants(GLDV2, load_gldv2, "hierarchy"),
    *_variants(REVISITED, load_revisited, "city"),
    Entry(SFM120K, load_sfm120k),
    Entry(ILIAS, load_ilias),
    Entry(MET, load_met),
    Entry(RP2K, load_rp2k),
    Entry(CUB, load_cub),
    Entry(CARS, load_cars),
    Entry(INSHOP, load_inshop),
    *_variants(VEHICLEID, load_vehicleid, "test_classes"),
    *_variants(CIFAR, load_cifar, "classes"),
    Entry(IMAGENET100, load_imagenet100),
    Entry(NUS_WIDE, load_nus_wide),
    Entry(LABELME, load_labelme),
    Entry(VGGFACE2, load_vggface2),
    Entry(IJBC, load_ijbc),
    Entry(OMNIGLOT, load_omniglot),
)


# What a recipe's data.name may be: a benchmark, a loader with all of its options, or one's own images.
LOADERS: Mapping[str, Callable[..., ImageDataset]] = MappingProxyType(
    {
        **{name: partial(entry.loader, **entry.options) for name, entry in ENTRIES.items()},
        **{entry.loader.__name__.removeprefix("load_"): entry.loader for entry in ENTRIES.values()},
        "archives": load_archives,
        "folder": load_folder,
        "huggingface": load_huggingface,
        "synthetic": load_synthetic,
        "table": load_table,
    }
)


def entry_of(name: str) -> Entry:
    """The benchmark of that name; an OptionError names a similar one."""
    if not any(name == entry_name for entry_name in ENTRIES):
        suggestion = nearest_name(name, ENTRIES)
        raise OptionError(
            f"name={name!r}",
            expected=f"one of {', '.join(map(repr, ENTRIES))}, 'synthetic', 'folder', or load_table for your own table",
            remedy=f"did you mean {suggestion!r}?" if suggestion else None,
        )
    return ENTRIES[name]
