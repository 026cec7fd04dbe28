"""Network, loss and optimizer: how they are built, what they start from, and the step they take together."""
