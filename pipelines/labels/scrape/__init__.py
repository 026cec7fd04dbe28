"""Types of landmarks from Wikimedia: from category URLs to "instance of" values, politely and over days if need be."""

from .outcomes import count_failed, describe_outcomes, describe_status, status
from .scraping import scrape

__all__ = ["count_failed", "describe_outcomes", "describe_status", "scrape", "status"]
