"""Types of landmarks from Wikimedia: from category URLs to "instance of" values, politely and over days if need be."""

from .reporting import count_failed, describe_outcomes, describe_status, status
from .settings import ScrapeSettings
from .step import scrape, scrape_dump

__all__ = [
    "ScrapeSettings",
    "count_failed",
    "describe_outcomes",
    "describe_status",
    "scrape",
    "scrape_dump",
    "status",
]
