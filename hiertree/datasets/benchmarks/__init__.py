"""The benchmarks, one file each: how its published files become images with label paths."""
