"""From embeddings and paths to pairs of query and candidate, their steps and their ranks."""
