"""Which nodes there are, and which are connected to each other."""

from __future__ import annotations

from typing import Final

from elea.operate.admin_space import Node

_ZID_LEN: Final = 8  # what of an id is shown in pictures


def everybody(found: list[Node]) -> dict[str, tuple[str, str]]:
    """Id to role and label, of those who answered and of their neighbours."""
    seen = {one.zid: (one.role, one.zid[:_ZID_LEN]) for node in found for one in node.neighbours}
    told = {one.zid: (one.role, one.name or one.zid[:_ZID_LEN]) for one in found}
    return dict(sorted({**seen, **told}.items()))


def edges(found: list[Node]) -> list[tuple[str, str]]:
    """Pairs of ids that have a session with each other, each pair once."""
    pairs = {
        (min(node.zid, one.zid), max(node.zid, one.zid))
        for node in found
        for one in node.neighbours
    }
    return sorted(pairs)
