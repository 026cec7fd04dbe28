"""Photograph the search page for docs/browse.md: python scripts/browse_figure.py PHOTOS EMBEDDINGS [EMBEDDINGS…].

Needs selenium, chromium and chromedriver.
"""

from __future__ import annotations

import sys
from pathlib import Path

from screenshots import chromium, keep
from selenium.webdriver.support.wait import WebDriverWait

from hiertree.pipelines.browse.embedded_images import read_embedded
from hiertree.pipelines.browse.server import served

DRAWN = "return document.documentElement.dataset.drawn && [...document.images].slice(0, 15).every(i => i.complete)"


def main(photos: Path, embeddings: list[Path]) -> None:
    """Save the neighbors of one image."""
    with served(read_embedded(embeddings, images=photos)) as url, chromium(1100, 800) as browser:
        browser.get(url)
        browser.get(f"{url.partition('?')[0]}#query=12")
        browser.refresh()
        WebDriverWait(browser, 20).until(lambda _: browser.execute_script(DRAWN))
        keep(browser, "browse.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
