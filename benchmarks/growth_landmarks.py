"""Landmarks, their labels and images for the growth table, and the Wikimedia and the host of files on loopback."""

from __future__ import annotations

import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from growth_inputs import png

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
WORDS = ("lake", "church", "peak", "museum", "bridge", "castle", "park", "river")
PAGE = "http://commons.wikimedia.org/wiki/Category:P{}"


def five_words(row: int) -> str:
    """A label of its own for each row."""
    return " ".join(WORDS[row // 8**place % 8] for place in range(5))


def write_rows(head: str, rows: Iterator[str], file: str = "l.csv") -> None:
    """A table of landmarks."""
    Path(file).write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")


def write_landmarks(count: int) -> None:
    """Landmarks with labels of Wikidata's kind."""
    rows = (f"{row},{PAGE.format(row)},{WORDS[row % 8]}" for row in range(count))
    write_rows("landmark_id,category,instance_of", rows)


def write_labels(count: int) -> None:
    """A landmark for each of as many labels, of five words."""
    write_rows(
        "landmark_id,category,instance_of", (f"{row},{PAGE.format(row)},{five_words(row)}" for row in range(count))
    )


def write_photos(count: int) -> None:
    """Landmarks, a small image of each, and the table that says whose it is."""
    write_landmarks(count)
    Path("photos").mkdir()
    image = png()
    for row in range(count):
        Path("photos", f"i{row}.png").write_bytes(image)
    write_rows("id,landmark_id", (f"i{row},{row}" for row in range(count)), "i.csv")


def write_unlabeled(count: int) -> None:
    """Landmarks of which every other has no label, their vectors, and a tiny CLIP model."""
    from tiny_clip import save_tiny_clip

    rows = (f"{row},{PAGE.format(row)},{WORDS[row // 2 % 8] if row % 2 else ''}" for row in range(count))
    write_rows("landmark_id,category,instance_of", rows)
    vectors = np.random.default_rng(0).standard_normal((count, 32), np.float32)
    np.savez("v.npz", embeddings=vectors, landmark_ids=np.arange(count))
    save_tiny_clip(Path("clip"))


def write_proposal(count: int) -> None:
    """Clusters of a hundred labels, one in seven of them in doubt, a landmark of each, and an image of the first."""
    from hiertree.pipelines.labels import CleanSettings, clean_step
    from hiertree.pipelines.labels.cluster.proposal_files import PROPOSAL
    from hiertree.pipelines.labels.cluster.proposal_files import write_proposal as write
    from hiertree.pipelines.labels.cluster.proposing import Cluster, LabelPlace, Proposal
    from hiertree.pipelines.labels.steps import HISTORY

    labels = [f"{WORDS[row % 8]} {row}" for row in range(count)]
    rows = (f"{row},{PAGE.format(row)},{label}" for row, label in enumerate(labels))
    write_rows("landmark_id,category,instance_of", rows)
    clean_step("l.csv", out="clustered", settings=CleanSettings())
    members = [LabelPlace(label, 1, 0.9, 0.3, 0.5, "kind" * (row % 7 == 0)) for row, label in enumerate(labels)]
    clusters = tuple(
        Cluster(f"cluster {start}", "natural", 0.5, tuple(members[start : start + 100]), "")
        for start in range(0, count, 100)
    )
    write(Path("clustered", PROPOSAL), Proposal(clusters, {}))
    Path("clustered", HISTORY).write_text("[]", encoding="utf-8")
    Path("photos").mkdir()
    Path("photos", "0.png").write_bytes(png())


@contextmanager
def wikimedia(count: int, *, kinds: int = 40) -> Iterator[str]:
    """Landmarks of which the tests' Wikimedia on loopback knows, and the options that name it."""
    from wikimedia import Places, Wikimedia

    places = Places.numbered(count, kinds)
    write_rows("landmark_id,category", (f'{row},"{url}"' for row, url in enumerate(places.urls)))
    with Wikimedia(places) as server:
        addresses = {"contact": "me@university.edu", "requests-per-minute": 1_000_000, **server.options}
        scrape = "".join(f"  {name.replace('-', '_')}: {value}\n" for name, value in addresses.items())
        Path("plan.yaml").write_text(
            f"landmarks: l.csv\nscrape:\n{scrape}cluster: {{clusters: 8}}\n".replace("commons-", "commons_"),
            encoding="utf-8",
        )
        yield " ".join(f"--{name.replace('_', '-')} {value}" for name, value in addresses.items())


@contextmanager
def unasked(count: int) -> Iterator[str]:
    """A store of landmarks, of which nothing was asked yet."""
    from hiertree.pipelines.labels.scrape.store import LandmarkRow, Store

    with wikimedia(count) as options:
        with Store("s.sqlite") as store:
            titles = (f"Category:Place {row}" for row in range(count))
            store.add_landmarks(LandmarkRow(str(row), title, title, None) for row, title in enumerate(titles))
        yield options


@contextmanager
def classes(count: int) -> Iterator[str]:
    """A landmark for each of as many classes, above which the Wikimedia knows others."""
    with wikimedia(0, kinds=count) as options:
        rows = (f"{row},{PAGE.format(row)},kind {row},Q{100 + row}" for row in range(count))
        write_rows("landmark_id,category,instance_of,item_ids", rows)
        yield options


class Host(SimpleHTTPRequestHandler):
    """Serves files, and prints no requests."""

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def hosted_archive(count: int) -> Iterator[str]:
    """The address of an archive of as many files on loopback."""
    Path("host").mkdir()
    with zipfile.ZipFile("host/data.zip", "w") as archive:
        for row in range(count):
            archive.writestr(f"images/{row}.png", png())
    handler = partial(Host, directory="host")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/data.zip"
        finally:
            server.shutdown()
