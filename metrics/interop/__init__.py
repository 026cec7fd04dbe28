"""Metrics inside the loops of other libraries: torchmetrics, pytorch-metric-learning, Lightning."""
