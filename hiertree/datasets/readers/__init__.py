"""Readers of what benchmarks publish: lists, tables, archives, pickles and images."""
