"""Names for nodes and clients, so that people need not read ids.

The first of these that is known: the identity a session proved, the name in the node's metadata,
the chunks that all keys it declares begin with, four digits of its id. Equal names get digits, too.
Only an identity stands bare: any client can choose its own name and keys, so these are marked,
`'gate'` and `on fleet/r05`, and can not be taken for an identity.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final

from elea.operate.admin_space import AdminSpace, Neighbour, Node

DECLARATIONS_COUNT_MAX: Final = 10_000  # answers read to name nodes; more do not change a name
_DIGITS_MIN: Final = 4
_PLAIN_KEY: Final = re.compile(r"[\w/*$@.:+-]+")  # other keys are quoted: a list stays a list


class Labels:
    """Names of nodes by their ids; a node keeps its name for as long as it is seen.

    Args:
        space: Asked for declarations, when a node has no better name.
    """

    def __init__(self, space: AdminSpace) -> None:
        self._space = space
        self._roles: dict[str, str] = {}
        self._names: dict[str, str] = {}  # empty: it has none
        self._uses: Counter[str] = Counter()  # nodes by name
        self._digits: dict[str, str] = {}

    def __len__(self) -> int:
        """Return the number of nodes that are named."""
        return len(self._names)

    def learn(self, nodes: list[Node]) -> None:
        """Name these nodes and their neighbours, and forget all others.

        Asks for declarations only if one of them is new and has no better name.
        """
        roles = {one.zid: one.role for node in nodes for one in node.neighbours}
        roles |= {node.zid: node.role for node in nodes}
        if roles == self._roles:
            return
        new = [zid for zid in roles if zid not in self._names]
        self._roles = roles
        names = {zid: name for zid, name in self._names.items() if zid in roles}
        names |= dict.fromkeys(new, "") | self._chosen_names(nodes, set(new))
        self._names = names
        self._uses = Counter(names.values())
        self._digits = _digits(roles)

    def name(self, zid: str) -> str:
        """What a node is called without its role: `robot-7`, `'gate'`, `on fleet/r05`, `3c1f`."""
        digits = self._digits.get(zid, zid[:_DIGITS_MIN])
        name = self._names.get(zid, "")
        if not name:
            return digits
        return name if self._uses[name] == 1 else f"{name} {digits}"

    def label(self, zid: str, role: str = "") -> str:
        """A name that stands alone: `'gate'`, or `client 3c1f`."""
        name = self.name(zid)
        return name if self._names.get(zid) else f"{self._roles.get(zid, role or 'node')} {name}"

    def _chosen_names(self, nodes: list[Node], new: set[str]) -> dict[str, str]:
        """The best names of new nodes, as far as they have some."""
        names = {node.zid: _quoted(node.name) for node in nodes if node.name and node.zid in new}
        for node in nodes:
            for one in node.neighbours:
                if one.zid in new and (proved := identity_of(one)):
                    names[one.zid] = proved
        if len(names) < len(new):
            declared = self._declared()
            names = {zid: declared[zid] for zid in new if zid in declared} | names
        return names

    def _declared(self) -> dict[str, str]:
        keys: dict[str, list[str]] = {}
        for source in islice(self._space.sources("**"), DECLARATIONS_COUNT_MAX):
            for zid in source.zids:
                keys.setdefault(zid, []).append(source.key)
        return {
            zid: f"on {prefix if _PLAIN_KEY.fullmatch(prefix) else _quoted(prefix)}"
            for zid, declared in keys.items()
            if (prefix := common_prefix(declared))
        }


def _quoted(text: str) -> str:
    """A text a node chose, with its end marked: a quote inside would seem to end it."""
    return "'" + text.replace("'", '"') + "'"


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
