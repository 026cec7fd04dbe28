"""Training of retrieval models from one recipe file."""
