"""What goes through nodes and their sessions, by the counters they tell."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from elea.operate.admin_space import Neighbour, Node
from elea.operate.labels import identity_of


@dataclass(slots=True)
class Counters:
    """What a session or a node has counted so far."""

    received_messages: int
    received_octets: int
    sent_messages: int
    sent_octets: int
    drops: dict[str, int]
    waiting_octets: int

    @property
    def dropped(self) -> int:
        return sum(self.drops.values())


@dataclass(slots=True)
class Row:
    """One session of one node; what is None is not known."""

    node: Node
    session: Neighbour
    counters: Counters | None
    received_rate: float | None = None
    received_octets_rate: float | None = None
    sent_rate: float | None = None
    sent_octets_rate: float | None = None

    @property
    def identity(self) -> str:
        """Who it is by what it proved: a certificate, or a user with a password."""
        return identity_of(self.session)

    @property
    def protocol(self) -> str:
        return self.session.links[0][1].partition("/")[0] if self.session.links else ""

    def compare(self, before: Counters, passed_s: float) -> None:
        """Take the rates; a session that was made anew in between has none."""
        now = self.counters
        if now is None or passed_s <= 0 or now.received_octets < before.received_octets:
            return
        self.received_rate = (now.received_messages - before.received_messages) / passed_s
        self.received_octets_rate = (now.received_octets - before.received_octets) / passed_s
        self.sent_rate = (now.sent_messages - before.sent_messages) / passed_s
        self.sent_octets_rate = (now.sent_octets - before.sent_octets) / passed_s


@dataclass(slots=True)
class Look:
    """What was seen at one moment."""

    at_s: float
    nodes: list[Node]
    rows: list[Row]
    cpu_shares: dict[str, float] = field(default_factory=dict)  # of one processor, by node

    def compare(self, before: Look) -> None:
        """Take the rates since another moment."""
        used = {one.zid: _cpu_s(one) for one in before.nodes}
        for node in self.nodes:
            now_s, then_s = _cpu_s(node), used.get(node.zid)
            if now_s is not None and then_s is not None and now_s >= then_s:
                self.cpu_shares[node.zid] = (now_s - then_s) / (self.at_s - before.at_s)
        known = {(one.node.zid, one.session.zid): one.counters for one in before.rows}
        for row in self.rows:
            counters = known.get((row.node.zid, row.session.zid))
            if counters is not None:
                row.compare(counters, self.at_s - before.at_s)

    def drop_reasons(self) -> list[tuple[str, int]]:
        """How many messages all sessions dropped, by reason, most first."""
        reasons: dict[str, int] = {}
        for row in self.rows:
            for reason, count in ({} if row.counters is None else row.counters.drops).items():
                reasons[reason] = reasons.get(reason, 0) + count
        return sorted(reasons.items(), key=lambda one: -one[1])


def look(found: list[Node], chosen: str | None = None) -> Look:
    """What nodes tell now: all of them, or the chosen one."""
    found = [one for one in found if chosen is None or one.zid == chosen]
    rows = [Row(node, one, counters_of(one.stats)) for node in found for one in node.neighbours]
    return Look(time.monotonic(), found, rows)


def counters_of(stats: dict[str, object] | None) -> Counters | None:
    """What was told, as far as it is numbers."""
    if stats is None:
        return None
    told = stats.get("drops")
    drops = {} if not isinstance(told, dict) else {name: number(told[name]) for name in told}
    if not drops and number(stats.get("tx_n_dropped")):
        drops["tx-congestion"] = number(stats.get("tx_n_dropped"))
    return Counters(
        _messages(stats.get("rx_n_msgs")),
        number(stats.get("rx_bytes")),
        _messages(stats.get("tx_n_msgs")),
        number(stats.get("tx_bytes")),
        drops,
        number(stats.get("waiting_bytes")),
    )


def _cpu_s(node: Node) -> float | None:
    process = (node.stats or {}).get("process")
    value = process.get("cpu_seconds") if isinstance(process, dict) else None
    return value if isinstance(value, (int, float)) else None


def _messages(value: object) -> int:
    return sum(map(number, value.values())) if isinstance(value, dict) else number(value)


def number(value: object) -> int:
    """What was told, if it is a count; else 0."""
    return value if isinstance(value, int) and value >= 0 else 0


def rank(row: Row, by: str) -> tuple[float, str]:
    """What rows are sorted by, greatest first; `by` is one of `TRAFFIC_SORTS`."""
    counters = row.counters
    value = {
        "received": row.received_rate or 0.0,
        "sent": row.sent_rate or 0.0,
        "traffic": (row.received_octets_rate or 0.0) + (row.sent_octets_rate or 0.0),
        "drops": 0 if counters is None else counters.dropped,
        "waiting": 0 if counters is None else counters.waiting_octets,
        "zid": 0,
    }[by]
    return -value, row.session.zid
