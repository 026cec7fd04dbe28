"""Data sets: files on disk (or drawn images) → images, label paths, split."""

from hiertree.datasets._dataset import ImageDataset, ImageSource
from hiertree.datasets._synthetic import load_synthetic

__all__ = ["ImageDataset", "ImageSource", "load_synthetic"]
