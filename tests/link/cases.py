"""The schemes the conformance suite runs for."""

from __future__ import annotations

import socket

from tests.link.certificates import certificates
from tests.link.rig import Case

from elea.link.memory import Memory
from elea.link.serial import Serial
from elea.link.settings import LinkSettings
from elea.link.tcp import Tcp
from elea.link.tls import Tls
from elea.link.udp import Udp
from elea.link.unix import UnixStream
from elea.link.vsock import Vsock
from elea.link.ws import WebSocket
from elea.wire.codec import encode_one
from elea.wire.transport.init import Init


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def _has_vsock() -> bool:
    try:
        with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as probe:
            probe.bind((1, 0xFFFF_FFFF))
            return True
    except (AttributeError, OSError):
        return False


HAS_VSOCK = _has_vsock()  # with loopback: the module vsock_loopback
HAS_IPV6 = _has_ipv6()
INIT_SYN = encode_one(Init(zid=b"\x01\x02\x03", whatami=1))

TCP = Case("tcp v4", Tcp(), lambda _: "tcp/127.0.0.1:0")
TCP6 = Case("tcp v6", Tcp(), lambda _: "tcp/[::1]:0")
TLS = Case("tls", Tls(), lambda _: "tls/127.0.0.1:0", LinkSettings(tls=certificates().settings()))
MTLS = Case("mtls", Tls(), lambda _: "tls/127.0.0.1:0", LinkSettings(tls=certificates().mutual()))
UNIX = Case("unixsock-stream", UnixStream(), lambda folder: f"unixsock-stream/{folder}/socket")
MEMORY = Case("memory", Memory(), lambda _: "memory/0")
VSOCK = Case("vsock", Vsock(), lambda _: "vsock/VMADDR_CID_LOCAL:VMADDR_PORT_ANY")
WS = Case("ws", WebSocket(), lambda _: "ws/127.0.0.1:0")
UDP = Case("udp", Udp(), lambda _: "udp/127.0.0.1:0", hello=INIT_SYN)
SERIAL = Case(
    "serial",
    Serial(),
    lambda _: "serial/{}#baudrate=115200",
    connect=lambda _: "serial/{}#baudrate=115200",
    line=True,
)

STREAMS = [TCP, *([TCP6] if HAS_IPV6 else []), TLS, MTLS, UNIX, MEMORY]
STREAMS += [VSOCK] if HAS_VSOCK else []
RELIABLE = [*STREAMS, WS]
BATCHES = [WS, UDP, SERIAL]  # one buffer is one batch
NETWORKS = [*RELIABLE, UDP]  # many links to one listener, which is found or not
EVERY = [*NETWORKS, SERIAL]
OVER_TCP = [TCP, TLS, MTLS, WS]
