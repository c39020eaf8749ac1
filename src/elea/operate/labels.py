"""Names for nodes and clients, so that people need not read ids.

The first of these that is known: the identity a session proved, the name in the node's metadata,
the chunks that all keys it declares begin with, four digits of its id. Equal names get digits, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from elea.operate.admin_space import AdminSpace, Neighbour, Node

DECLARATIONS_COUNT_MAX: Final = 10_000  # answers read to name nodes; more do not change a name
_DIGITS_MIN: Final = 4


class Labels:
    """Names of nodes by their ids; grows as nodes are seen, and a name that was given stays.

    Args:
        space: Asked for declarations, when a node has no better name.
    """

    def __init__(self, space: AdminSpace) -> None:
        self._space = space
        self._roles: dict[str, str] = {}
        self._names: dict[str, str] = {}  # empty: it has none
        self._digits: dict[str, str] = {}

    def learn(self, nodes: list[Node]) -> None:
        """Name these nodes and their neighbours; asks only if one of them is new and nameless."""
        roles = {one.zid: one.role for node in nodes for one in node.neighbours}
        roles |= {node.zid: node.role for node in nodes}
        new = [zid for zid in roles if zid not in self._names]
        if not new:
            return
        self._roles.update(roles)
        names = {node.zid: node.name for node in nodes if node.name}
        names |= {
            one.zid: proved
            for node in nodes
            for one in node.neighbours
            if (proved := identity_of(one))
        }
        if any(zid not in names for zid in new):
            names = self._declared() | names
        self._names.update({zid: names.get(zid, "") for zid in new})
        self._digits = _digits(self._roles)

    def name(self, zid: str) -> str:
        """What a node is called without its role: `gate`, `fleet/r05` or `3c1f`."""
        digits = self._digits.get(zid, zid[:_DIGITS_MIN])
        name = self._names.get(zid, "")
        if not name:
            return digits
        is_unique = sum(one == name for one in self._names.values()) == 1
        return name if is_unique else f"{name} {digits}"

    def label(self, zid: str, role: str = "") -> str:
        """A name that stands alone: `gate`, or `client 3c1f`."""
        name = self.name(zid)
        return name if self._names.get(zid) else f"{self._roles.get(zid, role or 'node')} {name}"

    def _declared(self) -> dict[str, str]:
        keys: dict[str, list[str]] = {}
        for source in islice(self._space.sources("**"), DECLARATIONS_COUNT_MAX):
            for zid in source.zids:
                keys.setdefault(zid, []).append(source.key)
        return {zid: common_prefix(declared) for zid, declared in keys.items()}


def identity_of(session: Neighbour) -> str:
    """Who a session is by what it proved: a certificate, or a user with a password; or empty."""
    stats = session.stats or {}
    proved = stats.get("common_name") or stats.get("user")
    return proved if isinstance(proved, str) else ""


def common_prefix(keys: Iterable[str]) -> str:
    """The chunks that all keys begin with; wildcards end it unless there is one key only.

    Example:
        >>> common_prefix(["fleet/r5/imu", "fleet/r5/battery"]), common_prefix(["a/*/pose"])
        ('fleet/r5', 'a/*/pose')
        >>> common_prefix(["a/b", "c"])
        ''
    """
    different = list(dict.fromkeys(keys))
    if len(different) == 1:
        return "" if different[0] == "**" else different[0]
    chunks = [key.split("/") for key in different]
    common: list[str] = []
    for column in zip(*chunks, strict=False):
        if len(set(column)) > 1 or "*" in column[0]:
            break
        common.append(column[0])
    return "/".join(common)


def _digits(zids: Iterable[str]) -> dict[str, str]:
    """The first digits of each id, as few as tell all of them apart, and at least four."""
    known = list(zids)
    length = _DIGITS_MIN
    longest = max(map(len, known), default=0)
    while length < longest and len({zid[:length] for zid in known}) < len(known):
        length += 1
    return {zid: zid[:length] for zid in known}
