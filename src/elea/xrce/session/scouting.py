"""Scouting: who is there, and who answers (7.1, 7.2)."""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntFlag
from typing import Final

from elea.limits import DEFAULT_LIMITS, Limits
from elea.xrce.encode import encode
from elea.xrce.message_records import Hello, Scout
from elea.xrce.session.rates import RateLimit

# What a peer writes to all of its connections reaches us, too: how peers name that group (10.3).
CONNECTIONS: Final = b"tcp/0.0.0.0:0"


class Role(IntFlag):
    """The bits of a mask. Masks may have others; nobody has those roles."""

    BROKER = 1
    DURABILITY = 2
    PEER = 4
    CLIENT = 8


def fitted(hello: Hello, frame_len: int) -> Hello:
    """A Hello with as many of its locators, the first ones, as a frame has room for."""
    locators = hello.locators
    while locators and len(encode(Hello(mask=hello.mask, locators=locators))) > frame_len:
        locators = locators[:-1]
    return Hello(mask=hello.mask, locators=locators)


class ScoutAnswerer:
    """Answers Scouts for the roles of a node. A Scout leaves nothing behind."""

    def __init__(
        self, roles: Role, locators: tuple[bytes, ...], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.roles = roles
        self.locators = locators
        self.groups: tuple[bytes, ...] = ()  # that are heard; peers write to those alone
        self.rate = RateLimit(
            limits.xrce_scouts_source_count, limits.xrce_scouts_count, limits.scout_sources_count
        )

    def answer(
        self, scout: Scout, source: Hashable, now_ns: int, *, is_stream: bool = False
    ) -> Hello | None:
        """The Hello for a Scout, or None if it is not about us, or asked too often.

        Somebody who looks for peers is one, and learns which groups we hear, first of all.
        """
        if not scout.mask & self.roles or not self.rate.allows(source, now_ns):
            return None
        groups: tuple[bytes, ...] = ()
        if scout.mask & Role.PEER:
            groups = (CONNECTIONS,) if is_stream else self.groups
        return Hello(mask=int(self.roles), locators=(*groups, *self.locators))
