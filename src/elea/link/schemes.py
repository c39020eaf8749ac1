"""The schemes that Elea brings, and what is known of each without loading its module.

One row per scheme: where it is, and facts that others go by: which endpoints may be learned from
strangers, which never leave this host, which are encrypted. A row without a module is a scheme of
Eclipse Zenoh that this node does not speak; endpoints of it are still named and judged.
"""

from __future__ import annotations

from typing import Final

from elea.link.settings import TlsSettings
from elea.records import dataclass, field_names

_SOCKET: Final = frozenset({"bind", "dscp", "iface", "so_rcvbuf", "so_sndbuf"})
_TLS: Final = frozenset(
    {
        "tls_min_version",
        *(f"{name}{end}" for name in field_names(TlsSettings) for end in ("", "_file", "_base64")),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeRow:
    """One scheme.

    Args:
        module: Where its `Scheme` is; None: this node does not speak it.
        name: Of the class.
        options: Those that its endpoints may have.
        has_port: Whether its addresses are `host:port`.
        is_learnable: Whether others may tell of endpoints: they lead to IP addresses, which are
            checked (T49).
        is_local: Whether it never leaves this host.
        is_encrypted: Whether what goes over it cannot be read on the way.
        is_over_tcp: Whether a plain TCP connection shows that something listens there.
    """

    module: str | None = None
    name: str = ""
    options: frozenset[str] = frozenset()
    has_port: bool = False
    is_learnable: bool = False
    is_local: bool = False
    is_encrypted: bool = False
    is_over_tcp: bool = False


SCHEMES: Final = {
    "memory": SchemeRow(module="elea.link.memory", name="Memory", is_local=True),
    "tcp": SchemeRow(
        module="elea.link.tcp",
        name="Tcp",
        options=_SOCKET,
        has_port=True,
        is_learnable=True,
        is_over_tcp=True,
    ),
    "tls": SchemeRow(
        module="elea.link.tls",
        name="Tls",
        options=_SOCKET | _TLS,
        has_port=True,
        is_learnable=True,
        is_encrypted=True,
        is_over_tcp=True,
    ),
    "serial": SchemeRow(
        module="elea.link.serial",
        name="Serial",
        options=frozenset({"baudrate", "exclusive", "tout"}),
    ),
    "udp": SchemeRow(
        module="elea.link.udp", name="Udp", options=_SOCKET, has_port=True, is_learnable=True
    ),
    "unixsock-stream": SchemeRow(
        module="elea.link.unix", name="UnixStream", options=_SOCKET, is_local=True
    ),
    "vsock": SchemeRow(module="elea.link.vsock", name="Vsock"),
    "ws": SchemeRow(
        module="elea.link.ws",
        name="WebSocket",
        options=_SOCKET | {"origins"},
        has_port=True,
        is_over_tcp=True,
    ),
    "quic": SchemeRow(is_learnable=True, is_encrypted=True),
    "unixpipe": SchemeRow(is_local=True),
    "wss": SchemeRow(is_encrypted=True),
}
_UNKNOWN: Final = SchemeRow()  # of another package: nothing is taken for granted


def facts(name: str) -> SchemeRow:
    """What is known of a scheme; of one that another package brings, nothing.

    Example:
        >>> facts("tls").is_encrypted, facts("carrier-pigeon").is_encrypted
        (True, False)
    """
    return SCHEMES.get(name, _UNKNOWN)
