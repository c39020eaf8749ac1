"""The setting `frame_len`: devices that cannot say themselves how long a frame may be."""

from __future__ import annotations

import json

import pytest
from tests.unit.devices.rig import Raw, Served, client_of, served, subscriber

from elea.cli.main import main
from elea.config.kinds import Value
from elea.devices.device import Device, device_settings
from elea.devices.service import gateway_pid
from elea.devices.settings import XrceSettings
from elea.errors import ConfigError
from elea.xrce.declaration_records import CommitDecl, Declaration, ResourceDecl, SubscriberDecl
from elea.xrce.framing import read_frame
from elea.xrce.message_records import AckNack, Declare, Scout, StreamData

LONG_ID = "f123456789abcdef0123456789abcdef"  # 16 octets, as most routers have
LISTEN = "udp/127.0.0.1:0"


class Measured(Raw):
    """A device that notes how long the frames are."""

    longest = 0

    def hear(self, wait_s: float) -> None:
        before = len(self.messages)
        self.sock.settimeout(wait_s)
        try:
            frame = self.sock.recv(65_536)
        except TimeoutError:
            return
        self.longest = max(self.longest, len(frame))
        self.messages += [one.message for one in read_frame(frame)]
        numbers = [
            one.sn for one in self.messages[before:] if isinstance(one, Declare | StreamData)
        ]
        if numbers:
            self.say(AckNack(sn=max(numbers) + 1))


def used(one: Served, device: Measured) -> None:
    """Open, subscribe, and take as many samples as go into many frames."""
    device.say(Scout(mask=1))
    device.open()
    named = ResourceDecl(rid=2, resource=b"/t")
    wanted: list[Declaration] = [named, SubscriberDecl(id=2, mode=1), CommitDecl(commit_id=1)]
    for sn, said in enumerate(wanted):
        device.say(Declare(sync=True, committed=False, sn=sn, declarations=(said,)))
    device.expect(Declare)
    with client_of(one) as client:
        for number in range(12):
            client.put("t", b"%08d" % number)
        expected = [b"%08d" % number for number in range(12)]

        def got() -> list[bytes]:
            return [data.payload for data in device.messages if isinstance(data, StreamData)]

        assert device.until(lambda: got() == expected), got()
    device.close()


@pytest.mark.parametrize(
    "said",
    [
        "plugins/xrce/frame_len:20",
        f'plugins/xrce/frame_len:{{"{LISTEN}":20}}',
        'plugins/xrce/frame_len:{"*":20,"c0ffee01":512}',
    ],
)
def test_a_listener_has_short_frames_for_devices_that_cannot_say_so(said: str) -> None:
    with served(said, id=LONG_ID) as one, Measured(one.udp) as device:
        used(one, device)
        assert device.longest <= 20


def test_a_device_has_short_frames_by_its_pid() -> None:
    said = 'plugins/xrce/frame_len:{"c0ffee01":20}'
    with served(said, id=LONG_ID) as one, Measured(one.udp) as device, Measured(one.udp) as other:
        device.pid = b"\xc0\xff\xee\x01"
        assert device.open().accept_pid == gateway_pid(one.session.zid().to_bytes())
        device.close()
        assert device.longest <= 20
        used(one, other)
        assert other.longest > 20


def test_a_device_of_ours_with_frames_of_20_octets_is_sent_no_longer_one() -> None:
    with (
        served(id=LONG_ID) as one,
        client_of(one) as client,
        Device(one.udp, device_settings(frame_len=20)) as device,
    ):
        lengths: list[int] = []
        frames = device._line.frames

        def measured(timeout_s: float | None) -> list[bytes]:
            found = list(frames(timeout_s))
            lengths.extend(map(len, found))
            return found

        device._line.frames = measured  # type: ignore[method-assign, assignment]
        taken = subscriber(one, client, "s")
        device.subscriber("/b")
        device.write_to("/s", bytes(range(64)))
        assert taken.recv(timeout=20).payload.to_bytes() == bytes(range(64))
        client.put("b", bytes(range(200)))
        got = device.receive(20.0)
        assert got is not None
        assert got.payload == bytes(range(200))
        assert max(lengths) <= 20


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (19, "expected 20 to 65507 octets, got 19"),
        ("20", "expected a number of octets, got '20'"),
        ({"tcp/127.0.0.1:9": 20}, "expected a pid in hexadecimal, or one of udp/127.0.0.1:0"),
        ({"*": True}, "expected a number of octets, got True"),
    ],
)
def test_a_frame_length_that_cannot_be(value: Value, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        XrceSettings.read({"listen": LISTEN, "frame_len": value})


def test_frame_lengths_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    cfg = ["--cfg", f'plugins/xrce/listen:["{LISTEN}"]', "--cfg", "plugins/xrce/frame_len:64"]
    main(["config", "explain", "--json", *cfg])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [plugins] = [line["value"] for line in lines if line.get("key") == "plugins"]
    assert plugins["xrce"]["frame_len"] == 64
    main(["config", "explain", "--json", *cfg[:-1], "plugins/xrce/frame_len:3"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [problem] = [line["problem"] for line in lines if "problem" in line]
    assert "plugins/xrce/frame_len: expected 20 to 65507 octets, got 3" in problem
