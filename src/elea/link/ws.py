"""ws: WebSocket over TCP. One binary message is one batch; there is no length prefix. wire.md 3.1.

The `websockets` package (extra `ws`) has the protocol; this module moves octets between it and the
socket. As in `tls`, a lock lets one thread read while others write.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Origin
from websockets.uri import parse_uri

from elea.errors import LinkError
from elea.limits import BATCH_LEN_MAX
from elea.link.address import Address, join_host, resolve_ip
from elea.link.base import BUFFERED, READ, WRITE, Buffer, Link, LinkInfo, PendingLink
from elea.link.failure import link_error
from elea.link.settings import LinkSettings, text_option
from elea.link.stream import Outbox, drop_arrived, leave, shut
from elea.link.tcp import TcpListener, dial, tcp_info
from elea.locator import Endpoint
from elea.records import replace

_LOG: Final = logging.getLogger("elea.link.ws")
_LOG.setLevel(logging.WARNING)  # the package tells of every connection otherwise
_CHUNK_LEN: Final = 65_536


class WebSocket:
    """The scheme `ws`.

    Web pages may not connect, since any page a person visits could: a browser sends the page's
    origin, and a listener lets in only those of its option, as `#origins=https://a.org,https://b.org`.
    """

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        return resolve_ip(endpoint, listening=listening)

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        host, port = endpoint.host_port()
        uri = parse_uri(f"ws://{join_host(host.partition('%')[0], port)}/")

        def handshake(sock: socket.socket) -> PendingLink:
            protocol = ClientProtocol(uri, max_size=BATCH_LEN_MAX, logger=_LOG)
            protocol.send_request(protocol.connect())
            return WsHandshake(sock, protocol, endpoint, address.host)

        return dial(endpoint, address, settings, handshake)

    def listen(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> WsListener:
        return WsListener(endpoint, address, settings)


class WsListener(TcpListener):
    """A TCP listener that answers HTTP upgrades."""

    def welcome(self, sock: socket.socket, source: str) -> PendingLink:
        listed = text_option(self._endpoint, "origins")
        origins = [Origin(one.strip()) for one in listed.split(",")] if listed else []
        protocol = ServerProtocol(origins=[None, *origins], max_size=BATCH_LEN_MAX, logger=_LOG)
        return WsHandshake(sock, protocol, self._endpoint, source)


class WsHandshake:
    """A PendingLink: the HTTP upgrade over a connected socket, on either side."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: ClientProtocol | ServerProtocol,
        endpoint: Endpoint,
        source: str,
    ) -> None:
        self.source = source
        self._socket = sock
        self._protocol = protocol
        self._endpoint = endpoint
        self._outbox = Outbox(sock.send)

    def fileno(self) -> int:
        return self._socket.fileno()

    def wants(self) -> int:
        return READ | WRITE if self._outbox.unsent else READ

    def step(self) -> Link | None:
        doing = f"WebSocket handshake with {self.source} for {self._endpoint.locator()}"
        try:
            done = self._shake_hands(doing)
            if not done:
                return None
            info = replace(
                tcp_info(self._endpoint, self._socket), stream=False, batch_len_max=BATCH_LEN_MAX
            )
        except LinkError:
            raise
        except OSError as error:
            raise link_error(doing, error) from error
        return WsLink(self._socket, self._protocol, self._outbox, info)

    def close(self) -> None:
        self._socket.close()

    def _shake_hands(self, doing: str) -> bool:
        self._pass_on()
        while self._protocol.state is State.CONNECTING:
            try:
                data = self._socket.recv(_CHUNK_LEN)
            except (BlockingIOError, InterruptedError):
                return False
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            if isinstance(self._protocol, ServerProtocol):
                for event in self._protocol.events_received():
                    if isinstance(event, Request):
                        self._protocol.send_response(self._protocol.accept(event))
            self._pass_on()
            if self._protocol.handshake_exc is not None:
                raise _refused(doing, self._protocol.handshake_exc)
            if not data:
                raise LinkError(f"{doing}: the other side closed the connection; is it a ws/ one?")
        return True

    def _pass_on(self) -> None:
        self._outbox.send(b"".join(self._protocol.data_to_send()))


class WsLink:
    """A Link over a socket whose upgrade is done."""

    __slots__ = (
        "_failure",
        "_inbox",
        "_lock",
        "_outbox",
        "_partial",
        "_protocol",
        "_socket",
        "info",
    )

    def __init__(
        self,
        sock: socket.socket,
        protocol: ClientProtocol | ServerProtocol,
        outbox: Outbox,
        info: LinkInfo,
    ) -> None:
        self.info = info
        self._socket = sock
        self._protocol = protocol
        self._outbox = outbox
        self._lock = threading.Lock()
        self._inbox: deque[bytes] = deque()
        self._partial: list[bytes] = []  # frames of a message whose end has not come
        self._failure: str | None = None
        self._sort_events()  # frames that came with the answer to the upgrade

    def fileno(self) -> int:
        return self._socket.fileno()

    def wants(self, writing: bool) -> int:
        flags = READ | WRITE if writing or self._outbox.unsent else READ
        return flags | BUFFERED if self._inbox else flags

    def read(self, limit: int) -> bytes | None:
        if self._inbox:
            return self._inbox.popleft()
        try:
            with self._lock:
                if self._protocol.state is not State.OPEN:
                    return self._end()
            data = self._receive()
            if data is None:
                return None
            with self._lock:
                self._feed(data)
                if self._inbox:
                    return self._inbox.popleft()
                return None if self._protocol.state is State.OPEN else self._end()
        except LinkError:
            raise
        except OSError as error:
            raise link_error(f"read from {self.info.remote}", error) from error

    def write(self, buffers: Sequence[Buffer]) -> int:
        try:
            with self._lock:
                if self._outbox.unsent:
                    self._outbox.send()
                    if self._outbox.unsent:
                        return 0
                taken = 0
                for buffer in buffers:
                    if taken >= _CHUNK_LEN:
                        break
                    self._protocol.send_binary(buffer)
                    taken += len(buffer)
                self._pass_on()
                return taken
        except WebSocketException as error:
            raise LinkError(f"write to {self.info.remote}: {error}") from error
        except OSError as error:
            raise link_error(f"write to {self.info.remote}", error) from error

    def part(self) -> bool:
        self._say_goodbye()
        return shut(self._socket)

    def is_over(self) -> bool:
        return drop_arrived(self._socket)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._say_goodbye()
            leave(self._socket)

    def abort(self) -> None:
        self._socket.close()

    def _say_goodbye(self) -> None:
        with self._lock, suppress(OSError):
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._pass_on()

    def _receive(self) -> bytes | None:
        try:
            return self._socket.recv(_CHUNK_LEN)
        except (BlockingIOError, InterruptedError):
            return None

    def _feed(self, data: bytes) -> None:
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        self._sort_events()
        self._pass_on()

    def _sort_events(self) -> None:
        for frame in self._protocol.events_received():
            if not isinstance(frame, Frame):
                continue  # the answer to our own request
            if frame.opcode is Opcode.TEXT:
                self._failure = "a text message came; Zenoh uses binary ones"
                self._protocol.fail(CloseCode.UNSUPPORTED_DATA, "binary messages only")
                return
            if frame.opcode in (Opcode.BINARY, Opcode.CONT):
                self._partial.append(bytes(frame.data))
                if frame.fin:
                    message = b"".join(self._partial)
                    self._partial.clear()
                    if message:  # one without octets is a batch that means nothing
                        self._inbox.append(message)

    def _end(self) -> bytes:
        """The end of the conversation, or the reason for it.

        Raises:
            LinkError: if the other side broke the rules.
        """
        reason = self._protocol.parser_exc
        if self._failure is None and (reason is None or isinstance(reason, EOFError)):
            return b""
        raise LinkError(f"read from {self.info.remote}: {self._failure or reason}")

    def _pass_on(self) -> None:
        # Its b"" asks for a half-close; the whole link is closed right after.
        self._outbox.send(b"".join(self._protocol.data_to_send()))


def _refused(doing: str, error: Exception) -> LinkError:
    if isinstance(error, InvalidStatus):
        said = f"answered with HTTP status {error.response.status_code}"
    else:
        said = str(error)
    return LinkError(f"{doing}: {said}: is the other endpoint a ws/ one?")
