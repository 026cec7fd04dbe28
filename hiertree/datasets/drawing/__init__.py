"""Synthetic images, drawn as functions of the plane."""
