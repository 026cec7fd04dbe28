"""Photograph the review page and the tree page: python scripts/review_figures.py [FOLDER OF GLDV2_WASHINGTON].

Cleans and clusters Washington's landmarks, lets an annotator make a few changes, and opens the page and the tree in a
headless Chromium (needs selenium, chromium and chromedriver). No photographs are shown: their licenses ask for
more than a page of documentation gives.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from screenshots import ROOT, chromium, keep
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.labels.review.actions import Approve, Comment, MarkLabels, Merge, Move, SetAbove
from hiertree.pipelines.labels.review.log_file import ClusterAction, LabelAction
from hiertree.pipelines.labels.review.serving import open_review, served

WASHINGTON = ROOT.parent / "shared" / "data" / "gldv2_washington"


def labels(*words: str | Path) -> None:
    """Run a command of ``hiertree labels``."""
    commands.main(["labels", *map(str, words)], standalone_mode=False)


def cluster(washington: Path, folder: Path) -> Path:
    """Washington's labels, clustered."""
    table, cleaned, clustered = washington / "landmarks_washington_full.csv", folder / "cleaned", folder / "washington"
    labels("clean", table, "--instance-column", "supercategory", "--out", cleaned)
    labels("cluster", cleaned, "--out", clustered)
    return clustered


def tree_page(cleaned: Path, folder: Path) -> Path:
    """The tree of the labels as a page, with a level of groups."""
    clustered, exported, page = (folder / name for name in ("grouped", "exported", "tree.html"))
    labels("cluster", cleaned, "--levels", "1", "--out", clustered)
    labels("export", clustered, "--out", exported)
    labels("tree", exported, "--title", "Landmarks of Washington", "--out", page)
    return page


def review(clustered: Path) -> Path:
    """The log of anna."""
    log = clustered.with_name("anna.jsonl")
    session = open_review(clustered, annotator="anna", log=log).session
    home = {member.label: index for index, cluster in enumerate(session.proposal.clusters) for member in cluster.labels}
    church = home["church building"]
    actions: list[ClusterAction | LabelAction] = [
        Merge(clusters=(home["temple"], church), into=church),
        Move(labels=("studio glass",), to=home["museum"]),
        MarkLabels(labels=("local museum",), irrelevant=True),
        SetAbove(clusters=tuple(home[name] for name in ("lake", "river", "waterfall")), above=("water",)),
        Comment(cluster=home["neighborhood"], text="Is a historic district a settlement? Ask Bert."),
        Approve(clusters=tuple(home[name] for name in ("museum", "road bridge", "mountain", "library")), approved=True),
    ]
    for action in actions:
        session.act(action, seq=session.news(0).history.seq)
    return log


def show(browser: webdriver.Chrome, url: str) -> None:
    """Open a page and wait until it is drawn."""
    browser.get(url)
    ready = "return document.documentElement.dataset.ready"
    WebDriverWait(browser, 20).until(lambda _: browser.execute_script(ready))


def main(washington: Path) -> None:
    """Save the three pictures."""
    with tempfile.TemporaryDirectory() as folder:
        clustered = cluster(washington, Path(folder))
        with chromium(1280, 600) as browser:
            browser.get(tree_page(clustered.with_name("cleaned"), Path(folder)).as_uri())
            browser.find_element(By.TAG_NAME, "input").send_keys("lake")
            keep(browser, "label_tree.png")
        log = review(clustered)
        with served(open_review(clustered, annotator="anna", log=log)) as url, chromium(1280, 800) as browser:
            show(browser, url)
            time.sleep(1)  # until all cards near the window have their place
            keep(browser, "review.png")
            chips = browser.find_elements(By.CSS_SELECTOR, "[data-label='mountain system'], [data-label='ridge']")
            for chip in chips:
                chip.click()
            chips[0].send_keys("m")
            browser.switch_to.active_element.send_keys("rock")
            keep(browser, "review_moving.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else WASHINGTON)
