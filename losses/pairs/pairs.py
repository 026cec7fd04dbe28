"""From embeddings and paths to what a loss compares: every query of the batch beside every candidate.

Conventions: similarity is the cosine, computed in float32 or better even under autocast. Without reference embeddings
the candidates are the batch itself and a query is not its own candidate, unless ``include_self``. With reference
embeddings (a memory) every one of them is a candidate, unless they *are* the batch's embeddings (the same tensor).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from hiertree import level_counts, levels
from hiertree.arrays import as_paths
from hiertree.errors import EmbeddingError, ShapeError

from ..kernels.choice import Backend
from .checks import require


class Represent(Protocol):
    """From embeddings, under the name that messages give them, to vectors; or a typed refusal."""

    def __call__(self, embeddings: Any, *, name: str) -> Tensor:
        """(n, d) float32 or float64 vectors."""


class Pairs(NamedTuple):
    """B queries beside M candidates."""

    scores: Tensor
    """(B, M) float32 or float64 similarities, with the graph that leads to them."""
    levels: Tensor
    """(B, M) uint8, depth of the lowest common ancestor."""
    valid: Tensor
    """(B, M) booleans; False where the item is no candidate of the query."""
    num_levels: int
    """L."""
    backend: Backend = "auto"
    """What evaluates them; see ``_kernels``."""

    def of_queries(self, rows: slice) -> Pairs:
        """The pairs of some queries."""
        return self._replace(scores=self.scores[rows], levels=self.levels[rows], valid=self.valid[rows])

    def counts(self) -> Tensor:
        """(B, L+1) valid candidates at each level."""
        counts: Tensor = level_counts(self.levels, self.num_levels, valid=self.valid)
        return counts

    def binary(self, level: int | None) -> Pairs:
        """The same pairs with two grades: positives agree down to ``level`` (default: the finest), the rest do not."""
        level = self.num_levels if level is None else level
        expected = f"a level of these labels, 1 (coarsest) to {self.num_levels}"
        require(1 <= level <= self.num_levels, "level", level, expected)
        return self._replace(levels=(self.levels >= level).to(torch.uint8), num_levels=1)


class Sides(NamedTuple):
    """B queries and M candidates, not yet compared: what a matrix of scores is made of, some rows at a time."""

    queries: Tensor
    """(B, d) vectors, with the graph that leads to them."""
    candidates: Tensor
    """(M, d) vectors, likewise."""
    query_paths: Tensor
    """(B, L)."""
    candidate_paths: Tensor
    """(M, L)."""
    valid: Tensor | None
    """Booleans that broadcast to (B, M); None: every item is a candidate of every query."""
    but_itself: bool
    """Whether candidate q is query q, and none for itself."""
    backend: Backend = "auto"
    """What evaluates the pairs."""

    def pairs(self, rows: slice = slice(None)) -> Pairs:
        """Some queries beside all candidates."""
        scores = cosine(self.queries[rows], self.candidates)
        valid = self.valid if self.valid is None or len(self.valid) == 1 else self.valid[rows]
        mask = valid_pairs(valid, (scores.shape[0], scores.shape[1]), scores.device)
        if self.but_itself:
            mask.diagonal(offset=rows.start or 0).fill_(False)
        paths = self.query_paths[rows]
        return Pairs(scores, levels(paths, self.candidate_paths), mask, paths.shape[1], self.backend)


def compare(
    embeddings: Any,
    paths: Any,
    ref_embeddings: Any = None,
    ref_paths: Any = None,
    *,
    valid: Any = None,
    include_self: bool = False,
    represent: Represent | None = None,
) -> Pairs:
    """Compare every embedding with every candidate: all rows of :func:`sides_of`, at once."""
    return sides_of(
        embeddings, paths, ref_embeddings, ref_paths, valid=valid, include_self=include_self, represent=represent
    ).pairs()


def sides_of(
    embeddings: Any,
    paths: Any,
    ref_embeddings: Any = None,
    ref_paths: Any = None,
    *,
    valid: Any = None,
    include_self: bool = False,
    represent: Represent | None = None,
) -> Sides:
    """What is to be compared, checked.

    Args:
        embeddings: (B, d), any float type.
        paths: (B, L) or (B,) labels.
        ref_embeddings: (M, d) candidates; None compares the batch with itself.
        ref_paths: (M, L) or (M,), given exactly when ``ref_embeddings`` is.
        valid: booleans that broadcast to (B, M); False where an item is no candidate of a query.
        include_self: whether a query is its own candidate.
        represent: makes the vectors whose inner products are the scores; None: :func:`unit_vectors`.

    Raises:
        ShapeError: shapes that do not fit together.
        EmbeddingError: NaN, infinite or zero-norm embeddings, by row.
        PathError: paths that are not non-negative integers.
    """
    if (ref_embeddings is None) != (ref_paths is None):
        raise ShapeError(
            "only one of ref_embeddings and ref_paths", expected="both or neither", remedy="pass the paths too"
        )
    within_batch = ref_embeddings is None or ref_embeddings is embeddings
    represent = unit_vectors if represent is None else represent
    queries = represent(embeddings, name="embeddings")
    query_paths = path_tensor(paths, queries)
    candidates = queries if within_batch else represent(ref_embeddings, name="ref_embeddings")
    candidate_paths = query_paths if within_batch else path_tensor(ref_paths, candidates, name="ref_paths")
    mask = None if valid is None else checked_mask(valid, (len(queries), len(candidates)), queries.device)
    return Sides(queries, candidates, query_paths, candidate_paths, mask, within_batch and not include_self)


def valid_pairs(valid: Any, shape: tuple[int, int], device: torch.device) -> Tensor:
    """A mask of its own of this shape; None makes every item a candidate of every query."""
    if valid is None:
        return torch.ones(shape, dtype=torch.bool, device=device)
    return checked_mask(valid, shape, device).expand(shape).clone()


def checked_mask(valid: Any, shape: tuple[int, int], device: torch.device) -> Tensor:
    """Booleans that broadcast to this shape."""
    mask = torch.as_tensor(valid, device=device)
    if (
        mask.dtype != torch.bool
        or mask.ndim != 2
        or any(a not in (1, b) for a, b in zip(mask.shape, shape, strict=True))
    ):
        raise ShapeError(
            f"valid of shape {tuple(mask.shape)} and type {mask.dtype}", expected=f"booleans that broadcast to {shape}"
        )
    return mask


def querying(valid: Any, vectors: Tensor, ref_embeddings: Any) -> Tensor:
    """(B,) booleans: the items that have a valid candidate, for losses that compare with something else."""
    if valid is None:
        return torch.ones(len(vectors), dtype=torch.bool, device=vectors.device)
    num_candidates = len(vectors if ref_embeddings is None else ref_embeddings)
    return valid_pairs(valid, (len(vectors), num_candidates), vectors.device).any(dim=1)


def unit_vectors(embeddings: Any, *, name: str = "embeddings") -> Tensor:
    """Embeddings on the unit sphere, in float32 (float64 stays), or an EmbeddingError that names the bad rows."""
    vectors = float_vectors(embeddings, name=name)
    largest = vectors.detach().abs().amax(dim=1, keepdim=True)
    refuse_rows(~((largest > 0) & largest.isfinite())[:, 0], f"{name} holds NaN, infinite or zero-norm vectors")
    scaled = vectors / largest  # so that the norm of tiny or huge vectors neither vanishes nor overflows
    unit: Tensor = scaled / torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return unit


def float_vectors(embeddings: Any, *, name: str) -> Tensor:
    """(n, d) floats in float32 or better, whatever they hold."""
    vectors = torch.as_tensor(embeddings)
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ShapeError(f"{name} of shape {tuple(vectors.shape)}", expected="shape (n, d) with n, d ≥ 1")
    if not vectors.is_floating_point():
        raise EmbeddingError(f"{name} of type {vectors.dtype}", expected="floating-point numbers")
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32))


def path_tensor(paths: Any, beside: Tensor, *, name: str = "paths") -> Tensor:
    """Checked (n, L) int64 paths on the device of the embeddings they belong to."""
    return torch.from_numpy(as_paths(paths, name=name, num_items=len(beside))).to(beside.device)


def cosine(queries: Tensor, candidates: Tensor) -> Tensor:
    """(B, M) similarities of unit vectors; autocast would compute them to three digits, fewer than τ needs."""
    if queries.shape[1] != candidates.shape[1]:
        raise ShapeError(f"vectors of {queries.shape[1]} and {candidates.shape[1]} dimensions", expected="the same")
    dtype = torch.promote_types(queries.dtype, candidates.dtype)
    with torch.autocast(queries.device.type, enabled=False):
        return queries.to(dtype) @ candidates.to(dtype).T


def refuse_rows(bad: Tensor, given: str) -> None:
    """Refuse embeddings that have bad rows, and name these."""
    if not bool(bad.any()):
        return
    rows = bad.nonzero()[:, 0].tolist()
    shown = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
    raise EmbeddingError(
        f"{given} ({len(rows)} rows: {shown})",
        expected="finite vectors that can be normalised",
        remedy="lower the learning rate, or mend these rows",
    )
