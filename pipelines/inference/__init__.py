"""Use a trained network: ``model = hiertree.load_model("runs/sop-happier")``, ``model.embed("photos/")``."""

from hiertree.errors import require_package

require_package("torch", "torchvision", "timm", "safetensors", extra="train")

from .retrievals import plot_retrievals
from .trained_model import GalleryIndex, TrainedModel, load_model
from .zero_shot import Classification

__all__ = ["Classification", "GalleryIndex", "TrainedModel", "load_model", "plot_retrievals"]
