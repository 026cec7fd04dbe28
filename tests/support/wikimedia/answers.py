"""What this Wikimedia says: the action API's JSON and the site's pages, from a world."""

from __future__ import annotations

import html
import random
from typing import Any
from urllib.parse import quote

from wikimedia.world import CommonsPage, World

SOFT = {"ns": 14, "title": "Category:Category redirects"}
ROW = '<tr><th class="wikidatainfobox-lcell">{}</th><td><div class="plainlist"><ul>{}</ul></div></td></tr>'
NOTES = (
    "{}",
    "{} (since 1900)",
    '{}<sup class="reference"><a href="#cite_note-1">[1]</a></sup>',
    '<span style="display:none">~1900</span>{}',
    "\u200b{}",
)


def api_answer(world: World, fields: dict[str, str], rng: random.Random, pages_an_answer: int | None) -> dict[str, Any]:
    """The JSON for a question, its parts in any order."""
    keys = fields.get("titles", fields.get("ids", "")).split("|")
    if len(keys) > 50:
        return {"error": {"code": "toomanyvalues", "info": "Too many values supplied: the limit is 50."}}
    if fields.get("action") == "wbgetentities":
        absent_keys = [key for key in keys if int(key[1:]) >= 2**31]
        if absent_keys:  # one id spoils the whole request
            info = f'Could not find an entity with the ID "{absent_keys[0]}".'
            return {"error": {"code": "no-such-entity", "info": info, "id": absent_keys[0]}}
        return {"entities": shuffled({key: _entity(world, key, fields) for key in keys}, rng), "success": 1}
    if fields.get("action") == "query":
        return _query(world, keys, fields, rng, pages_an_answer)
    return {"error": {"code": "badvalue", "info": 'Unrecognized value for parameter "action".'}}


def shuffled(mapping: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    keys = list(mapping)
    rng.shuffle(keys)
    return {key: mapping[key] for key in keys}


def _entity(world: World, key: str, fields: dict[str, str]) -> dict[str, Any]:
    target = world.gone.get(key, key)
    if target not in world.entities:
        return {"id": key, "missing": ""}
    document = dict(world.entities[target])
    props = fields["props"].split("|")
    if "claims" not in props:
        document.pop("claims")
    if "info" not in props:
        document = {name: value for name, value in document.items() if name in ("type", "id", "labels", "claims")}
    if "labels" in props:
        languages = fields["languages"].split("|")
        document["labels"] = {name: text for name, text in (document["labels"] or {}).items() if name in languages}
    else:
        document.pop("labels")
    return {**document, "redirects": {"from": key, "to": target}} if target != key else document


def _query(
    world: World, titles: list[str], fields: dict[str, str], rng: random.Random, pages_an_answer: int | None
) -> dict[str, Any]:
    normalized = {title: _normal(title) for title in titles if _normal(title) != title}
    redirects: dict[str, str] = {}
    final = [_follow(world, normalized.get(title, title), redirects) for title in titles]
    targets = sorted({title for title in final if title is not None})
    begin = int(fields.get("ppcontinue", "0"))
    end = begin + (pages_an_answer or len(targets))
    pages = [_page(world, title, fields if begin <= index < end else None) for index, title in enumerate(targets)]
    rng.shuffle(pages)
    cursor = {"continue": {"ppcontinue": str(end), "continue": "||"}} if end < len(targets) else {"batchcomplete": True}
    changes = {"normalized": normalized, "redirects": redirects}
    query = {
        name: [{"from": a, "to": b, **({"tointerwiki": "w"} if b.startswith("w:") else {})} for a, b in change.items()]
        for name, change in changes.items()
        if change
    }
    return {**cursor, "query": {**query, "pages": [page for page in pages if not page["title"].startswith("w:")]}}


def _follow(world: World, title: str, redirects: dict[str, str]) -> str | None:
    """The title at the end of hard redirects, all of which are noted; None in a circle."""
    visited = {title}
    while (page := world.pages.get(title)) and page.hard:
        redirects[title] = page.hard
        title = page.hard
        if title in visited:
            return None
        visited.add(title)
    return title


def _page(world: World, title: str, fields: dict[str, str] | None) -> dict[str, Any]:
    page = world.pages.get(title)
    if page is None:
        return {"ns": 14, "title": title, "missing": True}
    head = {"pageid": abs(hash(title)) % 10**8, "ns": 14, "title": title}
    if fields is None:
        return head
    if fields["prop"] == "revisions":
        document = {"contentmodel": "wikitext", "contentformat": "text/x-wiki", "content": _wikitext(page)}
        return {**head, "revisions": [{"slots": {"main": document}}]}
    props = {"pageprops": {"wikibase_item": page.item}} if page.item else {}
    return {**head, **props, **({"categories": [SOFT]} if page.soft else {})}


def _wikitext(page: CommonsPage) -> str:
    return f"{{{{{page.template}|{page.soft}}}}}\n" if page.soft else "{{Wikidata Infobox}}\n[[Category:Places]]\n"


def _normal(title: str) -> str:
    namespace, _, name = title.replace("_", " ").partition(":")
    return f"{namespace.capitalize()}:{name[:1].upper()}{name[1:]}"


def page_answer(world: World, title: str) -> tuple[int, str]:
    """Status and HTML of /wiki/title, after the recorded page's pattern."""
    name: str | None = _normal(title)
    page = world.pages.get(name)
    if page is not None and page.hard and not page.hard.startswith("w:"):  # one redirect is followed, a second is shown
        name = page.hard
        page = world.pages.get(name)
    if page is None or name is None:
        return 404, _document(title, "<p>There is currently no text in this page.</p>")
    if page.hard:
        wiki, path = ("https://en.wikipedia.org", page.hard[2:]) if page.hard.startswith("w:") else ("", page.hard)
        link = f'<a href="{wiki}/wiki/{quote(path.replace(" ", "_"))}">{html.escape(page.hard)}</a>'
        redirect = f'<div class="redirectMsg"><p>Redirect to:</p><ul class="redirectText"><li>{link}</li></ul></div>'
        return 200, _document(name, ("" if name == _normal(title) else _redirected_from(_normal(title))) + redirect)
    if page.soft:
        target = page.soft if page.soft.startswith("Category:") else f"Category:{page.soft}"
        link = f'<a href="/wiki/{quote(target.replace(" ", "_"))}">{html.escape(target)}</a>'
        return 200, _document(name, f'<div class="category-redirect-header">This category is located at {link}.</div>')
    values = world.infobox_values(page.item) if page.item else None
    body = "" if values is None else _infobox(page.item or "", values, noted=world.noted)
    return 200, _document(name, body if name == _normal(title) else _redirected_from(_normal(title)) + body)


def _infobox(item: str, values: list[str], *, noted: bool) -> str:
    """The infobox; with notes it is as editors leave some: remarks, hidden sort keys, entries that are not closed."""
    entries = [_linked(html.escape(value)) for value in values]
    note = NOTES[int(item[1:]) % len(NOTES)] if noted else "{}"
    linked = [f"<li>{note.format(entry)}" + ("" if noted else "</li>") for entry in entries]
    header = "Instance\u200b of" if noted else "Instance of"
    edit = f'<a title="Edit infobox data on Wikidata" href="https://www.wikidata.org/wiki/{item}">edit</a>'
    rows = ROW.format(header, "".join(linked)) if values else ""
    return (
        '<table class="fileinfotpl-type-information vevent infobox mw-collapsible" id="wdinfobox"><tbody>'
        f"{rows}<tr><th>Location</th><td><ul><li>somewhere</li></ul></td></tr><tr><td>{edit}</td></tr></tbody></table>"
    )


def _redirected_from(title: str) -> str:
    link = (
        f'<a href="/w/index.php?redirect=no" class="mw-redirect" title="{html.escape(title)}">{html.escape(title)}</a>'
    )
    return f'<span class="mw-redirectedfrom">(Redirected from {link})</span>'


def _linked(value: str) -> str:
    """A link, from the first parenthesis on if there is one."""
    text, bracket, detail = value.partition("(")
    link = '<a href="/wiki/Category:X">{}</a>'
    return f"{text}({link.format(detail.rstrip(')'))})" if bracket else link.format(value)


def _document(title: str, body: str) -> str:
    address = f"https://commons.wikimedia.org/wiki/{quote(title.replace(' ', '_'))}"
    head = f'<meta charset="utf-8"/><title>{html.escape(title)}</title><link rel="canonical" href="{address}"/>'
    head += '<meta name="generator" content="MediaWiki 1.45.0"/>'
    footer = f'<div class="printfooter">Retrieved from "<a href="{address}">{address}</a>"</div>'
    return f"<!DOCTYPE html><html><head>{head}</head><body>{body}{footer}</body></html>"
