"""The policies for equal scores, whose order is arbitrary."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

Ties: TypeAlias = Literal["average", "worst", "best", "paper", "index"]
TIES: Mapping[Ties, str] = MappingProxyType(
    {
        "average": "expectation over all orders of equal scores",
        "worst": "equal scores in the worst order",
        "best": "equal scores in the best order",
        "paper": "every item of equal score counts as ahead (H(0) = 1, Eq. 3)",
        "index": "of equal scores the smaller index first",
    }
)
