"""The category page itself, as the paper's authors read it: labels from the infobox's row "Instance of"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hiertree.errors import CategoryError

from ..texts import OtherSiteError, category_title, linked_title, normal_title, page_path, visible
from .client import Client, HttpAnswer, Incomplete, Unusable, check_size, check_status, decoded
from .store import FOUND, MISSING, MOVED, NO_INFOBOX, NO_INSTANCE, OTHER_WIKI, UNREADABLE_MOVE, Page, is_item_id

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

MOST_TAGS = 200_000  # a category that lists 200 files and 200 categories has about 10,000
SITE_NAME = " - Wikimedia Commons"
_MOVES = "div.category-redirect-header a[href], div.redirectMsg a[href]"  # soft, and the second of two hard redirects
_NOT_SHOWN = (
    "style, script, template, noscript, sup.reference, .sortkey, [hidden], "
    '[style*="display:none" i], [style*="display: none" i]'
)
_BLOCKS = re.compile(
    "^(address|blockquote|d[dlt]|div|figure|h[1-6]|hr|ol|p|pre|section|table|t[dhr]|ul)$"  # each on a line of its own
)


def ask_page(client: Client, titles: Sequence[str]) -> list[Page]:
    """Read the page of the one title given."""
    (title,) = titles

    def read(answer: HttpAnswer) -> Page:
        check_status(answer, client.clock.now())
        page = read_page(title, decoded(answer), is_there=answer.status != 404)
        return Page(title, MISSING) if answer.status == 404 else page

    return [client.ask(client.settings.commons_site.rstrip("/") + page_path(title), None, read)]


def read_page(title: str, text: str, *, is_there: bool = True) -> Page:
    """Read a category page: its labels, or where it has moved to; one that was cut is Incomplete."""
    from bs4 import BeautifulSoup
    from bs4.builder import ParserRejectedMarkup

    check_size(text.count("<"), MOST_TAGS)
    if not _is_whole(text, is_there=is_there):
        raise Incomplete("a truncated page")
    try:
        soup = BeautifulSoup(text, "html.parser")
    except ParserRejectedMarkup as error:  # a declaration that HTML does not have
        raise Unusable(f"a page that is not HTML ({error})") from None
    redirects = _redirects(soup, title)
    link = soup.select_one(_MOVES)
    if link is not None:
        return _moved(title, link, redirects)
    infobox = soup.select_one("table#wdinfobox")
    if infobox is None:
        return Page(title, NO_INFOBOX, redirects=redirects, read=())
    values = _values(infobox)
    return Page(title, FOUND if values else NO_INSTANCE, _item(infobox), redirects, read=values)


def _moved(title: str, link: Tag, redirects: tuple[str, ...]) -> Page:
    try:
        return Page(title, MOVED, redirects=redirects, target=linked_title(str(link["href"])), read=())
    except CategoryError as error:
        status = OTHER_WIKI if isinstance(error, OtherSiteError) else UNREADABLE_MOVE
        return Page(title, status, redirects=redirects, read=())


def _is_whole(text: str, *, is_there: bool) -> bool:
    """Whether a page is complete: head and end, and MediaWiki's lines below the content."""
    end, page = text[-300:].lower(), text.lower()
    footer = not is_there or "printfooter" in page or 'content="mediawiki' not in page
    return "</head>" in page and end.find("</html>") > end.find("</body>") >= 0 and footer


def _values(infobox: Tag) -> tuple[tuple[str, str], ...]:
    """Each list entry's whole text (its first piece alone would cut "county hall (…)") and the page it links to."""
    for hidden in infobox.select(_NOT_SHOWN):
        hidden.decompose()
    for header in infobox.find_all("th"):
        cell = header.find_next_sibling("td")
        if cell is not None and _shown_text(header.get_text()).casefold() == "instance of":
            entries = [entry for entry in cell.find_all("li") if entry.find("ul") is None] or [cell]
            values = [value for entry in entries for value in _entry(entry)]
            return tuple(dict.fromkeys(value for value in values if value[0]))
    return ()


def _entry(entry: Tag) -> Iterator[tuple[str, str]]:
    """The values of a list entry, one a line as a browser shows it, without the entries within it.

    ``<li>`` is not always closed, so that the next entry may stand within this one.
    """
    from bs4.element import NavigableString, Tag

    for nested_entry in entry.find_all("li"):
        nested_entry.extract()
    for block in entry.find_all(_BLOCKS):
        block.insert_before(Tag(name="br"))
        block.insert_after(Tag(name="br"))
    texts, titles = [""], [""]
    for node in entry.descendants:
        if isinstance(node, Tag) and node.name == "br":
            texts.append("")
            titles.append("")
        elif isinstance(node, Tag) and node.name == "a" and node.has_attr("href"):
            titles[-1] = titles[-1] or _title(node) or ""
        elif type(node) is NavigableString:  # a comment is of another type
            texts[-1] += node
    yield from zip(map(_shown_text, texts), titles, strict=True)


def _shown_text(text: str) -> str:
    """The visible text in one line."""
    return " ".join(visible(" ".join(text.split())).split())


def _title(link: Tag) -> str | None:
    try:
        return linked_title(str(link["href"]))
    except CategoryError:
        return None


def _item(infobox: Tag) -> str | None:
    link = infobox.select_one('a[title="Edit infobox data on Wikidata"]')
    item = str(link["href"]).split("#")[0].rsplit("/", 1)[-1] if link is not None and link.has_attr("href") else ""
    return item if is_item_id(item) else None


def _redirects(soup: BeautifulSoup, title: str) -> tuple[str, ...]:
    """The page shown, if the one asked for is a hard redirect to it; the page names both."""
    shown_title = _shown(soup)
    if shown_title == title:
        return ()
    link = soup.select_one("span.mw-redirectedfrom a[title]")
    if shown_title is None or link is None or link["title"] != title:
        raise Incomplete(f"not the page of {title!r}")
    return (shown_title,)


def _shown(soup: BeautifulSoup) -> str | None:
    """The category that the page says it is."""
    link = soup.select_one('link[rel="canonical"][href]')
    try:
        if link is not None:
            return category_title(str(link["href"]))
        return normal_title(soup.title.get_text().removesuffix(SITE_NAME)) if soup.title is not None else None
    except CategoryError:
        return None
