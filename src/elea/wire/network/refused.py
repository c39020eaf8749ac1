"""REFUSED: the body of an OAM of Elea's own, by which a node tells a neighbour what it refused.

    OAM id 0x0E1A, ENC = ZBuf: the action as rules name it, a line feed, the key; UTF-8.

A declaration or a sample that access rules refuse has no answer in Zenoh: who sent it would never
know. Other implementations ignore an OAM whose id they do not know (wire.md 7.9).
"""

from __future__ import annotations

from typing import Final

from elea.wire.fields import QOS_DECLARE
from elea.wire.network.oam import Oam

ID_REFUSED: Final = 0x0E1A


def refused(action: str, key: str) -> Oam:
    """What tells a neighbour that it may not do something on a key.

    Example:
        >>> read_refused(refused("put", "a/b"))
        ('put', 'a/b')
    """
    return Oam(ID_REFUSED, f"{action}\n{key}".encode(), QOS_DECLARE)


def read_refused(oam: Oam) -> tuple[str, str] | None:
    """The action and the key of such an OAM; None if it is another one, or no text."""
    if oam.id != ID_REFUSED or not isinstance(oam.body, bytes):
        return None
    try:
        action, separator, key = oam.body.decode().partition("\n")
    except UnicodeDecodeError:
        return None
    return (action, key) if separator else None
