"""Checks of what losses are called with: embeddings, paths and masks become tensors on one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hiertree.arrays import as_integer_paths, refuse_containers, to_numpy
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.level_columns import UNKNOWN
from hiertree.metrics.engine.device import sent

from .one_batch import OneBatch, keep_full_precision, plain, whole_batch

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class CheckedEmbeddings:
    """Embeddings that are checked once for all parts of a loss: on a GPU each check waits for it."""

    tensor: Tensor  # (n, d)
    name: str

    def __len__(self) -> int:
        return len(self.tensor)

    @cached_property
    def unit(self) -> Tensor:
        """(n, d), see :func:`unit_vectors`."""
        return unit_vectors(self.tensor, name=self.name)

    @cached_property
    def finite(self) -> Tensor:
        """(n, d), see :func:`finite_vectors`."""
        return finite_vectors(self.tensor, name=self.name)


@dataclass(frozen=True, eq=False)
class CheckedPaths:
    """Paths on the device of the embeddings, and the same on the processor, where looking at them does not wait."""

    tensor: Tensor  # (n, L) int64, −1 where unknown
    read: NDArray[np.int64] | None = None  # the same, unless they are only on the device

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """(n, L) on the processor."""
        return to_numpy(self.tensor) if self.read is None else self.read

    @property
    def known(self) -> Tensor:
        """(n,) booleans: whether the finest class is known."""
        return self.tensor[:, -1] >= 0

    def column(self, level: int) -> CheckedPaths:
        """The ids of one level, counted from 0."""
        ids = None if self.read is None else self.read[:, level, None]
        return CheckedPaths(self.tensor[:, level, None], ids)


def unit_vectors(embeddings: Any, *, name: str = "embeddings") -> Tensor:
    """Embeddings on the unit sphere, in float32 (float64 stays), or an EmbeddingError that names the bad rows."""
    if isinstance(embeddings, CheckedEmbeddings):
        return embeddings.unit
    unit: Tensor
    unit, _, largest = _Normalized.apply(float_vectors(embeddings, name=name))
    refuse_rows(~((largest > 0) & largest.isfinite())[:, 0], f"{name} hold NaN, infinite or zero-norm vectors")
    return unit


class _Normalized(OneBatch):
    """x / |x|, 1 / |x| for the gradient, and max |x_i|; a few passes, where division by a norm takes a dozen."""

    @staticmethod
    def forward(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        largest = vectors.detach().abs().amax(dim=1, keepdim=True)
        unit = vectors / largest  # so that the norm of tiny or huge vectors neither vanishes nor overflows
        inverse = 1 / torch.linalg.vector_norm(unit, dim=1, keepdim=True)
        unit *= inverse
        inverse /= largest
        return unit, inverse, largest

    @staticmethod
    def setup_context(ctx: Any, _inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(*output[:2])

    @staticmethod
    def backward(ctx: Any, by_unit: Tensor, by_inverse: Tensor, _: Tensor) -> Tensor:
        unit, inverse = ctx.saved_tensors
        with keep_full_precision(unit.device):  # whoever calls backward inside autocast
            projection = torch.linalg.vecdot(by_unit, unit)[:, None] + by_inverse * inverse
        gradient: Tensor = (by_unit * inverse).addcmul_(unit, projection * inverse, value=-1)
        return gradient


def finite_vectors(embeddings: Any, *, name: str = "embeddings") -> Tensor:
    """(n, d) floats in float32 or better, or an EmbeddingError that names the rows that hold NaN or infinite values."""
    if isinstance(embeddings, CheckedEmbeddings):
        return embeddings.finite
    vectors = float_vectors(embeddings, name=name)
    refuse_rows(~vectors.isfinite().all(dim=1), f"{name} hold NaN or infinite values")
    return vectors


def float_vectors(embeddings: Any, *, name: str = "embeddings") -> Tensor:
    """(n, d) floats in float32 or better; NaN and infinite values pass."""
    vectors = embeddings.tensor if isinstance(embeddings, CheckedEmbeddings) else real_tensor(embeddings, name)
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ShapeError(f"{name} of shape {tuple(vectors.shape)}", expected="shape (n, d) with n, d ≥ 1")
    if not vectors.is_floating_point():
        problem = f"{name} of type {vectors.dtype}"
        raise EmbeddingError(problem, expected="floating-point numbers", remedy="call .float() on them")
    return whole_batch(vectors.to(torch.promote_types(vectors.dtype, torch.float32)))


def real_tensor(values: Any, name: str, device: torch.device | None = None) -> Tensor:
    """A tensor of real numbers or booleans, from a tensor, an array or nested lists."""
    try:
        values = values.to_numpy() if hasattr(values, "to_numpy") else values  # of pandas and polars
        if isinstance(values, np.ndarray) and not values.flags.writeable:
            values = values.copy()  # torch warns of sharing the memory of frames and of files
        tensor = values.to(device) if isinstance(values, Tensor) else torch.as_tensor(values, device=device)
    except torch.cuda.OutOfMemoryError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:  # the last of objects that torch takes for numbers
        refuse_containers(values, name)
        problem = f"{name} that cannot be read as numbers ({type(values).__name__})"
        expected = "a tensor, an array, or nested lists whose rows have one length"
        raise ShapeError(problem, expected=expected) from error
    if tensor.is_complex():
        raise EmbeddingError(f"{name} of type {tensor.dtype}", expected="real numbers")
    return tensor


def check_size(vectors: Tensor, size: int) -> None:
    """Refuse embeddings of another size than the loss was made for."""
    if vectors.shape[1] != size:
        remedy = f"make the loss with embedding_size={vectors.shape[1]}"
        expected = f"{size} dimensions, the loss's embedding_size"
        raise ShapeError(f"embeddings of {vectors.shape[1]} dimensions", expected=expected, remedy=remedy)


def check_references(ref_embeddings: Any, ref_paths: Any, indices_tuple: object = None) -> None:
    """Refuse reference embeddings without paths, paths without embeddings, and the pairs of a miner."""
    if indices_tuple is not None or isinstance(ref_embeddings, tuple):
        as_references = "ref_embeddings that are a tuple, such as the pairs of a miner of pytorch-metric-learning"
        raise ShapeError(
            as_references if indices_tuple is None else "indices_tuple, the pairs of a miner",
            expected="embeddings and their paths, or reference embeddings of shape (M, d) and theirs",
            remedy="for these pairs call as_pytorch_metric_learning(loss)(embeddings, labels, indices_tuple)",
        )
    if (ref_embeddings is None) != (ref_paths is None):
        problem = "only one of ref_embeddings and ref_paths"
        raise ShapeError(problem, expected="both or neither", remedy="pass the paths too")


def check_same_paths(paths: CheckedPaths, ref_paths: CheckedPaths) -> None:
    """Refuse two different paths of the same embeddings."""
    if paths is not ref_paths and not np.array_equal(paths.ids, ref_paths.ids):
        raise PathError("ref_paths that differ from paths", expected="the same paths for the same embeddings")


def check_same_depth(paths: Tensor, ref_paths: Tensor) -> None:
    """Refuse paths of different numbers of levels."""
    if paths.shape[1] != ref_paths.shape[1]:
        shapes = f"{tuple(paths.shape)} and {tuple(ref_paths.shape)}"
        raise ShapeError(f"paths and ref_paths of shapes {shapes}", expected="(B, L) and (M, L) with one L")


def check_classes(classes: NDArray[np.int64], num_classes: int, *, expected_for: str = "proxy") -> None:
    """Refuse, by row, classes that have no proxy, or nothing else that there is one of for each class."""
    bad = np.flatnonzero((classes < UNKNOWN) | (classes >= num_classes))
    if len(bad):
        row = int(bad[0])
        raise PathError(
            f"finest id {int(classes[row])} in row {row}",
            expected=f"ids 0 to {num_classes - 1}, one for each {expected_for}",
            remedy="take num_classes from the tree that made the paths",
        )


class RowGrades(NamedTuple):
    """What says the level of a pair where no labels do: paths are then rows of a data set."""

    of_rows: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.uint8]]  # (B,) and (M,) rows → (B, M) grades
    highest: int

    def levels(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """(B, M) uint8, from (B, 1) and (M, 1) rows, on their device."""
        if queries.shape[1] != 1:
            raise ShapeError(f"paths of {queries.shape[1]} columns", expected="the row of each image in its data set")
        grades = np.asarray(self.of_rows(*(rows[:, 0].cpu().numpy() for rows in (queries, candidates))))
        is_whole = grades.dtype.kind in "iub" and grades.shape == (len(queries), len(candidates))
        if not (is_whole and 0 <= grades.min() <= grades.max() <= self.highest):
            problem = f"grades of shape {grades.shape} and type {grades.dtype}, from {grades.min()} to {grades.max()}"
            raise PathError(problem, expected=f"({len(queries)}, {len(candidates)}) integers from 0 to {self.highest}")
        return torch.from_numpy(grades.astype(np.uint8)).to(queries.device)


class GivenLevels(NamedTuple):
    """Instead of paths: the level of each query and candidate, where only pairs are known."""

    levels: Tensor  # (B, M) booleans, whether the candidate is a positive of the query


def checked_paths(paths: Any, vectors: Tensor, *, name: str = "paths") -> CheckedPaths:
    """Checked (n, L) paths of these vectors: on the processor before they travel."""
    if isinstance(paths, CheckedPaths):
        return paths
    if isinstance(paths, GivenLevels):
        raise OptionError("labels=None", expected="labels, for a loss that compares with more than mined pairs")
    host_paths: list[NDArray[np.int64]] = []

    def read_and_sent(labels: Any) -> Tensor:
        host_paths.append(as_integer_paths(labels, name=name, num_items=len(vectors)))
        return sent(host_paths[0].copy(), vectors.device)

    return CheckedPaths(plain(read_and_sent, paths), *host_paths)


def checked_batch(embeddings: Any, paths: Any, ref_embeddings: Any, ref_paths: Any) -> tuple[Any, Any, Any, Any]:
    """What a loss is called with, to be checked once for all of its parts."""
    check_references(ref_embeddings, ref_paths)
    within_batch = ref_embeddings is embeddings
    batch = _checked(embeddings, paths, "")
    refs = (None, None) if ref_embeddings is None else _checked(ref_embeddings, ref_paths, "ref_")
    return *batch, batch[0] if within_batch else refs[0], refs[1]


def _checked(embeddings: Any, paths: Any, prefix: str) -> tuple[CheckedEmbeddings, CheckedPaths | GivenLevels]:
    name = f"{prefix}embeddings"
    checked_embeddings, is_known = embeddings, isinstance(paths, GivenLevels)
    if not isinstance(embeddings, CheckedEmbeddings):
        checked_embeddings = CheckedEmbeddings(float_vectors(embeddings, name=name), name)
    return checked_embeddings, paths if is_known else checked_paths(
        paths, checked_embeddings.tensor, name=f"{prefix}paths"
    )


def checked_mask(valid: Any, shape: tuple[int, int], device: torch.device) -> Tensor:
    """Booleans that broadcast to this shape."""
    mask = real_tensor(valid, "valid", device)
    is_broadcastable = mask.ndim == 2 and all(a in (1, b) for a, b in zip(mask.shape, shape, strict=True))
    if mask.dtype != torch.bool or not is_broadcastable:
        raise ShapeError(
            f"valid of shape {tuple(mask.shape)} and type {mask.dtype}",
            expected=f"booleans that broadcast to {shape}",
            remedy="pass (B, M) of them, or (B, 1) to say which items are queries",
        )
    return mask


def full_mask(valid: Any, shape: tuple[int, int], device: torch.device) -> Tensor:
    """A new mask of this shape; None makes every item a candidate of every query."""
    if valid is None:
        return torch.ones(shape, dtype=torch.bool, device=device)
    return checked_mask(valid, shape, device).expand(shape).clone()


def has_candidate(valid: Any, embeddings: Any, ref_embeddings: Any, *, include_self: bool = False) -> Tensor:
    """(B,) booleans: the items that have a valid candidate, for losses that compare with proxies instead.

    Within a batch of several an item is none of its own, as in losses of pairs, unless ``include_self``.
    """
    vectors = float_vectors(embeddings)
    if valid is None:
        return torch.ones(len(vectors), dtype=torch.bool, device=vectors.device)
    within_batch = ref_embeddings is None or ref_embeddings is embeddings
    mask = full_mask(valid, (len(vectors), len(vectors if within_batch else ref_embeddings)), vectors.device)
    if within_batch and not include_self and len(vectors) > 1:
        mask.fill_diagonal_(False)
    return mask.any(dim=1)


def refuse_rows(bad: Tensor, problem: str) -> None:
    """Refuse embeddings that have bad rows, and name these."""
    if not bool(bad.any()):
        return
    rows = bad.nonzero()[:, 0].tolist()
    row_list = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
    raise EmbeddingError(
        f"{problem} ({len(rows)} rows: {row_list})",
        expected="finite vectors that can be normalized",
        remedy="lower the learning rate, or fix these rows",
    )
