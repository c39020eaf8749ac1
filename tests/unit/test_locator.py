from __future__ import annotations

import pickle

import pytest

from elea.errors import LocatorError
from elea.locator import Endpoint, Locator, parse_locators
from elea.secret import Secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tcp/a:1", "tcp/a:1"),
        ("tcp/[::1]:7447", "tcp/[::1]:7447"),
        ("tcp/a:1?b=1;a=2", "tcp/a:1?a=2;b=1"),
        ("tcp/a:1?b;a=", "tcp/a:1?a;b"),
        ("tcp/a:1?;;b=1;;a=2;", "tcp/a:1?a=2;b=1"),
        ("tcp/a:1?a=2;a=1", "tcp/a:1?a=2;a=1"),
        ("tcp/a:1?b=1?a=2", "tcp/a:1?b=1?a=2"),
        ("tcp/a:1?B=1;é=3;_=4;a=2", "tcp/a:1?B=1;_=4;a=2;é=3"),
        ("unixsock-stream//tmp/a b", "unixsock-stream//tmp/a b"),
        ("new-protocol/x", "new-protocol/x"),
    ],
)
def test_locator_of_a_person(text: str, shown: str) -> None:
    locator = Locator.parse(text)
    assert str(locator) == shown
    assert Locator(shown) == locator == Locator.parse(shown)
    assert str(Endpoint.parse(text)) == shown
    assert Endpoint.parse(text).locator() == locator


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("", 0, "protocol is missing"),
        ("/a", 0, "protocol is missing"),
        ("?a/b", 0, "protocol is missing"),
        ("tcp", 3, "no '/'"),
        ("tc?p/a", 2, "no '/'"),
        ("tcp/", 4, "address is missing"),
        ("tcp/?a=1", 4, "address is missing"),
        ("tcp/a:1?", 8, "at least one name"),
        ("tcp/a:1?;;", 8, "at least one name"),
        ("tcp/a:1?a=1;=2", 8, "none empty"),
        ("tcp/a\ud800", 5, "UTF-8"),
    ],
)
def test_texts_that_are_neither(text: str, offset: int, reason: str) -> None:
    for parse in (Locator, Locator.parse, Endpoint.parse):
        with pytest.raises(LocatorError, match=reason) as caught:
            parse(text)
        assert caught.value.offset == offset
        assert caught.value.text == text


@pytest.mark.parametrize("text", ["tcp/a:1#", "tcp/a:1?a#;", "tcp/a:1?#a", "tcp/a:1#y?z=1"])
def test_texts_that_are_no_endpoint(text: str) -> None:
    with pytest.raises(LocatorError):
        Endpoint.parse(text)


def test_what_does_not_travel() -> None:
    with pytest.raises(LocatorError, match="not sorted") as unsorted:
        Locator("tcp/a:1?b=1;a=2")
    assert unsorted.value.offset == 8
    for make in (Locator, Locator.parse):
        with pytest.raises(LocatorError, match="no '#' config") as config:
            make("tcp/a:1#iface=eth0")
        assert config.value.offset == 7
    Locator("tcp/" + "a" * 251)
    with pytest.raises(LocatorError, match="at most 255 octets travel, got 256"):
        Locator("tcp/" + "é" * 126)


def test_parts() -> None:
    locator = Locator("udp/host:7447?prio=1-5;rel=0")
    assert (locator.protocol, locator.address) == ("udp", "host:7447")
    assert locator.metadata == (("prio", "1-5"), ("rel", "0"))
    assert Locator("tcp/a:1").metadata == ()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("tcp/localhost:7447", "localhost", 7447),
        ("tcp/0.0.0.0:0", "0.0.0.0", 0),
        ("tcp/[::]:7447", "::", 7447),
        ("tcp/[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
    ],
)
def test_host_and_port(text: str, host: str, port: int) -> None:
    assert Locator(text).host_port() == Endpoint.parse(text).host_port() == (host, port)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tcp/localhost", "expected host:port"),
        ("tcp/localhost:", "expected host:port"),
        ("tcp/localhost:x", "expected host:port"),
        ("tcp/localhost:²", "expected host:port"),
        ("tcp/localhost:123456", "expected host:port"),
        ("tcp/localhost:65536", "ports end at 65535"),
        ("tcp/::1:7447", "brackets"),
        ("tcp/a:7447,tcp/b:7447", "offset 10: expected one host:port; give several endpoints one"),
        ("tcp/:7447", "a host is missing"),
        ("tcp/[]:7447", "a host is missing"),
    ],
)
def test_addresses_without_host_and_port(text: str, reason: str) -> None:
    with pytest.raises(LocatorError, match=reason):
        Locator(text).host_port()


def test_lists_keep_their_order() -> None:
    assert [str(one) for one in parse_locators(["udp/b:1", "tcp/a:1"])] == ["udp/b:1", "tcp/a:1"]
    with pytest.raises(LocatorError, match="'nonsense'"):
        parse_locators(["tcp/a:1", "nonsense"])


def test_endpoint_config_is_sorted_and_found() -> None:
    endpoint = Endpoint.parse("tcp/a:1?rel=1#so_sndbuf=65000;iface=eth0;x=1#2")
    assert str(endpoint) == "tcp/a:1?rel=1#iface=eth0;so_sndbuf=65000;x=1#2"
    assert endpoint.get("iface") == "eth0"
    assert endpoint.get("rel") == "1"
    assert endpoint.get("dscp") is None


def test_inline_keys_do_not_print() -> None:
    endpoint = Endpoint.parse("tls/a:1#listen_private_key_base64=Q0FOQVJZ;iface=lo")
    assert endpoint.get("listen_private_key_base64") == Secret("Q0FOQVJZ")
    assert "Q0FOQVJZ" not in f"{endpoint} {endpoint!r} {endpoint.host_port()}"
    assert endpoint.reveal() == "tls/a:1#iface=lo;listen_private_key_base64=Q0FOQVJZ"
    assert len({endpoint, Endpoint.parse(endpoint.reveal())}) == 1


def test_locators_compare_and_pickle() -> None:
    first, second = Locator("tcp/a:1"), Locator("tcp/b:1")
    assert sorted([second, first]) == [first, second]
    assert pickle.loads(pickle.dumps(first)) == first
