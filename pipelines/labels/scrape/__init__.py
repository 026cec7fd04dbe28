"""Types of landmarks from Wikimedia: from category URLs to "instance of" values, politely and over days if need be."""

from .etiquette import Etiquette
from .session import Web, describe_outcomes, describe_status, retry, scrape, scrape_dump, status
from .transport import Endpoints

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
