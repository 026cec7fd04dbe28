"""One experiment from its recipe to its results: steps, epochs, checkpoints, evaluation."""
