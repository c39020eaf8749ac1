"""Context: what all modules of one node's routing share."""

from __future__ import annotations

from elea.limits import Limits
from elea.routing.effects import Candidate, Output
from elea.routing.egress import Egress
from elea.routing.interests.demands import Demands
from elea.routing.now import Now
from elea.routing.refusals import Refusals
from elea.routing.roles.role import Role
from elea.routing.settings import RoutingSettings
from elea.routing.stats import RoutingStats
from elea.routing.tables import Tables
from elea.routing.timers import Timers


class Context:
    """The tables and the means, made once per node."""

    __slots__ = (
        "candidates",
        "debts",
        "demands",
        "egress",
        "limits",
        "now",
        "output",
        "refusals",
        "role",
        "settings",
        "stats",
        "tables",
        "timers",
        "zid",
    )

    def __init__(
        self,
        zid: bytes,
        role: Role,
        output: Output,
        limits: Limits,
        settings: RoutingSettings,
        now: Now,
    ) -> None:
        self.zid = zid
        self.role = role
        self.output = output
        self.limits = limits
        self.settings = settings
        self.now = now
        self.stats = RoutingStats()
        self.refusals = Refusals(self.stats)
        self.timers = Timers()
        self.candidates: dict[bytes, Candidate] = {}  # heard of, to connect to
        self.debts: dict[int, int] = {}  # how many ns a face is not to be read: it made much work
        self.tables = Tables(role.regions, limits, zid)
        self.demands = Demands(limits)
        self.egress = Egress(output, self.tables)
