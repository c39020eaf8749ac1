"""vsock: what is particular about CIDs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from tests.link.cases import HAS_VSOCK
from tests.link.rig import turns, wait

import elea
from elea.errors import LinkError, LocatorError
from elea.link.base import Listener
from elea.link.settings import LinkSettings
from elea.link.vsock import Vsock, parse_vsock
from elea.locator import Endpoint, Locator
from elea.node.ports import LinkInfo, Teller


def _has_sockets() -> bool:
    try:
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    except (AttributeError, OSError):
        return False
    return True


sockets = pytest.mark.skipif(not _has_sockets(), reason="this kernel has no vsock")
loopback = pytest.mark.skipif(
    not HAS_VSOCK, reason="this kernel has no vsock loopback (modprobe vsock_loopback)"
)


def listen(text: str) -> Listener:
    endpoint = Endpoint.parse(text)
    [address] = Vsock().resolve(endpoint, listening=True)
    return Vsock().listen(endpoint, address, LinkSettings())


@pytest.fixture
def anywhere() -> Iterator[Listener]:
    listener = listen("vsock/VMADDR_CID_ANY:VMADDR_PORT_ANY")
    yield listener
    listener.close()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("2:7447", (2, 7_447)),
        ("VMADDR_CID_HOST:7447", (2, 7_447)),
        ("vmaddr_cid_local:1", (1, 1)),
        ("VMADDR_CID_HYPERVISOR:0", (0, 0)),
        ("VMADDR_CID_ANY:VMADDR_PORT_ANY", (0xFFFF_FFFF, 0xFFFF_FFFF)),
        ("-1:-1", (0xFFFF_FFFF, 0xFFFF_FFFF)),
        ("4294967294:4294967294", (0xFFFF_FFFE, 0xFFFF_FFFE)),
    ],
)
def test_addresses_are_those_of_eclipse(address: str, expected: tuple[int, int]) -> None:
    assert parse_vsock(Endpoint.parse(f"vsock/{address}")) == expected


NO_ADDRESSES = ["2", ":", "2:", ":1", "a:1", "2:b", "2:3:4", "-2:1", "4294967296:1", "2:\u0661"]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(LocatorError, match="expected CID:PORT"):
        parse_vsock(Endpoint.parse(f"vsock/{address}"))


@sockets
@pytest.mark.parametrize("address", ["VMADDR_CID_ANY:1", "2:VMADDR_PORT_ANY"])
def test_one_connects_to_one_place(address: str) -> None:
    with pytest.raises(LinkError, match="expected one CID and one port"):
        Vsock().resolve(Endpoint.parse(f"vsock/{address}"), listening=False)


@sockets
def test_a_listener_tells_the_port_it_was_given(anywhere: Listener) -> None:
    cid, port = parse_vsock(Endpoint.parse(str(anywhere.locator)))
    assert cid == 0xFFFF_FFFF
    assert port != 0xFFFF_FFFF
    assert anywhere.accept() is None
    with pytest.raises(LinkError, match="EADDRINUSE"):
        listen(f"vsock/-1:{port}")
    anywhere.close()
    anywhere.close()
    assert anywhere.fileno() == -1
    listen(f"vsock/-1:{port}").close()


@sockets
def test_a_foreign_cid_says_what_to_do_and_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LinkError, match=r"it is no CID of this machine; VMADDR_CID_ANY is all"):
        listen("vsock/77:7447")
    assert len(os.listdir("/proc/self/fd")) == before


@sockets
def test_nobody_at_the_other_end_says_what_to_do() -> None:
    """The host of this machine, if it is a virtual one, or nobody at all."""
    endpoint = Endpoint.parse("vsock/VMADDR_CID_LOCAL:1" if HAS_VSOCK else "vsock/77:7447")
    [address] = Vsock().resolve(endpoint, listening=False)

    def dial() -> None:
        pending = Vsock().connect(endpoint, address, LinkSettings())
        try:
            for _ in turns():
                pending.step()
                wait([(pending.fileno(), pending.wants())])
        finally:
            pending.close()

    with pytest.raises(LinkError, match=r"no way to that CID|nothing listens there"):
        dial()


def test_another_machine_may_not_speak_of_this_ones_loopback() -> None:
    info = LinkInfo(
        scheme="vsock",
        local=Locator("vsock/2:7447"),
        remote=Locator("vsock/3:1024"),
        stream=True,
        reliable=True,
        batch_len_max=65_535,
        leaves_host=True,
    )
    assert Teller.behind(info) == Teller()


@sockets
def test_a_node_without_vsock_names_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elea.link.vsock._FAMILY", None)
    with pytest.raises(LinkError, match=r"this system has no vsock; use tcp/... or tls/..."):
        listen("vsock/-1:7447")


@loopback
def test_two_sessions_meet() -> None:
    alone = {"scouting": {"multicast": {"enabled": False}}, "mode": "peer"}
    with elea.open(alone | {"listen": {"endpoints": ["vsock/1:54321"]}}) as far:
        channel = far.declare_subscriber("key", elea.handlers.FifoChannel(1))
        connect = {"listen": {"endpoints": []}, "connect": {"endpoints": ["vsock/1:54321"]}}
        with elea.open(alone | connect) as near:
            near.put("key", "there")
            sample = channel.recv(20)
            assert sample is not None
            assert sample.payload.to_string() == "there"
