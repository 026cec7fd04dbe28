"""Photograph the classes of a report for docs/report.md: python scripts/report_figure.py report.html."""

from __future__ import annotations

import sys
from pathlib import Path

from screenshots import chromium, keep

TO_TOP = 'window.scrollTo({top: document.querySelector("#queries h2").offsetTop - 24, behavior: "instant"});'


def main(page: Path) -> None:
    """Save what the page says of queries and classes."""
    with chromium(970, 1130) as browser:
        browser.get(page.resolve().as_uri())
        browser.execute_script(TO_TOP)
        keep(browser, "report.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
