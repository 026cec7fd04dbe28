"""Sums over pairs in plain torch, on any device: of sorted rows, or pair by pair."""
