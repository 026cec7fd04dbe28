"""Types of landmarks from Wikimedia: from category URLs to "instance of" values, politely and over days if need be."""

from hiertree.pipelines.labels.scrape.etiquette import Etiquette
from hiertree.pipelines.labels.scrape.session import (
    Web,
    describe_outcomes,
    describe_status,
    retry,
    scrape,
    scrape_dump,
    status,
)
from hiertree.pipelines.labels.scrape.transport import Endpoints

__all__ = [
    "Endpoints",
    "Etiquette",
    "Web",
    "describe_outcomes",
    "describe_status",
    "retry",
    "scrape",
    "scrape_dump",
    "status",
]
