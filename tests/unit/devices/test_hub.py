"""The hub, turn by turn, with a clock that is told: slow devices and a slow data space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.unit.devices.rig import Raw

from elea.devices.hub import Hub
from elea.devices.ports import Place, udp_socket
from elea.ids import ZenohId
from elea.limits import DEFAULT_LIMITS
from elea.timestamp import NTP64, Timestamp
from elea.xrce.declaration_records import (
    PUSH_MODE_ID,
    CommitDecl,
    ResourceDecl,
    SubscriberDecl,
)
from elea.xrce.gateway.effects import Effect, Put
from elea.xrce.gateway.gateway import Gateway
from elea.xrce.gateway.settings import GatewaySettings
from elea.xrce.message_records import AckNack, Declare, KeepAlive, Ping, StreamData, WriteData
from elea.xrce.samples.sample import Sample
from elea.xrce.session.settings import SECOND_NS, SessionSettings


class Pressable(Gateway[Place]):
    """A gateway that is pressed when a test says so."""

    pressed: bool | None = None

    def is_pressed(self, now_ns: int) -> bool:
        return super().is_pressed(now_ns) if self.pressed is None else self.pressed


class SlowSpace:
    """A data space in which a put may take long."""

    def __init__(self) -> None:
        self.puts: list[Put] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def act(self, effect: Effect) -> None:
        if isinstance(effect, Put):
            self.puts.append(effect)
            self.meanwhile()

    def settle(self) -> bool:
        """Nothing is to be kept."""
        return True


class Rig:
    """A hub without a thread."""

    def __init__(self) -> None:
        self.now_ns = SECOND_NS
        self.gateway = Pressable(
            SessionSettings(pid=b"\x0b"),
            GatewaySettings(stamp=lambda: Timestamp(NTP64(1, 0), ZenohId(b"\x01"))),
        )
        self.hub = Hub(self.gateway, DEFAULT_LIMITS, lambda: self.now_ns)
        self.space = SlowSpace()
        self.hub._space = self.space
        sock = udp_socket(2, ("127.0.0.1", 0))
        self.hub.listen_udp(sock)
        self.endpoint = f"udp/127.0.0.1:{sock.getsockname()[1]}"

    def turn(self) -> None:
        self.hub._turn(0)

    def open(self, device: Raw) -> None:
        """What loopback is told is there at once."""
        device.say(device.hello)
        self.turn()
        assert device.pid in self.gateway.devices


@pytest.fixture
def rig() -> Iterator[Rig]:
    one = Rig()
    yield one
    one.hub.stop()


def test_the_line_stands_still_while_a_device_is_behind(rig: Rig) -> None:
    done: list[int] = []
    rig.gateway.pressed = True
    for number in range(3):
        assert rig.hub.call(lambda _now_ns, number=number: done.append(number))  # type: ignore[misc]
    rig.turn()
    assert done == []
    assert rig.hub._timeout_s(None) == 0.05  # no busy waiting
    rig.gateway.pressed = False
    assert rig.hub._timeout_s(None) == 0
    rig.turn()
    assert done == [0, 1, 2]


def test_what_a_device_cannot_take_yet_waits_in_the_line(rig: Rig) -> None:
    stamp = Timestamp(NTP64(1, 0), ZenohId(b"\x01"))
    with Raw(rig.endpoint) as device:
        rig.open(device)
        device.say(
            Declare(
                sync=False,
                committed=False,
                sn=0,
                declarations=(
                    ResourceDecl(rid=2, resource=b"/a"),
                    SubscriberDecl(id=2, mode=PUSH_MODE_ID),
                    CommitDecl(commit_id=1),
                ),
            )
        )
        rig.turn()
        wanted = [str(number).encode() for number in range(3_000)]  # three times what may wait
        for payload in wanted:
            sample = Sample.of_key("a", payload, stamp)
            rig.hub.call(partial(rig.gateway.put, sample))
        for _ in range(20):  # without an answer
            rig.turn()
        assert rig.gateway.is_pressed(rig.now_ns)
        assert len(rig.hub._tasks) > 1_000
        got: dict[int, bytes] = {}
        next_sn = 0
        for _ in range(1_000):
            device.hear(0.01)
            got |= {one.sn: one.payload for one in device.messages if isinstance(one, StreamData)}
            said = {one.sn for one in device.messages if isinstance(one, (StreamData, Declare))}
            while next_sn in said:
                next_sn += 1
            if len(got) == len(wanted):
                break
            device.say(AckNack(sn=next_sn))
            rig.now_ns += SECOND_NS // 1_000
            rig.turn()
        assert [got[sn] for sn in sorted(got)] == wanted
        assert device.pid in rig.gateway.devices


def test_a_slow_data_space_costs_no_device_its_session(rig: Rig) -> None:
    with Raw(rig.endpoint, lease=20) as writer, Raw(rig.endpoint, lease=20) as other:
        for device in (writer, other):
            rig.open(device)
            device.say(KeepAlive(pid=device.pid))
        rig.turn()

        def meanwhile() -> None:
            rig.now_ns += 6 * SECOND_NS
            for number in range(100):  # more than are read at a time
                writer.say(Ping(hash=number))
            other.say(KeepAlive(pid=other.pid))

        rig.space.meanwhile = meanwhile
        writer.say(WriteData(reliable=True, sync=True, sn=0, resource=b"/a", payload=b"1"))
        rig.turn()
        assert [one.sample.key for one in rig.space.puts] == ["a"]
        assert rig.hub.stalls == 1
        rig.turn()
        assert set(rig.gateway.devices) == {writer.pid, other.pid}
        rig.now_ns += 3 * SECOND_NS
        rig.turn()  # silence is silence
        assert not rig.gateway.devices
