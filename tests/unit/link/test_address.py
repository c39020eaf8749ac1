"""Addresses and locators of sockets."""

from __future__ import annotations

import socket

import pytest

from elea.errors import LinkError
from elea.link.address import Address, interface_name, is_literal, plain_host, resolve_ip
from elea.locator import Endpoint, Locator


@pytest.mark.parametrize(
    ("sockaddr", "host"),
    [
        (("10.0.0.1", 1), "10.0.0.1"),
        (("::1", 1, 0, 0), "::1"),
        (("::ffff:10.0.0.1", 1, 0, 0), "10.0.0.1"),
        (("fe80::1%lo", 1, 0, 1), "fe80::1%lo"),
        (("fe80::1", 1, 0, 1), "fe80::1%lo"),
        (("fe80::1", 1, 0, 99_999), "fe80::1%99999"),
    ],
)
def test_the_host_of_a_socket_address(
    sockaddr: tuple[str, int] | tuple[str, int, int, int], host: str
) -> None:
    assert plain_host(sockaddr) == host


def test_addresses_as_locators_and_texts() -> None:
    assert Address.of_ip("10.0.0.1", 7).locator("udp") == Locator("udp/10.0.0.1:7")
    assert str(Address.of_ip("::1", 7)) == "[::1]:7"
    path = Address(socket.AF_UNIX, "/run/elea")
    assert path.locator("unixsock-stream") == Locator("unixsock-stream//run/elea")
    assert (path.host, path.port, str(path)) == ("/run/elea", 0, "/run/elea")


def test_zones_by_name_and_by_number() -> None:
    loopback = socket.if_nametoindex("lo")
    by_name, by_number = Address.of_ip("fe80::1%lo", 1), Address.of_ip(f"fe80::1%{loopback}", 1)
    assert by_name == by_number
    assert by_name.locator("tcp") == Locator("tcp/[fe80::1%lo]:1")
    assert interface_name(loopback) == "lo"


@pytest.mark.parametrize(
    ("host", "literal"),
    [("10.0.0.1", True), ("::1", True), ("fe80::1%lo", True), ("localhost", False), ("1.2", False)],
)
def test_which_hosts_need_no_name_service(host: str, literal: bool) -> None:
    assert is_literal(host) == literal


def test_localhost_leads_to_loopback_without_duplicates() -> None:
    found = resolve_ip(Endpoint.parse("tcp/localhost:7447"), listening=False)
    assert len(found) == len(set(found))
    assert {one.host for one in found} <= {"127.0.0.1", "::1"}
    assert {one.port for one in found} == {7_447}


def test_a_name_that_leads_nowhere() -> None:
    with pytest.raises(LinkError, match=r"'nowhere.invalid' leads nowhere .*give an IP address"):
        resolve_ip(Endpoint.parse("tcp/nowhere.invalid:1"), listening=False)


def test_a_link_local_address_without_zone_leads_through_every_interface() -> None:
    found = resolve_ip(Endpoint.parse("tcp/[fe80::1]:7"), listening=False, count_max=100)
    outside = [index for index, name in socket.if_nameindex() if name != "lo"]
    assert [one.sockaddr[3] for one in found if len(one.sockaddr) == 4] == outside
    with_zone = resolve_ip(Endpoint.parse("tcp/[fe80::1%lo]:7"), listening=False)
    assert [one.host for one in with_zone] == ["fe80::1%lo"]


def test_the_number_of_addresses_is_bounded() -> None:
    endpoint = Endpoint.parse("tcp/localhost:1")
    assert len(resolve_ip(endpoint, listening=False, count_max=1)) == 1
