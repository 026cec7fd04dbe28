"""Fetching from a server on this machine that breaks off, forgets ranges, is busy or sends something else."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import traceback
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from printed_commands import status_of

from hiertree import datasets
from hiertree.datasets import Benchmark, Counts, Download, download
from hiertree.datasets.resumable_download import unpack
from hiertree.errors import MissingResourceError, OptionError

IMAGE = bytes(range(256)) * 4000  # a megabyte


def archive():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=0) as tar:
        member = tarfile.TarInfo("birds/images/one.jpg")
        member.size = len(IMAGE)
        tar.addfile(member, io.BytesIO(IMAGE))
    return packed.getvalue()


ARCHIVE = archive()
MD5 = hashlib.md5(ARCHIVE).hexdigest()


@dataclass
class Site:
    """A server of one file, and what it does wrong."""

    url: str = ""
    packed: bytes = ARCHIVE
    breaks_after: list[int] = field(default_factory=list)  # bytes sent in each of the next answers before it hangs up
    statuses: list[int] = field(default_factory=list)  # of the next answers, before any that works
    knows_ranges: bool = True
    asked: list[str | None] = field(default_factory=list)  # the Range of every request


@pytest.fixture
def site():
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            served.asked.append(self.headers.get("Range"))
            if served.statuses:
                self.send_error(served.statuses.pop(0))
                return
            total, start = len(served.packed), 0
            if served.knows_ranges and self.headers.get("Range"):
                start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= total:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{total}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            self.send_header("Content-Length", str(total - start))
            self.end_headers()
            size = served.breaks_after.pop(0) if served.breaks_after else total
            with suppress(ConnectionError):  # a client that stopped listening
                self.wfile.write(served.packed[start : start + size])

        def log_message(self, *arguments):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        served.url = f"http://127.0.0.1:{server.server_port}"
        yield served
        server.shutdown()
        thread.join()


def card(site, *, checksum=MD5):
    return Benchmark(
        name="birds", title="Birds", levels=("species",), splits={"train": Counts()}, license="none", url="",
        steps=(), downloads=(Download(url=f"{site.url}/birds.tgz?download=1", md5=checksum),),
    )  # fmt: skip


def waits():
    waited = []
    return waited, waited.append


def test_a_whole_file_is_unpacked_and_never_fetched_again(site, tmp_path):
    assert download(card(site), tmp_path) == [(tmp_path / "birds.tgz", "fetched")]
    assert (tmp_path / "birds/images/one.jpg").read_bytes() == IMAGE
    assert sorted(path.name for path in tmp_path.iterdir()) == [".birds.tgz.unpacked", "birds", "birds.tgz"]
    (tmp_path / "birds.tgz").unlink()  # to save room
    assert download(card(site), tmp_path) == [(tmp_path / "birds.tgz", "unpacked")]
    (tmp_path / ".birds.tgz.unpacked").unlink()
    (tmp_path / "birds.tgz").write_bytes(ARCHIVE)
    assert download(card(site), tmp_path) == [(tmp_path / "birds.tgz", "there")]
    assert len(site.asked) == 1


def test_the_command_says_what_it_fetched_and_what_is_left_to_do(site, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(datasets, "describe", lambda name: replace(card(site), by_hand=("get the splits",)))
    for expected in (
        "birds.tgz: fetched, its MD5 as published",
        "birds.tgz, unpacked earlier; to fetch it again, remove",
    ):
        assert status_of("datasets", "download", "birds", tmp_path) == 0
        printed = capsys.readouterr().out
        assert expected in printed
        assert "left to do by hand:\n1. get the splits\n" in printed
        assert f"hiertree datasets check birds {tmp_path}" in printed


def test_every_break_goes_on_at_the_byte_where_it_broke(site, tmp_path):
    site.breaks_after = [100_000, 0, 300_000, 1]
    site.statuses = [503]
    waited, sleep = waits()
    download(card(site), tmp_path, sleep=sleep)
    starts = [0, 0, 100_000, 100_000, 400_000, 400_001]
    assert site.asked == [f"bytes={start}-" if start else None for start in starts]
    assert waited == [1.0] * 5
    assert (tmp_path / "birds.tgz").read_bytes() == ARCHIVE


def test_a_later_call_goes_on_with_the_part_of_an_earlier_one(site, tmp_path):
    site.breaks_after = [250_000, *[0] * 20]
    waited, sleep = waits()
    with pytest.raises(MissingResourceError, match="the bytes so far are kept"):
        download(card(site), tmp_path, sleep=sleep)
    assert waited == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert not (tmp_path / "birds.tgz").exists()
    site.breaks_after, site.asked = [], []
    download(card(site), tmp_path)
    assert site.asked == ["bytes=250000-"]


@pytest.mark.parametrize("left", [ARCHIVE, ARCHIVE[:7], ARCHIVE + b"more", b"other" * 9], ids=len)
def test_whatever_part_is_left_the_file_becomes_the_published_one(site, tmp_path, left):
    site.knows_ranges = len(left) != 7
    (tmp_path / "birds.tgz.part").write_bytes(left)
    _, sleep = waits()
    if left.startswith(b"other"):  # bytes of another file before the right ones
        with pytest.raises(MissingResourceError, match="MD5"):
            download(card(site), tmp_path, sleep=sleep)
    download(card(site), tmp_path, sleep=sleep)
    assert (tmp_path / "birds.tgz").read_bytes() == ARCHIVE


def test_another_file_than_the_published_one_never_gets_its_name(site, tmp_path):
    with pytest.raises(MissingResourceError, match=rf"MD5 {MD5}.*the published 0000"):
        download(card(site, checksum="0" * 32), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [404, 403])
def test_a_refusal_is_final(site, tmp_path, status):
    site.statuses = [status] * 3
    with pytest.raises(MissingResourceError, match=f"status {status}"):
        download(card(site), tmp_path)
    assert len(site.asked) == 1


def test_a_file_too_large_for_the_disk_is_refused_before_it_is_fetched(site, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    with pytest.raises(MissingResourceError, match="1,000 bytes free"):
        download(card(site), tmp_path)
    (tmp_path / "birds.tgz").write_bytes(ARCHIVE)
    with pytest.raises(MissingResourceError, match="1,000 bytes free"):
        unpack(tmp_path / "birds.tgz", tmp_path)


def test_a_mirror_serves_the_same_names_and_must_be_http(site, tmp_path):
    elsewhere = replace(card(site), downloads=(Download(url="http://127.0.0.1:9/x/birds.tgz", md5=MD5),))
    download(elsewhere, tmp_path, mirror=f"{site.url}/copies/")
    assert (tmp_path / "birds.tgz").read_bytes() == ARCHIVE
    with pytest.raises(OptionError, match="http:// or https://"):
        download(elsewhere, tmp_path / "other", mirror="file:///etc")


@pytest.mark.parametrize("kind", ["tar", "zip", "link", "damaged"])
def test_nothing_of_an_archive_leaves_its_folder(tmp_path, kind):
    archive, folder = tmp_path / "archive", tmp_path / "inside"
    folder.mkdir()
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as archive_file:
            archive_file.writestr("../escaped.txt", "x")
        unpack(archive, folder)  # zipfile takes the dots away
        assert (folder / "escaped.txt").is_file()
        assert not (tmp_path / "escaped.txt").exists()
        return
    with tarfile.open(archive, "w") as archive_file:
        member = tarfile.TarInfo("link" if kind == "link" else "../escaped.txt")
        if kind == "link":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc"
        archive_file.addfile(member)
    if kind == "damaged":
        archive.write_bytes(b"\x1f\x8b damaged")
    with pytest.raises(MissingResourceError, match=r"archive cannot be read .*expected a complete archive"):
        unpack(archive, folder)
    assert list(folder.iterdir()) == []


def test_unpacking_again_joins_what_is_there(tmp_path):
    (tmp_path / "birds/images").mkdir(parents=True)
    (tmp_path / "birds/images/own.txt").write_text("kept")
    (tmp_path / "birds.tgz").write_bytes(ARCHIVE)
    unpack(tmp_path / "birds.tgz", tmp_path)
    assert sorted(path.name for path in (tmp_path / "birds/images").iterdir()) == ["one.jpg", "own.txt"]


def test_only_published_checksums_and_https_addresses_are_on_the_cards():
    for name in datasets.available():
        for file in datasets.describe(name).downloads:
            assert file.url.startswith("https://")
            assert len(file.md5) == 32
            assert "?" not in file.name


def test_no_message_shows_the_password_of_a_mirror(site, tmp_path, capsys):
    mirror = site.url.replace("://", "://user:s3cr3t@")
    site.statuses = [404]
    with pytest.raises(MissingResourceError, match=r"://\*\*\*@.*status 404") as raised:
        download(card(site), tmp_path, mirror=mirror, sleep=waits()[1])
    assert "s3cr3t" not in "".join(traceback.format_exception(raised.value))
    with pytest.raises(OptionError, match=r"ftp://\*\*\*@") as refused:
        download(card(site), tmp_path, mirror="ftp://user:s3cr3t@example.org")
    assert "s3cr3t" not in f"{refused.value}{capsys.readouterr()}"
