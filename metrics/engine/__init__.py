"""Blocks of queries: similarities, in memory or tiled, on CPU or GPU, over threads and processes, with resume."""
