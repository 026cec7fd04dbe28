"""What an interrupted evaluation's finished blocks were computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hiertree
from hiertree.io.parts import digest

if TYPE_CHECKING:
    from .layout import Layout
    from .retrieval import Retrieval
    from .similarity import Similarity


def fingerprint(retrieval: Retrieval[Similarity], layout: Layout) -> dict[str, str]:
    """SHA-256 of everything that a value depends on, by name; the size of the blocks is not among it."""
    request, similarity = retrieval.request, retrieval.source
    tree, mask = similarity.gallery.tree, similarity.gallery.mask
    products = f"{layout.way} {layout.height} {similarity.tiles[0].stop} {similarity.held} {similarity.dtype}"
    products += f" {similarity.device}"
    parts: dict[str, list[Any]] = {
        "embeddings": [*similarity.embeddings],
        "labels": [tree.order, tree.low, tree.high, tree.queries],
        "mask": [mask.start, mask.item, str(mask.place)],
        "metrics": [str(request.names), request.ties, repr(request.rules), *retrieval.relevances()],
        "products": [products, np.__version__],
        "version of hiertree": [hiertree.__version__],
    }
    return {name: digest(values) for name, values in parts.items()}
