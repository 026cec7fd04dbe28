"""Photograph the review page and the tree page: python scripts/review_figures.py [FOLDER OF GLDV2_WASHINGTON].

Cleans and clusters Washington's landmarks, lets two annotators make a few changes, and opens their pages and the tree
in a headless Chromium (needs selenium, chromium and chromedriver). No photographs are shown: their licenses ask for
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
from hiertree.pipelines.labels.review.actions import (
    Approve,
    Comment,
    MarkLabels,
    Merge,
    Move,
    Rename,
    SetAbove,
    SetKind,
)
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


def reviewed_by_two(clustered: Path) -> tuple[Path, Path]:
    """The logs of anna and bert."""
    logs = (clustered.with_name("anna.jsonl"), clustered.with_name("bert.jsonl"))
    anna = open_review(clustered, annotator="anna", log=logs[0]).session
    bert = open_review(clustered, annotator="bert", log=logs[1]).session
    number = {member.label: place for place, cluster in enumerate(anna.proposal.clusters) for member in cluster.labels}
    water = tuple(number[name] for name in ("lake", "river", "waterfall"))
    done = tuple(number[name] for name in ("museum", "road bridge", "mountain", "lighthouse", "library"))
    church = number["church building"]
    shared: list[ClusterAction | LabelAction] = [Merge(clusters=(number["temple"], church), into=church)]
    annas: list[ClusterAction | LabelAction] = [
        Move(labels=("studio glass",), to=number["museum"]),
        MarkLabels(labels=("local museum",), irrelevant=True),
        SetAbove(clusters=water, above=("water",)),
        Comment(cluster=number["neighborhood"], text="Is a historic district a settlement? Ask Bert."),
        Approve(clusters=done, approved=True),
    ]
    berts: list[ClusterAction | LabelAction] = [
        Rename(cluster=number["bay"], name="coast"),
        MarkLabels(labels=("local museum", "studio glass", "tourist attraction"), irrelevant=True),
        Move(labels=("movie theater",), name="cinema", kind="human-made"),
        Move(labels=("mansion",), to=number["house"]),
        SetKind(clusters=(number["park"],), kind="natural"),
    ]
    for session, actions in ((anna, annas), (bert, berts)):
        for action in [*shared, *actions]:
            session.act(action, seq=session.news(0).history.seq)
    return logs


def show(browser: webdriver.Chrome, url: str) -> None:
    """Open a page and wait until it is drawn."""
    browser.get(url)
    ready = "return document.documentElement.dataset.ready"
    WebDriverWait(browser, 20).until(lambda _: browser.execute_script(ready))


def main(washington: Path) -> None:
    """Save the four pictures."""
    with tempfile.TemporaryDirectory() as folder:
        clustered = cluster(washington, Path(folder))
        with chromium(1280, 600) as browser:
            browser.get(tree_page(clustered.with_name("cleaned"), Path(folder)).as_uri())
            browser.find_element(By.TAG_NAME, "input").send_keys("lake")
            keep(browser, "label_tree.png")
        anna, bert = reviewed_by_two(clustered)
        with served(open_review(clustered, annotator="anna", log=anna)) as url, chromium(1280, 800) as browser:
            show(browser, url)
            time.sleep(1)  # until all cards near the window have their place
            keep(browser, "review.png")
            chips = browser.find_elements(By.CSS_SELECTOR, "[data-label='mountain system'], [data-label='ridge']")
            for chip in chips:
                chip.click()
            chips[0].send_keys("m")
            browser.switch_to.active_element.send_keys("rock")
            keep(browser, "review_moving.png")
        chief = open_review(clustered, annotator="chief", log=Path(folder) / "chief.jsonl", adjudicate=(anna, bert))
        with served(chief) as url, chromium(1100, 980, dark=True) as browser:
            show(browser, url)
            browser.find_element(By.CSS_SELECTOR, "[data-row='mansion'][data-choice='second']").click()
            WebDriverWait(browser, 20).until(lambda _: "1 of " in browser.page_source)
            browser.execute_script("window.scrollTo(0, 0); document.getElementById('said').hidden = true")
            keep(browser, "review_differences.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else WASHINGTON)
