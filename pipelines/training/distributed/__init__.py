"""Several processes that share one run. Knows recipes' settings of devices, and nothing of networks or training."""

from hiertree.errors import require_package

require_package("torch", "lightning_fabric", extra="train")
