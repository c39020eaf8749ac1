"""Roles: who may be a router or a peer of this node, and whose link state counts.

A neighbour says itself what it is. A router is told of every declaration and is believed what it
says of the network, so a network with strangers in it names its routers.
"""

from __future__ import annotations

from typing import Final, Self

from elea.config.config import Config
from elea.ids import WhatAmI
from elea.policy.identity import Identity, Selection
from elea.records import dataclass

PATH: Final = "elea/roles"
_LINK_STATE: Final = "linkstate"


@dataclass(frozen=True, slots=True)
class Roles:
    """By role, who may have it; a role that is not named is everybody's.

    Example:
        >>> anna = Identity(zid="1", user="anna")
        >>> roles = Roles({"router": (Selection(users=("otto",)),)})
        >>> roles.admit(anna, WhatAmI.ROUTER), roles.admit(anna, WhatAmI.CLIENT)
        (False, True)
    """

    selections: dict[str, tuple[Selection, ...]]

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Read `elea/roles`."""
        found = config.get(PATH)
        if not isinstance(found, dict):
            return cls({})
        return cls(
            {
                name: tuple(Selection.read(one) for one in entries if isinstance(one, dict))
                for name, entries in found.items()
                if isinstance(entries, list)
            }
        )

    def admit(self, identity: Identity, whatami: WhatAmI) -> bool:
        """Whether a neighbour may have the role that it claims."""
        return self._names(str(whatami), identity)

    def is_router(self, identity: Identity) -> bool:
        """Whether a neighbour is named as one that may be a router; False if nobody is."""
        named = self.selections.get(str(WhatAmI.ROUTER), ())
        return any(one.matches(identity) for one in named)

    def believe(self, identity: Identity) -> bool:
        """Whether a neighbour may say who is connected to whom."""
        return self._names(_LINK_STATE, identity)

    def _names(self, role: str, identity: Identity) -> bool:
        named = self.selections.get(role)
        return named is None or any(one.matches(identity) for one in named)


EVERYBODY: Final = Roles({})
