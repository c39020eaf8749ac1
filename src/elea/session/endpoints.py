"""Endpoints that a program was given, checked before anything is connected."""

from __future__ import annotations

from elea.errors import ConfigError, EleaError, LocatorError
from elea.link.endpoint_options import check_options
from elea.link.registry import check_scheme
from elea.locator import Endpoint


def check_endpoint(text: str) -> None:
    """Check an endpoint to connect to, as far as that is possible without connecting.

    Raises:
        EleaError: it cannot be parsed, or its scheme or one of its options is unknown.

    Example:
        >>> check_endpoint("tcp/10.0.0.1:7447")
        >>> check_endpoint("warp/10.0.0.1:7447")
        Traceback (most recent call last):
        elea.errors.LinkError: no scheme 'warp'; there are memory, serial, tcp, tls, ...
    """
    check_parsed(Endpoint.parse(text))


def check_parsed(endpoint: Endpoint) -> None:
    """Check the scheme, the address and the options of an endpoint.

    Raises:
        EleaError: there is no such scheme or option, or the scheme has no such address.
    """
    check_scheme(endpoint)
    check_options(endpoint)


def refusal(endpoint: Endpoint, error: EleaError) -> str:
    """Return why `check_parsed` refused an endpoint, with its name, once.

    Example:
        >>> error = LocatorError("tcp/10.0.0.1", 4, "expected host:port")
        >>> refusal(Endpoint.parse("tcp/10.0.0.1"), error)
        'tcp/10.0.0.1: expected host:port'
    """
    if isinstance(error, ConfigError):  # of an option
        return str(error)
    reason = error.reason if isinstance(error, LocatorError) else str(error)
    return f"{endpoint.locator()}: {reason}"
