"""From embeddings and paths to pairs of query and candidate, their soft ranks, and objectives of these ranks."""
