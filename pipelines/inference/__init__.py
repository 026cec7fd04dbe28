"""Use a trained network: ``model = hiertree.load_model("runs/sop-happier")``, ``model.embed("photos/")``."""

from .trained_model import TrainedModel, load_model

__all__ = ["TrainedModel", "load_model"]
