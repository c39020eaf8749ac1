"""What is lost is counted where it can be seen; a long sample costs nobody the session."""

from __future__ import annotations

import json
import logging

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.devices.rig import Raw, Served, client_of, served

import elea
from elea.devices.device import Device, device_settings
from elea.xrce.client import DEVICE_LIMITS
from elea.xrce.declaration_records import CommitDecl, ResourceDecl, SubscriberDecl
from elea.xrce.encode import encode
from elea.xrce.message_records import Accept, Close, Declare, Frag, Hello, Scout, StreamData, Synch

BOUND = DEVICE_LIMITS.xrce_message_len


def shown(one: Served, pid: bytes) -> dict[str, int]:
    """The counters of a device, as the data space tells them."""
    with client_of(one) as client:
        key = f"@xrce/{one.session.zid()}/session/{pid.hex()}"
        [reply] = client.get(key, timeout=20)
        assert reply.ok is not None
        counts: dict[str, int] = json.loads(reply.ok.payload.to_string())["counts"]
        return counts


def metric(one: Served, name: str) -> int:
    return {name: value for name, _, _, value in one.service.counted()}[name]


@pytest.mark.line("X-094")
def test_a_gap_is_logged_counted_and_visible(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "elea.devices")
    with served() as one, Raw(one.udp) as device:
        device.open()
        device.say(StreamData(reliable=True, sync=True, sn=0, id=2, payload=b"x"))
        device.say(Synch(reliable=True, sync=True, sn=510, count=3))
        assert eventually(lambda: metric(one, "elea_xrce_gaps") == 506)
        assert shown(one, device.pid)["gaps"] == 506
        assert f"XRCE device {device.pid.hex()}: 506 reliable messages lost" in caplog.text
        device.close()


def test_fragments_that_are_dropped_are_visible() -> None:
    with served() as one, Raw(one.udp) as device:
        device.open()
        part = StreamData(reliable=False, sync=False, sn=5, id=2, payload=b"x")
        rest = StreamData(reliable=False, sync=False, sn=9, id=2, payload=b"whole")
        device.say(encode(Frag(sn_base=5, n=3)) + encode(part), rest)
        assert eventually(lambda: metric(one, "elea_xrce_fragments_dropped") == 1)
        assert shown(one, device.pid)["fragments_dropped"] == 1
        device.close()
        assert eventually(lambda: device.pid not in one.devices)
        assert metric(one, "elea_xrce_fragments_dropped") == 1, "it stays when the device goes"


@pytest.mark.parametrize("control", list(elea.CongestionControl)[:2])
def test_a_put_longer_than_a_device_can_keep_does_not_end_its_session(
    control: elea.CongestionControl,
) -> None:
    with served() as one, client_of(one) as client, Device(one.udp) as device:
        device.subscriber("/big")
        device.subscriber("/all/*")
        for length in (BOUND + 1, 10 * BOUND, BOUND, 1):
            client.put("big", bytes(length), congestion_control=control)
            client.put("all/big", bytes(length), congestion_control=control)
        got = [device.receive(20.0) for _ in range(4)]
        assert sorted(len(sample.payload) for sample in got if sample) == [1, 1, BOUND, BOUND]
        assert device.is_open
        assert metric(one, "elea_xrce_samples_too_long") == 4
        assert shown(one, device._pid)["too_long"] == 4


def test_a_device_that_cannot_say_its_bound_drops_what_is_longer() -> None:
    """In an Open of 20 octets there is no room for it."""
    with (
        served() as one,
        client_of(one) as client,
        Device(one.udp, device_settings(frame_len=20)) as device,
    ):
        device.subscriber("/b")
        client.put("b", bytes(BOUND + 100))
        client.put("b", b"short")
        got = device.receive(60.0)
        assert got is not None
        assert got.payload == b"short"
        assert device.incomplete_count == 1
        assert device.is_open


def test_two_series_of_fragments_at_once_fit_a_device() -> None:
    """One on the reliable channel, one beside it: each as long as the device says."""
    assert DEVICE_LIMITS.xrce_fragments_len >= 2 * DEVICE_LIMITS.xrce_message_len


# A gateway that ends.


@pytest.mark.parametrize("place", ["udp", "tcp"])
def test_a_gateway_that_ends_refuses_newcomers_and_closes_everybody(place: str) -> None:
    """One device acknowledges nothing, so that the gateway waits for it until the last moment."""
    with served() as one:
        slow, late = Raw(one.endpoint(place)), Raw(one.udp)
        slow.open()
        names = (
            ResourceDecl(rid=2, resource=b"/t"),
            SubscriberDecl(id=2, mode=1),
            CommitDecl(commit_id=1),
        )
        slow.say(Declare(sync=True, committed=False, sn=0, declarations=names))
        slow.expect(Declare)
        hub = one.service._hub
        with hub._lock:
            hub._stopping = True
        hub._wake()
        assert eventually(lambda: hub.gateway.acceptor._stopping)
        late.say(Scout(mask=1))
        late.say(late.hello)
        assert late.expect(Close).reason == 3
        slow.expect(Close)
    late.hear(0.1)
    assert not any(isinstance(said, Accept | Hello) for said in late.messages)
    for device in (slow, late):
        device.sock.close()
