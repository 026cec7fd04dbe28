"""Embeddings on disk: made by a trained network, measured, and compared with other libraries."""
