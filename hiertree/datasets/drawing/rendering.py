"""Rendering of many figures at once: from arrays of traits to one uint8 array of pixels."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from .figures import SILHOUETTES, TEXTURES, coverage, oklch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from .figures import Plane

IMAGES_AT_ONCE = 256
NOISE = 0.03


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The traits of n figures. Lengths are in half image widths, angles and hues in turns.

    The first block of traits belongs to a figure's class; the second varies from image to image.
    """

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

    def __len__(self) -> int:
        return len(self.silhouette)

    def rows(self, chosen: slice | NDArray[np.int64]) -> Figures:
        """Some of the figures."""
        return Figures(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})


def render(figures: Figures, *, size: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Draw every figure; ``generator`` draws the noise of the pixels.

    Returns:
        (n, size, size, 3) uint8.
    """
    pixels = np.empty((len(figures), size, size, 3), np.uint8)
    for start in range(0, len(figures), IMAGES_AT_ONCE):
        block = slice(start, start + IMAGES_AT_ONCE)
        colors = _paint(figures.rows(block), size)
        colors += NOISE * generator.standard_normal(colors.shape, dtype=np.float32)
        pixels[block] = np.rint(255 * np.clip(colors, 0, 1)).astype(np.uint8)
    return pixels


def _paint(figures: Figures, size: int) -> Plane:
    """Colors of one block, 0 … 1: backdrop, figure, second tone, marks, veil, each painted over the previous."""
    axis = (np.arange(size, dtype=np.float32) * 2 + 1) / size - 1
    across, up = np.broadcast_arrays(axis[None, None, :], -axis[None, :, None])
    x, y = _within(across, up, figures)
    pixel = 2 / (size * figures.radius[:, None, None])
    body = coverage(_by_kind(SILHOUETTES, figures.silhouette, x, y), pixel=pixel)
    second = _second_tone(figures, x, y, pixel)
    marks = np.zeros_like(body)
    for place in np.moveaxis(figures.marks, 1, 0):
        marks = np.maximum(marks, _disc(x, y, place, figures.mark_size, pixel))
    hidden = _disc(across, up, figures.veil, figures.veil[:, 2], np.float32(2 / size))
    ground, tone, accent, ink = _palette(figures, up)
    painted = _over(ground, tone, body)
    painted = _over(painted, accent, body * second)
    painted = _over(painted, ink, body * marks)
    return _over(painted, ground, hidden)


def _within(across: Plane, up: Plane, figures: Figures) -> tuple[Plane, Plane]:
    """The image's points in the coordinates of each figure, in which its silhouette has a radius of about 1."""
    x = across - figures.center[:, 0, None, None]
    y = up - figures.center[:, 1, None, None]
    return _turned(x, y, figures.turn, figures.radius)


def _turned(x: Plane, y: Plane, turns: Plane, lengths: Plane) -> tuple[Plane, Plane]:
    angle = 2 * np.pi * turns[:, None, None]
    cosine, sine = np.cos(angle) / lengths[:, None, None], np.sin(angle) / lengths[:, None, None]
    return cosine * x + sine * y, cosine * y - sine * x


def _second_tone(figures: Figures, x: Plane, y: Plane, pixel: Plane) -> Plane:
    along, beside = _turned(x, y, figures.slant, 1 / figures.waves)
    wave = _by_kind(TEXTURES, figures.texture, along, beside)
    return coverage(-wave, pixel=2 * np.pi * pixel * figures.waves[:, None, None])


def _disc(x: Plane, y: Plane, center: Plane, radius: Plane, pixel: Plane) -> Plane:
    distance = np.hypot(x - center[:, 0, None, None], y - center[:, 1, None, None])
    return coverage(distance - radius[:, None, None], pixel=pixel)


def _by_kind(
    functions: Mapping[str, Callable[[Plane, Plane], Plane]], kinds: NDArray[np.int64], x: Plane, y: Plane
) -> Plane:
    """Apply to each plane the function of its kind."""
    listed = list(functions.values())
    values = np.empty_like(x)
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        values[rows] = listed[kind](x[rows], y[rows])
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


def _over(below: Plane, above: Plane, cover: Plane) -> Plane:
    return below + (above - below) * cover[..., None]
