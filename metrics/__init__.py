"""Ranking metrics over label hierarchies."""

if __name__ != "hiertree.metrics":
    raise ImportError("import this package as hiertree.metrics (pip install the repository first)")

from hiertree.metrics._convention import Convention
from hiertree.metrics._evaluate import evaluate
from hiertree.metrics._result import Evaluation
from hiertree.metrics._scores import evaluate_scores

__all__ = ["Convention", "Evaluation", "evaluate", "evaluate_scores"]
