"""The losses that the papers compare with, and pytorch-metric-learning both ways."""
