"""Metrics inside the loops of other libraries: torchmetrics and Lightning, pytorch-metric-learning."""
