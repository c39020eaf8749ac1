"""Which options an endpoint may have: a misspelt one would be left out without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from elea.errors import ConfigError
from elea.link.schemes import facts
from elea.link.settings import (
    LinkSettings,
    SocketOptions,
    flag_option,
    int_option,
    priorities_option,
)
from elea.locator import Endpoint, is_group

_METADATA: Final = frozenset({"prio", "rel"})
_FLAGS: Final = ("rel", "exclusive")
_NUMBERS: Final = ("ttl", "baudrate", "tout")
_GROUP: Final = facts("udp").options | {"ttl"}
# Those of Eclipse Zenoh that are accepted and do nothing here, with what does the same.
_RETRY: Final = "connect/retry and listen/retry of the configuration say it for all endpoints"
_INERT: Final = {
    "retry_period_init_ms": _RETRY,
    "retry_period_max_ms": _RETRY,
    "retry_period_increase_factor": _RETRY,
    "exit_on_failure": "connect/exit_on_failure and listen/exit_on_failure say it for all",
    "release_on_close": "a listener keeps its device, a connection gives it up when it ends",
    "join": "an endpoint that is a group joins it",
}


def check_options(endpoint: Endpoint) -> None:
    """Check that an endpoint has no option that nobody knows, and none without a legal value.

    Options of schemes that other packages bring are theirs to check.

    Raises:
        ConfigError: naming the option, and the nearest, all that there are, or legal values.

    Example:
        >>> check_options(Endpoint.parse("tcp/[::1]:7447?prio=1-3#so_sndbuf=65536"))
        >>> check_options(Endpoint.parse("tcp/[::1]:7447#so_sendbuf=65536"))
        Traceback (most recent call last):
        elea.errors.ConfigError: tcp/[::1]:7447#so_sendbuf=65536: unknown option 'so_sendbuf'; ...
    """
    row = facts(endpoint.protocol)
    if row.module is None:
        return
    known = _GROUP if is_group(endpoint) else row.options
    known = known | _METADATA | set(_INERT)
    for name, _ in (*endpoint.metadata, *endpoint.config):
        if name not in known:
            raise ConfigError(f"{endpoint}", f"unknown option {name!r}; {_advice(name, known)}")
    _check_values(endpoint)


def inert_options(endpoint: Endpoint) -> Iterator[str]:
    """What an endpoint asks for and does not get, one line for each option."""
    for name, _ in (*endpoint.metadata, *endpoint.config):
        if name in _INERT:
            yield f"{endpoint.locator()}: option {name} has no effect: {_INERT[name]}"


def _check_values(endpoint: Endpoint) -> None:
    """Read the options as the link will: once it is there, nobody is left to be told."""
    priorities_option(endpoint)
    for name in _FLAGS:
        flag_option(endpoint, name)
    for name in _NUMBERS:
        int_option(endpoint, name)
    settings = LinkSettings()
    bind = SocketOptions.of(endpoint, settings).bind
    if bind is not None:
        from elea.link.tcp import bind_option  # late: few endpoints have it

        bind_option(bind, endpoint)
    if endpoint.protocol == "serial":
        from elea.link.serial_device import SerialOptions  # late: as above

        SerialOptions.of(endpoint)
    if endpoint.protocol == "tls":
        settings.tls.for_endpoint(endpoint)


def _advice(name: str, known: frozenset[str]) -> str:
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
