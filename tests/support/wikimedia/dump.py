"""A world as Wikidata dumps it."""

from __future__ import annotations

import json

from wikimedia.world import World


def dump_text(world: World) -> str:
    """An entity a line, classes first, topics before and after their categories."""
    titles = {page.item: title for title, page in world.pages.items() if page.item}
    topics = {
        content["claims"]["P301"][0]["mainsnak"]["datavalue"]["value"]["id"]: key
        for key, content in world.entities.items()
        if "P301" in (content["claims"] or {})
    }
    lines = []
    for key, content in sorted(world.entities.items(), key=lambda pair: int(pair[0][1:]) % 997):
        claims = dict(content["claims"] or {})
        claims |= {"P279": claims.get("P279", [])} if int(key[1:]) < 200 else {}
        claims |= {"P910": []} if key in topics else {}
        sites = {"commonswiki": {"site": "commonswiki", "title": titles[key], "badges": []}} if key in titles else {}
        lines.append(json.dumps({**content, "claims": claims, "sitelinks": sites}, separators=(",", ":")))
    return "[\n" + ",\n".join(lines) + "\n]\n"
