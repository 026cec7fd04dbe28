"""``synthetic``: small drawn images whose looks follow a label tree. No files are read.

Each of the three levels of the tree determines a part of an image:

* *family*: the silhouette (disc, star, heart …);
* *kind*: the texture inside it (striped, checked, dotted …), the same textures in every family;
* *instance*: hue, the scale and direction of the texture, and the positions and size of two marks.

The rest varies from image to image: position, size, rotation, brightness, small shifts of hue and marks, backdrop, an
occluding disc, and noise. Training and test have different instances, and one kind of each family is only in the test
split, so that the test includes textures never seen on that silhouette.

A loss that knows only instances may separate them by color first, which no level of the tree shares; a loss that knows
the tree has a reason to separate silhouettes first. So the hierarchy carries information here.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ...errors import OptionError
from ...tree.label_tree import LabelTree
from ..drawing.figures import SILHOUETTES, TEXTURES
from ..drawing.rendering import Figures, render
from ..image_dataset import ImageDataset
from ..readers.images import ArrayImages

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPLITS = ("train", "test")
LEVEL_NAMES = ("family", "kind", "instance")
MARKS = 2


def load_synthetic(
    split: str = "train",
    *,
    families: int = 8,
    kinds: int = 4,
    instances: int = 8,
    images: int = 12,
    image_size: int = 32,
    seed: int = 0,
) -> ImageDataset:
    """Draw one split of the synthetic data set: family → kind → instance.

    The same arguments draw the same pixels. Training has ``families · (kinds − 1) · instances`` classes, the test
    split has ``families · kinds · instances`` others. With a single kind, no kind is left out of training.

    Args:
        split: "train" or "test".
        families: number of silhouettes, at most 11.
        kinds: number of textures, at most 6.
        instances: instances of each kind in each split.
        images: images of each instance.
        image_size: height and width in pixels, at least 8; the images are RGB.
        seed: another seed draws other instances.

    Raises:
        OptionError: an unknown split or a number out of range.

    >>> test = load_synthetic("test", families=3, kinds=2, instances=2, images=5)
    >>> test.tree.level_sizes, test.tree.leaves[0], test.images.name(0)
    ((3, 6, 12), 'disc/striped/test-1', 'disc/striped/test-1/1')
    """
    _check(split, families=families, kinds=kinds, instances=instances, images=images, image_size=image_size, seed=seed)
    shown = [pair for pair in product(range(families), range(kinds)) if split == "test" or not _left_out(*pair, kinds)]
    rows = [_labels(family, kind, f"{split}-{number + 1}") for family, kind in shown for number in range(instances)]
    tree = LabelTree.from_paths(rows, level_names=LEVEL_NAMES)
    leaf_of_image = np.repeat(np.arange(len(rows)), images)
    generator = np.random.default_rng([seed, SPLITS.index(split)])
    figures = _draw(np.repeat(shown, instances, axis=0), leaf_of_image, generator)
    return ImageDataset(
        name="synthetic",
        split=split,
        tree=tree,
        paths=tree.paths([leaf for *_, leaf in rows])[leaf_of_image],
        images=ArrayImages(
            render(figures, size=image_size, generator=generator),
            names=(f"{leaf}/{number + 1}" for *_, leaf in rows for number in range(images)),
        ),
    )


def _left_out(family: int, kind: int, kinds: int) -> bool:
    """Whether the training split leaves out this kind of this family; other families show its texture."""
    return kinds > 1 and kind == family % kinds


def _labels(family: int, kind: int, instance: str) -> tuple[str, str, str]:
    silhouette, texture = list(SILHOUETTES)[family], list(TEXTURES)[kind]
    return silhouette, texture, f"{silhouette}/{texture}/{instance}"


def _draw(classes: NDArray[np.int64], of_image: NDArray[np.int64], generator: np.random.Generator) -> Figures:
    """The traits of every image: those of its instance, with the image's own variation.

    Args:
        classes: (c, 2) family and kind of each instance.
        of_image: (n,) the instance of each image.
        generator: draws the traits.
    """

    def among(low: float, high: float, *shape: int) -> NDArray[np.float32]:
        return generator.uniform(low, high, shape).astype(np.float32)

    n, instances = len(of_image), len(classes)
    hue, waves, slant = among(0, 1, instances), among(1.3, 2.1, instances), among(-0.25, 0.25, instances)
    mark_size = among(0.13, 0.2, instances)
    reach, bearing = among(0.1, 0.5, instances, MARKS), 2 * np.pi * among(0, 1, instances, MARKS)
    marks = np.stack([reach * np.cos(bearing), reach * np.sin(bearing)], axis=-1)
    veil = np.concatenate([among(-0.9, 0.9, n, 2), among(-0.5, 0.4, n, 1)], axis=1)
    return Figures(
        silhouette=classes[of_image, 0],
        texture=classes[of_image, 1],
        hue=hue[of_image] + among(-0.06, 0.06, n),
        waves=waves[of_image],
        slant=slant[of_image],
        marks=marks[of_image] + among(-0.15, 0.15, n, MARKS, 2),
        mark_size=mark_size[of_image],
        center=among(-0.12, 0.12, n, 2),
        radius=among(0.68, 0.9, n),
        turn=among(-0.06, 0.06, n),
        lightness=among(-0.08, 0.08, n),
        backdrop=np.concatenate([among(0.86, 0.98, n, 1), among(0, 1, n, 1)], axis=1),
        veil=veil,
    )


def _check(split: str, *, families: int, kinds: int, instances: int, images: int, image_size: int, seed: int) -> None:
    if split not in SPLITS:
        raise OptionError(f"split={split!r}", expected="'train' or 'test'")
    ranges = {
        "families": (families, 1, len(SILHOUETTES)),
        "kinds": (kinds, 1, len(TEXTURES)),
        "instances": (instances, 1, 10_000),
        "images": (images, 1, 10_000),
        "image_size": (image_size, 8, 1024),
        "seed": (seed, 0, 2**63 - 1),
    }
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise OptionError(f"{name}={value}", expected=f"{low} to {high}")
