"""RefusalLog: a line for what a neighbour does not let this node do."""

from __future__ import annotations

import logging
from typing import Final

from elea.ids import WhatAmI, ZenohId

_LOG: Final = logging.getLogger("elea.link")
_LINES_COUNT_MAX: Final = 100  # a neighbour that tells of more fills nobody's log
_TEXT_LEN_MAX: Final = 200


class RefusalLog:
    """Logs what was refused, each action on each key once."""

    def __init__(self) -> None:
        self._logged: set[tuple[bytes, str, str]] = set()

    def __call__(self, zid: bytes, whatami: int, action: str, key: str) -> None:
        """A neighbour refused something."""
        action, key = action[:_TEXT_LEN_MAX], key[:_TEXT_LEN_MAX]
        if (zid, action, key) in self._logged or len(self._logged) >= _LINES_COUNT_MAX:
            return
        self._logged.add((zid, action, key))
        peer = f"{WhatAmI.from_index(whatami)} {ZenohId.from_bytes(zid)}"
        _LOG.warning(
            "refused by %s: %s on %s: its access rules do not allow it; its audit names the rule",
            peer,
            _shown(action),
            _shown(key),
        )
        if len(self._logged) == _LINES_COUNT_MAX:
            _LOG.warning("further refusals are not logged")


def _shown(text: str) -> str:
    """A text of the network, safe to print."""
    return text if text.isprintable() else ascii(text)[1:-1]
