"""What a node counted: one table of metrics, as OpenMetrics text and as JSON.

What Eclipse Zenoh 1.10 counts as well has its name, `zenoh_*`, and its labels; the rest is named
`elea_*`. No metric has a label that neighbours choose, but those by transport: their ids.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from elea import version
from elea.ids import WhatAmI, ZenohId
from elea.json5 import Json
from elea.node.node import Node
from elea.node.views import NeighbourView, groups_counted
from elea.routing.stats import Drop
from elea.routing.tables import Kind
from elea.session.spool import SpoolStats

ENCODING: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_PER_TRANSPORT: Final = "_per_transport"

# Counters of a transport that are drops: direction, reason. The others are metrics of their own.
DROPS: Final = {
    "dropped_congestion": ("tx", "congestion"),
    "dropped_too_long": ("tx", "too-long"),
    "dropped_closed": ("tx", "closed"),
    "dropped_link": ("tx", "no-link"),
    "lost_fragments": ("rx", "fragments"),
    "stale_frames": ("rx", "stale"),
    "undecodable_messages": ("rx", "undecodable"),
    "undecodable_batches": ("rx", "undecodable-batch"),
}

# What becomes of samples that wait for a recorder: `SpoolStats` says what is what.
SPOOL_OUTCOMES: Final = (
    *("spooled", "forwarded", "duplicate"),
    *("expired", "invalid", "lost", "full"),
)

# All counters of a transport.
COUNTERS: Final = (
    *("sent_octets", "sent_batches", "sent_messages"),
    *("received_octets", "received_batches", "received_messages"),
    *("blocked", "missed_numbers"),
    *DROPS,
)

Labels = Mapping[str, str]
Samples = list[tuple[Labels, int | float]]


@dataclass(slots=True)
class Family:
    """One metric: its name, its type, what it is, and its values by label."""

    name: str
    kind: str
    help: str
    samples: Samples = field(default_factory=list)
    unit: str = ""  # also the end of the name

    def lines(self, *, descriptors: bool) -> Iterable[str]:
        """The metric as text, one line each."""
        if descriptors:
            yield f"# HELP {self.name} {self.help}"
            yield f"# TYPE {self.name} {self.kind}"
            if self.unit:
                yield f"# UNIT {self.name} {self.unit}"
        suffix = _SUFFIXES.get(self.kind, "")
        for labels, value in self.samples:
            inner = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{suffix}{'{' + inner + '}' if inner else ''} {value}"


@dataclass(slots=True)
class Snapshot:
    """What metrics are read from: a node, looked at once."""

    node: Node
    views: list[NeighbourView]
    uptime_s: float
    audit_lost: int = 0
    spool: SpoolStats | None = None

    @property
    def local(self) -> dict[str, str]:
        """The labels of every metric that is Eclipse Zenoh's."""
        return {"local_id": str(ZenohId(self.node.zid)), "local_whatami": str(self.node.whatami)}

    def by_protocol(self, counter: str) -> dict[str, int]:
        """The sums of a counter of transports, groups and those included that are no more."""
        sums: dict[str, int] = {}
        others = (*self.node.departed.counters.items(), *groups_counted(self.node.groups).items())
        for protocol, counters in (
            *others,
            *((_protocol(view), view.counters) for view in self.views),
        ):
            sums[protocol] = sums.get(protocol, 0) + counters.get(counter, 0)
        return sums

    def total(self, counter: str) -> int:
        """A counter of transports over all of them."""
        return sum(self.by_protocol(counter).values())


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table.

    `read` gives the values; `per_transport` those of one transport, for a second metric whose name
    has `_per_transport` in it.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[Snapshot], Samples]
    per_transport: Callable[[NeighbourView], Samples] | None = None
    unit: str = ""

    @property
    def shown_name(self) -> str:
        """The name of its values."""
        return self._full(self.name) + _SUFFIXES.get(self.kind, "")

    def families(self, snapshot: Snapshot, *, per_transport: bool) -> Iterator[Family]:
        """Its values now."""
        name = self._full(self.name)
        yield Family(name, self.kind, f"{self.help}.", self.read(snapshot), self.unit)
        if not per_transport or self.per_transport is None:
            return
        local = snapshot.local if self.name.startswith("zenoh_") else {}
        samples: Samples = [
            ({**local, **labels, **_remote(view)}, value)
            for view in snapshot.views
            for labels, value in self.per_transport(view)
        ]
        name = self._full(self.name + _PER_TRANSPORT)
        yield Family(name, self.kind, f"{self.help} (per transport).", samples, self.unit)

    def _full(self, name: str) -> str:
        return f"{name}_{self.unit}" if self.unit else name


def text(families: Sequence[Family], *, descriptors: bool = True) -> str:
    """Metrics as OpenMetrics text."""
    found = [line for one in families for line in one.lines(descriptors=descriptors)]
    return "\n".join([*found, "# EOF", ""])


def collect(
    node: Node,
    *,
    uptime_s: float,
    per_transport: bool = True,
    audit_lost: int = 0,
    spool: SpoolStats | None = None,
) -> list[Family]:
    """All metrics of a node; under its lock."""
    snapshot = Snapshot(node, node.views(), uptime_s, audit_lost, spool)
    return [
        family
        for metric in METRICS
        for family in metric.families(snapshot, per_transport=per_transport)
    ]


def build_text() -> str:
    """The version as Eclipse Zenoh shows its own."""
    build = "compiled" if version.COMPILED else "interpreted"
    return f"v{version.VERSION}-elea {build}, wire version {version.WIRE_VERSION}"


def stats_json(counters: Mapping[str, int]) -> dict[str, Json]:
    """Counters of a transport as the parameter `_stats` shows them, in Eclipse Zenoh's layout."""
    sent: Json = {"net": counters.get("sent_messages", 0), "shm": 0}
    received: Json = {"net": counters.get("received_messages", 0), "shm": 0}
    return {
        "rx_bytes": counters.get("received_octets", 0),
        "rx_n_dropped": 0,  # never there: what comes in has been sent
        "rx_n_msgs": received,
        "rx_t_msgs": counters.get("received_batches", 0),
        "tx_bytes": counters.get("sent_octets", 0),
        "tx_n_dropped": counters.get("dropped_congestion", 0),
        "tx_n_msgs": sent,
        "tx_t_msgs": counters.get("sent_batches", 0),
        "drops": {
            f"{direction}-{reason}": counters[name]
            for name, (direction, reason) in DROPS.items()
            if counters.get(name)
        },
    }


def process_json() -> dict[str, Json]:
    """What the process uses."""
    return {"resident_bytes": resident_len(), "cpu_seconds": round(time.process_time(), 3)}


def resident_len() -> int:
    """The octets of memory that the process has; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


# What the table reads.


def _build(snapshot: Snapshot) -> Samples:
    return [({**snapshot.local, "version": build_text()}, 1)]


def _links(snapshot: Snapshot) -> Samples:
    counts: dict[str, int] = {}
    for view in snapshot.views:
        for info in view.links:
            counts[info.scheme] = counts.get(info.scheme, 0) + 1
    return [({**snapshot.local, "protocol": name}, count) for name, count in counts.items()]


def _resources(snapshot: Snapshot) -> Samples:
    counts = {(kind, locality): 0 for kind in Kind for locality in ("local", "remote")}
    for face in snapshot.node.routing.tables.faces.values():
        for kind in Kind:
            counts[kind, "local" if face.spec.local else "remote"] += len(face.remote[kind])
    return [
        ({**snapshot.local, "resource": kind.name.lower(), "locality": locality}, count)
        for (kind, locality), count in counts.items()
    ]


def _declared_keys(snapshot: Snapshot) -> Samples:
    count = snapshot.node.routing.tables.count
    return [({"kind": kind.name.lower()}, count(kind)) for kind in Kind]


def _counted(counter: str, **more: str) -> Callable[[Snapshot], Samples]:
    def read(snapshot: Snapshot) -> Samples:
        return [
            ({**snapshot.local, **more, "protocol": name}, count)
            for name, count in snapshot.by_protocol(counter).items()
        ]

    return read


def _counted_there(counter: str, **more: str) -> Callable[[NeighbourView], Samples]:
    return lambda view: [({**more, "protocol": _protocol(view)}, view.counters[counter])]


def _sessions(snapshot: Snapshot) -> Samples:
    roles = [one.whatami for one in snapshot.views]
    return [({"whatami": str(role)}, roles.count(role.index)) for role in WhatAmI]


def _drops(snapshot: Snapshot) -> Samples:
    samples: Samples = [
        (_drop("transport", direction, reason), snapshot.total(name))
        for name, (direction, reason) in DROPS.items()
    ]
    counts = snapshot.node.routing.stats.drops
    samples += [(_drop("routing", "rx", one.value), counts[one]) for one in Drop]
    return samples


def _drops_there(view: NeighbourView) -> Samples:
    return [
        (_drop("transport", direction, reason), view.counters[name])
        for name, (direction, reason) in DROPS.items()
    ]


def _drop(where: str, direction: str, reason: str) -> Labels:
    return {"where": where, "direction": direction, "reason": reason}


def _refused(snapshot: Snapshot) -> Samples:
    counts = sorted(snapshot.node.guards.refused.items(), key=lambda one: str(one[0]))
    return [
        ({"reason": str(reason), "flow": flow.value, "action": action.value}, count)
        for (reason, flow, action), count in counts
    ]


def _spooled(read: Callable[[SpoolStats], int | float]) -> Callable[[Snapshot], Samples]:
    """Of the spool, where there is one."""
    return lambda snapshot: [] if snapshot.spool is None else [({}, read(snapshot.spool))]


def _spool_outcomes(snapshot: Snapshot) -> Samples:
    spool = snapshot.spool
    if spool is None:
        return []
    return [({"outcome": one}, getattr(spool, f"{one}_count")) for one in SPOOL_OUTCOMES]


def _own(counter: str) -> Callable[[Snapshot], Samples]:
    return lambda snapshot: [({}, snapshot.total(counter))]


def _own_there(counter: str) -> Callable[[NeighbourView], Samples]:
    return lambda view: [({}, view.counters[counter])]


def _protocol(view: NeighbourView) -> str:
    return view.links[0].scheme if view.links else "none"


def _remote(view: NeighbourView) -> Labels:
    role = WhatAmI.from_index(view.whatami)
    labels = {"remote_zid": str(ZenohId(view.zid)), "remote_whatami": str(role)}
    return {**labels, "remote_cn": view.common_name} if view.common_name else labels


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _two_ways(name: str, what: str, counters: tuple[str, str], unit: str = "") -> list[Metric]:
    """What is counted in both directions, as Eclipse Zenoh names it."""
    labels = ("protocol",) if unit or "transport" in name else ("protocol", "shm")
    more = {"shm": "false"} if "shm" in labels else {}
    return [
        Metric(
            f"zenoh_{way}{name}",
            "counter",
            f"Count of {what} {verb}",
            labels,
            _counted(counter, **more),
            _counted_there(counter, **more),
            unit,
        )
        for way, verb, counter in zip(("tx", "rx"), ("sent", "received"), counters, strict=True)
    ]


METRICS: Final = (
    Metric("zenoh_build", "info", "Zenoh build version", ("version",), _build),
    Metric(
        "zenoh_transports_opened",
        "gauge",
        "Count of transports currently opened",
        (),
        lambda snapshot: [(snapshot.local, len(snapshot.views))],
    ),
    Metric("zenoh_links_opened", "gauge", "Count of links currently opened", ("protocol",), _links),
    Metric(
        "zenoh_resources_declared",
        "gauge",
        "Count of resources currently declared by sessions here and by neighbours",
        ("resource", "locality"),
        _resources,
    ),
    *_two_ways("", "transport messages bytes", ("sent_octets", "received_octets"), "bytes"),
    *_two_ways("_transport_message", "batches", ("sent_batches", "received_batches")),
    *_two_ways("_network_message", "network messages", ("sent_messages", "received_messages")),
    Metric(
        "elea_drops",
        "counter",
        "Messages, frames and batches that were dropped, by where and why",
        ("where", "direction", "reason"),
        _drops,
        _drops_there,
    ),
    Metric(
        "elea_refused_messages",
        "counter",
        "Messages that rules, filters or quotas did not let pass",
        ("reason", "flow", "action"),
        _refused,
        lambda view: [({}, view.refused_count)],
    ),
    Metric(
        "elea_links_refused",
        "counter",
        "Links that did not become a session, or were closed for safety",
        ("reason",),
        lambda snapshot: [
            ({"reason": name}, count) for name, count in snapshot.node.stats.refused().items()
        ],
    ),
    Metric(
        "elea_audit_lost",
        "counter",
        "Audit lines that could not be written",
        (),
        lambda snapshot: [({}, snapshot.audit_lost)],
    ),
    Metric(
        "elea_missed_numbers",
        "counter",
        "Sequence numbers that never came: frames that were lost on the way",
        (),
        _own("missed_numbers"),
        _own_there("missed_numbers"),
    ),
    Metric(
        "elea_blocked_messages",
        "counter",
        "Messages that had to wait for room",
        (),
        _own("blocked"),
        _own_there("blocked"),
    ),
    Metric(
        "elea_waiting_messages",
        "gauge",
        "Messages that wait for room",
        (),
        lambda snapshot: [({}, sum(one.waiting_count for one in snapshot.views))],
        lambda view: [({}, view.waiting_count)],
    ),
    Metric(
        "elea_queue",
        "gauge",
        "Octets in batches that wait to be written",
        (),
        lambda snapshot: [({}, sum(one.waiting_len for one in snapshot.views))],
        lambda view: [({}, view.waiting_len)],
        "bytes",
    ),
    Metric(
        "elea_declared_keys",
        "gauge",
        "Keys that somebody declared, here or in the network of routers",
        ("kind",),
        _declared_keys,
    ),
    Metric("elea_sessions", "gauge", "Neighbours that are connected", ("whatami",), _sessions),
    Metric(
        "elea_spool_waiting",
        "gauge",
        "Acknowledged puts that wait here for a recorder",
        (),
        _spooled(lambda spool: spool.waiting_count),
    ),
    Metric(
        "elea_spool",
        "gauge",
        "Octets that these take",
        (),
        _spooled(lambda spool: spool.waiting_len),
        unit="bytes",
    ),
    Metric(
        "elea_spool_oldest_age",
        "gauge",
        "Time since the oldest of them was put; 0 if none waits",
        (),
        _spooled(lambda spool: spool.oldest_age_ns / 1e9),
        unit="seconds",
    ),
    Metric(
        "elea_spool_samples",
        "counter",
        "What became of acknowledged puts that found no recorder, since the spool was declared",
        ("outcome",),
        _spool_outcomes,
    ),
    Metric(
        "elea_uptime",
        "gauge",
        "Time since the start",
        (),
        lambda snapshot: [({}, round(snapshot.uptime_s, 3))],
        unit="seconds",
    ),
    Metric(
        "elea_process_resident",
        "gauge",
        "Memory of the process; 0 where the system does not tell",
        (),
        lambda _: [({}, resident_len())],
        unit="bytes",
    ),
    Metric(
        "elea_process_cpu",
        "counter",
        "Processor time of the process",
        (),
        lambda _: [({}, round(time.process_time(), 3))],
        unit="seconds",
    ),
)
