"""Draw docs/figures/architecture.svg from the imports: a box for each room, an arrow from importer to imported.

An arrow that others imply is left out: where A imports B and B imports C, A → C is not drawn.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape
from pathlib import Path

import networkx as nx
from import_graph import PACKAGES, ROOT, Source

FIGURE = ROOT / "docs" / "figures" / "architecture.svg"
WIDTH, BOX, LAYER, GAP, MARGIN = 1180, 30, 74, 14, 118
COLORS = {"hiertree": "#2a9d8f", "metrics": "#457b9d", "losses": "#b5651d", "pipelines": "#8d5a97"}


def room_graph() -> nx.DiGraph[str]:
    """Rooms as ``package/folder`` or ``package/file.py``, and the arrows that no others imply."""
    source = Source()

    def name(module: str) -> str:
        parts = source.paths[module].relative_to(ROOT).parts
        return "/".join(parts[:2])

    arrows = {(name(importer), name(target)) for importer, target in source.arrows if importer != "hiertree.__main__"}
    graph = nx.DiGraph((one, other) for one, other in sorted(arrows) if one != other)
    return nx.transitive_reduction(graph)


def layers_of(graph: nx.DiGraph[str]) -> list[list[str]]:
    """Rooms from the top floor down: packages in turn, and in each the room that imports above the imported."""
    layers = []
    for package in reversed(PACKAGES):
        inside = graph.subgraph(sorted(room for room in graph if room.split("/")[0] == package))
        layers += [sorted(layer) for layer in nx.topological_generations(inside)]
    return layers


def placed(graph: nx.DiGraph[str], layers: list[list[str]]) -> dict[str, tuple[float, float]]:
    """The middle of each box: every layer in the order that brings rooms near those they are tied to."""
    at: dict[str, tuple[float, float]] = {}
    for _ in range(8):
        for number, layer in enumerate(layers):
            tied = {room: [at[other][0] for other in nx.all_neighbors(graph, room) if other in at] for room in layer}
            middle = {room: sum(xs) / len(xs) if xs else WIDTH / 2 for room, xs in tied.items()}
            layer.sort(key=lambda room: (middle[room], room))
            free = WIDTH - MARGIN - 20 - sum(map(box_width, layer))
            space = min(free / (len(layer) + 1), 90)
            x = MARGIN + (WIDTH - MARGIN - sum(map(box_width, layer)) - space * (len(layer) - 1)) / 2
            for room in layer:
                at[room] = (x + box_width(room) / 2, 30 + number * LAYER)
                x += box_width(room) + space
    return at


def box_width(room: str) -> float:
    """Width of a box in pixels, by the length of its label."""
    return 7.4 * len(label(room)) + 2 * GAP


def label(room: str) -> str:
    """A folder ends in a slash, a file has no suffix."""
    name = room.partition("/")[2]
    return name.removesuffix(".py") if name.endswith(".py") else f"{name}/"


def drawing() -> str:
    """The picture as SVG, the same bytes for the same imports."""
    graph = room_graph()
    layers = layers_of(graph)
    at = placed(graph, layers)
    lines = [*_head(len(layers)), *_bands(layers)]
    lines += [_arrow(at[one], at[other]) for one, other in sorted(graph.edges)]
    lines += [_box(room, at[room]) for layer in layers for room in layer]
    return "\n".join([*lines, "</svg>", ""])


def _head(number_of_layers: int) -> list[str]:
    height = number_of_layers * LAYER + 10
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        "<style>text { font: 12px monospace; text-anchor: middle } .package { font: bold 15px monospace }</style>",
        "<title>Rooms of hiertree and what each imports</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '<path d="M0 0 8 4 0 8z" fill="#777"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]


def _bands(layers: list[list[str]]) -> list[str]:
    numbers = defaultdict(list)
    for number, layer in enumerate(layers):
        numbers[layer[0].split("/")[0]].append(number)
    lines = []
    for package, rows in numbers.items():
        top, height, color = rows[0] * LAYER + 4, len(rows) * LAYER - 8, COLORS[package]
        box = f'x="4" y="{top}" width="{WIDTH - 8}" height="{height}" rx="8"'
        lines.append(f'<rect {box} fill="{color}" opacity=".1"/>')
        lines.append(f'<text class="package" x="60" y="{top + 24}" fill="{color}">{package}</text>')
    return lines


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x0, y0), (x1, y1) = (start[0], start[1] + BOX / 2), (end[0], end[1] - BOX / 2)
    bend = (y1 - y0) / 2
    curve = f"M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"
    return f'<path d="{curve}" fill="none" stroke="#777" stroke-width="1" opacity=".7" marker-end="url(#tip)"/>'


def _box(room: str, at: tuple[float, float]) -> str:
    width, color = box_width(room), COLORS[room.partition("/")[0]]
    left, top = at[0] - width / 2, at[1] - BOX / 2
    line = f'stroke="{color}"' + (' stroke-dasharray="3 2"' if room.endswith(".py") else "")
    return (
        f"<g><title>{escape(room)}</title>"
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{BOX}" rx="5" fill="#fff" {line}/>'
        f'<text x="{at[0]:.0f}" y="{at[1] + 4:.0f}">{escape(label(room))}</text></g>'
    )


if __name__ == "__main__":
    Path(FIGURE).write_text(drawing(), encoding="utf-8")
