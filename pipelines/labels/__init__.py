"""Hierarchical labels from raw landmark ids: scrape, clean, embed, cluster, name, review, export.

A step (``clean_step`` … ``show_tree``) raises TableError where a table or the folder before cannot be read as asked,
OptionError where an option is out of range or ``out`` holds other files; ScrapeError, ReviewError, ImageError and
MissingResourceError say what is wrong with a store, a log, an image, or weights that are out of reach.

>>> from hiertree.pipelines.labels import PlaceNounEncoder, propose
>>> counts = {"lake": 5, "glacial lake": 1, "church building": 4, "Catholic cathedral": 2}
>>> [cluster.name for cluster in propose(counts, PlaceNounEncoder(), clusters=2).clusters]
['church', 'lake']
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hiertree.errors import require_package

_PARSERS = ("bs4", "mwparserfromhell", "pyarrow")
_PACKAGES = (*_PARSERS, "faiss", "matplotlib", "requests", "scipy", "sklearn", "starlette", "uvicorn")


def check_packages() -> None:
    """Check that the packages of the extra ``labels`` are installed; only settings are read without them."""
    require_package(*_PACKAGES, extra="labels")


if TYPE_CHECKING or all(map(find_spec, _PACKAGES)):
    from .cleaning import CleanSettings, clean_landmarks, clean_step
    from .cluster.clustering import choose_k, spherical_kmeans
    from .cluster.proposal_files import check_proposal, read_proposal, write_proposal
    from .cluster.proposing import Cluster, LabelPlace, Proposal, propose
    from .cluster.step import ClusterSettings, cluster_step
    from .encode.encoders import EncoderSettings
    from .encode.place_nouns import PlaceNounEncoder
    from .encode.text_encoders import ClipEncoder, TextEncoder
    from .export.differences import compare_exports
    from .export.images import ImagesSettings, images_step
    from .export.step import ExportSettings, export_step
    from .export.tree_page import TreeSettings, show_tree
    from .filling import FillSettings, fill_step
    from .label_texts import normalize_label
    from .landmarks import ColumnNames, read_kept, read_landmarks, write_kept
    from .plan import BuildResult, LabelsPlan, build, check_plan, read_plan
else:

    def __getattr__(name: str) -> Any:
        """Name the extra, wherever a public name is used."""
        if name in __all__:
            check_packages()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BuildResult",
    "CleanSettings",
    "ClipEncoder",
    "Cluster",
    "ClusterSettings",
    "ColumnNames",
    "EncoderSettings",
    "ExportSettings",
    "FillSettings",
    "ImagesSettings",
    "LabelPlace",
    "LabelsPlan",
    "PlaceNounEncoder",
    "Proposal",
    "TextEncoder",
    "TreeSettings",
    "build",
    "check_plan",
    "check_proposal",
    "choose_k",
    "clean_landmarks",
    "clean_step",
    "cluster_step",
    "compare_exports",
    "export_step",
    "fill_step",
    "images_step",
    "normalize_label",
    "propose",
    "read_kept",
    "read_landmarks",
    "read_plan",
    "read_proposal",
    "show_tree",
    "spherical_kmeans",
    "write_kept",
    "write_proposal",
]
