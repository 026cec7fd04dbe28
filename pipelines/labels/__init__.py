"""Hierarchical labels from raw landmark ids: read, clean, embed, cluster, name, export."""
