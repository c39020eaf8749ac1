"""Description: the devices of a gateway, what they declared, and what was counted, as JSON (18.3).

@xrce/<zid>                 the gateway: where it is, what it counted
@xrce/<zid>/session/<pid>   a device: its session, its declarations, its counters
"""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from elea.devices.ports import Place
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.xrce.declaration_records import (
    PERIODIC_PULL_MODE_ID,
    PERIODIC_PUSH_MODE_ID,
    PULL_MODE_ID,
    PUSH_MODE_ID,
)
from elea.xrce.gateway.device import Device
from elea.xrce.gateway.effects import Left
from elea.xrce.gateway.gateway import Gateway

_MODES: Final = {
    PUSH_MODE_ID: "push",
    PULL_MODE_ID: "pull",
    PERIODIC_PUSH_MODE_ID: "periodic push",
    PERIODIC_PULL_MODE_ID: "periodic pull",
}
_GONE_COUNT: Final = 16  # devices that left, and why
_DECLARED_COUNT: Final = 256  # declarations of one device that are listed


class Description:
    """Tells about a gateway. `answers` is for the thread of the hub alone."""

    def __init__(
        self,
        gateway: Gateway[Place],
        pid: bytes,
        counted: Callable[[], dict[str, int]],
        place: Callable[[Place], str],
    ) -> None:
        self.place = place
        self._pid = pid
        self._gateway = gateway
        self._counted = counted
        self._gone: deque[Json] = deque(maxlen=_GONE_COUNT)
        self.listen: list[str] = []

    def left(self, effect: Left) -> None:
        """A device is no longer there."""
        self._gone.append(
            {"pid": effect.pid.hex(), "reason": int(effect.reason), "why": effect.text}
        )

    def answers(self, root: str, key_expr: KeyExpr) -> Iterator[tuple[str, str]]:
        """What a query is answered: keys and JSON."""
        if key_expr.intersects(root):
            yield root, json.dumps(self.gateway())
        text = str(key_expr)
        prefix = f"{root}/session/"
        if "*" not in text:
            pids = [one for one in self._gateway.devices if text == f"{prefix}{one.hex()}"]
        else:
            pids = [
                one for one in self._gateway.devices if key_expr.intersects(f"{prefix}{one.hex()}")
            ]
        for pid in pids:
            yield f"{prefix}{pid.hex()}", json.dumps(self.device(self._gateway.devices[pid]))

    def gateway(self) -> dict[str, Json]:
        """The gateway as a whole; any thread may ask."""
        listen: list[Json] = [*self.listen]
        counts: dict[str, Json] = {**self._counted()}
        gone: list[Json] = [*self._gone]
        devices = len(self._gateway.devices)
        return {
            "pid": self._pid.hex(),
            "listen": listen,
            "devices": devices,
            "counts": counts,
            "left": gone,
        }

    def device(self, device: Device) -> dict[str, Json]:
        """One device, with its first declarations."""
        session = self._gateway.acceptor.session(device.pid)
        properties = device.properties
        source = self._gateway.acceptor.source_of(device.pid)
        names: dict[str, Json] = {}
        for id_, named in [*device.table.names.items()][:_DECLARED_COUNT]:
            text = named.resource.path
            predicate = named.selection.predicate
            names[str(id_)] = f"{text}?{{{predicate}}}" if predicate else text
        subscribers: dict[str, Json] = {
            str(id_): {"path": one.path, "mode": _MODES.get(one.mode, str(one.mode))}
            for id_, one in [*device.subscriptions.items()][:_DECLARED_COUNT]
        }
        publishers: dict[str, Json] = {
            str(id_): {"read": id_ in device.matched}
            for id_ in [*device.table.publishers][:_DECLARED_COUNT]
        }
        return {
            "pid": device.pid.hex(),
            "source": None if source is None else self.place(source),
            "state": None if session is None else session.state.name.lower(),
            "lease_ms": device.lease_ns // 1_000_000,
            "vendor": properties.vendor.hex(),
            "sequence_number_bits": properties.bits,
            "frame_len": None if session is None else session.frame_len,
            "unacknowledged": 0 if session is None else session.conduits.unacknowledged_count,
            "names": names,
            "publishers": publishers,
            "subscribers": subscribers,
            "counts": {
                **dataclasses.asdict(device.counters),
                **device.losses._asdict(),
                "resent": 0 if session is None else session.conduits.resent_count,
                "best_effort_dropped": 0 if session is None else session.conduits.dropped_count,
            },
        }
