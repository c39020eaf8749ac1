"""Why sessions end, in the words of a Close (7.5)."""

from __future__ import annotations

from enum import IntEnum

from elea.errors import RemoteProtocolError


class CloseReason(IntEnum):
    """The reasons with a meaning; 64 to 254 are a vendor's own."""

    SUCCESS = 0
    AUTHENTICATION = 1
    VERSION = 2
    RESOURCES = 3
    SEQUENCE_NUMBER_LENGTH = 4
    PARAMETER = 5
    DECLARATION = 6
    GENERIC = 255


def violation(reason: CloseReason, text: str) -> RemoteProtocolError:
    """The error for a peer whose session has to end for this reason."""
    error = RemoteProtocolError(text)
    error.close_reason = int(reason)
    return error
