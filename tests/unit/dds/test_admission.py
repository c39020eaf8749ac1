"""Endpoints that are discovered: a bound holds for all of them, those of other bridges included."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from elea.dds.admission import Admission
from elea.dds.port import Endpoint, Gone
from elea.dds.qos import Qos
from elea.limits import DEFAULT_LIMITS

OWN = b"\x01" * 16
BRIDGE = b"\x02" * 12
PEER = b"\x03" * 12


def endpoint(participant: bytes, number: int) -> Endpoint:
    guid = participant + number.to_bytes(4, "big")
    return Endpoint(
        guid=guid,
        participant=participant + b"\0\0\x01\xc1",
        is_writer=True,
        topic="T",
        type_name="T",
        qos=Qos(),
        type_hash=b"",
        handle=number,
    )


class _Domain:
    """A bridge whose domain has what a test puts there."""

    def __init__(self) -> None:
        self.bridges = {BRIDGE}
        self.found: list[Any] = []
        self.limits = replace(
            DEFAULT_LIMITS, dds_participant_endpoints_count=10, dds_endpoints_count=15
        )
        self.counts = SimpleNamespace(refused=0)
        self.dds = SimpleNamespace(guid=OWN, discovered=lambda _count: self.found)
        self.presence = SimpleNamespace(
            is_bridge=lambda guid: guid[:12] in self.bridges,
            announce=lambda *_: None,
            withdraw=lambda _guid: None,
            remove=lambda _guid: None,
        )
        self.table = SimpleNamespace(
            endpoints={}, add=self._add, remove=self._remove, routed=lambda _guid: []
        )

    def apply(self, _plans: object) -> None:
        """Make no routes."""

    def _add(self, one: Endpoint) -> None:
        self.table.endpoints[one.guid] = one

    def _remove(self, guid: bytes) -> None:
        self.table.endpoints.pop(guid, None)

    def discover(self, admission: Admission, *found: object) -> None:
        self.found = list(found)
        admission.discover()


@pytest.mark.line("D-831")
def test_a_participant_that_poses_as_a_bridge_announced_endpoints_without_bound() -> None:
    domain: Any = _Domain()
    admission = Admission(domain, ())
    domain.discover(admission, *(endpoint(BRIDGE, number) for number in range(50)))
    assert (len(admission.hidden), domain.counts.refused) == (10, 40)
    domain.discover(admission, *(endpoint(PEER, number) for number in range(10)))
    assert (len(domain.table.endpoints), domain.counts.refused) == (5, 45)
    domain.discover(admission, *(Gone(endpoint(BRIDGE, one).guid, "writer") for one in range(10)))
    domain.discover(admission, *(endpoint(PEER, number) for number in range(10)))
    assert (len(admission.hidden), len(domain.table.endpoints)) == (0, 10)


def test_endpoints_of_a_bridge_that_ends_are_admitted_once() -> None:
    domain: Any = _Domain()
    admission = Admission(domain, ())
    domain.discover(admission, *(endpoint(BRIDGE, number) for number in range(10)))
    domain.bridges.clear()
    admission.bridges_changed()
    assert (len(admission.hidden), len(domain.table.endpoints)) == (0, 10)
    domain.bridges.add(BRIDGE)
    admission.bridges_changed()
    assert (len(admission.hidden), len(domain.table.endpoints)) == (10, 0)
    domain.discover(admission, Gone(BRIDGE + b"\0\0\x01\xc1", "participant"))
    domain.discover(admission, *(endpoint(BRIDGE, number) for number in range(10)))
    assert (len(admission.hidden), domain.counts.refused) == (10, 0)
