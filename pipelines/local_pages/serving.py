"""The server of a local page: on 127.0.0.1 alone, until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn
from starlette.types import ASGIApp

from hiertree.errors import OptionError

LOOPBACK = "127.0.0.1"
MakeApp = Callable[..., ASGIApp]  # given the keywords token and port, once the port is known


def serve_until_interrupted(
    make_app: MakeApp, *, announce: Callable[[str], None], port: int = 0, open_browser: bool = True
) -> None:
    """Serve an application on 127.0.0.1 until Ctrl-C.

    Args:
        make_app: makes it.
        announce: is given the address, before the first request is answered.
        port: 0 for any that is free.
        open_browser: whether to open the page.

    Raises:
        OptionError: the port is taken.
    """
    with listening(port) as listener:
        server, url = _server(make_app, listener)
        announce(url)
        if open_browser:
            webbrowser.open(url)
        with suppress(KeyboardInterrupt):  # uvicorn shuts down, then passes it on
            server.run(sockets=[listener])


@contextmanager
def served_in_background(make_app: MakeApp) -> Iterator[str]:
    """The address of an application that is served until the block ends."""
    with listening(0) as listener:
        server, url = _server(make_app, listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join()


class _Server(uvicorn.Server):
    """Leaves no connection open: neither one accepted while it ended nor one whose client does not read."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in self.server_state.connections:
            connection.transport.abort()
        await asyncio.sleep(0)  # in which the event loop closes them


def _server(make_app: MakeApp, listener: socket.socket) -> tuple[uvicorn.Server, str]:
    """A quiet server that speaks HTTP alone and ends within two seconds, and the address with its token."""
    token, port = secrets.token_urlsafe(24), listener.getsockname()[1]
    settings = uvicorn.Config(
        make_app(token=token, port=port),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    return _Server(settings), f"http://{LOOPBACK}:{port}/?token={token}"


def listening(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1.

    Raises:
        OptionError: the port is taken, or not ours to take.
    """
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise OptionError(f"port {port}: {error.strerror}", expected="a free one", remedy="leave out --port") from None
