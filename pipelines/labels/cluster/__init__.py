"""Distinct labels → proposed supercategories."""
