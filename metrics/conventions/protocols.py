"""Benchmarks by name: the metrics each one reports, how a query meets its gallery, and the rules of its numbers.

=======================  =============  ==============================================================================
``sop``                  all-vs-all     Stanford Online Products
``inat``                 all-vs-all     iNaturalist-2018, base (L=2) and full (L=7)
``dyml``                 either         DyML: Product all-vs-all; Vehicle's and Animal's query sets lie inside their
                                        galleries, so that ids (file names) mask the query; see :func:`overall`
``gldv2``                separate       GLDv2 and H-GLDv2, test → index; queries without index images are skipped
``revisitop``            separate       ROxford5k and RParis6k; junk lists, AP by trapezoids (:func:`revisitop_levels`)
``cub``                  all-vs-all     CUB-200-2011, and Cars196
``vehicleid``            all-vs-all     VehicleID as Smooth-AP measures it: each image among all others of its list
``vehicleid-one-image``  separate       VehicleID with a gallery of one image a class
``inshop``               separate       In-shop clothes
=======================  =============  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from hiertree.errors import OptionError
from hiertree.options import check_choice

from .rules import COMPATIBLE, OURS, Compat, Rules, rules_of

ProtocolName: TypeAlias = Literal[
    "sop", "inat", "dyml", "gldv2", "revisitop", "cub", "vehicleid", "vehicleid-one-image", "inshop"
]


@dataclass(frozen=True)
class Protocol:
    """What a benchmark's numbers are.

    Attributes:
        name: as given to ``protocol=``.
        metrics: names; ``[*]`` stands for every level.
        gallery: whether queries retrieve each other (``"self"``), items of a ``"separate"`` gallery, or ``"either"``.
        needs_ids: whether a separate gallery holds the queries too, so that ids must mask them.
        rules: the choices of the benchmark, unless ``compat=`` names others.
    """

    name: str
    metrics: tuple[str, ...]
    gallery: Literal["self", "separate", "either"]
    needs_ids: bool = False
    rules: Rules = OURS

    def names(self, num_levels: int) -> tuple[str, ...]:
        """The metrics for so many levels.

        >>> protocol_of("dyml").names(2)[:2]
        ('AP[1]', 'AP[2]')
        """
        levels = range(1, num_levels + 1)
        return tuple(
            name.replace("*", str(level)) for name in self.metrics for level in (levels if "*" in name else (0,))
        )

    def check(self, *, self_retrieval: bool, with_ids: bool) -> None:
        """Refuse a retrieval that the benchmark does not make.

        Raises:
            OptionError: a gallery too many or missing, or ids missing.
        """
        if self_retrieval and self.gallery == "separate":
            raise OptionError(f"protocol={self.name!r} without a gallery", expected="gallery and gallery_paths")
        if not self_retrieval and self.gallery == "self":
            raise OptionError(f"protocol={self.name!r} with a gallery", expected="queries that retrieve each other")
        if not self_retrieval and self.needs_ids and not with_ids:
            raise OptionError(
                f"protocol={self.name!r} without ids",
                expected="query_ids and gallery_ids",
                remedy="give the file names, so that no query finds itself",
            )


def resolve_rules(protocol: str | None, compat: Compat | Rules | None) -> tuple[Protocol | None, Rules]:
    """The protocol of that name, and the rules: those of ``compat``, or else the protocol's, or else this package's.

    Raises:
        OptionError: an unknown name.
    """
    named = None if protocol is None else protocol_of(protocol)
    return named, rules_of(compat, default=OURS if named is None else named.rules)


def _listed(*protocols: Protocol) -> Mapping[str, Protocol]:
    return MappingProxyType({protocol.name: protocol for protocol in protocols})


PROTOCOLS = _listed(
    Protocol("sop", ("R@1", "R@10", "R@100", "R@1000", "mAP@R", "AP[*]", "H-AP", "ASI", "NDCG"), "self"),
    Protocol("inat", ("R@1", "R@4", "R@16", "R@32", "mAP@R", "AP[*]", "H-AP", "ASI", "NDCG"), "self"),
    Protocol("dyml", ("AP[*]", "ASI[*]", "R@1[*]", "R@10[*]", "R@20[*]"), "either", needs_ids=True),
    Protocol("gldv2", ("mAP@100", "H-AP", "ASI", "NDCG"), "separate"),
    Protocol("revisitop", ("AP", "P@1", "P@5", "P@10"), "separate", rules=COMPATIBLE["revisitop"]),
    Protocol("cub", ("R@1", "R@2", "R@4", "R@8", "mAP@R"), "self"),
    Protocol("vehicleid", ("R@1", "R@5"), "self"),
    Protocol("vehicleid-one-image", ("R@1", "R@5"), "separate"),
    Protocol("inshop", ("R@1", "R@10", "R@20", "R@30", "R@40", "R@50"), "separate"),
)


def protocol_of(name: str) -> Protocol:
    """The protocol of that name.

    Raises:
        OptionError: an unknown name.
    """
    check_choice("protocol", name, ProtocolName)
    return PROTOCOLS[name]
