r"""Silhouettes and textures as functions of the plane, and colors in OKLCH.

A *silhouette* maps points (x, y) to a signed distance, negative inside. A *texture* maps them to a wave, positive where
the second tone is. Dividing either by the size of a pixel gives a coverage with smooth edges. Arrays are (n, size,
size) float32, one plane per image; y points up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

Plane: TypeAlias = Any  # (n, size, size) float32, or what broadcasts to it; the kernels' types are lost in ufuncs


def _disc(x: Plane, y: Plane) -> Plane:
    return np.hypot(x, y) - 0.85


def _ring(x: Plane, y: Plane) -> Plane:
    return np.abs(np.hypot(x, y) - 0.62) - 0.3


def _cross(x: Plane, y: Plane) -> Plane:
    across, along = np.abs(x), np.abs(y)
    return np.minimum(np.maximum(across - 0.36, along - 0.92), np.maximum(across - 0.92, along - 0.36))


def _crescent(x: Plane, y: Plane) -> Plane:
    return np.maximum(np.hypot(x + 0.05, y) - 0.92, 0.62 - np.hypot(x - 0.5, y))


def _heart(x: Plane, y: Plane) -> Plane:
    lobes = np.hypot(np.abs(x) - 0.39, y - 0.31) - 0.55
    square = (np.abs(x) + np.abs(y + 0.08) - 0.78) * np.float32(np.sqrt(0.5))
    return np.minimum(lobes, square)


def _drop(x: Plane, y: Plane) -> Plane:
    belly = np.hypot(x, y + 0.28) - 0.62
    cone = np.maximum(np.abs(x) * 0.885 + (y - 1.0) * 0.465, -0.02 - y)
    return np.minimum(belly, cone)


def _flower(x: Plane, y: Plane) -> Plane:
    return (np.hypot(x, y) - 0.72 - 0.22 * np.cos(5 * np.arctan2(x, y))) * np.float32(0.7)


def _points(count: int, *, outer: float, inner: float) -> Callable[[Plane, Plane], Plane]:
    """A star of ``count`` points; with inner = outer·cos(π / count) a regular polygon."""
    sector = np.pi / count
    edge = np.array([inner * np.cos(sector) - outer, inner * np.sin(sector)])
    normal = (np.array([edge[1], -edge[0]]) / np.hypot(*edge)).astype(np.float32)

    def distance(x: Plane, y: Plane) -> Plane:
        radius, angle = np.hypot(x, y), np.arctan2(x, y)
        folded = np.abs((angle + sector) % np.float32(2 * sector) - sector)
        return (radius * np.cos(folded) - outer) * normal[0] + radius * np.sin(folded) * normal[1]

    return distance


def _polygon(count: int, *, outer: float) -> Callable[[Plane, Plane], Plane]:
    return _points(count, outer=outer, inner=outer * float(np.cos(np.pi / count)))


SILHOUETTES: Mapping[str, Callable[[Plane, Plane], Plane]] = MappingProxyType(
    {
        "disc": _disc,
        "star": _points(5, outer=1.05, inner=0.46),
        "heart": _heart,
        "triangle": _polygon(3, outer=1.1),
        "crescent": _crescent,
        "cross": _cross,
        "drop": _drop,
        "flower": _flower,
        "diamond": _polygon(4, outer=1.0),
        "ring": _ring,
        "hexagon": _polygon(6, outer=0.95),
    }
)


def _zigzag(x: Plane, y: Plane) -> Plane:
    teeth = np.abs((x * np.float32(0.8)) % 1 - 0.5)
    return np.sin(2 * np.pi * (y - teeth))


TEXTURES: Mapping[str, Callable[[Plane, Plane], Plane]] = MappingProxyType(
    {
        "striped": lambda _, y: np.sin(2 * np.pi * y),
        "checked": lambda x, y: np.sin(np.pi * x) * np.sin(np.pi * y) * 2,
        "ringed": lambda x, y: np.sin(2 * np.pi * np.hypot(x, y)),
        "dotted": lambda x, y: np.cos(2 * np.pi * x) + np.cos(2 * np.pi * y) - np.float32(0.6),
        "plain": lambda x, y: np.full_like(x + y, -1),
        "zigzag": _zigzag,
    }
)


def coverage(distance: Plane, *, pixel: Plane) -> Plane:
    """Share of each pixel that lies inside, 0 … 1, from the signed distance to the edge and the pixel's size."""
    return np.clip(0.5 - distance / pixel, 0, 1)


def oklch(lightness: Plane, chroma: Plane, hue: Plane) -> Plane:
    """Colors of equal perceived lightness as sRGB in 0 … 1, a last axis of 3 added.

    Björn Ottosson, *A perceptual color space for image processing* (2020). ``hue`` is in turns.
    """
    a, b = chroma * np.cos(2 * np.pi * hue), chroma * np.sin(2 * np.pi * hue)
    lab = np.stack(np.broadcast_arrays(lightness, a, b), axis=-1)
    linear = (lab @ _LAB_TO_CONE.T) ** 3 @ _CONE_TO_RGB.T
    linear = np.clip(linear, 0, 1)
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
