"""Devices in Python: blocking, and on an event loop; what they say when something is wrong."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.unit.devices.rig import Served, client_of, served, subscriber

from elea.devices.aio import open_device
from elea.devices.device import Device, Events, device_settings, why
from elea.devices.lines import UdpLine, endpoint_of
from elea.errors import ClosedError, InvalidValueError, LinkError
from elea.xrce.client import Received
from elea.xrce.session.session import Ended
from elea.xrce.status import RefusedError

PLACES = ("udp", "tcp", "shared")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served() as one:
        yield one


@pytest.mark.parametrize("place", PLACES)
def test_a_device_on_an_event_loop(gateway: Served, place: str) -> None:
    async def run() -> None:
        async with await open_device(gateway.endpoint(place)) as device:
            await device.subscriber("/loop/*")
            rid = await device.publisher("/loop/x")
            await device.wait_matched(rid)  # it reads itself
            await device.write(rid, b"1")
            assert (await device.receive()).payload == b"1"
            await device.write_to("/loop/y", bytes(6_000))  # in fragments
            await device.flush()
            assert len((await device.receive()).payload) == 6_000
            await device.write_to("/loop/z#transient", b"2")
            assert (await device.receive()).payload == b"2"
            id_ = await device.resource("/loop/z")
            assert [one.payload for one in await device.pull(id_)] == [b"2"]
            with pytest.raises(RefusedError):
                await device.subscriber("/loop/$")
            await device.forget(rid)
            assert device.dropped_count == 0
        assert not device.is_open
        assert [one async for one in device] == []
        with pytest.raises(ClosedError):
            await device.receive()

    asyncio.run(run())


def test_waiting_for_a_sample_leaves_the_loop_free(gateway: Served) -> None:
    async def run() -> None:
        async with await open_device(gateway.udp) as device:
            await device.subscriber("/idle/x")
            await device.flush()
            waiting = asyncio.create_task(device.receive())
            await asyncio.sleep(0)  # it waits now, and nothing is on its way
            await device.write_to("/idle/x", b"1")
            assert (await waiting).payload == b"1"

    asyncio.run(run())


@pytest.mark.parametrize("place", PLACES)
def test_a_device_that_moves_goes_on(gateway: Served, place: str) -> None:
    with client_of(gateway) as client, Device(gateway.endpoint(place)) as device:
        took = subscriber(gateway, client, "moving/*")
        device.subscriber("/told")
        for number in range(4):
            device.write_to("/moving/x", f"{number} ".encode() * 1_000)  # in fragments
            device.move()
            device.flush()
        said = [took.recv(timeout=20).payload.to_string() for _ in range(4)]
        assert [text[:2] for text in said] == ["0 ", "1 ", "2 ", "3 "]
        assert took.try_recv() is None
        client.put("told", "there")
        told = device.receive(20)  # where it is now
        assert told is not None
        assert told.payload == b"there"


def test_a_device_that_moves_says_so_until_it_is_heard(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[bytes] = []
    send = UdpLine.send

    def lossy(line: UdpLine, frame: bytes) -> None:
        if len(lost) < 3:
            lost.append(frame)
        else:
            send(line, frame)

    with client_of(gateway) as client, Device(gateway.udp) as device:
        took = subscriber(gateway, client, "lossy/x")
        monkeypatch.setattr(UdpLine, "send", lossy)
        device.move()
        device.write_to("/lossy/x", b"1")
        device.flush()
        assert took.recv(timeout=20).payload.to_bytes() == b"1"
    assert len(lost) == 3


def test_samples_one_after_the_other(gateway: Served) -> None:
    with client_of(gateway) as client, Device(gateway.udp) as device:
        device.subscriber("/row/*")
        for number in range(3):
            client.put("row/x", str(number))
        assert [one.payload for one in device.samples(0.5)] == [b"0", b"1", b"2"]
        id_ = device.resource("/row/y")
        device.forget(id_)
        assert not device.is_matched(id_)


def test_nobody_answers() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        endpoint = f"udp/127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TimeoutError, match=r"an answer did not come in 0\.05 s"):
            Device(endpoint, timeout_s=0.05)
        with pytest.raises(TimeoutError, match="an answer"):
            asyncio.run(open_device(endpoint, timeout_s=0.05))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(LinkError, match="connect to tcp/"):
        Device(endpoint)
    with pytest.raises(LinkError, match="connect to tcp/"):
        asyncio.run(open_device(endpoint))


def test_somebody_else_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"tcp/127.0.0.1:{server.getsockname()[1]}"

        def serve() -> None:
            for _ in range(2):
                sock, _ = server.accept()
                with sock:
                    sock.recv(100)
                    sock.sendall(b"\xff" * 12)
                    sock.recv(100)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(LinkError, match="does not speak XRCE"):
            Device(endpoint)
        with pytest.raises(ClosedError, match="does not speak XRCE"):
            asyncio.run(open_device(endpoint))
        thread.join()


@pytest.mark.parametrize("text", ["tls/127.0.0.1:7447", "udp/127.0.0.1", "7447", "udp/[::1"])
def test_what_is_no_endpoint(text: str) -> None:
    with pytest.raises(InvalidValueError, match="no endpoint"):
        endpoint_of(text)


def test_samples_that_nobody_takes_are_counted() -> None:
    events = Events()
    for number in range(1_030):
        events.take(Received("a", 2, str(number).encode(), True))
    assert events.dropped_count == 6
    assert events.samples[0].payload == b"6"


def test_why_a_session_ended() -> None:
    assert why(Ended(3, "full")) == "full (reason 3, resources)"
    assert why(Ended(77, "x")) == "x (reason 77, vendor specific)"


def test_a_pid_is_random_unless_it_is_given() -> None:
    assert device_settings().pid != device_settings().pid
    assert device_settings(b"\1").pid == b"\1"
