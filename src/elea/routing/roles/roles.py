"""All roles, by the role index of INIT."""

from __future__ import annotations

from typing import Final

from elea.routing.roles.client import CLIENT_ROLE
from elea.routing.roles.peer import PEER_ROLE
from elea.routing.roles.role import Role
from elea.routing.roles.router import ROUTER_ROLE

ROLES: Final[dict[int, Role]] = {
    role.whatami: role for role in (ROUTER_ROLE, PEER_ROLE, CLIENT_ROLE)
}
