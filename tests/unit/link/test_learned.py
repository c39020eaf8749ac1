"""Learned locators: what a stranger's word may not make us dial (T49)."""

from __future__ import annotations

import pytest

from elea.config.config import Config
from elea.errors import ConfigError
from elea.limits import Limits
from elea.link.address import Address
from elea.link.learned import dialable, objection
from elea.link.settings import LinkSettings
from elea.locator import Endpoint
from elea.node.ports import Teller


@pytest.mark.parametrize(
    "text",
    [
        "tcp/127.0.0.1:22",
        "tcp/127.9.9.9:7447",
        "tcp/[::1]:7447",
        "tcp/[::ffff:127.0.0.1]:7447",
        "tcp/169.254.169.254:80",
        "tcp/[fd00:ec2::254]:80",
        "tcp/[fe80::1]:7447",
        "tcp/[fe80::1%nope0]:7447",
        "tcp/0.0.0.0:7447",
        "tcp/[::]:7447",
        "udp/224.0.0.225:7447",
        "udp/255.255.255.255:7447",
        "unixsock-stream//run/docker.sock",
        "serial//dev/ttyUSB0",
        "memory/other",
        "ws/10.0.0.5:80",
        "tcp/no-port",
    ],
)
def test_not_dialled(text: str) -> None:
    assert dialable([Endpoint.parse(text)], Teller.at("10.0.0.7")) == []


@pytest.mark.parametrize(
    "text", ["tcp/10.0.0.5:7447", "tls/robot.example:7447", "udp/[2001:db8::5]:1?rel=1"]
)
def test_dialled(text: str) -> None:
    assert [str(one) for one in dialable([Endpoint.parse(text)], Teller.at("10.0.0.7"))] == [text]


@pytest.mark.parametrize(
    ("teller", "host", "fine"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("127.0.0.1", "169.254.169.254", False),
        ("169.254.3.3", "169.254.7.7", True),
        ("169.254.3.3", "127.0.0.1", False),
        ("fe80::3%lo", "fe80::7", True),
        ("a-name", "127.0.0.1", False),
    ],
)
def test_who_is_there_may_speak_of_it(teller: str, host: str, fine: bool) -> None:
    assert (objection(Address.of_ip(host, 1), Teller.at(teller)) is None) == fine


def test_an_address_that_is_no_ip() -> None:
    assert objection(Address(0, "a path"), Teller()) == "no IP address"


def test_a_long_list_is_cut_and_says_each_once() -> None:
    told = [Endpoint.parse(f"tcp/10.0.0.{number % 50}:1") for number in range(200)]
    found = dialable(told, Teller(), Limits(link_addresses_count=5))
    assert [str(one) for one in found] == [f"tcp/10.0.0.{number}:1" for number in range(5)]


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("tcp/10.1.2.3:7447", True),
        ("tcp/[::ffff:10.1.2.3]:7447", True),
        ("tcp/10.2.0.1:7447", False),
        ("tls/Robot.example:7447", True),
        ("tls/robot.example.evil:7447", False),
        ("tcp/[2001:db8::7]:1", True),
        ("tcp/[2001:db9::7]:1", False),
    ],
)
def test_the_list_of_places(text: str, allowed: bool) -> None:
    places = ["10.1.0.0/16", "robot.example", "2001:db8::/32"]
    found = dialable([Endpoint.parse(text)], Teller.at("10.0.0.7"), allow=places)
    assert bool(found) is allowed


def test_a_place_on_the_list_is_no_way_around_the_rest() -> None:
    told = [Endpoint.parse("tcp/127.0.0.1:22"), Endpoint.parse("tcp/169.254.169.254:80")]
    assert dialable(told, Teller.at("10.0.0.7"), allow=["0.0.0.0/0"]) == []


def test_the_list_comes_from_the_configuration() -> None:
    config = Config()
    assert LinkSettings.from_config(config).learned_allow is None
    config.insert_json5("elea/learned/allow", '["10.1.0.0/16", "robot.example"]')
    assert LinkSettings.from_config(config).learned_allow == ("10.1.0.0/16", "robot.example")
    for wrong in ('["10.1.0.5/16"]', '["a b"]', '["10.1.0"]', "[1]"):
        with pytest.raises(ConfigError, match="elea/learned/allow"):
            config.insert_json5("elea/learned/allow", wrong)
