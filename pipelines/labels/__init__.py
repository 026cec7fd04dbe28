"""Hierarchical labels from raw landmark ids: read, clean, embed, cluster, name, export.

>>> from hiertree.pipelines.labels import TfidfEncoder, propose
>>> counts = {"lake": 5, "glacial lake": 1, "church building": 4, "Catholic cathedral": 2}
>>> [cluster.name for cluster in propose(counts, TfidfEncoder(), clusters=2).clusters]
['lake', 'place of worship']
"""

from .building import BuildResult, build
from .clean.landmark_file import read_kept, write_kept
from .clean.rules import clean
from .cluster.clustering import choose_k, spherical_kmeans
from .cluster.proposal_file import check_proposal, read_proposal, write_proposal
from .cluster.proposing import Cluster, LabelPlace, Proposal, propose
from .describing import (
    describe,
    describe_cleaning,
    describe_clustered,
    describe_exported,
    describe_filling,
    describe_proposal,
)
from .encode.clip_encoder import ClipEncoder
from .encode.encoders import make_encoder
from .encode.text_encoders import TextEncoder
from .encode.tfidf_encoder import TfidfEncoder
from .label_texts import normalize_label
from .landmarks import ColumnNames, read_landmarks

__all__ = [
    "BuildResult",
    "ClipEncoder",
    "Cluster",
    "ColumnNames",
    "LabelPlace",
    "Proposal",
    "TextEncoder",
    "TfidfEncoder",
    "build",
    "check_proposal",
    "choose_k",
    "clean",
    "describe",
    "describe_cleaning",
    "describe_clustered",
    "describe_exported",
    "describe_filling",
    "describe_proposal",
    "make_encoder",
    "normalize_label",
    "propose",
    "read_kept",
    "read_landmarks",
    "read_proposal",
    "spherical_kmeans",
    "write_kept",
    "write_proposal",
]
