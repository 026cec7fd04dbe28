"""Runs and their judgments: TREC files, read and written, and frames, ranx objects and mappings that hold the same."""
