"""tcp: what the conformance suite does not reach."""

from __future__ import annotations

import errno
import socket

import pytest
from tests.link.cases import HAS_IPV6

from elea.errors import ConfigError, LinkError
from elea.link import tcp
from elea.link.address import Address
from elea.link.settings import LinkSettings, SocketOptions
from elea.link.tcp import Tcp, TcpListener, apply_options
from elea.locator import Endpoint


def listen(text: str) -> TcpListener:
    endpoint = Endpoint.parse(text)
    [address, *_] = Tcp().resolve(endpoint, listening=True)
    return Tcp().listen(endpoint, address, LinkSettings())


def test_the_wildcard_hears_both_families() -> None:
    listener = listen("tcp/[::]:0")
    host, port = listener.locator.host_port()
    assert host == ("::" if HAS_IPV6 else "0.0.0.0")
    with socket.create_connection(("127.0.0.1", port)):
        accepted = None
        while accepted is None:
            accepted = listener.accept()
        assert accepted.source == "127.0.0.1"  # not ::ffff:127.0.0.1
        link = accepted.step()
        assert link is not None
        assert link.info.remote.address.startswith("127.0.0.1:")
        link.close()
    listener.close()


def test_a_host_without_ipv6_listens_on_all_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def without_ipv6(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, kind)

    monkeypatch.setattr(socket, "socket", without_ipv6)
    listener = listen("tcp/[::]:0")
    assert listener.locator.host_port()[0] == "0.0.0.0"
    listener.close()
    with pytest.raises(LinkError, match=r"listen on tcp/\[::1\].*EAFNOSUPPORT"):
        listen("tcp/[::1]:0")


def test_ports_that_are_taken_and_addresses_that_are_elsewhere() -> None:
    listener = listen("tcp/127.0.0.1:0")
    with pytest.raises(LinkError, match="choose another port, or 0 for a free one"):
        listen(str(listener.locator))
    listener.close()
    with pytest.raises(LinkError, match="does not have that address"):
        listen("tcp/192.0.2.254:0")


def test_interfaces_need_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "_BIND_TO_DEVICE", None)
    endpoint = Endpoint.parse("tcp/127.0.0.1:1#iface=lo")
    with socket.socket() as sock, pytest.raises(ConfigError, match="Linux only; use bind"):
        apply_options(sock, socket.AF_INET, SocketOptions(interface="lo"), endpoint)
    with pytest.raises(ConfigError, match="Linux only"):
        Tcp().connect(endpoint, Address.of_ip("127.0.0.1", 1), LinkSettings())


def test_a_newcomer_that_is_gone_already_is_one_error_and_no_more() -> None:
    listener = listen("tcp/127.0.0.1:0")
    first = socket.create_connection(listener.locator.host_port())
    second = socket.create_connection(listener.locator.host_port())
    first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    first.close()  # a reset, before it is accepted
    with pytest.raises(LinkError, match=r"accept on tcp/127\.0\.0\.1"):
        listener.accept()
    accepted = listener.accept()
    assert accepted is not None
    accepted.close()
    second.close()
    listener.close()


def test_a_closed_listener_says_so() -> None:
    listener = listen("tcp/127.0.0.1:0")
    listener.close()
    with pytest.raises(LinkError, match="accept on"):
        listener.accept()


@pytest.mark.parametrize(
    ("option", "reliable", "priorities"),
    [("", True, None), ("?rel=0", False, None), ("?prio=1-3;rel=1", True, (1, 3))],
)
def test_metadata_of_the_endpoint_is_the_links(
    option: str, reliable: bool, priorities: tuple[int, int] | None
) -> None:
    listener = listen("tcp/127.0.0.1:0")
    endpoint = Endpoint.parse(f"{listener.locator}{option}")
    [address] = Tcp().resolve(endpoint, listening=False)
    dialled = Tcp().connect(endpoint, address, LinkSettings())
    link = None
    while link is None:
        link = dialled.step()
    assert (link.info.reliable, link.info.priorities) == (reliable, priorities)
    link.close()
    listener.close()


def test_the_largest_batch_fills_whole_half_segments() -> None:
    """65480 and 49152 are what Eclipse computes on loopback (behaviour.md 1.1)."""

    class Socket:
        family = socket.AF_INET

        def __init__(self, segment: int | None) -> None:
            self._segment = segment

        def getsockopt(self, level: int, option: int) -> int:
            if self._segment is None:
                raise OSError(errno.ENOPROTOOPT, "not available")
            return self._segment

    for segment, expected in ((32_741, 65_480), (32_768, 49_152), (1_460, 64_970), (None, 65_495)):
        assert tcp._batch_len_max(Socket(segment)) == expected  # type: ignore[arg-type]
