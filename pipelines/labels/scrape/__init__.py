"""Types of landmarks from Wikimedia: from category URLs to "instance of" values, politely and over days if need be."""

from .outcomes import count_failed, describe_outcomes, describe_status, status
from .scraping import scrape, scrape_dump
from .settings import ScrapeSettings

__all__ = ["ScrapeSettings", "count_failed", "describe_outcomes", "describe_status", "scrape", "scrape_dump", "status"]
