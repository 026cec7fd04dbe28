"""Losses in hyperbolic space: any loss of pairs by Poincaré distance, and a hierarchy of learned proxies (HIER)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hiertree.errors import OptionError
from hiertree.metrics.engine.blocks import ranges
from hiertree.metrics.rerank import CURVATURE, LARGEST_NORM, RADIUS
from hiertree.options import check_integer, check_number

from ..base import Loss, PairLoss, check_loss
from ..pairs.inputs import check_size, checked_paths, finite_vectors, has_candidate
from ..pairs.pairs import pairs_of

TRIPLETS_AT_ONCE = 256  # whose distances to 512 proxies stay in a processor's cache
_SIGNS = torch.tensor([1.0, 1.0, -1.0])  # i and j should be nearer to the pair's ancestor, k to that of all three


def poincare_points(vectors: Tensor, *, curvature: float, radius: float, scale: float) -> Tensor:
    r"""(n, d) points of the Poincaré ball, tanh(√c·\|x\|)·x / (√c·\|x\|), for x = scale·f cut to norms ≤ ``radius``."""
    norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    lengths = math.sqrt(curvature) * (scale * norms).clamp(max=radius)
    points: Tensor = vectors * (
        lengths.tanh().clamp(max=LARGEST_NORM) / (math.sqrt(curvature) * norms.clamp(min=1e-12))
    )
    return points


def poincare_distances(x: Tensor, y: Tensor, curvature: float) -> Tensor:
    r"""(B, M) distances 2/√c·asinh(√c·\|x − y\| / √((1 − c\|x\|²)(1 − c\|y\|²))) of points of the ball."""
    gaps = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    rooms = [(1 - curvature * points.square().sum(dim=1)).sqrt() for points in (x, y)]
    return 2 / math.sqrt(curvature) * torch.asinh(math.sqrt(curvature) * gaps / (rooms[0][:, None] * rooms[1]))


class _Hyperbolic(Loss):
    """A loss around another, with points of the Poincaré ball."""

    def __init__(self, loss: Loss, *, curvature: float, radius: float, scale: float) -> None:
        super().__init__()
        check_loss(loss)
        for name, value in (("curvature", curvature), ("radius", radius), ("scale", scale)):
            check_number(name, value, above=0)
        self.loss, self.curvature, self.radius, self.scale = loss, curvature, radius, scale

    @property
    def last_num_skipped(self) -> int:
        """Queries of the last batch without a positive, as the loss counts them."""
        return self.loss.last_num_skipped

    def points(self, embeddings: Any, *, name: str = "embeddings", scale: float | None = None) -> Tensor:
        """(n, d) points of the ball, in float32 or better; scaled as embeddings are, unless otherwise."""
        options = {"curvature": self.curvature, "radius": self.radius, "scale": scale or self.scale}
        return poincare_points(finite_vectors(embeddings, name=name), **options)


class Hyperbolic(_Hyperbolic):
    r"""A loss of pairs whose scores are minus distances in the Poincaré ball instead of cosines.

    .. math:: s = -\frac{2}{\sqrt{c}} \operatorname{asinh} \frac{\sqrt{c}\, |x - y|}{\sqrt{(1 - c|x|^2)(1 - c|y|^2)}}

    for the points x = tanh(√c·\|f\|)·f / (√c·\|f\|) of embeddings f. Options of the loss that are differences of
    cosines, temperatures and margins, are of distances here. Time and memory are O(B·M·d) and O(B·M).
    Source: Ermolov et al., *Hyperbolic Vision Transformers: Combining Improvements in Metric Learning* (CVPR 2022),
    which is ``Hyperbolic(SupCon(temperature=0.2))``.

    Args:
        loss: a loss of pairs of one term, such as :class:`SupCon` or :class:`SupAP`.
        curvature: c; the ball has the radius 1/√c.
        radius: longer embeddings are cut to this norm first.
        scale: embeddings are multiplied by it before; those of unit length reach the radius with ``scale=2.3``.

    >>> from hiertree.losses import SupCon
    >>> loss = Hyperbolic(SupCon(temperature=1.0))
    >>> round(float(loss(torch.eye(3), torch.tensor([0, 0, 1]))), 4)  # one of two, as far away as the other
    0.6931
    """

    _shown = ("curvature", "radius", "scale")

    def __init__(self, loss: Loss, *, curvature: float = CURVATURE, radius: float = RADIUS, scale: float = 1.0) -> None:
        super().__init__(loss, curvature=curvature, radius=radius, scale=scale)
        if not (isinstance(loss, PairLoss) and loss._compares_pairs):
            problem, expected = f"loss={type(loss).__name__}", "a loss of pairs of images, such as SupCon or SupAP"
            raise OptionError(problem, expected=expected)
        self.weights, self.include_self = loss.weights, loss.include_self

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The one term of the loss."""
        loss: Any = self.loss
        options: dict[str, Any] = {"valid": valid, "include_self": loss.include_self, "to_vectors": self.points}
        pairs = pairs_of(embeddings, paths, ref_embeddings, ref_paths, **options)._replace(grades=self._grades)
        distances = poincare_distances(pairs.queries, pairs.candidates, self.curvature)
        return {next(iter(self.weights)): loss.of_scores(pairs.compared()._replace(scores=-distances, span=math.inf))}


class HIER(_Hyperbolic):
    r"""A loss, and hierarchical regularization: triplets of images are drawn to learned ancestors in hyperbolic space.

    .. math:: [d(x_i, \rho_{ij}) - d(x_i, \rho_{ijk}) + \delta]_+ + [d(x_j, \rho_{ij}) - d(x_j, \rho_{ijk}) + \delta]_+
              + [d(x_k, \rho_{ijk}) - d(x_k, \rho_{ij}) + \delta]_+

    averaged over triplets of an item i, a reciprocal nearest neighbor j and another item k; 0 where both ancestors are
    one. The ancestor ρ of some items is the proxy drawn with a probability ∝ exp(−max d / τ), by Gumbel softmax with
    its straight-through gradient. Items of a class are nearest; then the distance d of :class:`Hyperbolic` decides. The
    same is added for triplets of the proxies. Draws are of torch's generator; references are for the loss only.
    Source: Kim, Jeong and Kwak, *HIER: Metric Learning Beyond Class Labels via Hierarchical Regularization* (CVPR
    2023), as in the authors' public code, but k is never i.

    Args:
        loss: the metric learning loss that it regularizes; its parts come first among the terms.
        embedding_size: d.
        weight: of the regularization.
        num_proxies: how many ancestors are learned.
        neighbors: how many nearest items, i among them, a neighbor has to be in, of both.
        num_triplets: drawn for each item that has two such neighbors.
        margin: δ.
        temperature: τ.
        curvature, radius, scale: see :class:`Hyperbolic`.
        riemannian: multiply gradients by ((1 − c\|x\|²)/2)² at each point, as of the ball's metric.
        level: items of a class agree down to this level; None: the finest.

    >>> from hiertree.losses import SupCon
    >>> loss = HIER(SupCon(), 4, num_proxies=8)
    >>> list(loss.terms(torch.eye(4), torch.tensor([0, 0, 0, 1])))
    ['SupCon', 'HIER']
    """

    is_mean_over_queries = False  # triplets are drawn from the whole batch
    _compares_pairs = True
    _shown = ("weight", "neighbors", "num_triplets", "margin", "temperature", "curvature", "radius", "scale", "level")

    def __init__(
        self,
        loss: Loss,
        embedding_size: int,
        *,
        weight: float = 1.0,
        num_proxies: int = 512,
        neighbors: int = 20,
        num_triplets: int = 50,
        margin: float = 0.1,
        temperature: float = 0.1,
        curvature: float = CURVATURE,
        radius: float = RADIUS,
        scale: float = 1.0,
        riemannian: bool = True,
        level: int | None = None,
    ) -> None:
        super().__init__(loss, curvature=curvature, radius=radius, scale=scale)
        sizes = {"embedding_size": embedding_size, "num_proxies": num_proxies, "num_triplets": num_triplets}
        for name, value in {**sizes, "neighbors": neighbors}.items():
            check_integer(name, value)
        check_integer("level", level, or_none=True)
        check_number("weight", weight, least=0)
        check_number("margin", margin, least=0)
        check_number("temperature", temperature, above=0)
        self.embedding_size, self.neighbors, self.num_triplets = embedding_size, neighbors, num_triplets
        self.weight, self.margin, self.temperature = weight, margin, temperature
        self.riemannian, self.level = riemannian, level
        self.weights, self.include_self = {**loss.weights, "HIER": weight}, loss.include_self
        self.proxies = nn.Parameter(torch.randn(num_proxies, embedding_size) * 0.9 * radius / embedding_size**0.5)

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The terms of the loss, and the regularization."""
        batch, batch_paths, *references = self._checked_batch(embeddings, paths, ref_embeddings, ref_paths)
        terms = self.loss.terms(batch, batch_paths, *references, valid=valid)
        check_size(batch.tensor, self.embedding_size)
        is_query = has_candidate(valid, batch, references[0], include_self=self.include_self)
        labels = checked_paths(batch_paths, batch.tensor)
        pairs = pairs_of(batch, labels, valid=is_query[:, None] & is_query, to_vectors=self.points)
        classes = pairs._replace(grades=self._grades).compared().binary(self.level)
        proxies = self._on_manifold(self.points(self.proxies, name="proxies", scale=1.0).to(pairs.queries))
        points = self._on_manifold(pairs.queries)
        similarities = (-poincare_distances(points, points, self.curvature)).exp().detach() + classes.positives()
        among_proxies = poincare_distances(proxies, proxies, self.curvature)
        other_proxies = ~torch.eye(len(proxies), dtype=torch.bool, device=proxies.device)
        of_items = self._mean_over_triplets(
            poincare_distances(points, proxies, self.curvature), similarities, classes.valid
        )
        of_proxies = self._mean_over_triplets(among_proxies, -among_proxies.detach(), other_proxies)
        return {**terms, "HIER": of_items + of_proxies}

    def _on_manifold(self, points: Tensor) -> Tensor:
        """The points; their gradient is the Riemannian one."""
        if not self.riemannian:
            return points
        factor = ((1 - self.curvature * points.detach().square().sum(dim=1, keepdim=True)) / 2).square()
        return points.detach() + factor * (points - points.detach())

    def _mean_over_triplets(self, distances: Tensor, similarities: Tensor, valid: Tensor) -> Tensor:
        """The regularization of (n, P) distances to proxies; (n, n) similarities choose the triplets."""
        triplets = reciprocal_triplets(similarities, valid, self.neighbors, self.num_triplets)
        losses = ancestor_losses(distances, triplets, temperature=self.temperature, margin=self.margin)
        return losses.sum() / max(1, len(losses))


def ancestor_losses(distances: Tensor, triplets: Tensor, *, temperature: float, margin: float) -> Tensor:
    """(T,) losses of (3, T) triplets of items, for (n, P) distances to proxies; draws the ancestors."""
    shape = triplets.shape[1], distances.shape[1]
    noise = [distances.detach().new_empty(shape).exponential_().log_().neg_() for _ in range(2)]  # Gumbel's
    losses: Tensor = _AncestorLosses.apply(distances, triplets, *noise, temperature, margin)
    return losses


class _AncestorLosses(torch.autograd.Function):
    """By hand, some triplets at a time: kept whole, each of forty steps would be a matrix of triplets and proxies."""

    @staticmethod
    def forward(
        ctx: Any,
        distances: Tensor,
        triplets: Tensor,
        of_pair: Tensor,
        of_all: Tensor,
        temperature: float,
        margin: float,
    ) -> Tensor:
        losses, ancestors = distances.new_empty(triplets.shape[1]), triplets.new_empty(2, triplets.shape[1])
        for rows in ranges(len(losses), TRIPLETS_AT_ONCE):
            members = distances[triplets[:, rows]]
            for ancestor, noise, farthest in zip(ancestors, (of_pair, of_all), _farthest(members), strict=True):
                ancestor[rows] = torch.argmax(noise[rows] - farthest / temperature, dim=1)
            rises = _SIGNS.to(distances)[:, None] * _rises(members, ancestors[:, rows])
            losses[rows] = (rises + margin).relu().sum(dim=0) * (ancestors[0, rows] != ancestors[1, rows])
        ctx.save_for_backward(distances, triplets, of_pair, of_all, ancestors)
        ctx.temperature, ctx.margin = temperature, margin
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        distances, triplets, *noises, ancestors = ctx.saved_tensors
        gradient, signs = torch.zeros_like(distances), _SIGNS.to(distances)[:, None]
        for rows in ranges(len(upstream), TRIPLETS_AT_ONCE):
            members, picks = distances[triplets[:, rows]], ancestors[:, rows]
            is_rising = (signs * _rises(members, picks) + ctx.margin > 0) & (picks[0] != picks[1])
            slopes = signs * is_rising * upstream[rows]  # (3, t) of each rise
            of_members = torch.zeros_like(members)
            of_members.scatter_add_(2, picks[0].expand(3, -1)[..., None], slopes[..., None])
            of_members.scatter_add_(2, picks[1].expand(3, -1)[..., None], -slopes[..., None])
            by_choice = (slopes[..., None] * members).sum(dim=0)  # what the straight-through estimator sees
            pair, farthest = _farthest(members)
            of_whole = _through_softmax(-by_choice, noises[1][rows], farthest, ctx.temperature)
            of_pair = _through_softmax(by_choice, noises[0][rows], pair, ctx.temperature)
            k_is_farthest = members[2] > pair
            of_members[2] += of_whole * k_is_farthest
            of_pair += of_whole * ~k_is_farthest
            i_is_farther = members[0] > members[1]
            of_members[0] += of_pair * i_is_farther
            of_members[1] += of_pair * ~i_is_farther
            gradient.index_add_(0, triplets[:, rows].flatten(), of_members.flatten(0, 1))
        return gradient, None, None, None, None, None


def _farthest(members: Tensor) -> tuple[Tensor, Tensor]:
    """(t, P) the larger distance of i and j to each proxy, and the largest of all three."""
    pair = torch.maximum(members[0], members[1])
    return pair, torch.maximum(pair, members[2])


def _rises(members: Tensor, ancestors: Tensor) -> Tensor:
    """(3, t) how much farther each member is from the pair's ancestor than from that of all three."""
    of_pair, of_all = (members.gather(2, picks.expand(3, -1)[..., None])[..., 0] for picks in ancestors)
    return of_pair - of_all


def _through_softmax(slopes: Tensor, noise: Tensor, farthest: Tensor, temperature: float) -> Tensor:
    """The gradient by the distances, for that by a soft choice among proxies."""
    choice = (noise - farthest / temperature).softmax(dim=1)
    return choice * (slopes - (choice * slopes).sum(dim=1, keepdim=True)) / -temperature


def reciprocal_triplets(similarities: Tensor, valid: Tensor, neighbors: int, per_item: int) -> Tensor:
    """(3, T) items i, j and k: ``per_item`` for each i that has two reciprocal nearest neighbors, and other items.

    Of each other's ``neighbors`` most similar items, themselves among them, j is one of i's and k is not; both valid.
    """
    ranked = similarities.masked_fill(~valid, -torch.inf).fill_diagonal_(torch.inf)
    nearest = ranked.topk(min(neighbors, len(ranked)), dim=1).indices
    is_near = torch.zeros_like(valid).scatter_(1, nearest, True)
    is_neighbor = is_near & is_near.T & valid
    is_other = valid & ~is_neighbor
    rows = ((is_neighbor.sum(dim=1) > 1) & is_other.any(dim=1)).nonzero()[:, 0]
    if not len(rows):
        return rows.new_empty(3, 0)
    masks = (is_neighbor[rows], is_other[rows])
    partners = [torch.multinomial(mask.float(), per_item, replacement=True).flatten() for mask in masks]
    return torch.stack([rows.repeat_interleave(per_item), *partners])
