"""``synthetic``: small drawn images whose looks follow a label tree. No files are read.

* *family*: the silhouette (disc, star, heart …);
* *kind*: the texture inside it (striped, checked, dotted …), the same textures in every family;
* *instance*: hue, the scale and direction of the texture, and the positions and size of two marks.

The rest varies from image to image: position, size, rotation, brightness, small shifts of hue and marks, backdrop, an
occluding disc, and noise. Training and test have different instances, and one kind of each family is only in the test.

A loss that knows only instances may separate them by color first, which no level of the tree shares; one that knows the
tree has a reason to separate silhouettes first. So the hierarchy carries information here.

A *silhouette* maps points (x, y) to a signed distance, negative inside; a *texture* to a wave, positive where the
second tone is. Dividing by the size of a pixel gives a coverage with smooth edges. Arrays are (n, size, size) float32;
y points up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ..options import check_choice, require
from ..tree.label_tree import LabelTree
from .image_dataset import ImageDataset
from .readers.images import ArrayImages

if TYPE_CHECKING:
    from numpy.typing import NDArray

Plane: TypeAlias = Any  # (n, size, size) float32, or what broadcasts to it; the kernels' types are lost in ufuncs
Shape: TypeAlias = Callable[[Plane, Plane], Plane]
Split = Literal["train", "test"]
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
        families: number of silhouettes, at most 8.
        kinds: number of textures, at most 4.
        instances: instances of each kind in each split.
        images: images of each instance.
        image_size: height and width in pixels, at least 8; the images are RGB.
        seed: another seed draws other instances.

    Raises:
        OptionError: an unknown split or a number out of range.

    >>> test = load_synthetic("test", families=3, kinds=2, instances=2, images=5)
    >>> test.tree.level_sizes, test.tree.leaves[0], test.images.name(0)
    ((3, 6, 18), 'disc/checked/train-1', 'disc/striped/test-1/1')
    """
    _check(split, families=families, kinds=kinds, instances=instances, images=images, image_size=image_size, seed=seed)
    every = list(product(range(families), range(kinds)))
    training = [(family, kind) for family, kind in every if kinds == 1 or kind != family % kinds]
    pairs = training if split == "train" else every  # training lacks a kind of each family; others show its texture
    training_rows = _rows(training, "train", instances)
    rows = _rows(pairs, split, instances)
    tree = LabelTree.from_paths(rows if split == "train" else training_rows + rows, level_names=LEVEL_NAMES)
    leaf_of_image = np.repeat(np.arange(len(rows)), images)
    generator = np.random.default_rng([seed, get_args(Split).index(split)])
    figures = _draw(np.repeat(pairs, instances, axis=0), leaf_of_image, generator)
    return ImageDataset(
        name="synthetic",
        split=split,
        tree=tree,
        paths=tree.paths([leaf for *_, leaf in rows])[leaf_of_image],
        images=ArrayImages(
            render(figures, size=image_size, generator=generator),
            names=(f"{leaf}/{view + 1}" for *_, leaf in rows for view in range(images)),
        ),
    )


def _rows(pairs: Sequence[tuple[int, int]], split: str, instances: int) -> list[tuple[str, str, str]]:
    """The labels of each class."""
    names = [(list(SILHOUETTES)[family], list(TEXTURES)[kind]) for family, kind in pairs]
    return [
        (*labels, f"{'/'.join(labels)}/{split}-{instance}") for labels in names for instance in range(1, instances + 1)
    ]


def _draw(classes: NDArray[np.int64], of_image: NDArray[np.int64], generator: np.random.Generator) -> Figures:
    """The traits of every image: those of its (c, 2) instance's family and kind, with the image's own variation."""

    def draw(low: float, high: float, *shape: int) -> NDArray[np.float32]:
        return generator.uniform(low, high, shape).astype(np.float32)

    n, instances = len(of_image), len(classes)
    hue, waves, slant = draw(0, 1, instances), draw(1.3, 2.1, instances), draw(-0.25, 0.25, instances)
    mark_size = draw(0.13, 0.2, instances)
    distance, bearing = draw(0.1, 0.5, instances, MARKS), 2 * np.pi * draw(0, 1, instances, MARKS)
    marks = np.stack([distance * np.cos(bearing), distance * np.sin(bearing)], axis=-1)
    veil = np.concatenate([draw(-0.9, 0.9, n, 2), draw(-0.5, 0.4, n, 1)], axis=1)
    return Figures(
        silhouette=classes[of_image, 0],
        texture=classes[of_image, 1],
        hue=hue[of_image] + draw(-0.06, 0.06, n),
        waves=waves[of_image],
        slant=slant[of_image],
        marks=marks[of_image] + draw(-0.15, 0.15, n, MARKS, 2),
        mark_size=mark_size[of_image],
        center=draw(-0.12, 0.12, n, 2),
        radius=draw(0.68, 0.9, n),
        turn=draw(-0.06, 0.06, n),
        lightness=draw(-0.08, 0.08, n),
        backdrop=np.concatenate([draw(0.86, 0.98, n, 1), draw(0, 1, n, 1)], axis=1),
        veil=veil,
    )


def _check(split: str, *, families: int, kinds: int, instances: int, images: int, image_size: int, seed: int) -> None:
    check_choice("split", split, Split)
    ranges = {
        "families": (families, 1, len(SILHOUETTES)),
        "kinds": (kinds, 1, len(TEXTURES)),
        "instances": (instances, 1, 10_000),
        "images": (images, 1, 10_000),
        "image_size": (image_size, 8, 1024),
        "seed": (seed, 0, 2**63 - 1),
    }
    for name, (value, low, high) in ranges.items():
        require(low <= value <= high, name, value, f"{low} to {high}")


IMAGES_AT_ONCE = 256
NOISE = 0.03


class Figures(NamedTuple):
    """The traits of n figures, in half image widths and turns: those of a class, then those that vary by image."""

    silhouette: NDArray[np.int64]  # (n,) index in SILHOUETTES
    texture: NDArray[np.int64]  # (n,) index in TEXTURES
    hue: NDArray[np.float32]  # (n,)
    waves: NDArray[np.float32]  # (n,) waves of the texture across a radius
    slant: NDArray[np.float32]  # (n,) direction of the texture
    marks: NDArray[np.float32]  # (n, m, 2) positions of the marks in the figure, in radii
    mark_size: NDArray[np.float32]  # (n,) in radii

    center: NDArray[np.float32]  # (n, 2)
    radius: NDArray[np.float32]  # (n,)
    turn: NDArray[np.float32]  # (n,)
    lightness: NDArray[np.float32]  # (n,) added to every tone of the figure
    backdrop: NDArray[np.float32]  # (n, 2) lightness and hue
    veil: NDArray[np.float32]  # (n, 3) center and radius of a disc of backdrop that hides a part of the figure


def render(figures: Figures, *, size: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Draw every figure, (n, size, size, 3) uint8; ``generator`` draws the noise of the pixels."""
    count = len(figures.silhouette)
    pixels = np.empty((count, size, size, 3), np.uint8)
    for start in range(0, count, IMAGES_AT_ONCE):
        block = slice(start, start + IMAGES_AT_ONCE)
        colors = _paint(Figures._make(trait[block] for trait in figures), size)
        colors += NOISE * generator.standard_normal(colors.shape, dtype=np.float32)
        pixels[block] = np.rint(255 * np.clip(colors, 0, 1)).astype(np.uint8)
    return pixels


def _paint(figures: Figures, size: int) -> Plane:
    """Colors of one block, 0 … 1: backdrop, figure, second tone, marks, veil, each painted over the previous."""
    axis = (np.arange(size, dtype=np.float32) * 2 + 1) / size - 1
    across, up = np.broadcast_arrays(axis[None, None, :], -axis[None, :, None])
    center_x, center_y = (figures.center[:, axis, None, None] for axis in (0, 1))
    x, y = _turned(across - center_x, up - center_y, figures.turn, figures.radius)
    pixel = 2 / (size * figures.radius[:, None, None])
    body = coverage(_apply_kinds(SILHOUETTES, figures.silhouette, x, y), pixel=pixel)
    wave = _apply_kinds(TEXTURES, figures.texture, *_turned(x, y, figures.slant, 1 / figures.waves))
    second = coverage(-wave, pixel=2 * np.pi * pixel * figures.waves[:, None, None])
    marks = np.zeros_like(body)
    for center in np.moveaxis(figures.marks, 1, 0):
        marks = np.maximum(marks, _disc(x, y, center, figures.mark_size, pixel))
    hidden = _disc(across, up, figures.veil, figures.veil[:, 2], np.float32(2 / size))
    ground, tone, accent, ink = _palette(figures, up)
    painted = _paint_over(ground, tone, body)
    painted = _paint_over(painted, accent, body * second)
    painted = _paint_over(painted, ink, body * marks)
    return _paint_over(painted, ground, hidden)


def _turned(x: Plane, y: Plane, turns: Plane, lengths: Plane) -> tuple[Plane, Plane]:
    """Points in the coordinates of each figure, turned and with its length as the unit."""
    angle = 2 * np.pi * turns[:, None, None]
    cosine, sine = np.cos(angle) / lengths[:, None, None], np.sin(angle) / lengths[:, None, None]
    return cosine * x + sine * y, cosine * y - sine * x


def _disc(x: Plane, y: Plane, center: Plane, radius: Plane, pixel: Plane) -> Plane:
    distance = np.hypot(x - center[:, 0, None, None], y - center[:, 1, None, None])
    return coverage(distance - radius[:, None, None], pixel=pixel)


def _apply_kinds(functions: Mapping[str, Shape], kinds: NDArray[np.int64], x: Plane, y: Plane) -> Plane:
    """Apply to each plane its kind's function."""
    shapes = list(functions.values())
    values = np.empty_like(x)
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        values[rows] = shapes[kind](x[rows], y[rows])
    return values


def _palette(figures: Figures, up: Plane) -> tuple[Plane, Plane, Plane, Plane]:
    """Backdrop, main tone, second tone and the color of the marks, each broadcast over the pixels of its image."""
    hue, light = figures.hue[:, None, None], figures.lightness[:, None, None]
    shade = figures.backdrop[:, 0, None, None] + np.float32(0.03) * up
    ground = oklch(shade, np.float32(0.02), figures.backdrop[:, 1, None, None])
    tone = oklch(light + np.float32(0.66), np.float32(0.15), hue)
    accent = oklch(light + np.float32(0.84), np.float32(0.09), hue + np.float32(0.06))
    ink = oklch(light + np.float32(0.34), np.float32(0.07), hue)
    return ground, tone, accent, ink


def _paint_over(background: Plane, foreground: Plane, cover: Plane) -> Plane:
    return background + (foreground - background) * cover[..., None]


def _crescent(x: Plane, y: Plane) -> Plane:
    return np.maximum(np.hypot(x + 0.05, y) - 0.92, 0.62 - np.hypot(x - 0.5, y))


def _cross(x: Plane, y: Plane) -> Plane:
    horizontal, vertical = np.abs(x), np.abs(y)
    return np.minimum(np.maximum(horizontal - 0.36, vertical - 0.92), np.maximum(horizontal - 0.92, vertical - 0.36))


def _heart(x: Plane, y: Plane) -> Plane:
    lobes = np.hypot(np.abs(x) - 0.39, y - 0.31) - 0.55
    square = (np.abs(x) + np.abs(y + 0.08) - 0.78) * np.float32(np.sqrt(0.5))
    return np.minimum(lobes, square)


def _drop(x: Plane, y: Plane) -> Plane:
    cone = np.maximum(np.abs(x) * 0.885 + (y - 1.0) * 0.465, -0.02 - y)
    return np.minimum(np.hypot(x, y + 0.28) - 0.62, cone)


def _flower(x: Plane, y: Plane) -> Plane:
    return (np.hypot(x, y) - 0.72 - 0.22 * np.cos(5 * np.arctan2(x, y))) * np.float32(0.7)


def _points(count: int, *, outer: float, inner: float) -> Shape:
    """A star of ``count`` points; with inner = outer·cos(π / count) a regular polygon."""
    sector = np.pi / count
    edge = np.array([inner * np.cos(sector) - outer, inner * np.sin(sector)])
    normal = (np.array([edge[1], -edge[0]]) / np.hypot(*edge)).astype(np.float32)

    def distance(x: Plane, y: Plane) -> Plane:
        radius, angle = np.hypot(x, y), np.arctan2(x, y)
        folded = np.abs((angle + sector) % np.float32(2 * sector) - sector)
        return (radius * np.cos(folded) - outer) * normal[0] + radius * np.sin(folded) * normal[1]

    return distance


SILHOUETTES: Mapping[str, Shape] = MappingProxyType(
    {
        "disc": lambda x, y: np.hypot(x, y) - 0.85,
        "star": _points(5, outer=1.05, inner=0.46),
        "heart": _heart,
        "triangle": _points(3, outer=1.1, inner=1.1 * float(np.cos(np.pi / 3))),
        "crescent": _crescent,
        "cross": _cross,
        "drop": _drop,
        "flower": _flower,
    }
)
TEXTURES: Mapping[str, Shape] = MappingProxyType(
    {
        "striped": lambda _, y: np.sin(2 * np.pi * y),
        "checked": lambda x, y: np.sin(np.pi * x) * np.sin(np.pi * y) * 2,
        "ringed": lambda x, y: np.sin(2 * np.pi * np.hypot(x, y)),
        "dotted": lambda x, y: np.cos(2 * np.pi * x) + np.cos(2 * np.pi * y) - np.float32(0.6),
    }
)


def coverage(distance: Plane, *, pixel: Plane) -> Plane:
    """Fraction of each pixel that lies inside, 0 … 1, from the signed distance to the edge and the pixel's size."""
    return np.clip(0.5 - distance / pixel, 0, 1)


def oklch(lightness: Plane, chroma: Plane, hue: Plane) -> Plane:
    """Colors of equal perceived lightness as sRGB in 0 … 1, a last axis of 3 added; ``hue`` is in turns.

    Björn Ottosson, *A perceptual color space for image processing* (2020).
    """
    a, b = chroma * np.cos(2 * np.pi * hue), chroma * np.sin(2 * np.pi * hue)
    lab = np.stack(np.broadcast_arrays(lightness, a, b), axis=-1)
    linear = np.clip((lab @ _LAB_TO_CONE.T) ** 3 @ _CONE_TO_RGB.T, 0, 1)
    gamma = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055)
    return gamma.astype(np.float32)


_LAB_TO_CONE = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]], np.float32
)
_CONE_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ],
    np.float32,
)
