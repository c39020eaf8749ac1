"""XRCE devices and DDS topics: durability, predicates on members, and property 1 (dds.md 18)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.dds.peers import LIMIT_S, Peer, bridge, next_domain, peer, until
from tests.unit.devices.rig import Served, served

from elea.dds.bridge import Bridge
from elea.dds.parameter_list import PROPERTY, Described, read_parameters, write_parameters
from elea.dds.qos import Durability, Qos, Reliability
from elea.decode.property_list import read_properties
from elea.devices.device import Device
from elea.xrce.declaration_records import Property

line = pytest.mark.line


@dataclass
class Ends:
    """A router with a gateway and a bridge, a DDS participant and a device."""

    gateway: Served
    bridge: Bridge
    peer: Peer
    device: Device


@pytest.fixture
def ends() -> Iterator[Ends]:
    domain = next_domain()
    with (
        served() as gateway,
        bridge(gateway.session, domain, types={"demo::Own": {"layout": "{id: i32}"}}) as made,
        peer(domain) as other,
        Device(gateway.udp, timeout_s=LIMIT_S) as device,
    ):
        yield Ends(gateway, made, other, device)


def number(payload: bytes) -> int:
    return int.from_bytes(payload[4:8], "little")


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


@line("D-733")
def test_durability_is_that_of_the_route(ends: Ends) -> None:
    bridged = ends.gateway.service._bridged
    ends.peer.writer("kept", "Kept", "Chatter", durability="transient_local", partitions=["p1"])
    ends.peer.writer("live", "Live", "Chatter", partitions=["p1"])
    until(lambda: ends.peer.matched("kept"))  # durable writers are mirrored without a subscriber
    ends.peer.write("kept", [{"number": 1, "text": ""}])
    [route] = [one for id_, one in ends.bridge.routes.items() if id_.key == "p1/Kept"]
    until(lambda: route.counts.samples, "the sample in the cache")
    # A late device that wants durable data gets what was written before, then what comes.
    ends.device.subscriber("/p1/Kept#transient")
    first = ends.device.receive(LIMIT_S)
    assert first is not None
    assert number(first.payload) == 1
    until(lambda: bridged.level_of("p1/Kept"))
    ends.peer.write("kept", [{"number": 2, "text": ""}])
    second = ends.device.receive(LIMIT_S)
    assert second is not None
    assert number(second.payload) == 2
    # Volatile data is not what it wants: the sample that follows is of another resource.
    ends.device.subscriber("/p1/Live#transient")
    until(lambda: ends.peer.matched("live"))
    until(lambda: bridged.level_of("p1/Live") is not None)
    ends.peer.write("live", [{"number": 3, "text": ""}])
    [volatile] = [one for id_, one in ends.bridge.routes.items() if id_.key == "p1/Live"]
    until(lambda: volatile.counts.samples, "the sample in the data space")
    ends.peer.write("kept", [{"number": 4, "text": ""}])
    third = ends.device.receive(LIMIT_S)
    assert third is not None
    assert number(third.payload) == 4


@line("D-734")
def test_predicates_see_the_members_of_samples(ends: Ends) -> None:
    ends.device.subscriber("/Talk?{number > 5 and text = 'yes'}")
    ends.peer.writer("w", "Talk", "Chatter")
    until(lambda: ends.peer.matched("w"))
    schemas = ends.gateway.service._bridged
    until(lambda: list(schemas._schemas), "the schema of the topic")
    said = [(4, "yes"), (6, "no"), (7, "yes"), (1, "yes"), (8, "yes")]
    ends.peer.write("w", [{"number": one, "text": text} for one, text in said])
    found = [ends.device.receive(LIMIT_S) for _ in range(2)]
    assert [number(one.payload) for one in found if one is not None] == [7, 8]


@line("D-735", "D-104")
def test_property_1_of_a_bridged_resource_is_answered(ends: Ends) -> None:
    partitions = ["a.b", "c"]
    ends.peer.reader("r", "T", "Keyed", partitions=["a.b"])
    ends.peer.writer("w", "T", "Keyed", durability="transient_local", partitions=partitions)
    until(lambda: ends.peer.matched("w") == 3, "the own reader, and a mirror in each partition")

    def asked() -> bytes | None:
        for reply in ends.gateway.session.get("a.b/T/property"):
            if reply.ok is not None:
                return reply.ok.payload.to_bytes()
        return None

    listed = until(asked)
    described = read_parameters(read_properties(listed)[PROPERTY])
    assert (described.topic, described.type_name) == ("T", "demo::Keyed")
    assert described.qos.durability is Durability.TRANSIENT_LOCAL  # the most durable endpoint
    assert described.qos.reliability is Reliability.RELIABLE
    assert described.qos.partitions == ("a.b",)  # as DDS has it, though keys may differ
    assert described.type_information
    # A device reads it, as a subscriber and by a pull.
    ends.device.subscriber("/a.b/T/property")
    told = ends.device.receive(LIMIT_S)
    assert told is not None
    assert told.payload == listed
    [pulled] = ends.device.pull(ends.device.selected("/c/T/property"))
    assert read_parameters(read_properties(pulled.payload)[PROPERTY]).qos.partitions == ("c",)
    # Nothing of it is data.
    everything = [one.ok.key_text for one in ends.gateway.session.get("**") if one.ok is not None]
    assert not [key for key in everything if key.endswith("/property")]


@line("D-736", "D-311")
def test_property_1_of_a_device_makes_a_route(ends: Ends) -> None:
    qos = Qos(reliability=Reliability.RELIABLE, partitions=("p9",), depth=5)
    described = write_parameters(Described("Own", "demo::Own", qos))
    own = ends.device.publisher("/p9/Own", [Property(id=PROPERTY, value=described)])
    ends.device.wait_matched(own)  # the route subscribes, though no reader is in the domain

    def route() -> object:
        routes = list(ends.bridge.routes.items())
        return next((one for id_, one in routes if id_.key == "p9/Own" and one.mirrors), None)

    found = until(route)
    assert (found.id.topic, found.id.partition, found.id.type_name) == ("Own", "p9", "demo::Own")
    assert found.tier.value == "exact"  # by the layout in the configuration
    # What is no description makes none; the device is served all the same.
    ends.device.resource("/p9/Bad", [Property(id=PROPERTY, value=b"no list")])
    until(lambda: ends.bridge.counts.refused == 1)
    ends.device.write(own, b"\0\1\0\0\7\0\0\0")
    until(lambda: found.counts.samples == 1, "the sample in the domain")
    assert "p9/Bad" not in {id_.key for id_ in ends.bridge.routes}
    ends.device.forget(own)
    until(lambda: found.end_ns is not None, "the end of the route")
