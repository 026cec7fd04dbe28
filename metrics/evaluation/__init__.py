"""Entrances: one file for each thing that people hold, from embeddings to ranked lists."""
