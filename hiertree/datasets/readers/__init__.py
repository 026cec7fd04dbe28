"""Readers of the formats in which benchmarks are published: lists, tables, archives, pickles and images."""
