"""Interfaces: what this host has, and what listeners are told as (behaviour.md 1.1)."""

from __future__ import annotations

import ipaddress
import socket
import sys
from pathlib import Path

import pytest

from elea.link import interfaces
from elea.link.interfaces import (
    InterfaceAddress,
    advertised,
    interface_addresses,
    interfaces_of,
    multicast_interfaces,
    parse_ip,
)
from elea.locator import Locator


def row(
    name: str, address: str, prefix_len: int, *, up: bool = True, multicast: bool = True
) -> InterfaceAddress:
    return InterfaceAddress(
        name,
        hash(name) % 1_000,
        ipaddress.ip_address(address),
        prefix_len,
        up=up,
        multicast=multicast,
    )


HOST = [
    row("lo", "127.0.0.1", 8),
    row("lo", "::1", 128),
    row("eth0", "10.1.2.3", 24),
    row("eth0", "10.1.9.9", 24),
    row("eth0", "fe80::5", 64),
    row("eth0", "2001:db8::3", 64),
    row("tun0", "10.9.0.1", 32, multicast=False),
    row("eth1", "10.7.0.1", 24, up=False),
]


def test_this_host_has_a_loopback() -> None:
    found = interface_addresses()
    loopback = next(one for one in found if str(one.address) == "127.0.0.1")
    assert (loopback.name, loopback.prefix_len, loopback.up) == ("lo", 8, True)
    assert interfaces_of("127.0.0.1") == ("lo",)
    assert found == sorted(found, key=lambda one: one.index)


def test_a_host_that_tells_nothing_still_has_its_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    assert [str(one.address) for one in interface_addresses()] == ["127.0.0.1", "::1"]


def test_a_kernel_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "_INET6", Path("nowhere"))
    assert {one.address.version for one in interface_addresses()} == {4}


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("10.1.2.3", ("eth0",)),
        ("::ffff:10.1.2.3", ("eth0",)),
        ("fe80::9%wlan0", ("wlan0",)),
        ("10.99.0.1", ()),
        ("a-name", ()),
    ],
)
def test_the_interfaces_of_an_address(host: str, names: tuple[str, ...]) -> None:
    assert interfaces_of(host, HOST) == names


@pytest.mark.parametrize(
    ("bound", "near", "far"),
    [
        (
            "tcp/0.0.0.0:7447",
            ["127.0.0.1:7447", "10.1.2.3:7447", "10.1.9.9:7447", "10.9.0.1:7447"],
            ["10.1.2.3:7447", "10.1.9.9:7447", "10.9.0.1:7447"],
        ),
        (
            "tcp/[::]:1",
            [
                *("127.0.0.1:1", "[::1]:1", "10.1.2.3:1", "10.1.9.9:1", "[2001:db8::3]:1"),
                *("10.9.0.1:1", "[fe80::5]:1"),
            ],
            ["10.1.2.3:1", "10.1.9.9:1", "[2001:db8::3]:1", "10.9.0.1:1", "[fe80::5]:1"],
        ),
        ("tcp/127.0.0.1:5", ["127.0.0.1:5"], ["127.0.0.1:5"]),
        ("tcp/robot.example:5", ["robot.example:5"], ["robot.example:5"]),
    ],
)
def test_wildcards_are_told_as_addresses(bound: str, near: list[str], far: list[str]) -> None:
    for asker_loopback, expected in ((True, near), (False, far)):
        told = advertised([Locator(bound)], asker_loopback, HOST)
        assert [one.address for one in told] == expected


def test_metadata_is_kept_other_schemes_too_and_nothing_is_told_twice() -> None:
    bound = [
        Locator("udp/0.0.0.0:1?rel=0"),
        Locator("unixsock-stream//run/x"),
        Locator("udp/10.9.0.1:1?rel=0"),
    ]
    told = [str(one) for one in advertised(bound, False, HOST[6:7])]
    assert told == ["udp/10.9.0.1:1?rel=0", "unixsock-stream//run/x"]


@pytest.mark.parametrize(
    ("names", "version", "expected"),
    [
        ("auto", 4, ["10.1.2.3"]),
        ("auto", 6, ["fe80::5"]),
        ("lo", 4, ["127.0.0.1"]),
        ("lo, tun0", 4, ["127.0.0.1", "10.9.0.1"]),
        ("10.1.9.9", 4, ["10.1.9.9"]),
        ("eth1", 4, []),
        ("nope", 4, []),
    ],
)
def test_the_interfaces_of_a_group(names: str, version: int, expected: list[str]) -> None:
    found = multicast_interfaces(names, HOST, version=version)
    assert [str(one.address) for one in found] == expected


@pytest.mark.parametrize(
    ("own", "other", "near"),
    [
        ("10.1.2.3", "10.1.2.200", True),
        ("10.1.2.3", "10.1.3.1", False),
        ("10.9.0.1", "10.9.0.1", True),
        ("10.9.0.1", "10.9.0.2", False),
        ("2001:db8::3", "2001:db8::ffff", True),
        ("2001:db8::3", "10.1.2.3", False),
    ],
)
def test_who_is_on_the_same_link(own: str, other: str, near: bool) -> None:
    [mine] = [one for one in HOST if str(one.address) == own]
    assert mine.on_link(ipaddress.ip_address(other)) == near


def test_texts_that_are_addresses() -> None:
    assert str(parse_ip("::ffff:1.2.3.4")) == "1.2.3.4"
    assert str(parse_ip("fe80::1%eth0")) == "fe80::1"
    assert parse_ip("a-name") is None
