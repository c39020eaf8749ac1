"""Options of the configuration and of endpoints."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.link.cases import HAS_IPV6

from elea.config.config import Config
from elea.errors import ConfigError, LinkError
from elea.link.address import Address
from elea.link.settings import (
    LinkSettings,
    Pem,
    ScoutingSettings,
    SocketOptions,
    flag_option,
    priorities_option,
)
from elea.link.tcp import Tcp, bind_address
from elea.locator import Endpoint


def test_the_defaults_of_a_configuration() -> None:
    settings = LinkSettings.from_config(Config())
    assert replace(settings, scouting=LinkSettings().scouting) == LinkSettings()
    assert settings.scouting == ScoutingSettings(what=0b111)


def test_buffers_by_configuration_and_by_endpoint() -> None:
    config = Config.from_json5(
        "{transport: {link: {tcp: {so_sndbuf: 1, so_rcvbuf: 2}, tls: {so_rcvbuf: 3}}}}"
    )
    settings = LinkSettings.from_config(config)
    plain = SocketOptions.of(Endpoint.parse("tcp/h:1"), settings)
    secured = SocketOptions.of(Endpoint.parse("tls/h:1"), settings)
    own = SocketOptions.of(Endpoint.parse("tcp/h:1#so_sndbuf=9;dscp=0x2e;iface=eth0"), settings)
    assert (plain.so_sndbuf, plain.so_rcvbuf) == (1, 2)
    assert (secured.so_sndbuf, secured.so_rcvbuf) == (None, 3)
    assert own == SocketOptions(so_sndbuf=9, so_rcvbuf=2, dscp=46, interface="eth0")


@pytest.mark.parametrize("option", ["dscp=64", "dscp=ef", "so_sndbuf=-1", "so_rcvbuf=1k"])
def test_numbers_that_are_none(option: str) -> None:
    with pytest.raises(ConfigError, match=option.partition("=")[0]):
        SocketOptions.of(Endpoint.parse(f"tcp/h:1#{option}"), LinkSettings())


@pytest.mark.parametrize(("text", "priorities"), [("1-5", (1, 5)), ("3", (3, 3)), ("0-7", (0, 7))])
def test_the_priorities_of_a_link(text: str, priorities: tuple[int, int]) -> None:
    assert priorities_option(Endpoint.parse(f"tcp/h:1?prio={text}")) == priorities


@pytest.mark.parametrize("text", ["5-1", "1-8", "high", "-"])
def test_priorities_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="prio"):
        priorities_option(Endpoint.parse(f"tcp/h:1?prio={text}"))


def test_buffers_larger_than_a_socket_takes_are_as_large_as_it_takes() -> None:
    """A number that a C int does not hold ended `open` with a TypeError."""
    settings = LinkSettings.from_config(
        Config.from_mapping({"transport/link/tcp/so_rcvbuf": 0xFFFF_FFFF})
    )
    options = SocketOptions.of(Endpoint.parse("tcp/127.0.0.1:0#so_sndbuf=4294967295"), settings)
    with socket.socket() as sock:
        for name, value in (
            (socket.SO_SNDBUF, options.so_sndbuf),
            (socket.SO_RCVBUF, options.so_rcvbuf),
        ):
            assert value is not None
            sock.setsockopt(socket.SOL_SOCKET, name, value)


def test_certificates_that_are_no_base64_are_refused() -> None:
    for text in ("\N{LATIN SMALL LETTER E WITH ACUTE}", "?", "gA=="):
        with pytest.raises(ConfigError, match="no base64"):
            Pem.of_base64(text, "transport/link/tls/root_ca_certificate_base64")


def test_paths_that_no_file_can_have_are_refused() -> None:
    with pytest.raises(ConfigError, match="NUL"):
        Config.from_mapping({"transport/auth/usrpwd/dictionary_file": "a\0b"})


def test_flags() -> None:
    endpoint = Endpoint.parse("tcp/h:1?rel=0#a=true")
    assert flag_option(endpoint, "rel") is False
    assert flag_option(endpoint, "a") is True
    assert flag_option(endpoint, "b") is None


@pytest.mark.parametrize(
    ("text", "raised", "said"),
    [
        ("host:1", ConfigError, "needs an IP address"),
        ("1.2.3.4", ConfigError, "host:port"),
        ("[::1]:0", LinkError, "another address family"),
    ],
)
def test_places_to_bind_that_cannot_work(text: str, raised: type[Exception], said: str) -> None:
    with pytest.raises(raised, match=said):
        bind_address(text, socket.AF_INET, Endpoint.parse("tcp/h:1"))


def tos(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)


def traffic_class(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS)


def receive_buffer(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


@pytest.mark.parametrize(
    ("text", "look", "value"),
    [
        ("tcp/127.0.0.1:0#dscp=46", tos, 46 << 2),
        *([("tcp/[::1]:0#dscp=46", traffic_class, 46 << 2)] if HAS_IPV6 else []),
        ("tcp/127.0.0.1:0#so_rcvbuf=8192", receive_buffer, 2 * 8_192),  # Linux doubles it
    ],
)
def test_options_reach_the_socket(
    text: str, look: Callable[[socket.socket], int], value: int
) -> None:
    endpoint = Endpoint.parse(text)
    listener = Tcp().listen(endpoint, Address.of_ip(*endpoint.host_port()), LinkSettings())
    try:
        assert look(listener._socket) == value
    finally:
        listener.close()
