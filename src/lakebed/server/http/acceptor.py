"""`Acceptor`: takes connections from a socket that other workers listen on too.

One at a time, and whoever has the fewest goes first: a worker with more than another
waits a moment, and takes what is still there afterwards, because the other may be busy.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from lakebed.limits import HTTP_TLS_SECONDS
from lakebed.server.http.app import App
from lakebed.server.http.connections import Connections
from lakebed.server.http.protocol import Connection
from lakebed.telemetry.log import get_logger

# Longer than an idle worker takes to wake up, and not to be noticed beside a handshake.
_COURTESY_SECONDS: Final = 0.001
# Without a free descriptor the same connection would be offered again and again.
_NO_DESCRIPTOR_SECONDS: Final = 0.5
# A client that does not answer our goodbye is not waited for.
_TLS_GOODBYE_SECONDS: Final = 2.0

log = get_logger(__name__)


class Acceptor:
    """Lets `app` answer whoever connects, from `start` to `stop`."""

    def __init__(
        self,
        listening: socket.socket,
        app: App,
        connections: Connections,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        listening.settimeout(0)
        self._listening = listening
        self._app = app
        self._connections = connections
        self._tls = tls
        self._stopped = False
        self._opening: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        if not self._stopped:
            self._connections.loop.add_reader(self._listening.fileno(), self._offered)

    def stop(self) -> None:
        """Listen no more."""
        self._stopped = True
        self._connections.loop.remove_reader(self._listening.fileno())
        self._listening.close()

    def _offered(self) -> None:
        if self._connections.balance.is_ours():
            self._take()
        else:
            self._pause(_COURTESY_SECONDS, self._take_what_is_left)

    def _take_what_is_left(self) -> None:
        if not self._stopped:
            self.start()
            self._take()

    def _take(self) -> None:
        """Take one connection; the loop offers again if there are more."""
        try:
            client, _ = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # Somebody else took it, or it is gone.
        except OSError as error:
            log.warning("cannot_accept", error=str(error))
            self._pause(_NO_DESCRIPTOR_SECONDS, self.start)
            return
        if self._tls is not None and self._connections.is_full:
            client.close()  # To say why would take a handshake.
            return
        client.settimeout(0)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.opening += 1
        opening = self._connections.loop.create_task(self._open(client))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        loop = self._connections.loop
        loop.remove_reader(self._listening.fileno())
        loop.call_later(seconds, then)

    async def _open(self, client: socket.socket) -> None:
        try:
            await self._connections.loop.connect_accepted_socket(
                lambda: Connection(self._app, self._connections),
                client,
                ssl=self._tls,
                ssl_handshake_timeout=HTTP_TLS_SECONDS if self._tls else None,
                ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS if self._tls else None,
            )
        except OSError as error:
            # Not TLS, or not one that we speak, or gone: nobody to tell.
            log.debug("no_connection", error=str(error))
            client.close()
        finally:
            self._connections.opening -= 1
