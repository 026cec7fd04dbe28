"""Pairs on a CPU, compiled by numba."""
