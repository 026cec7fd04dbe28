"""Entry points, one file per kind of input, from embeddings to ranked lists."""
