"""The HTTP server: uvicorn on a socket of ours, in a thread with a loop of its own.

What uvicorn leaves open is bounded here: how many connections there are, from the moment they are
accepted, as a TLS handshake may never end; and how long the headers of a request may take.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from elea.errors import LinkError
from elea.session.rights import bucket_of
from elea.web.connections import Connections
from elea.web.names import COMMON_NAME
from elea.web.settings import RestSettings
from elea.web.state import State

_LOG: Final = logging.getLogger("elea.web")
_START_S: Final = 30.0
_GRACE_S: Final = 3  # for answers that are on their way when it ends
_BACKLOG_COUNT: Final = 128


class _Accepted:
    """A connection that was accepted, and of which nothing is known yet: its TLS handshake."""

    is_waiting: Final = True

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.address = bucket_of(host)
        self._sock = sock

    @property
    def is_gone(self) -> bool:
        """Whether it was closed before anything was known."""
        return self._sock.fileno() < 0

    def give_up(self) -> None:
        """Have the loop find that it ends."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """A listening socket whose connections are counted before the loop has them."""

    peers: Connections
    refused: Callable[[], None]

    def __init__(self, family: socket.AddressFamily) -> None:
        # Named as TCP, because asyncio sends without delay only on sockets that say so.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._accepted: dict[int, _Accepted] = {}  # by descriptor, until they are connections

    def accept(self) -> tuple[socket.socket, Any]:
        """As `socket.socket` does.

        Raises:
            ConnectionAbortedError: there are enough connections.
        """
        sock, address = super().accept()
        for number in [one for one, known in self._accepted.items() if known.is_gone]:
            self.forget(number)
        newcomer = _Accepted(sock, address[0])
        if not self.peers.add(newcomer):
            sock.close()
            self.refused()
            raise ConnectionAbortedError
        self._accepted[sock.fileno()] = newcomer
        return sock, address

    def forget(self, number: int) -> None:
        """Nothing has to be counted any more under a descriptor."""
        known = self._accepted.pop(number, None)
        if known is not None:
            self.peers.discard(known)


def bind(settings: RestSettings) -> Listener:
    """A socket that listens where the settings say.

    Raises:
        LinkError: it cannot, and why.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = Listener(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG_COUNT)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise LinkError(
            f"cannot serve {settings.url()}: {error.strerror}; choose another address or port in"
            " plugins/rest/http_port"
        ) from error
    return listener


class Server:
    """Serves an application until it is stopped.

    Raises:
        LinkError: it cannot listen.
        OSError: the certificate or its key cannot be read.
    """

    def __init__(self, app: ASGIApp, state: State) -> None:
        settings = state.settings
        self._state = state
        self._listener = bind(settings)
        self.port: int = self._listener.getsockname()[1]
        self._listener.peers = Connections(settings.limits)
        self._listener.refused = state.metrics.refusals.labels("connections").inc
        self._ready = threading.Event()

        class Connection(_Connection):
            shared = state
            listener = self._listener
            peers = self._listener.peers

        try:
            config = uvicorn.Config(
                app,
                http=Connection,
                ws="websockets-sansio",
                ws_max_size=settings.limits.ui_message_len,
                ws_per_message_deflate=False,
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="critical",  # what goes wrong is counted, and logged by us
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG_COUNT,
                h11_max_incomplete_event_size=settings.limits.web_header_len,
                timeout_graceful_shutdown=_GRACE_S,
                ssl_certfile=settings.tls_certificate,
                ssl_keyfile=settings.tls_private_key,
                ssl_ca_certs=settings.tls_client_ca,
                ssl_cert_reqs=ssl.CERT_NONE
                if settings.tls_client_ca is None
                else ssl.CERT_OPTIONAL,
            )
            config.load()
        except BaseException:
            self._listener.close()
            raise
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="elea-rest", daemon=True)
        self._thread.start()
        self._ready.wait(_START_S)

    def stop(self) -> None:
        """End the streams, let answers on their way go, give up the port."""
        self._state.stop()
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()
        self._state.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:  # a bug of ours: the router goes on without HTTP
            _LOG.exception("the HTTP server failed")
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        asyncio.get_running_loop().call_soon(self._ready.set)
        await self._server.serve(sockets=[self._listener])


class _Connection(H11Protocol):
    """One connection, whose headers have to come in time."""

    shared: State
    listener: Listener
    peers: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_socket = False  # it speaks WebSocket from now on
        if self.ws_protocol_class is not None:
            self.ws_protocol_class = self._socket  # type: ignore[assignment]  # it makes one

    @property
    def address(self) -> str:
        """Where its peer is, as `Connections` counts."""
        return bucket_of(self.client[0]) if self.client is not None else ""

    @property
    def is_waiting(self) -> bool:
        """Whether a whole request has yet to be received, or the next one."""
        if self._is_socket:
            return False
        answering = self.cycle is not None and not self.cycle.response_complete
        return not answering or self.cycle.more_body

    def give_up(self) -> None:
        """Make room for another connection."""
        self._refuse("connections")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(_Quiet(transport))  # type: ignore[arg-type]  # all it is used for
        name = _common_name(transport.get_extra_info("peercert"))
        if name is not None:
            self.app = _named(self.app, name)
        self.listener.forget(transport.get_extra_info("socket").fileno())
        if self.peers.add(self):
            self._watch()
        else:
            self._refuse("connections")

    def data_received(self, data: bytes) -> None:
        self._watch()
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self.peers.discard(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self.shared.metrics.refusals.labels("http").inc()
        super().send_400_response(msg)

    def _socket(self, **given: Any) -> _Socket:
        """Go on as a WebSocket, which keeps the place of this connection until it is lost."""
        self._is_socket = True
        return _Socket(lambda: self.peers.discard(self), **given)

    def _watch(self) -> None:
        """Between requests a deadline runs from the first octet on, or from the connection."""
        if self._is_socket or (self.cycle is not None and not self.cycle.response_complete):
            self._unwatch()
        elif self._deadline is None and not self.transport.is_closing():
            wait_s = self.shared.limits.web_header_ns / 1e9
            self._deadline = self.loop.call_later(wait_s, self._refuse, "http")

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, reason: str) -> None:
        self.shared.metrics.refusals.labels(reason).inc()
        self._unwatch()
        self.transport.abort()


class _Socket(WebSocketsSansIOProtocol):
    """A WebSocket that says when it is gone."""

    def __init__(self, left: Callable[[], object], **given: Any) -> None:
        super().__init__(**given)
        self._left = left

    def connection_lost(self, exc: Exception | None) -> None:
        self._left()
        super().connection_lost(exc)


class _Quiet:
    """A transport that is not written to once it is lost.

    asyncio would log a line for each write until the loop has told the connection.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    """The common name in a certificate that was verified."""
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None


def _named(app: ASGIApp, common_name: str) -> ASGIApp:
    """An application that is told by whose certificate it is asked."""

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, COMMON_NAME: common_name}, receive, send)

    return told
