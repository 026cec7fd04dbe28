"""Rank losses over label hierarchies, exact, in memory linear in the number of pairs.

Every loss is called as ``loss(embeddings, paths, ref_embeddings=None, ref_paths=None, *, valid=None)`` and
gives a scalar; ``valid`` masks candidates, or queries:

* :class:`SupHAP`, :class:`SupNDCG`, :class:`SupAP`: upper bounds of 1 − metric; :class:`SupRecall`: recall at k;
  :class:`SmoothHAP`, :class:`SmoothNDCG`, :class:`SmoothAP`, :class:`SmoothRecall`: the same with a sigmoid;
* :class:`PairDecomposability`, :class:`ProxyDecomposability`: what makes rank losses of batches decomposable;
* :class:`HAPPIER`, :class:`RODNDCG`, :class:`RODRecall`, :class:`ROADMAP`: a rank loss and a decomposability term;
* :class:`TieAwareAP`, :class:`TieAwareNDCG`: learn binary codes, :func:`binary_codes`, ranked by Hamming distance;
  :class:`HashNet`, :class:`DPSH`, :class:`DTSH`, :class:`MIHash`: so did earlier losses of pairs and triplets;
* :func:`decomposability_gap` and its bounds: how far batches are from the whole; measured, not trained;
* :class:`FastAP`, :class:`SoftBinAP`, :class:`BlackboxAP`, :class:`CSL`: the baselines of the papers;
  :class:`SupCon`, :class:`HiMulCon`: contrastive losses of one level and of all;
  :class:`HierarchicalTriplet`: triplets of every level; :class:`Hyperbolic`: losses of pairs by Poincaré distance,
  :class:`HIER`: any loss, and a hierarchy of learned proxies there;
* :class:`PytorchMetricLearning`: any loss of that library; :func:`as_pytorch_metric_learning`: the other way round;
* :class:`LevelSum` adds a flat loss over levels, :class:`CrossBatchMemory` ranks among earlier batches.

:func:`large_batch_backward` backpropagates a batch in chunks; :class:`DistributedLoss` spreads one over processes,
whose batches :func:`all_gather` joins.

:mod:`hiertree.losses.functional` has the rank losses as functions of scores, levels and a relevance table.

Conventions: the similarity is the cosine (embeddings are normalized inside, in float32 or better, also under
autocast), but for losses of codes, which compare tanh(α·f) or α·f, hyperbolic ones and another library's; a query is
not its own candidate unless ``include_self=True``; a query without a positive (for HashNet and DPSH: without a
candidate) is left out of the mean and counted in ``loss.last_num_skipped``; a batch in which none has one gives 0,
which can be backpropagated.
All raise an OptionError for an option outside its range, ShapeError, EmbeddingError or PathError for input that cannot
be used, which names the rows, and MissingPackageError for a library that is not installed.
``loss.terms(...)`` are the parts, ``loss.weights`` their weights and ``loss.total(terms)`` the loss.
"""

if __name__ != "hiertree.losses":
    raise ImportError("import this package as hiertree.losses (pip install the repository first)")

from hiertree.errors import require_package

require_package("torch", extra="train")

from . import functional
from .base import Loss
from .baselines.average_precision import BlackboxAP, FastAP, SoftBinAP
from .baselines.contrastive import HierarchicalTriplet, HiMulCon, SupCon
from .baselines.csl import CSL
from .baselines.hashing import DPSH, DTSH, HashNet, MIHash
from .baselines.hyperbolic import HIER, Hyperbolic
from .baselines.metric_learning import LevelSum, PytorchMetricLearning, as_pytorch_metric_learning
from .batches import CrossBatchMemory, DistributedLoss, all_gather, large_batch_backward
from .combined import HAPPIER, ROADMAP, RODNDCG, RODRecall
from .decomposability import PairDecomposability, ProxyDecomposability, ProxyOptions
from .decomposability_bounds import (
    decomposability_bound,
    decomposability_bound_with_margins,
    decomposability_gap,
    smooth_ap_error,
)
from .functional import ScoreOptions
from .hashing import GrowingAlpha, TieAwareAP, TieAwareNDCG, binary_codes
from .pairs.soft_ranks import StepOptions
from .ranking import SmoothAP, SmoothHAP, SmoothNDCG, SupAP, SupHAP, SupNDCG
from .recall import SmoothRecall, SupRecall

__all__ = ["SmoothAP", "SmoothHAP", "SmoothNDCG", "SmoothRecall", "SupAP", "SupHAP", "SupNDCG", "SupRecall"]
__all__ += ["HAPPIER", "ROADMAP", "RODNDCG", "PairDecomposability", "ProxyDecomposability", "RODRecall"]
__all__ += ["DPSH", "DTSH", "GrowingAlpha", "HashNet", "MIHash", "TieAwareAP", "TieAwareNDCG", "binary_codes"]
__all__ += ["BlackboxAP", "FastAP", "SoftBinAP"]
__all__ += ["CSL", "HIER", "HiMulCon", "HierarchicalTriplet", "Hyperbolic", "SupCon"]
__all__ += ["LevelSum", "PytorchMetricLearning", "as_pytorch_metric_learning"]
__all__ += ["CrossBatchMemory", "DistributedLoss", "all_gather", "large_batch_backward"]
__all__ += ["decomposability_bound", "decomposability_bound_with_margins", "decomposability_gap", "smooth_ap_error"]
__all__ += ["Loss", "ProxyOptions", "ScoreOptions", "StepOptions", "functional"]


def __dir__() -> list[str]:
    """The public names."""
    return __all__
