"""Tests that stand beside each other: DyML's lists of vehicles and animals, one a level, and the mean over them.

The images of all lists are embedded once each. A list's metrics carry its name, ``AP[fine]``, and the mean over the
lists is ``mean AP``. So is the mean over the levels of DyML's products, of ``AP[1]``, ``AP[2]`` and ``AP[3]``.

>>> named("R@1[1]", "fine"), averaged(["AP[fine]", "R@1[fine]", "AP[coarse]"])
('R@1[fine]', ('mean AP',))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.datasets.readers.images import JoinedImages, SelectedImages
from hiertree.metrics import Evaluation, overall

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageDataset, ImageSource


class Pictures(NamedTuple):
    """Images of several lists, each once, and for every list the rows of its images among them."""

    images: ImageSource
    rows: tuple[NDArray[np.int64] | slice, ...]


def pictures_of(lists: Sequence[ImageDataset]) -> Pictures:
    """The images of lists that stand beside each other, where those of one name are the same; of one list, all."""
    if len(lists) == 1:
        return Pictures(lists[0].images, (slice(None),))
    names = np.array([part.images.name(row) for part in lists for row in range(len(part))])
    _, first, rows = np.unique(names, return_index=True, return_inverse=True)
    joined: ImageSource = reduce(JoinedImages, (part.images for part in lists))
    ends = np.cumsum([len(part) for part in lists])[:-1]
    return Pictures(SelectedImages(joined, first), tuple(np.split(rows.reshape(-1), ends)))


def list_name(part: ImageDataset) -> str:
    """What a list is called: ``fine`` of the split ``test_fine``."""
    return part.split.removeprefix("test_")


def named(metric: str, name: str) -> str:
    """A metric of the list of that name, which has one level."""
    return f"{metric.partition('[')[0]}[{name}]"


def averaged(metrics: Iterable[str]) -> tuple[str, ...]:
    """The names of the means over lists or levels, of metrics that there are several of."""
    counts = Counter(metric.partition("[")[0] for metric in metrics)
    return tuple(f"mean {metric}" for metric, count in counts.items() if count > 1)


def means_of(results: Mapping[str, Evaluation]) -> dict[str, float]:
    """The unweighted means over lists and levels; none where some list has no value for a metric.

    Args:
        results: of the same metrics, by the name of the list.
    """
    if any(len(result.summary()) < len(result.names) for result in results.values()):
        return {}
    means = overall(results)
    wanted = averaged(metric for result in results.values() for metric in result.names)
    return {name: float(means[name.removeprefix("mean ")]) for name in wanted}
