"""Ranking metrics over label hierarchies: exact under ties, and explicit about their conventions.

* :func:`evaluate`: embeddings and label paths → every metric, block by block.
* :func:`evaluate_scores`: a (Q, N) score matrix and its levels.
* :func:`evaluate_codes`: binary codes, by Hamming distance.
* :func:`evaluate_ranking`: ranked lists made elsewhere.
* :func:`overall`, :func:`revisitop_levels`: DyML's mean over results, and the labels of the revisited Oxford and Paris.
* :mod:`hiertree.metrics.statistics`: whether systems differ, by paired randomization tests.
* :mod:`hiertree.metrics.rerank`: PCA whitening, query expansion, database augmentation, k-reciprocal re-ranking.
* :class:`RetrievalMetric`: any of these metrics, batch by batch and across processes, as torchmetrics do.
* One function per metric, of (Q, N) scores and levels: ``h_ap``, ``ndcg``, ``asi``, ``average_precision``, …

Names for ``metrics=``, which are also the columns of a result: ``H-AP``, ``H-AP(alpha=3)``, ``NDCG``, ``NDCG@k``,
``ASI``, ``ASI[l]``, ``HP@k``, ``AHP@k``, ``HOPS@k``, ``AP[l]``, ``AP#l``, ``R@k[l]``, ``TR@k[l]``, ``P@k[l]``,
``P@R[l]``, ``mAP@R[l]``, ``mAP@k[l]``, ``MRR[l]``, ``MRR@k[l]``; for the severity of errors: ``H-AP[l]``,
``first-error[l]``, ``HD@k``, ``mistake-severity``; of codes and scores: ``AP@k[l]``. Levels count from 1, the coarsest;
without ``[l]`` the finest is meant.

``evaluation`` checks what an entry point is given and makes a ``Retrieval``; ``engine`` computes its scores, block of
queries by block; ``ranking`` ranks the positives, ``formulas`` turn ranks into values, and ``result`` holds them.
``request`` and ``conventions`` say what is asked for, by which rules.

Definitions follow Ramzi et al., *Optimization of Rank Losses for Image Retrieval*, TPAMI 2025.

A query without positives has no value: NaN where values are listed by query, left out of means, counted in ``skipped``.

>>> from hiertree.metrics import evaluate
>>> result = evaluate([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], [[0, 0], [0, 0], [0, 1]], metrics=["H-AP", "R@1"])
>>> result.summary().round(4).to_dict()
{'H-AP': 0.9444, 'R@1': 0.5}
"""

if __name__ != "hiertree.metrics":
    raise ImportError("import this package as hiertree.metrics (pip install the repository first)")

from importlib.util import find_spec
from typing import TYPE_CHECKING

from hiertree.errors import require_package
from hiertree.evaluation_options import Compat, ProtocolName, Rules

from . import statistics
from .conventions import Convention
from .evaluation.codes import evaluate_codes
from .evaluation.embeddings import evaluate
from .evaluation.rankings import evaluate_ranking
from .evaluation.scores import evaluate_scores, revisitop_levels
from .functional import (
    HierarchicalScores,
    PrecisionRecall,
    asi,
    average_hierarchical_precision,
    average_precision,
    average_precision_at_k,
    average_precision_of_level,
    first_error,
    h_ap,
    hierarchical_distance_at_k,
    hierarchical_precision_at_k,
    hierarchical_precision_recall,
    hierarchical_scores,
    hops,
    map_at_k,
    map_at_r,
    micro_average_precision,
    mistake_severity,
    ndcg,
    precision_at_k,
    r_precision,
    recall_at_k,
    reciprocal_rank,
    true_recall_at_k,
)
from .result import Evaluation
from .statistics import overall
from .trec_reading import read_trec_qrels, read_trec_run
from .trec_writing import write_trec_qrels, write_trec_run

if TYPE_CHECKING:
    from .retrieval_metric import RetrievalMetric

__all__ = ["Compat", "Convention", "Evaluation", "HierarchicalScores", "PrecisionRecall", "ProtocolName", "Rules"]
__all__ += ["evaluate", "evaluate_codes", "evaluate_ranking", "evaluate_scores", "overall", "revisitop_levels"]
__all__ += ["asi", "average_hierarchical_precision", "average_precision", "average_precision_at_k"]
__all__ += ["average_precision_of_level", "first_error", "h_ap", "hierarchical_distance_at_k"]
__all__ += ["hierarchical_precision_at_k", "hierarchical_precision_recall", "hierarchical_scores", "hops", "map_at_k"]
__all__ += ["map_at_r", "micro_average_precision", "mistake_severity", "ndcg", "precision_at_k", "r_precision"]
__all__ += ["recall_at_k", "reciprocal_rank", "true_recall_at_k"]
__all__ += ["read_trec_qrels", "read_trec_run", "statistics", "write_trec_qrels", "write_trec_run"]
if all(map(find_spec, ("torchmetrics", "torch"))):  # "import *" loads every name
    __all__ += ["RetrievalMetric"]


def __getattr__(name: str) -> object:
    """Load the class for torchmetrics, and that library, on first access."""
    if name != "RetrievalMetric":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_package("torchmetrics", "torch", extra="interop")
    from . import retrieval_metric

    return retrieval_metric.RetrievalMetric


def __dir__() -> list[str]:
    """The public names."""
    return __all__
