"""The losses that the papers compare with, and conversion from and to pytorch-metric-learning."""
