"""From embeddings and paths, or scores and levels, to pairs of query and candidate, and to their soft ranks."""
