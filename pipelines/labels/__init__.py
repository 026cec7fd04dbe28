"""Hierarchical labels from raw landmark ids: scrape, clean, embed, cluster, name, review, export.

A step (``clean_step`` … ``show_tree``) raises TableError where a table or the folder before cannot be read as asked,
OptionError where an option is out of range or ``out`` holds other files; ScrapeError, ReviewError, ImageError and
MissingResourceError say what is wrong with a store, a log, an image, or weights that are out of reach.

>>> from hiertree.pipelines.labels import PlaceNounEncoder, propose
>>> counts = {"lake": 5, "glacial lake": 1, "church building": 4, "Catholic cathedral": 2}
>>> [cluster.name for cluster in propose(counts, PlaceNounEncoder(), clusters=2).clusters]
['church', 'lake']

Names are loaded when first used, so that settings can be read without the packages of the extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hiertree.errors import require_package

if TYPE_CHECKING:
    from .cleaning import clean_landmarks as clean_landmarks
    from .cleaning import clean_step as clean_step
    from .cluster.clustering import choose_k as choose_k
    from .cluster.clustering import spherical_kmeans as spherical_kmeans
    from .cluster.proposal_files import check_proposal as check_proposal
    from .cluster.proposal_files import read_proposal as read_proposal
    from .cluster.proposal_files import write_proposal as write_proposal
    from .cluster.proposing import Cluster as Cluster
    from .cluster.proposing import LabelPlace as LabelPlace
    from .cluster.proposing import Proposal as Proposal
    from .cluster.proposing import propose as propose
    from .cluster.step import cluster_step as cluster_step
    from .encode import text_encoder as text_encoder
    from .encode.place_nouns import PlaceNounEncoder as PlaceNounEncoder
    from .encode.text_encoders import ClipEncoder as ClipEncoder
    from .encode.text_encoders import TextEncoder as TextEncoder
    from .export.images import images_step as images_step
    from .export.step import export_step as export_step
    from .export.tree_page import show_tree as show_tree
    from .filling import fill_step as fill_step
    from .landmarks import read_kept as read_kept
    from .landmarks import read_landmarks as read_landmarks
    from .landmarks import write_kept as write_kept
    from .plan import BuildResult as BuildResult
    from .plan import LabelsPlan as LabelsPlan
    from .plan import build as build
    from .plan import check_plan as check_plan
    from .plan import read_plan as read_plan
    from .settings import CleanSettings as CleanSettings
    from .settings import ClusterSettings as ClusterSettings
    from .settings import ColumnNames as ColumnNames
    from .settings import EncoderSettings as EncoderSettings
    from .settings import ExportSettings as ExportSettings
    from .settings import FillSettings as FillSettings
    from .settings import ImagesSettings as ImagesSettings
    from .settings import TreeSettings as TreeSettings
    from .texts import normalize_label as normalize_label

_PACKAGES = ("bs4", "mwparserfromhell", "pyarrow", "faiss", "requests", "scipy", "sklearn")
_MODULES = {
    "cleaning": "clean_landmarks clean_step",
    "cluster.clustering": "choose_k spherical_kmeans",
    "cluster.proposal_files": "check_proposal read_proposal write_proposal",
    "cluster.proposing": "Cluster LabelPlace Proposal propose",
    "cluster.step": "cluster_step",
    "encode": "text_encoder",
    "encode.place_nouns": "PlaceNounEncoder",
    "encode.text_encoders": "ClipEncoder TextEncoder",
    "export.images": "images_step",
    "export.step": "export_step",
    "export.tree_page": "show_tree",
    "filling": "fill_step",
    "landmarks": "read_kept read_landmarks write_kept",
    "plan": "BuildResult LabelsPlan build check_plan read_plan",
    "settings": "CleanSettings ClusterSettings ColumnNames EncoderSettings ExportSettings FillSettings ImagesSettings "
    "TreeSettings",
    "texts": "normalize_label",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = list(_MODULE_OF)


def check_packages() -> None:
    """Check that the packages of the extra ``labels`` are installed; only settings are read without them."""
    require_package(*_PACKAGES, "starlette", "uvicorn", extra="labels")


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module != "settings":
        check_packages()
    return getattr(import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return list(__all__)
