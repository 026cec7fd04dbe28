"""Milliseconds until the review page shows 6,000 labels, and from a key to the frame that shows its outcome.

``python benchmarks/review_page.py`` makes a proposal, serves it and opens it in a headless Chromium; it needs selenium,
chromium and chromedriver.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from selenium import webdriver

from hiertree.pipelines.labels.cluster.proposing import Cluster, LabelPlace, Proposal
from hiertree.pipelines.labels.landmarks import KeptLandmark
from hiertree.pipelines.labels.review.serving import Review, Session, served

FORMS = [
    "road",
    "railway",
    "old",
    "wooden",
    "glacial",
    "national",
    "state",
    "urban",
    "public",
    "military",
    "art",
    "history",
    "marine",
    "alpine",
]
PLACES = [
    "bridge",
    "lake",
    "museum",
    "church",
    "mountain",
    "park",
    "tower",
    "dam",
    "island",
    "fort",
    "garden",
    "station",
    "library",
    "hall",
    "river",
]
KEYS = {"a": "approve", "t": "other kind", "i": "irrelevant"}
READY = """
    const done = arguments[0];
    const look = () => document.documentElement.dataset.ready
      ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 2);
    look()"""
PRESS = """
    const [key, done] = arguments;
    const pressed = performance.now();
    const watch = new MutationObserver(() => {
      if (!document.getElementById("said").textContent) return;
      watch.disconnect();
      requestAnimationFrame(() => done(performance.now() - pressed));
    });
    watch.observe(document.getElementById("said"), { childList: true });
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }))"""


def label(number: int) -> str:
    form, place = FORMS[number % len(FORMS)], PLACES[number // len(FORMS) % len(PLACES)]
    return f"{form} {place} {number // (len(FORMS) * len(PLACES))}"


def proposal(clusters: int, labels: int) -> Proposal:
    """Labels shared out evenly, every seventh in doubt."""
    size = labels // clusters
    made = []
    for cluster in range(clusters):
        numbers = range(cluster * size, (cluster + 1) * size)
        places = tuple(LabelPlace(label(n), 1 + n % 7, 0.9, 0.3, 0.5, "kind" * (n % 7 == 0)) for n in numbers)
        made.append(Cluster(f"cluster {cluster}", "natural", 0.5, places, ""))
    return Proposal(tuple(made), {})


def measure(browser: webdriver.Chrome, url: str, *, repeats: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"first frame": []}
    for _ in range(repeats):
        browser.get(url)
        found["first frame"].append(browser.execute_async_script(READY))
    for key, name in KEYS.items():
        found[name] = []
        for cluster in range(repeats):
            browser.execute_script(f"document.getElementById('cluster-{3 * cluster}').focus()")
            found[name].append(browser.execute_async_script(PRESS, key))
            time.sleep(0.2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, default=6000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    browser_options = webdriver.ChromeOptions()
    browser_options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1300,900"):
        browser_options.add_argument(argument)
    with webdriver.Chrome(
        options=browser_options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    ) as browser:
        for clusters in (100, 500):
            given = proposal(clusters, options.labels)
            names = [KeptLandmark(number, f"Landmark {number} of Washington", ("",)) for number in range(6)]
            landmarks = {place.label: names for cluster in given.clusters for place in cluster.labels}
            with tempfile.TemporaryDirectory() as folder:
                review = Review(Session(given, Path(folder) / "log.jsonl", "anna"), landmarks)
                with served(review) as url:
                    for name, values in measure(browser, url, repeats=options.repeats).items():
                        low, middle, high = min(values), statistics.median(values), max(values)
                        print(f"{clusters:4d} clusters  {name:12s} {low:6.0f} {middle:6.0f} {high:6.0f} ms", flush=True)


if __name__ == "__main__":
    main()
