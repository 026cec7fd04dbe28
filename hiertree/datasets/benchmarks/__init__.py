"""Loaders of the benchmarks: from their published files to images with label paths."""
