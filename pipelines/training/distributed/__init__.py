"""Several processes that share one run. Depends on recipes' device settings, not on networks or training."""

from hiertree.errors import require_package

require_package("torch", "lightning_fabric", extra="train")
