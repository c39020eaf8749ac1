"""From a scheme's name to the scheme."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from elea.errors import LinkError
from elea.link.memory import Memory
from elea.link.registry import GROUP, Registry


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_every_built_in_scheme_loads() -> None:
    registry = Registry(entries=())
    assert registry.names() == [
        "memory",
        "serial",
        "tcp",
        "tls",
        "udp",
        "unixsock-stream",
        "vsock",
        "ws",
    ]
    for name in registry.names():
        scheme = registry.scheme(name)
        assert scheme is registry.scheme(name)
        assert hasattr(scheme, "resolve")


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    registry = Registry(entries=[entry("radio", "elea.link.memory:Memory")])
    with pytest.raises(LinkError, match="no scheme 'quick'; there are memory, radio, serial, tcp"):
        registry.scheme("quick")


def test_a_scheme_of_another_package() -> None:
    registry = Registry(entries=[entry("radio", "elea.link.memory:Memory")])
    assert isinstance(registry.scheme("radio"), Memory)


def test_another_package_cannot_take_the_place_of_tls() -> None:
    registry = Registry(entries=[entry("tls", "elea.link.memory:Memory")])
    assert not isinstance(registry.scheme("tls"), Memory)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("elea.link.nothing:Nothing", "No module named"),
        ("elea.link.memory:Nothing", "no attribute"),
        ("builtins:dict", "it has no resolve, connect, listen"),
    ],
)
def test_a_scheme_that_cannot_be_used_says_why(value: str, said: str) -> None:
    with pytest.raises(LinkError, match=f"radio.*{value}.*{said}"):
        Registry(entries=[entry("radio", value)]).scheme("radio")


def test_schemes_that_may_not_be_used() -> None:
    with pytest.raises(LinkError, match=r"udp is not among transport/link/protocols.*tcp, tls"):
        Registry(entries=()).scheme("udp", frozenset({"tls", "tcp"}))


def test_installed_entry_points_are_looked_for() -> None:
    assert set(Registry(entries=()).names()) <= set(Registry().names())
