"""Sums over pairs: of sorted rows, in plain torch on any device and compiled on a CPU, or pair by pair."""
