"""XRCE devices and DDS topics in one router: they meet on the key."""

from __future__ import annotations

import pytest
from tests.dds.peers import bridge, next_domain, peer, until
from tests.unit.devices.rig import served

from elea.devices.device import Device

line = pytest.mark.line


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


@line("D-731", "D-732", "D-936")
def test_a_device_and_a_topic_meet_on_the_key() -> None:
    domain = next_domain()
    with (
        served() as gateway,
        bridge(gateway.session, domain) as made,
        peer(domain) as other,
        Device(gateway.udp) as device,
    ):
        # A device that writes CDR reaches DDS readers in the partition.
        other.reader("r", "T", "Chatter", partitions=["p1"])
        until(lambda: other.matched("r"))
        written = device.publisher("/p1/T")
        device.wait_matched(written)
        device.write(written, chatter(1))
        assert [one["value"]["number"] for one in other.taken("r", 1)] == [1]
        # What is no sample of DDS is refused and counted, and nothing else.
        device.write(written, b"no header")
        device.write(written, chatter(2))
        assert [one["value"]["number"] for one in other.taken("r", 1)] == [2]
        assert made.describe.counts()["to_dds_lost_refused_representation"] == 1
        # Samples of DDS writers reach devices: as they come, and when they pull.
        device.subscriber("/p1/U")
        other.writer("w", "U", "Chatter", partitions=["p1"])
        until(lambda: other.matched("w"))
        other.write("w", [{"number": 3, "text": ""}])
        received = device.receive(30)
        assert received is not None
        assert received.payload == chatter(3)
