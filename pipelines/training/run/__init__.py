"""One experiment from its recipe to its results: network, loss and optimizer, epochs, checkpoints, evaluation."""
