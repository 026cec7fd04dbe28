"""Sums over pairs: plain torch, numba on CPU, Triton on CUDA, and the choice between them."""
