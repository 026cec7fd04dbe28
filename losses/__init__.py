"""Rank losses over label hierarchies, exact, in memory linear in the number of pairs.

Every loss is called as ``loss(embeddings, paths, ref_embeddings=None, ref_paths=None)`` and gives a scalar:

* :class:`SupHAP`, :class:`SupNDCG`, :class:`SupAP`: upper bounds of 1 − metric;
  :class:`SmoothHAP`, :class:`SmoothNDCG`, :class:`SmoothAP`: the same with a sigmoid, for comparison;
* :class:`PairDecomposability`, :class:`ProxyDecomposability`: what makes rank losses of batches add up;
* :class:`HAPPIER`, :class:`RODNDCG`, :class:`ROADMAP`: both together;
* :class:`TieAwareAP`, :class:`TieAwareNDCG`: learn binary codes, :func:`binary_codes`, ranked by Hamming distance;
* :func:`decomposability_gap` and its bounds: how far batches are from the whole; measured, not trained.

:mod:`hiertree.losses.functional` has each as a function of scores, levels and a relevance table.

Conventions: the similarity is the cosine (embeddings are normalised inside, in float32 or better, also under
autocast); a query is not its own candidate unless ``include_self=True``; a query without a positive is left out of the
mean and counted in ``loss.last_num_skipped``; a batch in which none has one gives 0, with a graph.
``loss.terms(...)`` are the parts, ``loss.weights`` their weights and ``loss.total(terms)`` the loss.
"""

if __name__ != "hiertree.losses":
    raise ImportError("import this package as hiertree.losses (pip install the repository first)")

from hiertree.losses import functional
from hiertree.losses._codes import GrowingAlpha, binary_codes
from hiertree.losses._combined import HAPPIER, ROADMAP, RODNDCG
from hiertree.losses._decomposability import PairDecomposability, ProxyDecomposability
from hiertree.losses._decomposability_gap import (
    decomposability_bound,
    decomposability_bound_with_margins,
    decomposability_gap,
)
from hiertree.losses._hashing import TieAwareAP, TieAwareNDCG
from hiertree.losses._loss import Loss
from hiertree.losses._rank_losses import SmoothAP, SmoothHAP, SmoothNDCG, SupAP, SupHAP, SupNDCG

__all__ = [
    "HAPPIER",
    "ROADMAP",
    "RODNDCG",
    "GrowingAlpha",
    "Loss",
    "PairDecomposability",
    "ProxyDecomposability",
    "SmoothAP",
    "SmoothHAP",
    "SmoothNDCG",
    "SupAP",
    "SupHAP",
    "SupNDCG",
    "TieAwareAP",
    "TieAwareNDCG",
    "binary_codes",
    "decomposability_bound",
    "decomposability_bound_with_margins",
    "decomposability_gap",
    "functional",
]
