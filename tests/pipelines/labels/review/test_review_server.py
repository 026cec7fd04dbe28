"""The review server over real HTTP: whom it answers, what it refuses, what it serves, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from PIL import Image
from review_server import SMALL, running
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from hiertree.errors import OptionError, TableError
from hiertree.pipelines.labels import PlaceNounEncoder, propose
from hiertree.pipelines.labels.cluster.proposal_files import write_proposal
from hiertree.pipelines.labels.landmarks import KeptLandmark
from hiertree.pipelines.labels.review.results import reviewed_proposal
from hiertree.pipelines.labels.review.serving import MOST_BYTES, ImageFolder, examples, group_by_label
from hiertree.pipelines.local_pages.local_server import listening, local_app, served_in_background, thumbnail

RENAME = json.dumps({"seq": 0, "action": {"do": "rename", "cluster": 0, "name": "crossing"}}).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    images = folder / "images"
    (images / "3").mkdir(parents=True)
    Image.new("RGB", (400, 300), "teal").save(images / "1.jpg")
    (images / "ü&").mkdir()
    Image.new("RGB", (50, 80), "navy").save(images / "3" / "b.png")
    Image.new("RGB", (50, 80), "navy").save(images / "ü&" / "4.png")
    Image.new("RGB", (9, 9)).save(folder / "secret.jpg")
    (images / "2.jpg").symlink_to(folder / "secret.jpg")
    (images / "4.jpg").write_text("no image")
    with running(folder / "log.jsonl", images=ImageFolder(images)) as running_server:
        yield running_server


def test_the_token_is_in_no_cookie_which_would_reach_the_ports_of_other_users(server):
    for path in ("/", "/page/main.js", "/api/review"):
        status, _, headers = server.ask("GET", path)
        assert status == 200
        assert "set-cookie" not in headers
    assert server.ask("GET", "/page/main.js", with_token=False)[0] == 200  # it holds no data


@pytest.mark.parametrize("path", ["/", "/api/review", "/api/news?since=0", "/images?landmark=1"])
@pytest.mark.parametrize("token", ["", "wrong", "%C3%BC"])
def test_nothing_is_shown_without_the_token(server, path, token):
    mark = "&" if "?" in path else "?"
    for address in (path, f"{path}{mark}token={token}"):
        status, answer, _ = server.ask("GET", address, with_token=False, Cookie=f"token={server.token}")
        assert status == 403
        assert b"token" in answer


@pytest.mark.parametrize("path", ["/", "/api/review"])
def test_a_client_that_has_closed_its_half_is_answered(server, path):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(f"GET {server.addressed(path)} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        connection.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: connection.recv(1 << 16), b"")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "head",
    ["GET / HTTP/1.1\r\nHost: {host}\r\n", "POST /api/act HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n{{"],
)
def test_half_a_request_is_dropped(server, head):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.format(host=f"127.0.0.1:{server.port}").encode())
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass  # it ends


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}"]
)
def test_a_name_bent_to_this_machine_is_refused(server, host):
    assert server.ask("GET", "/", Host=host.format(port=server.port))[0] == 421
    assert server.ask("POST", "/api/act", RENAME, Host=host.format(port=server.port))[0] == 421


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_another_sites_page_changes_nothing(server, origin):
    history = server.session.news(0).history
    assert server.ask("POST", "/api/act", RENAME, Origin=origin and origin.format(port=server.port))[0] == 403
    assert server.session.news(0).history == history


def test_every_answer_forbids_scripts_and_frames_of_others(server):
    for path in ("/", "/api/review", "/nowhere", "/images?landmark=1"):
        _, _, headers = server.ask("GET", path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    _, page, _ = server.ask("GET", "/")
    assert re.findall(rb"<script(?! type=\"module\" src=)|<style| style=|\son\w+=", page) == []


@pytest.mark.parametrize(
    "path",
    [
        "/page/../server.py",
        "/page/%2e%2e/server.py",
        "/page/..%2fserver.py",
        "/page//etc/passwd",
        "/page/__init__.py",
        "/images",
        "/images?landmark=../secret",
        "/images?landmark=%2e%2e%2fsecret",
        "/images?landmark=.",
        "/images?landmark=/etc",
        "/images?landmark=1.jpg",
        "/images?landmark=2",
        "/images?landmark=4",
        "/images?landmark=99",
        "/images?landmark=%00",
        f"/images?landmark={'a' * 300}",
        f"/images?landmark={'%C3%A9' * 200}/1",
        "//etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_page_and_the_images(server, path):
    assert server.ask("GET", path)[0] == 404


@pytest.mark.parametrize("index", ["", "-1", "1.5", "x", "%D9%A3", "1" * 5000])
def test_an_event_that_is_no_number_is_refused(server, index):
    status, answer, _ = server.ask("GET", f"/api/news?since={index}")
    assert status == 400
    assert len(answer["error"]) < 100


def test_a_client_that_leaves_within_its_request_leaves_no_trace(server, caplog):
    for _ in range(3):
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        host = f"Host: 127.0.0.1:{server.port}"
        head = [f"POST {server.addressed('/api/act')} HTTP/1.1", host, f"Origin: {server.origin}", "Content-Length: 99"]
        connection.sendall("\r\n".join([*head, "Content-Type: application/json", "", '{"seq"']).encode())
        time.sleep(0.2)
        connection.close()
    assert server.ask("GET", "/")[0] == 200
    assert not caplog.records


@pytest.mark.parametrize(
    "request_text",
    [
        "\x16\x03\x01\x02",
        "GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999999999\r\n\r\n",
        "POST /api/act HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_a_request_that_is_no_http_leaves_no_trace(server, caplog, request_text):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request_text.format(host=f"127.0.0.1:{server.port}").encode())
    time.sleep(0.2)
    assert server.ask("GET", "/")[0] == 200
    assert not caplog.records


@pytest.mark.parametrize(
    ("port", "host", "status"),
    [(80, "127.0.0.1", 200), (80, "localhost:80", 200), (81, "127.0.0.1", 421), (80, "evil.example", 421)],
)
def test_browsers_leave_out_the_port_of_http_itself(port, host, status):
    app = local_app("hiertree.pipelines.labels.review", [], token="secret", port=port)
    headers = [(b"host", host.encode())]
    request = {"type": "http", "method": "GET", "path": "/", "query_string": b"token=secret", "headers": headers}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(request, receive, send))
    assert sent[0]["status"] == status


def test_images_are_served_small(server):
    for landmark in ("1", "3", "%C3%BC%26/4"):
        status, answer, headers = server.ask("GET", f"/images?landmark={landmark}")
        assert (status, headers["content-type"]) == (200, "image/jpeg")
        assert answer[:2] == b"\xff\xd8"
        assert len(answer) < 20_000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'{"seq": 0}', 400),
        (b'{"seq": "0", "action": {"do": "undo"}}', 400),
        (b'{"seq": 0, "action": {"do": "adopt"}}', 400),
        (b'{"seq": 0, "action": {"do": "rename", "cluster": 0, "name": "   "}}', 400),
        (b'{"seq": 0, "action": {"do": "rename", "cluster": 0, "name": "a\\nb"}}', 400),
        (b'{"seq": 0, "action": {"do": "rename", "cluster": 0, "name": "a\\u202eb"}}', 400),
        (b'{"seq": 0, "action": {"do": "rename", "cluster": 0, "name": "x", "also": 1}}', 400),
        (b'{"seq": 0, "action": {"do": "rename", "cluster": 0, "name": "\\ud800"}}', 400),
        (b'{"seq": 0, "action": {"do": "move", "labels": ["x"], "to": 0}}', 422),
        (b'{"seq": 0, "action": {"do": "undo"}}', 422),
        (b'{"seq": 7, "action": {"do": "undo"}}', 409),
        (b"[" * 100_000, 400),
        (b'"' + b"x" * MOST_BYTES + b'"', 413),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_the_log_alone(server, body, status):
    log_bytes = server.session.log.path.read_bytes()
    answer_status, answer, _ = server.ask("POST", "/api/act", body)
    assert answer_status == status
    assert answer["error"]
    assert server.session.log.path.read_bytes() == log_bytes


def test_every_cluster_of_a_proposal_with_groups_changes_its_kind(tmp_path):
    counts = {member.label: member.landmarks for cluster in SMALL.clusters for member in cluster.labels}
    proposal = propose(counts, PlaceNounEncoder(), clusters=8, levels=1)
    groups = {cluster.above for cluster in proposal.clusters}
    assert all(groups)
    assert 1 < len(groups) < len(proposal.clusters)  # some hold several clusters
    with running(tmp_path / "log.jsonl", proposal) as server:
        for _ in range(2):  # there and back
            for index, cluster in enumerate(proposal.clusters):
                cluster_now = server.session.news(0).history.state.clusters[index]
                kind = "human-made" if cluster_now.kind == "natural" else "natural"
                status, answer = server.act({"do": "kind", "clusters": [index], "kind": kind})
                assert (status, answer["groups"][str(index)]["kind"]) == (200, kind)
                left = reviewed_proposal(proposal, server.session.news(0).history.state)
                assert {cluster_of_log.name: cluster_of_log.kind for cluster_of_log in left.clusters}[
                    cluster.name
                ] == kind


def test_other_methods_and_types_are_refused(server):
    assert server.ask("POST", "/api/act", RENAME, Content_Type="text/plain")[0] == 415
    assert server.ask("GET", "/api/act")[0] == 405
    assert server.ask("DELETE", "/api/review")[0] == 405
    assert server.ask("GET", "/api/news?since=x")[0] == 400


def test_a_slow_endless_body_is_cut_off(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        head = f"POST {server.addressed('/api/act')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        head += f"Origin: {server.origin}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        for _ in range(MOST_BYTES // 0x100000 + 1):
            connection.sendall(chunk)
        assert b"413" in connection.recv(100)


def test_many_tabs_at_once_lose_nothing_and_do_nothing_twice(tmp_path):
    with running(tmp_path / "log.jsonl") as server:
        outcomes = []

        def approve_each():
            requests = [{"do": "approve", "clusters": [c], "approved": on} for c in range(5) for on in (True, False)]
            outcomes.extend(server.act(request)[0] for request in requests)

        threads = [threading.Thread(target=approve_each) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(outcomes) <= {200, 409, 422}
        assert outcomes.count(200) == server.session.news(0).history.seq
        assert len(server.session.log.path.read_text().splitlines()) == outcomes.count(200) + 1


def test_image_tables_name_plain_files_only(tmp_path):
    table = tmp_path / "images.csv"
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "a" / "b" / "c" / "abcd.jpg")
    table.write_text("id,url,landmark_id\nabcd,u,7\nabce,u,8\n")
    folder = ImageFolder(tmp_path, table)
    assert folder.find("7") == (tmp_path / "a" / "b" / "c" / "abcd.jpg").resolve()
    assert folder.find("8") is None
    for evil in ("../secret", "/etc/passwd", "a/b", "..", ""):
        table.write_text(f"image_id,landmark_id\nok,1\n{evil},7\n")
        with pytest.raises(TableError, match="line 3: image_id"):
            ImageFolder(tmp_path, table)
    with pytest.raises(OptionError, match="no folder"):
        ImageFolder(tmp_path / "absent")


@pytest.mark.parametrize("files", [("7.JPG", "8.PNG", "8.jpeg"), ("7/a.TIF", "8/b.Jpg", "8/c.avif", "8/notes.txt")])
def test_images_are_found_by_their_landmark_whatever_their_ending(tmp_path, files):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    folder = ImageFolder(tmp_path)
    assert [[path.relative_to(tmp_path.resolve()).as_posix() for path in folder.find_all(name)] for name in "78"] == [
        [file for file in files if file.startswith(name) and not file.endswith("txt")] for name in "78"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "image_id,landmark_id\nabcd,7\nbcde.f,8\nabff,8\n",
        "image_id,landmark_id\nabcd.jpg,7\nbcde.f.png,8\nabff.JPG,8\nmissing.jpg,8\n",
        "landmark_id,images\n7,abcd\n8, bcde.f  abff\n9,\n",
    ],
    ids=["ids", "names", "train_clean"],
)
def test_image_tables_list_ids_names_or_several_in_a_cell(tmp_path, text):
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    for file in ("a/b/c/abcd.JPG", "bcde.f.PNG", "abff.JPG"):
        (tmp_path / file).touch()
    table = tmp_path / "images.csv"
    table.write_text(text)
    folder = ImageFolder(tmp_path, table)
    assert [path.name for path in folder.find_all("7")] == ["abcd.JPG"]
    assert [path.name for path in folder.find_all("8")] == ["bcde.f.PNG", "abff.JPG"]
    assert list(folder.find_all("9")) == []


def test_examples_with_images_come_first(tmp_path):
    Image.new("RGB", (9, 9)).save(tmp_path / "9.jpg")
    category = "http://commons.wikimedia.org/wiki/Category:"
    lakes = [KeptLandmark(str(index), f"{category}Lake_{index}", ("lake",)) for index in range(12)] + [
        KeptLandmark("40", "odd", ("pond",))
    ]
    landmarks = group_by_label(lakes)
    images_of_label = examples(landmarks["lake"], ImageFolder(tmp_path))
    first = [(at["landmark"], at["name"], at["image"]) for at in images_of_label[:2]]
    assert first == [("9", "Lake 9", True), ("0", "Lake 0", False)]
    assert (len(images_of_label), examples(landmarks["pond"])[0]["name"]) == (6, "odd")


def test_a_label_lists_all_its_landmarks_each_with_its_page(tmp_path):
    commons, cells = "https://commons.wikimedia.org/wiki/Category:", ["Lake_%C3%89", "A_b/c?", "Q517", "no_page", "<b>"]
    category_cells = [f"{commons}{cell}" for cell in cells[:1]] + [f"{commons}{'A_b/c%3F'}", *cells[2:]]
    landmarks = [KeptLandmark(str(index), cell, ("lake",)) for index, cell in enumerate(category_cells)]
    landmarks_of_pond = [KeptLandmark(str(index), f"{commons}Pond_{index}", ("pond",)) for index in range(100, 2_200)]
    with running(tmp_path / "log.jsonl", landmarks=[*landmarks, *landmarks_of_pond]) as server:
        status, answer, _ = server.ask("GET", "/api/landmarks?label=lake")
        assert (status, answer["of"]) == (200, 5)
        links = [
            f"{commons}Lake_%C3%89",
            f"{commons}A_b/c%3F",
            "https://www.wikidata.org/wiki/Q517",
            f"{commons}No_page",
            "",
        ]
        assert [at["link"] for at in answer["landmarks"]] == links
        assert [at["name"] for at in answer["landmarks"]] == ["Lake É", "A b/c?", "Q517", "no page", "<b>"]
        answer_of_pond = server.ask("GET", "/api/landmarks?label=pond")[1]
        assert (answer_of_pond["of"], len(answer_of_pond["landmarks"])) == (2_100, 2_000)
        assert server.ask("GET", "/api/landmarks?label=absent")[1] == {"of": 0, "landmarks": []}


def test_a_picture_that_does_not_decode_is_no_picture(tmp_path):
    (tmp_path / "1.jpg").write_bytes(b"\xff\xd8\xff")
    assert thumbnail(tmp_path / "1.jpg") is None


def test_a_taken_port_is_said():
    with listening(0) as sock, pytest.raises(OptionError, match="port"):
        listening(sock.getsockname()[1])


def test_a_client_that_does_not_read_is_left_when_the_server_ends():
    large = Response(b"x" * (64 << 20))
    with served_in_background(lambda **_: Starlette(routes=[Route("/", lambda _: large)])) as url:
        port = int(re.search(r":(\d+)/", url)[1])
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        connection.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    with connection:
        gc.collect()  # warns of a connection that the server left open
        size = 0
        while answer := connection.recv(1 << 20):
            size += len(answer)
    assert size < 64 << 20


def test_the_command_prints_its_address_and_on_interrupt_names_its_log_and_the_next_step(tmp_path):
    folder, log = tmp_path / "clustered", tmp_path / "clustered-review-anna.jsonl"
    folder.mkdir()
    write_proposal(folder / "proposal.json", SMALL)
    command = [sys.executable, "-m", "hiertree", "labels", "review", str(folder), "--annotator", "anna"]
    with subprocess.Popen(
        [*command, "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "HIERTREE_PROGRESS": "1"},
    ) as process:
        url = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", process.stdout.readline())
        with socket.create_connection(("127.0.0.1", int(url[1])), timeout=10) as connection:
            connection.sendall(f"GET /?token={url[2]} HTTP/1.1\r\nHost: 127.0.0.1:{url[1]}\r\n\r\n".encode())
            assert b" 200 " in connection.recv(200)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    following = f"hiertree labels export {folder} --review {log} --out exported"
    assert (process.returncode, errors) == (0, f"written to {log}\nnext: {following}\n")
    assert f"{log} holds 1 events" in output  # the sample
