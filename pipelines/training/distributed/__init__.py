"""Several processes that share one run. Knows recipes' settings of devices, and nothing of networks or training."""
