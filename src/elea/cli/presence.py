"""Who listens at an endpoint, if anybody does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from elea.errors import LinkError
from elea.ids import WhatAmI, ZenohId

if TYPE_CHECKING:
    from elea.config.config import Config
    from elea.locator import Endpoint

_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104  # to where it is asked
_TIMEOUT_MS: Final = 2_000  # on one host a node answers at once, or it is none


def ask_who_listens(config: Config, endpoint: Endpoint) -> tuple[WhatAmI, ZenohId] | None:
    """The role and id of who listens at an endpoint; None if nobody does that answers.

    Args:
        config: Of the node that would listen there, for its certificates.
        endpoint: Where to ask.
    """
    from elea.session.session import open

    reached = _reached(endpoint)
    if reached is None:
        return None
    asking = config.__copy__()
    for path, value in (
        ("mode", "client"),
        ("id", None),
        ("namespace", None),
        ("listen/endpoints", []),
        ("connect/endpoints", [reached]),
        ("connect/timeout_ms", 0),  # one attempt
        ("scouting/multicast/enabled", False),
        ("transport/unicast/open_timeout", _TIMEOUT_MS),
        ("adminspace/enabled", False),
    ):
        asking.insert_json5(path, json.dumps(value))
    try:
        with open(asking) as session:
            transports = session.info.transports()
    except LinkError:
        return None
    return next(((one.whatami, one.zid) for one in transports), None)


def _reached(endpoint: Endpoint) -> str | None:
    """Where a client would connect to; None where nobody can be asked."""
    text = str(endpoint.locator())
    host, colon, port = endpoint.address.rpartition(":")
    if colon and port == "0":
        return None  # a free port: nobody is there
    for everywhere, here in _ANYWHERE.items():
        if host == everywhere:
            return text.replace(f"/{everywhere}:", f"/{here}:", 1)
    return text
