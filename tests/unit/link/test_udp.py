"""udp: what the conformance suite does not reach."""

from __future__ import annotations

import socket

import pytest
from tests.link.cases import HAS_IPV6, INIT_SYN

from elea.errors import ConfigError, LinkError
from elea.link.address import Address
from elea.link.settings import LinkSettings
from elea.link.udp import Udp, UdpListener
from elea.locator import Endpoint


def listen(text: str) -> UdpListener:
    endpoint = Endpoint.parse(text)
    [address, *_] = Udp().resolve(endpoint, listening=True)
    return Udp().listen(endpoint, address, LinkSettings())


def connect(text: str) -> None:
    endpoint = Endpoint.parse(text)
    [address, *_] = Udp().resolve(endpoint, listening=False)
    Udp().connect(endpoint, address, LinkSettings()).close()


@pytest.mark.parametrize("wildcard", ["0.0.0.0", *(["[::]"] if HAS_IPV6 else [])])
def test_a_link_of_a_wildcard_listener_knows_its_own_address(wildcard: str) -> None:
    listener = listen(f"udp/{wildcard}:0")
    port = listener.locator.host_port()[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(INIT_SYN, ("127.0.0.1", port))
        accepted = None
        while accepted is None:
            accepted = listener.accept()
        link = accepted.step()
        assert link is not None
        assert link.info.local.address == f"127.0.0.1:{port}"
        assert link.info.interfaces == ("lo",)
        assert link.write([b"answer"]) == 6
        client.settimeout(20)
        assert client.recv(10) == b"answer"
        link.abort()
    listener.close()


def test_places_that_cannot_be_had() -> None:
    listener = listen("udp/127.0.0.1:0")
    with pytest.raises(LinkError, match="choose another port"):
        listen(str(listener.locator))
    listener.close()
    with pytest.raises(LinkError, match="read from"):
        listener.accept()
    with pytest.raises(LinkError, match=r"open udp/127.0.0.1:1.*interface"):
        connect("udp/127.0.0.1:1#iface=nope0")
    with pytest.raises(ConfigError, match="bind"):
        connect("udp/127.0.0.1:1#bind=nowhere:1")
    with pytest.raises(LinkError, match=r"connect to udp/127\.0\.0\.1:1"):
        connect("udp/127.0.0.1:1#bind=192.0.2.254:0")
    connect("udp/127.0.0.1:1#bind=127.0.0.9:0")


def test_a_batch_that_is_too_large_is_refused_with_its_reason() -> None:
    endpoint = Endpoint.parse("udp/127.0.0.1:9")
    link = Udp().connect(endpoint, Address.of_ip("127.0.0.1", 9), LinkSettings()).step()
    assert link is not None
    with pytest.raises(LinkError, match="larger than the link carries"):
        link.write([bytes(70_000)])
    link.close()
