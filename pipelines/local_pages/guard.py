"""Who may talk to the server: the page that was opened with the token, in this machine's browser, and nobody else.

A web site elsewhere can make a browser send requests to 127.0.0.1. It is kept out four times: by the Host header (its
own name, bent to 127.0.0.1), by a cookie that browsers send for no other site, by the Origin of what changes anything,
and by a policy under which the page runs no script, shows no image and is framed by nothing but its own.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")


class Guard:
    """Refuses requests before the application sees them, and adds headers to what it answers.

    Args:
        app: the application.
        token: the secret of the address that is opened first.
        port: the server's, on 127.0.0.1.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._cookie = f"hiertree-{port}"  # cookies do not tell ports apart
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let it pass."""
        if scope["type"] != "http":
            raise RuntimeError(f"a connection of type {scope['type']!r}, expected http")
        answer = self._answer(scope, Headers(scope=scope))
        await (answer or self._app)(scope, receive, _with_headers(send))

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """A refusal, the cookie for the right token, or None to let it pass."""
        host = headers.get("host", "")
        if host not in self._hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 only.", 421)
        if scope["method"] in UNSAFE and headers.get("origin") != f"http://{host}":
            return PlainTextResponse("Another site's page asked.", 403)
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and self._is_token(token):
            return self._welcome()
        if not self._is_token(cookie_parser(headers.get("cookie", "")).get(self._cookie, "")):
            return PlainTextResponse("Open the address that the terminal printed: it holds the token.", 403)
        return None

    def _welcome(self) -> Response:
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return answer

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
