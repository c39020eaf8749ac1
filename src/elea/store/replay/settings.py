"""What may be chosen of a replay."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from elea.errors import InvalidValueError
from elea.store.log.schema import RowKind
from elea.store.replay.pace import checked_speed

KINDS: Final = {
    "put": frozenset({int(RowKind.PUT)}),
    "delete": frozenset({int(RowKind.DELETE)}),
    "token": frozenset({int(RowKind.TOKEN_PUT), int(RowKind.TOKEN_DELETE)}),
}
TIMESTAMPS: Final = ("original", "now")
CLOCKS: Final = ("hlc", "recv")
CONGESTIONS: Final = ("auto", "recorded", "block")
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What is replayed, and how.

    Attributes:
        key_exprs: Rows of keys that one of these matches; none means all.
        start: From when on, as in `elea.store.replay.moment`; None: from the first row.
        end: Until when, included.
        speed: How much of the past goes by in a second; 0 is as fast as possible.
        loop: Whether to begin again at the end.
        rewrite: Rules for keys, as `fleet/{x}=sim/{x}`.
        timestamps: `original`: samples keep theirs. `now`: they get new ones of the session.
        kinds: Of put, delete and token. Tokens are declared as real ones while they were there.
        clock: What the time of a row is: its timestamp (`hlc`), or its reception (`recv`).
        congestion: Where a queue is full: as `recorded`, or `block`. `auto` blocks without speed.

    Raises:
        InvalidValueError: a value is not legal.
    """

    key_exprs: Sequence[str] = ()
    start: str | None = None
    end: str | None = None
    speed: float = 1.0
    loop: bool = False
    rewrite: Sequence[str] = ()
    timestamps: str = "original"
    kinds: Sequence[str] = ("put", "delete")
    clock: str = "hlc"
    congestion: str = "auto"

    def __post_init__(self) -> None:
        checked_speed(self.speed)
        for name, legal in (
            ("timestamps", TIMESTAMPS),
            ("clock", CLOCKS),
            ("congestion", CONGESTIONS),
        ):
            seen = getattr(self, name)
            if seen not in legal:
                raise InvalidValueError(name, f"saw {seen!r}; legal are {', '.join(legal)}")
        for kind in self.kinds:
            if kind not in KINDS:
                raise InvalidValueError("kinds", f"saw {kind!r}; legal are {', '.join(KINDS)}")
        if not self.kinds:
            raise InvalidValueError("kinds", f"saw none; legal are some of {', '.join(KINDS)}")

    @property
    def row_kinds(self) -> frozenset[int]:
        """The kinds, as in the column `kind`."""
        return frozenset().union(*(KINDS[kind] for kind in self.kinds))

    @property
    def blocks(self) -> bool:
        """Whether samples wait where a queue is full, whatever was recorded."""
        if self.congestion == "auto":
            return self.speed == 0
        return self.congestion == "block"


def checked_id(id: str) -> str:
    """The name of a replay: one chunk of a key.

    Raises:
        InvalidValueError: it is none.
    """
    if not _ID.fullmatch(id):
        reason = "legal are 1 to 64 letters, digits, `-`, `_` and `.`"
        raise InvalidValueError("id of a replay", f"saw {id[:80]!a}; {reason}")
    return id
