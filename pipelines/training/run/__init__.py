"""The run: steps, epochs, checkpoints, measurements."""
