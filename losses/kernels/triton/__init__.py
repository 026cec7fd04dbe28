"""Pairs on a GPU, compiled by Triton."""
