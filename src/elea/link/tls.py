"""tls: TCP with the standard library's TLS, one-sided or mutual. behaviour.md 1.18.

The TLS machine works on memory; this module moves octets between it and the socket. It may be used
by one thread at a time, so a link has a lock: one thread reads while others write.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypedDict, cast

from elea.errors import LinkError
from elea.link.address import Address, resolve_ip
from elea.link.base import BUFFERED, READ, WRITE, Buffer, Link, LinkInfo, PendingLink
from elea.link.failure import link_error
from elea.link.settings import LinkSettings, TlsSettings
from elea.link.stream import Outbox, drop_arrived, leave, shut
from elea.link.tcp import TcpListener, dial, tcp_info
from elea.link.tls_context import client_context, own_expiry_s, server_context
from elea.locator import Endpoint
from elea.records import replace

_CHUNK_LEN: Final = 65_536  # four records; taken from the socket, or given to it, at once

_ADVICE: Final = {
    "CERTIFICATE_VERIFY_FAILED": "check root_ca_certificate, the name and the dates",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": (
        "the other side wants a certificate; set enable_mtls, connect_certificate and"
        " connect_private_key"
    ),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "enable_mtls is set here; the other side needs connect_certificate and connect_private_key"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust our certificate's authority",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side does not accept our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side does not accept our certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "no cipher or certificate in common",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other side wants TLS 1.2: #tls_min_version=1.2",
    "UNSUPPORTED_PROTOCOL": "the other side speaks TLS 1.2 only: #tls_min_version=1.2",
    "WRONG_VERSION_NUMBER": "the other side does not speak TLS; is its endpoint tcp/ ?",
    "HTTP_REQUEST": "the other side speaks HTTP",
}


class _Certificate(TypedDict, total=False):
    """What `getpeercert` gives, as far as it is used here."""

    subject: tuple[tuple[tuple[str, str], ...], ...]
    subjectAltName: tuple[tuple[str, str], ...]
    notAfter: str


class Tls:
    """The scheme `tls`. With `enable_mtls` both sides show a certificate."""

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        return resolve_ip(endpoint, listening=listening)

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        tls = settings.tls.for_endpoint(endpoint)
        context = client_context(tls)  # read anew each time, so that new files are taken
        expires_s = own_expiry_s(tls, listening=False)
        host = endpoint.host_port()[0].partition("%")[0]

        def handshake(sock: socket.socket) -> PendingLink:
            return TlsHandshake(sock, context, endpoint, tls, address.host, host, expires_s)

        return dial(endpoint, address, settings, handshake)

    def listen(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> TlsListener:
        return TlsListener(endpoint, address, settings)


class TlsListener(TcpListener):
    """A TCP listener that shows a certificate."""

    def __init__(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> None:
        self._endpoint = endpoint
        self.reload(settings)
        super().__init__(endpoint, address, settings)

    def welcome(self, sock: socket.socket, source: str) -> PendingLink:
        return TlsHandshake(
            sock, self._context, self._endpoint, self._tls, source, None, self._expires_s
        )

    def reload(self, settings: LinkSettings) -> None:
        tls = settings.tls.for_endpoint(self._endpoint)
        context = server_context(tls)
        self._expires_s = own_expiry_s(tls, listening=True)
        self._tls, self._context = tls, context


class TlsHandshake:
    """A PendingLink: the handshake over a connected socket.

    Args:
        server_name: whom the connecting side expects; None on the accepting side.
        expires_s: when our own certificate ends, if the link is to end with it.
    """

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        endpoint: Endpoint,
        settings: TlsSettings,
        source: str,
        server_name: str | None,
        expires_s: int | None,
    ) -> None:
        self.source = source
        self._accepts = server_name is None
        self._expires_s = expires_s
        self._socket = sock
        self._endpoint = endpoint
        self._settings = settings
        self._machine = _Machine(sock, context, server_name)

    def fileno(self) -> int:
        return self._socket.fileno()

    def wants(self) -> int:
        return READ | WRITE if self._machine.unsent else READ

    def step(self) -> Link | None:
        doing = f"TLS handshake with {self.source} for {self._endpoint.locator()}"
        try:
            if not self._machine.shake_hands():
                return None
            info = _info(
                self._endpoint, self._settings, self._socket, self._machine, self._expires_s
            )
            if self._accepts:
                _check_allowed(info, self._settings)
            return TlsLink(self._socket, self._machine, info)
        except ssl.SSLError as error:
            raise _tls_error(doing, error) from error
        except EOFError:
            raise LinkError(
                f"{doing}: the other side closed the connection; its log tells why"
            ) from None
        except OSError as error:
            raise link_error(doing, error) from error

    def close(self) -> None:
        self._socket.close()


class TlsLink:
    """A Link over a socket whose handshake is done."""

    __slots__ = ("_lock", "_machine", "_socket", "info")

    def __init__(self, sock: socket.socket, machine: _Machine, info: LinkInfo) -> None:
        self.info = info
        self._socket = sock
        self._machine = machine
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def wants(self, writing: bool) -> int:
        flags = READ | WRITE if writing or self._machine.unsent else READ
        return flags | BUFFERED if self._machine.readable else flags

    def read(self, limit: int) -> bytes | None:
        try:
            # Outside the lock: only one thread reads, and writers need not wait for the kernel.
            fresh = None if self._machine.readable else self._receive()
            with self._lock:
                return self._machine.read(limit, fresh)
        except ssl.SSLError as error:
            raise _tls_error(f"read from {self.info.remote}", error) from error
        except OSError as error:
            raise link_error(f"read from {self.info.remote}", error) from error

    def write(self, buffers: Sequence[Buffer]) -> int:
        try:
            with self._lock:
                return self._machine.write(buffers)
        except ssl.SSLError as error:
            raise _tls_error(f"write to {self.info.remote}", error) from error
        except OSError as error:
            raise link_error(f"write to {self.info.remote}", error) from error

    def part(self) -> bool:
        with self._lock:
            self._machine.say_goodbye()
        return shut(self._socket)

    def is_over(self) -> bool:
        return drop_arrived(self._socket)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            with self._lock:
                self._machine.say_goodbye()
            leave(self._socket)

    def abort(self) -> None:
        self._socket.close()

    def _receive(self) -> bytes | None:
        try:
            return self._socket.recv(_CHUNK_LEN)
        except (BlockingIOError, InterruptedError):
            return None


class _Machine:
    """TLS on memory, and what it has not got rid of."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, server_name: str | None
    ) -> None:
        self._socket = sock
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._in, self._out, server_side=server_name is None, server_hostname=server_name
        )
        self._outbox = Outbox(sock.send)
        self.readable = False  # whether octets may wait inside, of which no descriptor tells

    @property
    def unsent(self) -> bool:
        """Whether records wait for the socket."""
        return bool(self._outbox.unsent)

    def shake_hands(self) -> bool:
        """Whether it is done.

        Raises:
            EOFError: if the other side went away.
        """
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
            except ssl.SSLError:
                self._flush_quietly()  # the alert tells the other side why
                raise
            else:
                self.flush()
                self.readable = self._in.pending > 0
                return True
            try:
                data = self._socket.recv(_CHUNK_LEN)
            except (BlockingIOError, InterruptedError):
                return False
            if not data:
                raise EOFError
            self._in.write(data)

    def read(self, limit: int, fresh: bytes | None) -> bytes | None:
        """What is decrypted, of what was there and of fresh octets; b"" at the end."""
        if fresh is not None:
            if fresh:
                self._in.write(fresh)
            else:
                self._in.write_eof()
        pieces: list[bytes] = []
        left = limit
        self.readable = False
        while left > 0:
            try:
                piece = self.tls.read(left)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLEOFError:
                piece = b""  # gone without goodbye; Zenoh's own CLOSE tells whether it was meant
            if not piece:
                self.readable = bool(pieces)  # the end is told by the next read
                return b"".join(pieces)
            pieces.append(piece)
            left -= len(piece)
        else:
            self.readable = True
        if self._out.pending:
            self.flush()  # an answer to a key update
        return b"".join(pieces) if pieces else None

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt and send, unless records wait from the last time."""
        if self.unsent:
            self.flush()
            if self.unsent:
                return 0
        if not buffers:
            return 0
        # Small buffers share a record. Into memory all is taken, one record at a time.
        data = memoryview(buffers[0] if len(buffers) == 1 else b"".join(buffers))[:_CHUNK_LEN]
        taken = 0
        while taken < len(data):
            taken += self.tls.write(data[taken:])
        self.flush()
        return taken

    def flush(self) -> None:
        """Give the socket what it takes."""
        self._outbox.send(self._out.read())

    def say_goodbye(self) -> None:
        with suppress(OSError):  # an ssl.SSLError too: the other side's goodbye is not waited for
            self.tls.unwrap()
        self._flush_quietly()

    def _flush_quietly(self) -> None:
        with suppress(OSError):
            self.flush()


def _info(
    endpoint: Endpoint,
    settings: TlsSettings,
    sock: socket.socket,
    machine: _Machine,
    own_expires_s: int | None,
) -> LinkInfo:
    certificate = cast(_Certificate, machine.tls.getpeercert() or {})
    subject = {name: value for part in certificate.get("subject", ()) for name, value in part}
    ends = [] if own_expires_s is None else [own_expires_s]
    if settings.close_link_on_expiration and "notAfter" in certificate:
        ends.append(int(ssl.cert_time_to_seconds(certificate["notAfter"])))
    return replace(
        tcp_info(endpoint, sock),
        peer_common_name=subject.get("commonName"),
        peer_names=tuple(value for _, value in certificate.get("subjectAltName", ())),
        expires_s=min(ends, default=None),
    )


def _check_allowed(info: LinkInfo, settings: TlsSettings) -> None:
    """Whether whoever connects is on the list, if there is one."""
    allowed = settings.allowed_names
    names = {*info.peer_names, info.peer_common_name}
    if allowed is not None and not names & allowed:
        shown = info.peer_common_name or ", ".join(info.peer_names) or "no name"
        raise LinkError(
            f"TLS handshake with {info.remote}: its certificate is for {shown!a},"
            " which elea/tls/allowed_names does not list"
        )


def _tls_error(doing: str, error: ssl.SSLError) -> LinkError:
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message
    else:
        said = reason.replace("_", " ").lower()
    advice = _ADVICE.get(reason)
    return LinkError(f"{doing}: {said}: {advice}" if advice else f"{doing}: {said}")
