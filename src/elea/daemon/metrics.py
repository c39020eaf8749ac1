"""What a node counted, as OpenMetrics text: the admin space's `metrics`.

`zenoh_build_info` is Eclipse Zenoh's; everything else is named `elea_*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from elea import version
from elea.ids import WhatAmI, ZenohId
from elea.node.node import Node
from elea.node.views import NeighbourView
from elea.routing.tables import Kind

ENCODING: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
COUNTERS: Final = (  # of a transport: name, what it counts
    ("sent_messages", "Messages sent."),
    ("sent_batches", "Batches sent."),
    ("sent_octets", "Octets sent."),
    ("received_messages", "Messages received."),
    ("received_batches", "Batches received."),
    ("received_octets", "Octets received."),
    ("blocked", "Messages that had to wait for room."),
    ("dropped_congestion", "Messages dropped for want of room."),
    ("dropped_too_long", "Messages dropped because they fit no batch."),
    ("dropped_closed", "Messages dropped after the end of their transport."),
    ("dropped_link", "Batches dropped because they fit no link."),
    ("lost_fragments", "Messages of which not all fragments came."),
    ("missed_numbers", "Sequence numbers that never came."),
    ("stale_frames", "Frames that were old or came twice."),
    ("undecodable_messages", "Messages put together that are none."),
)

Labels = Mapping[str, str]


@dataclass(slots=True)
class Family:
    """One metric: its name, its type, what it is, and its values by label."""

    name: str
    kind: str
    help: str
    samples: list[tuple[Labels, int | float]] = field(default_factory=list)

    def lines(self, *, descriptors: bool) -> Iterable[str]:
        """The metric as text, one line each."""
        if descriptors:
            yield f"# HELP {self.name} {self.help}"
            yield f"# TYPE {self.name} {self.kind}"
        suffix = {"counter": "_total", "info": "_info"}.get(self.kind, "")
        for labels, value in self.samples:
            inner = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{suffix}{'{' + inner + '}' if inner else ''} {value}"


def text(families: Sequence[Family], *, descriptors: bool = True) -> str:
    """Metrics as OpenMetrics text."""
    found = [line for one in families for line in one.lines(descriptors=descriptors)]
    return "\n".join([*found, "# EOF", ""])


def collect(node: Node, *, uptime_s: float, per_transport: bool = True) -> list[Family]:
    """All metrics of a node; under its lock."""
    views = node.views()
    return [
        Family("zenoh_build", "info", "Zenoh build version.", [(_build(node), 1)]),
        Family("elea_uptime_seconds", "gauge", "Time since the start.", [({}, round(uptime_s, 3))]),
        Family(
            "elea_sessions",
            "gauge",
            "Neighbours that are connected, by role.",
            [
                ({"whatami": str(role)}, sum(one.whatami == role.index for one in views))
                for role in WhatAmI
            ],
        ),
        Family(
            "elea_declarations",
            "gauge",
            "Keys that are declared, by kind.",
            [({"kind": kind.name.lower()}, node.routing.tables.count(kind)) for kind in Kind],
        ),
        *_transports(views, per_transport=per_transport),
        Family(
            "elea_routing_drops",
            "counter",
            "Messages that went nowhere, by reason.",
            [({"reason": name}, count) for name, count in node.routing.stats.dropped().items()],
        ),
        Family(
            "elea_links_refused",
            "counter",
            "Links that did not become a session, or were closed for safety, by reason.",
            [({"reason": name}, count) for name, count in node.stats.refused().items()],
        ),
    ]


def build_text() -> str:
    """The version as Eclipse Zenoh shows its own."""
    build = "compiled" if version.COMPILED else "interpreted"
    return f"v{version.VERSION}-elea {build}, wire version {version.WIRE_VERSION}"


def _build(node: Node) -> Labels:
    return {
        "local_id": str(ZenohId(node.zid)),
        "local_whatami": str(node.whatami),
        "version": build_text(),
    }


def _transports(views: list[NeighbourView], *, per_transport: bool) -> list[Family]:
    counted = [(view, view.stats.as_dict()) for view in views]
    families = []
    for name, meaning in COUNTERS:
        values = [(view, _total(stats[name])) for view, stats in counted]
        family = Family(f"elea_transport_{name}", "counter", meaning)
        if per_transport:
            family.samples = [(_remote(view), value) for view, value in values]
        else:
            family.samples = [({}, sum(value for _, value in values))]
        families.append(family)
    return families


def _remote(view: NeighbourView) -> Labels:
    role = WhatAmI.from_index(view.whatami)
    return {"remote_id": str(ZenohId(view.zid)), "remote_whatami": str(role)}


def _total(value: object) -> int:
    """A counter, or the sum of one that is kept by priority or by reason."""
    if isinstance(value, dict):
        return sum(value.values())
    if isinstance(value, list):
        return sum(value)
    assert isinstance(value, int)
    return value


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
