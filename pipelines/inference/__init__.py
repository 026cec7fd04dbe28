"""Use a trained network: ``model = hiertree.load_model("runs/sop-happier")``, ``model.embed("photos/")``."""

from hiertree.errors import require_package

require_package("torch", "torchvision", "timm", "safetensors", extra="train")

from .trained_model import TrainedModel, load_model

__all__ = ["TrainedModel", "load_model"]
