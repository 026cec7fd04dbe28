"""Decomposability by proxies: every embedding near a learned point of its class, and far from the others'."""

from __future__ import annotations

from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from hiertree.options import check_integer, check_number

from .base import Loss
from .decomposability import check_classes
from .kernels.proxy_softmax import proxy_cross_entropy
from .pairs.blocks import LossPerQuery
from .pairs.inputs import check_size, has_candidate, path_tensor, refuse_rows, unit_vectors


class ProxyOptions(TypedDict, total=False):
    """Options of learned proxies.

    * ``eta``: temperature η > 0. Default 0.05.
    * ``centers``: proxies of each class; several let a class have several modes. Default 1.
    * ``sampled_classes``: while training, compare with this many classes only: the batch's own and others drawn from
      torch's generator (An et al., *Partial FC*, CVPR 2022). It saves time, not memory. Default None: all classes.
    """

    eta: float
    centers: int
    sampled_classes: int | None


class ProxyDecomposability(Loss):
    r"""L*_DG: cross-entropy over cosine similarities to learned proxies of the finest classes.

    .. math:: -\log \frac{\sum_{p \in P_y} \exp(\cos(e, p) / \eta)}{\sum_c \sum_{p \in P_c} \exp(\cos(e, p) / \eta)}

    averaged over the batch; P_c holds the ``centers`` proxies of class c, one in the paper. An embedding is compared
    with the proxies only: reference embeddings are not used. No matrix of all similarities is made, so that 100,000
    classes need no more memory than their proxies. Source: Ramzi et al. (TPAMI 2025), Eq. 8.

    Args:
        num_classes: finest classes; ``paths[:, -1]`` must lie in 0 … num_classes − 1.
        embedding_size: d.
        eta, centers, sampled_classes: see :class:`hiertree.losses.ProxyOptions`.

    Raises:
        PathError: a finest id has no proxy; the message names the row.

    >>> import torch
    >>> loss = ProxyDecomposability(num_classes=3, embedding_size=2)
    >>> loss(torch.eye(2), torch.tensor([[0, 2], [0, 1]])).shape, loss.proxies.shape
    (torch.Size([]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        *,
        eta: float = 0.05,
        centers: int = 1,
        sampled_classes: int | None = None,
    ) -> None:
        super().__init__()
        check_integer("num_classes", num_classes)
        check_integer("embedding_size", embedding_size)
        check_integer("centers", centers)
        check_integer("sampled_classes", sampled_classes, or_none=True)
        check_number("eta", eta, above=0)
        self.num_classes, self.eta, self.centers, self.sampled_classes = num_classes, eta, centers, sampled_classes
        self.proxies = nn.Parameter(torch.randn(num_classes * centers, embedding_size))
        self.weights = {type(self).__name__: 1.0}

    def terms(
        self,
        embeddings: Any,
        paths: Any,
        ref_embeddings: Any = None,
        ref_paths: Any = None,  # noqa: ARG002
        *,
        valid: Any = None,
    ) -> dict[str, Tensor]:
        """The one term, under the name of the class; an item without any valid candidate is no query."""
        vectors = unit_vectors(embeddings)
        check_size(vectors, self.proxies.shape[1])
        classes = path_tensor(paths, vectors)[:, -1]
        check_classes(classes, self.num_classes)
        smallest, largest = torch.aminmax(self.proxies.detach(), dim=1)
        extent = largest - smallest.clamp(max=0)  # 0 for a proxy of zeros; not a number where one component is none
        refuse_rows(
            ~((extent > 0) | (smallest < 0)) | ~extent.isfinite(), "proxies hold NaN, infinite or zero-norm vectors"
        )
        counted = has_candidate(valid, vectors, ref_embeddings)
        values = self._values(vectors, classes)
        return {type(self).__name__: self._mean(LossPerQuery(torch.where(counted, values, 0), counted))}

    def _values(self, vectors: Tensor, classes: Tensor) -> Tensor:
        proxies: Tensor = self.proxies
        if self.training and self.sampled_classes is not None and self.sampled_classes < self.num_classes:
            sample, classes = self._sample(classes, self.sampled_classes)
            proxies = proxies.view(self.num_classes, self.centers, -1)[sample].flatten(0, 1)
        return proxy_cross_entropy(vectors, proxies, classes, centers=self.centers, eta=self.eta)

    def _sample(self, classes: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Classes in rising order, the batch's among them, and where these are."""
        priority = torch.rand(self.num_classes, device=classes.device)
        priority[classes] = 2.0  # the batch's own come first
        num = max(size, int((priority == 2).sum()))
        sample = priority.topk(num).indices.sort().values
        return sample, torch.searchsorted(sample, classes.contiguous())

    def extra_repr(self) -> str:
        """The options, for ``print(loss)``."""
        sampled = "all" if self.sampled_classes is None else self.sampled_classes
        return (
            f"num_classes={self.num_classes}, embedding_size={self.proxies.shape[1]}, eta={self.eta}, "
            f"centers={self.centers}, sampled_classes={sampled}"
        )
