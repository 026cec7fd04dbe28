"""Larger batches for any loss: a memory of earlier batches, two passes, several processes."""
