"""A hub of one repository on this machine, for huggingface_hub's own client."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

REFUSED = "hf_refused"  # a token that may not write


class _Hub(BaseHTTPRequestHandler):
    """As much of the hub as a model needs: repositories of files that are committed whole and read by name."""

    files: dict[str, bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if REFUSED in self.headers.get("Authorization", ""):
            self._answer({"error": "Invalid credentials"}, status=401)
            return
        if self.path == "/api/repos/create":
            self._answer(
                {"url": "https://huggingface.co/someone/model", "id": "someone/model", "name": "someone/model"}
            )
        elif "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            entries = [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]
            self._answer({"files": entries})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self._answer({"commitUrl": "https://huggingface.co/someone/model/commit/0", "commitOid": "0" * 40})
        else:
            self._answer({}, status=200)

    def do_GET(self) -> None:
        self._read(with_body=True)

    def do_HEAD(self) -> None:
        self._read(with_body=False)

    def _read(self, *, with_body: bool) -> None:
        if "/tree/" in self.path:
            sizes = {name: len(file) for name, file in self.files.items()}
            self._answer([{"type": "file", "path": name, "size": size, "oid": name} for name, size in sizes.items()])
            return
        if self.path.startswith("/api/"):
            siblings = [{"rfilename": name} for name in self.files]
            self._answer({"id": "someone/model", "sha": "0" * 40, "siblings": siblings, "private": False})
            return
        file = self.files.get(self.path.rpartition("/")[2])
        self.send_response(404 if file is None else 200)
        for name, value in {
            "Content-Length": str(len(file or b"")),
            "ETag": f'"{hashlib.sha1(file or b"").hexdigest()}"',
            "X-Repo-Commit": "0" * 40,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body and file:
            self.wfile.write(file)

    def _answer(self, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """The files of ``someone/model``, to which huggingface_hub writes and from which it reads within the block."""
    files: dict[str, bytes] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Hub", (_Hub,), {"files": files}))
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    constants = {"ENDPOINT": address, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}
    constants["HUGGINGFACE_CO_URL_TEMPLATE"] = address + "/{repo_id}/resolve/{revision}/{filename}"
    for name, value in constants.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    yield files
    server.shutdown()
    server.server_close()
