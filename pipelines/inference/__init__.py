"""Use a trained network: ``model = hiertree.load_model("runs/sop-happier")``, ``model.embed("photos/")``."""

from hiertree.errors import require_package

require_package("torch", "torchvision", "timm", "safetensors", extra="train")

from .gallery_index import GalleryIndex
from .trained_model import TrainedModel, load_model

__all__ = ["GalleryIndex", "TrainedModel", "load_model"]
