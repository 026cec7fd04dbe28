"""From images on disk to batches of tensors."""
