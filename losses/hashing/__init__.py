"""Tie-aware losses that learn binary codes."""
