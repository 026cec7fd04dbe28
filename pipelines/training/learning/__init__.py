"""Network, loss and optimizer: building them, their starting weights, and the training step."""
