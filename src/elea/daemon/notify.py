"""A word to systemd: ready, reloading, stopping. Without systemd nothing happens."""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

_LOG: Final = logging.getLogger("elea.daemon")
_VARIABLE: Final = "NOTIFY_SOCKET"


def notify(state: str) -> bool:
    """Tell the service manager, such as `READY=1`; whether there is one that took it."""
    address = os.environ.get(_VARIABLE)
    if not address:
        return False
    if address.startswith("@"):  # an abstract address of Linux
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(state.encode(), address)
    except OSError as error:
        _LOG.warning("%s does not take %s: %s", _VARIABLE, state, error)
        return False
    return True
