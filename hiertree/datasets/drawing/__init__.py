"""The drawing of synthetic images."""
