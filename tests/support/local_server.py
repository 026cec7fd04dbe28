"""A local page on a real server in this process, and a headless Chromium to open pages with."""

from __future__ import annotations

import http.client
import json
import shutil
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class LocalServer:
    """A server under way: the address it printed."""

    url: str

    @property
    def origin(self) -> str:
        return self.url.partition("/?")[0]

    @property
    def port(self) -> int:
        return int(self.origin.rpartition(":")[2])

    @property
    def token(self) -> str:
        return self.url.partition("token=")[2]

    def addressed(self, path: str) -> str:
        """The path with the token, as the page asks for it."""
        return f"{path}{'&' if '?' in path else '?'}token={self.token}"

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, with_token: bool = True, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """One request with the right token, host and origin unless others are given; None leaves a header out."""
        path = self.addressed(path) if with_token else path
        fields = {
            "Origin": self.origin,
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, body, {name: value for name, value in fields.items() if value is not None})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        is_json = answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(body) if is_json else body, dict(answer.getheaders())


def chromium() -> Any:
    """A headless Chromium; skips with the reason where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no chromium and chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1300,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
