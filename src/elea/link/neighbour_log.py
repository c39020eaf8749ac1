"""Debug lines for neighbours that come and go."""

from __future__ import annotations

import logging
from typing import Final

from elea.ids import WhatAmI, ZenohId
from elea.node.ports import NeighbourDown, NeighbourUp

_LOG: Final = logging.getLogger("elea.link")


def log_neighbour(effect: NeighbourUp | NeighbourDown) -> None:
    """Log that a neighbour is connected, or is not any more and why."""
    if not _LOG.isEnabledFor(logging.DEBUG):
        return
    neighbour = f"{WhatAmI.from_index(effect.whatami)} {ZenohId.from_bytes(effect.zid)}"
    if isinstance(effect, NeighbourUp):
        _LOG.debug("connected to %s", neighbour)
    else:
        _LOG.debug("disconnected from %s: %s", neighbour, effect.reason)
