"""Connections that can be cut: no time limit of requests ends headers that drip in, or 100 Continue without end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from requests.adapters import HTTPAdapter
from typing_extensions import override
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection


class TimedAdapter(HTTPAdapter):
    """Sends requests, each within a time limit from its first byte to the last of its answer."""

    def __init__(self) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._pools = _pools(self._sockets)
        super().__init__()

    @override
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    @override
    def proxy_manager_for(self, *arguments: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*arguments, **options)
        manager.pool_classes_by_scheme = self._pools
        return manager

    @contextmanager
    def limit(self, seconds: float) -> Iterator[threading.Event]:
        """Cut the connections in so many seconds, unless the block has ended; yields the event of that."""
        is_cut = threading.Event()
        timer = threading.Timer(seconds, self._cut, (is_cut,))
        timer.daemon = True
        timer.start()
        try:
            yield is_cut
        finally:
            timer.cancel()

    def _cut(self, is_cut: threading.Event) -> None:
        is_cut.set()
        for connected in list(self._sockets):
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads


def _pools(sockets: WeakSet[socket.socket]) -> dict[str, Any]:
    """Pools by scheme whose connections add their sockets to a set."""

    class Plain(HTTPConnection):
        @override
        def connect(self) -> None:
            super().connect()
            sockets.add(self.sock)

    class Secure(HTTPSConnection):
        @override
        def connect(self) -> None:
            super().connect()
            sockets.add(self.sock)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
