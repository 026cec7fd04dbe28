"""The category page itself, as the paper's authors read it: labels from the infobox's row "Instance of"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hiertree.errors import CategoryError

from .client import Client, HttpAnswer, Incomplete, TryAgain, check_parts, check_status
from .facts import FOUND, MISSING, MOVED, NO_INFOBOX, NO_INSTANCE, UNREADABLE_MOVE, Page, is_item_id
from .titles import category_title, linked_title, normal_title, page_path

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

MOST_TAGS = 200_000  # a category that lists 200 files and 200 categories has about 10,000
SITE_NAME = " - Wikimedia Commons"


def ask_page(client: Client, site: str, titles: Sequence[str]) -> list[Page]:
    """Read the page of the one title given."""
    (title,) = titles

    def read(answer: HttpAnswer) -> Page:
        check_status(answer, client.clock.now())
        try:
            text = answer.body.decode("utf-8")
        except UnicodeDecodeError:
            raise TryAgain("a page that is not UTF-8") from None
        page = read_page(title, text)
        return Page(title, MISSING) if answer.status == 404 else page

    return [client.ask(site.rstrip("/") + page_path(title), None, read)]


def read_page(title: str, text: str) -> Page:
    """Read a category page: its labels, or where it has moved to."""
    from bs4 import BeautifulSoup

    if "</html>" not in text[-200:].lower():
        raise Incomplete("a page that breaks off")
    check_parts(text.encode(), b"<", MOST_TAGS)
    soup = BeautifulSoup(text, "html.parser")
    redirects = _redirects(soup, title)
    link = soup.select_one("div.category-redirect-header a[href]")
    if link is not None:
        target = _title(link)
        return Page(title, MOVED if target else UNREADABLE_MOVE, redirects=redirects, target=target, read=())
    infobox = soup.select_one("table#wdinfobox")
    if infobox is None:
        return Page(title, NO_INFOBOX, redirects=redirects, read=())
    values = _values(infobox)
    return Page(title, FOUND if values else NO_INSTANCE, _item(infobox), redirects, read=values)


def _values(infobox: Tag) -> tuple[tuple[str, str], ...]:
    """Each list entry's whole text (its first piece alone would cut "county hall (…)") and the page it links to."""
    for header in infobox.find_all("th"):
        cell = header.find_next_sibling("td")
        if cell is not None and " ".join(header.get_text().split()).casefold() == "instance of":
            entries = [entry for entry in cell.find_all("li") if entry.find("li") is None] or [cell]
            found = [(" ".join(entry.get_text().split()), _linked(entry)) for entry in entries]
            return tuple(dict.fromkeys(value for value in found if value[0]))
    return ()


def _linked(entry: Tag) -> str:
    link = entry.select_one("a[href]")
    return (_title(link) or "") if link is not None else ""


def _title(link: Tag) -> str | None:
    try:
        return linked_title(urlsplit(str(link["href"])).path)
    except (CategoryError, ValueError):
        return None


def _item(infobox: Tag) -> str | None:
    link = infobox.select_one('a[title="Edit infobox data on Wikidata"]')
    item = str(link["href"]).split("#")[0].rsplit("/", 1)[-1] if link is not None and link.has_attr("href") else ""
    return item if is_item_id(item) else None


def _redirects(soup: BeautifulSoup, title: str) -> tuple[str, ...]:
    """The page shown, if the one asked for is a hard redirect to it; the page names both."""
    shown = _shown(soup)
    if shown == title:
        return ()
    link = soup.select_one("span.mw-redirectedfrom a[title]")
    if shown is None or link is None or link["title"] != title:
        raise Incomplete(f"not the page of {title!r}")
    return (shown,)


def _shown(soup: BeautifulSoup) -> str | None:
    """The category that a page names as its own."""
    link = soup.select_one('link[rel="canonical"][href]')
    try:
        if link is not None:
            return category_title(str(link["href"]))
        return normal_title(soup.title.get_text().removesuffix(SITE_NAME)) if soup.title is not None else None
    except CategoryError:
        return None
