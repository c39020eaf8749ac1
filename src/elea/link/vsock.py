"""vsock: stream sockets between a virtual machine and its host. behaviour.md 1.1.

The address is `CID:PORT`, in numbers or by the names that Eclipse has for them.
"""

from __future__ import annotations

import errno
import socket
from typing import Final

from elea.errors import LinkError, LocatorError
from elea.limits import BATCH_LEN_MAX
from elea.link.address import Address
from elea.link.base import LinkInfo, PendingLink
from elea.link.failure import link_error
from elea.link.settings import LinkSettings, flag_option, priorities_option
from elea.link.stream import Connecting, PlainListener, Ready, StreamLink
from elea.locator import Endpoint, Locator

_NAME: Final = "vsock"
_FAMILY: Final[int | None] = getattr(socket, "AF_VSOCK", None)
_BACKLOG_COUNT: Final = 1_024
_ANY: Final = 0xFFFF_FFFF
_CIDS: Final = {
    "VMADDR_CID_ANY": _ANY,
    "VMADDR_CID_HYPERVISOR": 0,
    "VMADDR_CID_LOCAL": 1,
    "VMADDR_CID_HOST": 2,
    "-1": _ANY,
}
_PORTS: Final = {"VMADDR_PORT_ANY": _ANY, "-1": _ANY}
_NO_WAY: Final = (
    "no way to that CID; 2 is the host of a virtual machine, 1 this machine if the module"
    " vsock_loopback is loaded, and a host reaches its machines by vhost_vsock"
)
_NOBODY: Final = "nothing listens there; start the other node, or check CID and port"
_ADVICE: Final = {
    errno.ENODEV: _NO_WAY,
    errno.ENETUNREACH: _NO_WAY,
    errno.EADDRNOTAVAIL: f"it is no CID of this machine; VMADDR_CID_ANY is all. {_NO_WAY}",
    errno.ECONNRESET: _NOBODY,
    errno.ETIMEDOUT: f"{_NOBODY}. {_NO_WAY}",
}


class Vsock:
    """The scheme `vsock`."""

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        cid, port = parse_vsock(endpoint)
        if not listening and _ANY in (cid, port):
            raise LinkError(f"connect to {endpoint.locator()}: expected one CID and one port")
        return [Address(_family(endpoint), f"{cid}:{port}")]

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        remote = address.locator(_NAME)
        sock = _open(address, f"connect to {remote}")

        def connected(sock: socket.socket) -> PendingLink:
            info = _info(endpoint, _locator(sock.getsockname()), remote)
            return Ready(StreamLink(sock, info), _source(parse_vsock(endpoint)))

        return Connecting(
            sock,
            parse_vsock(endpoint),
            remote,
            _source(parse_vsock(endpoint)),
            connected,
            of_scheme=_ADVICE,
        )

    def listen(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> VsockListener:
        return VsockListener(endpoint, address)


class VsockListener(PlainListener):
    """A listening vsock socket."""

    def __init__(self, endpoint: Endpoint, address: Address) -> None:
        self._endpoint = endpoint
        doing = f"listen on {address.locator(_NAME)}"
        self._socket = _open(address, doing)
        try:
            self._socket.bind(parse_vsock(endpoint))
            self._socket.listen(_BACKLOG_COUNT)
        except OSError as error:
            self._socket.close()
            raise link_error(doing, error, _ADVICE) from error
        self.locator = _locator(self._socket.getsockname())

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> PendingLink | None:
        try:
            sock, sockaddr = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            raise link_error(f"accept on {self.locator}", error, _ADVICE) from error
        info = _info(self._endpoint, self.locator, _locator(sockaddr))
        return Ready(StreamLink(sock, info), _source(sockaddr))

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        self._socket.close()


def parse_vsock(endpoint: Endpoint) -> tuple[int, int]:
    """Return CID and port of an endpoint.

    Raises:
        LocatorError: if it has none.

    Example:
        >>> parse_vsock(Endpoint.parse("vsock/VMADDR_CID_HOST:7447"))
        (2, 7447)
    """
    cid_text, _, port_text = endpoint.address.partition(":")
    cid = _number(cid_text, _CIDS)
    port = _number(port_text, _PORTS)
    if cid is None or port is None:
        reason = "expected CID:PORT, as vsock/2:7447 or vsock/VMADDR_CID_ANY:7447"
        raise LocatorError(str(endpoint.locator()), len(_NAME) + 1, reason)
    return cid, port


def _number(text: str, names: dict[str, int]) -> int | None:
    if text.upper() in names:
        return names[text.upper()]
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else -1
    return number if 0 <= number <= _ANY else None


def _family(endpoint: Endpoint) -> int:
    if _FAMILY is None:
        raise LinkError(f"{endpoint.locator()}: this system has no vsock; use tcp/... or tls/...")
    return _FAMILY


def _open(address: Address, doing: str) -> socket.socket:
    try:
        sock = socket.socket(address.family, socket.SOCK_STREAM)
    except OSError as error:
        raise link_error(doing, error, _ADVICE) from error
    sock.setblocking(False)
    return sock


def _locator(sockaddr: tuple[int, int]) -> Locator:
    return Locator(f"{_NAME}/{sockaddr[0]}:{sockaddr[1]}")


def _source(sockaddr: tuple[int, int]) -> str:
    return f"{_NAME} {sockaddr[0]}"


def _info(endpoint: Endpoint, local: Locator, remote: Locator) -> LinkInfo:
    reliable = flag_option(endpoint, "rel")
    return LinkInfo(
        scheme=_NAME,
        local=local,
        remote=remote,
        stream=True,
        reliable=True if reliable is None else reliable,
        batch_len_max=BATCH_LEN_MAX,
        leaves_host=True,
        priorities=priorities_option(endpoint),
    )
