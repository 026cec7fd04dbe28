"""The search page over real HTTP and in a real headless Chromium."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest
from local_server import LocalServer
from PIL import Image
from tiny_clip import save_tiny_clip

from hiertree.errors import InputError, OptionError, TableError
from hiertree.pipelines.browse.embedded_images import read_embedded
from hiertree.pipelines.browse.server import served
from hiertree.pipelines.inference.embedding import embed
from hiertree.pipelines.stored_embeddings.embedded_files import write_embeddings

Keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium is not installed").Keys
SPECIES = ["lark", "wren", "pike", "carp"]  # two classes of two species, four images each
NASTY = "<img src=x onerror=alert(1)>"


def write(folder, vectors, *, names=None, labels=True):
    """A folder as ``hiertree embed`` writes it."""
    folder.mkdir()
    columns = {"image": names or [f"{row}.png" for row in range(16)]}
    if labels:
        columns |= {"class": ["bird"] * 8 + [NASTY] * 8, "species": np.repeat(SPECIES, 4)}
    write_embeddings(folder / "part.parquet", vectors.astype(np.float32), columns, {})
    (folder / "manifest.json").write_text(json.dumps({"parameters": {"embedded": str(folder.parent / "photos")}}))
    return folder


def vectors(*weights):
    """Embeddings in which class, species and image each weigh so much."""
    rows = np.arange(16)
    columns = zip(weights, (rows // 8, rows // 4, rows), strict=True)
    return np.concatenate([weight * np.eye(16)[ids] for weight, ids in columns], axis=1) + 0.01 * np.eye(16, 48, 3)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browse")
    (folder / "photos").mkdir()
    for row in range(15):  # the last one is missing
        Image.new("RGB", (40 + row, 30), (row * 15, 90, 120)).save(folder / "photos" / f"{row}.png")
    Image.new("RGB", (9, 9)).save(folder / "secret.png")
    return [write(folder / "good", vectors(2, 1, 1)), write(folder / "bad", vectors(0, 0, 1) + vectors(0, 0, 1)[::-1])]


@pytest.fixture(scope="module")
def server(folders):
    with served(read_embedded(folders, images=folders[0].parent / "photos")) as url:
        yield LocalServer(url)


def get(server, path):
    return server.ask("GET", path)[1]


def test_neighbors_are_the_gallerys_most_similar_images_with_the_level_they_share(server):
    answer = get(server, "/api/neighbors?query=5&model=0")
    assert answer["query"]["labels"] == ["bird", "wren"]
    assert [image["level"] for image in answer["neighbors"]] == [2] * 3 + [1] * 4 + [0] * 8
    similarities = [image["similarity"] for image in answer["neighbors"]]
    assert similarities == sorted(similarities, reverse=True)
    assert answer["at_level"] == [8, 4, 3]
    assert get(server, "/api/neighbors?query=5&model=1")["neighbors"][0]["row"] == 10  # its mirror image there


def test_a_node_filters_queries_and_on_request_neighbors(server):
    children = get(server, "/api/children?node=")
    assert [(node["label"], node["images"]) for node in children] == [(NASTY, 8), ("bird", 8)]
    bird = children[1]["number"]
    species = get(server, f"/api/children?node={bird}")
    assert [node["label"] for node in species] == ["lark", "wren"]
    lark = f"{bird},{species[0]['number']}"
    assert sorted(image["row"] for image in get(server, f"/api/images?node={lark}")["images"]) == [0, 1, 2, 3]
    assert get(server, f"/api/random?node={lark}") in range(4)
    assert {image["row"] for image in get(server, f"/api/neighbors?query=9&within={lark}")["neighbors"]} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "path",
    ["/api/neighbors?query=16", "/api/neighbors?query=-1", "/api/neighbors?query=1&model=2", "/api/children?node=x"],
)
def test_what_is_not_there_is_refused(server, path):
    assert server.ask("GET", path)[0] == 400


@pytest.mark.parametrize(
    "path",
    [
        "/images/99",
        "/images/15",
        "/images/../secret.png",
        "/images/..%2fsecret.png",
        "/large/-1",
        "/page/server.py",
        f"/images/{'1' * 5000}",
        "/images/x",
    ],
)
def test_no_path_leads_out_of_the_page_and_the_images(server, path):
    assert server.ask("GET", path)[0] == 404


def test_only_this_machines_browser_with_the_token_is_answered(server):
    for path in ("/", "/api/everything", "/images/1"):
        assert server.ask("GET", path)[0] == 200
        assert server.ask("GET", path, with_token=False)[0] == 403
        assert server.ask("GET", path, Host="evil.example")[0] == 421
    assert server.ask("POST", "/api/images", b"", Origin="http://evil.example")[0] == 403


def test_a_gallery_of_its_own_is_searched_without_the_query_itself(tmp_path):
    folder = write(tmp_path / "apart", vectors(2, 1, 1))
    rows, splits = [0, 4, 8, *range(1, 16), 0], ["query"] * 3 + ["gallery"] * 16
    columns = pd.read_parquet(folder / "part.parquet").drop(columns="embedding").iloc[rows].assign(split=splits)
    write_embeddings(folder / "part.parquet", vectors(2, 1, 1)[rows].astype(np.float32), dict(columns), {})
    with served(read_embedded([folder], images=tmp_path)) as url:
        answer = get(LocalServer(url), "/api/neighbors?query=0")
        number = get(LocalServer(url), "/api/images?node=")["of"]
    assert len(answer["neighbors"]) == 15
    assert "0.png" not in [image["name"] for image in answer["neighbors"]]  # the same photograph, in the gallery
    assert {image["row"] for image in answer["neighbors"][:3]} == {3, 4, 5}  # rows of the gallery follow the queries'
    assert number == 3


def test_images_are_found_where_they_were_embedded_from_or_said_to_be_missing(folders, tmp_path):
    photos = folders[0].parent / "photos"
    unlabeled = write(
        folders[0].parent / "plain", np.eye(16)[:15], names=sorted(p.name for p in photos.iterdir()), labels=False
    )
    embedded = read_embedded([unlabeled])
    assert embedded.images is not None
    assert embedded.labels(3) == []
    with served(embedded) as url:
        assert get(LocalServer(url), "/api/neighbors?query=3")["at_level"] == [14]
    unplaced = read_embedded([write(tmp_path / "lost", vectors(1, 1, 1))])
    assert unplaced.images is None
    assert "not where they were embedded from" in unplaced.without


def test_a_folder_that_names_a_data_set_of_the_hub_fetches_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("hiertree.pipelines.stored_embeddings.embedded_files.load_input_images", None)
    folder = write(tmp_path / "remote", vectors(1, 1, 1))
    (folder / "manifest.json").write_text(json.dumps({"parameters": {"embedded": "hf-hub:OWNER/NAME"}}))
    embedded = read_embedded([folder])
    assert embedded.images is None
    assert "hf-hub:OWNER/NAME, which is not fetched" in embedded.without


@pytest.mark.parametrize("text", ["[]", "3", "null"])
def test_a_manifest_that_is_no_object_is_named(tmp_path, text):
    folder = write(tmp_path / "odd", vectors(1, 1, 1))
    (folder / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json cannot be read"):
        read_embedded([folder])


@pytest.mark.parametrize("text", ['{"parameters": []}', '{"parameters": 3}', '{"parameters": {"embedded": 3}}', "{}"])
def test_a_manifest_of_another_shape_only_costs_the_images(tmp_path, text):
    folder = write(tmp_path / "odd", vectors(1, 1, 1))
    (folder / "manifest.json").write_text(text)
    embedded = read_embedded([folder])
    assert embedded.images is None
    assert "not where they were embedded from" in embedded.without


def test_folders_that_do_not_belong_together_are_refused(folders, tmp_path):
    with pytest.raises(OptionError, match=r"neither a run nor embeddings.*hiertree embed"):
        read_embedded([tmp_path])
    with pytest.raises(OptionError, match="same images in the same order"):
        read_embedded(
            [folders[0], write(tmp_path / "other", vectors(1, 1, 1), names=[f"{row}.jpg" for row in range(16)])]
        )
    with pytest.raises(OptionError, match="each folder once"):
        read_embedded([folders[0], folders[0]])
    with pytest.raises(TableError, match="below root"):
        read_embedded(
            [write(tmp_path / "out", vectors(1, 1, 1), names=["../secret.png", *map(str, range(15))])], images=tmp_path
        )


@pytest.fixture(scope="module")
def asking(folders, tmp_path_factory):
    """A server whose model embeds texts and photographs, too."""
    pytest.importorskip("open_clip")
    folder = tmp_path_factory.mktemp("asking")
    save_tiny_clip(folder / "clip")
    name, photos = f"open_clip:local-dir:{folder / 'clip'}", folders[0].parent / "photos"
    embed(name, photos, folder / "embedded", overrides=("images.workers=0",), labeled=False)
    embedded = read_embedded([folder / "embedded"], models=[name])
    with served(embedded) as url:
        yield LocalServer(url), embedded, photos


def test_texts_and_photographs_of_ones_own_are_searched_for(asking):
    server, embedded, photos = asking
    (model,) = embedded.models
    assert model.name.startswith("open_clip:local-dir:")
    assert get(server, "/api/everything")["reads"] == [True]
    cosines = np.asarray(model.gallery) @ model.network.embed(texts=["a lake"], templates=["{}"])[0]
    answer = get(server, "/api/text?text=a%20lake")
    assert [image["row"] for image in answer["neighbors"]] == np.argsort(-cosines).tolist()
    assert answer["query"]["name"] == "a lake"
    status, answer, _ = server.ask("POST", "/api/photograph?model=0", (photos / "5.png").read_bytes())
    assert status == 200
    assert answer["neighbors"][0]["name"] == "5.png"
    assert answer["neighbors"][0]["similarity"] == pytest.approx(1, abs=1e-5)
    hits = get(server, "/api/find?name=1.P")
    assert [image["name"] for image in hits["images"]] == ["1.png", "11.png"]
    assert hits["of"] == 2


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/photograph", b"no image", 422),
        ("POST", "/api/photograph", bytes(33 << 20), 413),
        ("POST", "/api/photograph?model=7", b"", 400),
        ("GET", "/api/text?text=%20", None, 422),
        ("GET", "/api/photograph", None, 405),
    ],
)
def test_what_no_model_can_embed_is_refused(asking, method, path, body, status):
    assert asking[0].ask(method, path, body)[0] == status


def test_a_page_without_networks_takes_neither_texts_nor_photographs(server, folders):
    assert get(server, "/api/everything")["asks"] == [False, False]
    assert server.ask("GET", "/api/text?text=lake")[0] == 422
    assert server.ask("POST", "/api/photograph", b"")[0] == 422
    with pytest.raises(OptionError, match="1 models: expected 2, one for each"):
        read_embedded(folders, models=["timm:resnet18"])


def test_a_model_that_has_not_made_the_embeddings_is_refused(asking, folders):
    with pytest.raises(InputError, match="has not made these embeddings"):
        read_embedded([folders[0]], models=[asking[1].models[0].name])


class Page:
    """The page as its user sees it."""

    def __init__(self, browser, server):
        self.browser = browser
        browser.get(server.url)
        self.drawn()

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def until(self, condition, seconds=8.0):
        end = time.monotonic() + seconds
        while not (value := self.run(f"return {condition}")):
            assert time.monotonic() < end, f"still not {condition}"
            time.sleep(0.02)
        return value

    def drawn(self, address=None):
        data = "document.documentElement.dataset"
        self.until(f"{data}.ready && {data}.drawn" + (f"?.includes('{address}')" if address else ""))

    def keys(self, keys):
        self.browser.switch_to.active_element.send_keys(keys)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)


def test_a_click_shows_the_neighbors_and_a_key_those_of_the_next_model(browser, server):
    page = Page(browser, server)
    browser.find_element("css selector", "a[href='#query=5']").click()
    page.drawn("query=5")
    assert page.texts("#query dd") == ["bird", "wren"]
    assert page.texts("#images .shared") == ["same species"] * 3 + ["same class"] * 4 + ["nothing shared"] * 8
    colors = page.run("return [...document.querySelectorAll('#images a')].map(a => getComputedStyle(a).borderTopColor)")
    assert len(set(colors)) == 3
    assert page.texts("#legend li") == ["same species 3 of 3", "same class 4 of 4", "nothing shared 8 of 8"]
    page.keys("m")
    page.drawn("model=1")
    assert page.texts("#images .shared")[0] == "nothing shared"
    browser.back()
    page.drawn("query=5")
    page.until("document.querySelector('#images .shared').textContent === 'same species'")
    page.until("document.querySelector('#images .missing')?.textContent.includes('15.png')")
    assert page.run("return document.querySelectorAll('#query img[src=x], #images img[src=x]').length") == 0


def test_a_name_and_a_text_are_typed_and_stay_in_the_address(browser, asking):
    page = Page(browser, asking[0])
    browser.find_element("css selector", "#name").send_keys("1.png", Keys.ENTER)
    page.drawn("name=1.png")
    assert page.texts("#heading") == ["2 names with “1.png”"]
    browser.find_element("css selector", "#text").send_keys("a lake", Keys.ENTER)
    page.drawn("text=a+lake")
    assert page.texts("#query .asked") == ["a lake"]
    assert len(page.texts("#images li")) == 15
    browser.find_element("css selector", "#photograph").send_keys(str(asking[2] / "3.png"))
    page.until("document.querySelector('#query .asked')?.textContent === 'your photograph'")
    assert page.texts("#images .caption")[0] == "3.png"


def test_keys_lead_through_the_images_and_back(browser, server):
    page = Page(browser, server)
    page.keys(Keys.ARROW_RIGHT)
    page.keys(Keys.ARROW_RIGHT)
    second = page.run("return [...document.querySelectorAll('#images a')].indexOf(document.activeElement)")
    assert second == 1
    page.keys(Keys.ENTER)
    page.drawn("query=")
    page.keys(Keys.ESCAPE)
    page.drawn("#")
    page.until("document.querySelector('#query').hidden")
    page.keys("r")
    page.drawn("query=")
    page.keys("f")
    assert page.run("return document.activeElement.ariaLabel") == "Only of class"
    page.keys("b")  # the select's own key: the option bird
    page.drawn("node=")
    assert page.texts("#nodes select:nth-child(2) option") == ["every species", "lark (4)", "wren (4)"]
