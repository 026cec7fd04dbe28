"""The network: images in, vectors of unit length out."""

from hiertree.errors import require_package

require_package("torch", "torchvision", "timm", "safetensors", extra="train")
