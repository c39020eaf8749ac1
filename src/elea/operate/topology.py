"""Which nodes there are, and which are connected to each other."""

from __future__ import annotations

from elea.operate.admin_space import Node
from elea.operate.labels import Labels


def everybody(found: list[Node], labels: Labels) -> dict[str, tuple[str, str]]:
    """Id to role and name, of the nodes that answered and of their neighbours."""
    roles = {one.zid: one.role for node in found for one in node.neighbours}
    roles |= {node.zid: node.role for node in found}
    return {zid: (roles[zid], labels.name(zid)) for zid in sorted(roles)}


def edges(found: list[Node]) -> list[tuple[str, str]]:
    """Pairs of ids that have a session with each other, each pair once."""
    pairs = {
        (min(node.zid, one.zid), max(node.zid, one.zid))
        for node in found
        for one in node.neighbours
    }
    return sorted(pairs)
