"""Photograph the retrievals of a demo's page for README.md: python scripts/demo_figure.py hiertree-demo/index.html."""

from __future__ import annotations

import sys
from pathlib import Path

from screenshots import chromium, keep

LEGEND_TO_TOP = """
const [worst, median] = document.querySelectorAll("#retrievals .group");
while (worst.nextElementSibling !== median) worst.nextElementSibling.remove();
worst.remove();
const legend = document.querySelector("#retrievals .legend").getBoundingClientRect();
window.scrollTo({top: legend.top + window.scrollY - 20, behavior: "instant"});
"""


def main(page: Path) -> None:
    """Save the legend and the first two median queries of a page."""
    with chromium(970, 885) as browser:
        browser.get(page.resolve().as_uri())
        browser.execute_script(LEGEND_TO_TOP)
        keep(browser, "demo.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
