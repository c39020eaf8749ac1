"""Keys, rights and hosts of devices, on sockets (19.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.devices.rig import Raw, Served, client_of, served, subscriber

from elea.cli.main import main
from elea.devices.access import read_key, read_keys
from elea.devices.device import Device, device_settings, time_ms
from elea.devices.service import XrceService
from elea.errors import ClosedError, ConfigError
from elea.xrce.closing import CloseReason
from elea.xrce.declaration_records import Property
from elea.xrce.message_records import Accept, Close, KeepAlive, Open
from elea.xrce.properties import AUTHENTICATION
from elea.xrce.session.authentication import psk_proof
from elea.xrce.status import RefusedError

PID, KEY = bytes.fromhex("c0ffee01"), bytes(range(32))
FREE = bytes.fromhex("c0ffee02")  # another device with that key, and no rights of its own
ACCESS = {"c0ffee01": {"read": ["news/**"], "write": ["own/**"]}, "*": {"read": "news/**"}}


def keys_file(folder: Path, text: str) -> Path:
    file = folder / "keys"
    file.write_text(text)
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    text = "".join(f"{one.hex()}: {KEY.hex()}\n" for one in (PID, FREE))
    file = keys_file(tmp_path_factory.mktemp("keys"), f"# devices of the hall\n\n{text}")
    with served(
        f"plugins/xrce/keys_file:{json.dumps(str(file))}",
        f"plugins/xrce/access:{json.dumps(ACCESS)}",
        "plugins/xrce/sessions_host_count:1",
    ) as one:
        yield one


@pytest.mark.parametrize("place", ["udp", "tcp"])
@pytest.mark.parametrize(
    ("pid", "key"),
    [(PID, None), (PID, KEY[::-1]), (b"\x05", KEY)],
    ids=["no key", "the wrong key", "a pid without a key"],
)
def test_who_proves_nothing_is_refused(
    guarded: Served, place: str, pid: bytes, key: bytes | None
) -> None:
    before = guarded.counts()["unproven"]
    with pytest.raises(ClosedError, match="authentication"):
        Device(guarded.endpoint(place), device_settings(pid, key=key))
    assert guarded.counts()["unproven"] > before
    assert pid not in guarded.devices


@pytest.mark.parametrize("place", ["udp", "tcp"])
def test_what_devices_may_write(guarded: Served, place: str) -> None:
    before = guarded.counts()["gateway_forbidden"]
    with client_of(guarded) as client:
        took = subscriber(guarded, client, "own/**")
        stranger = subscriber(guarded, client, "elsewhere/**")
        with Device(guarded.endpoint(place), device_settings(PID, key=KEY)) as device:
            device.write_to("/elsewhere/t", b"1")  # dropped
            device.write(device.resource("/own/t"), b"2")
            device.flush()
            assert took.recv(timeout=20).payload.to_bytes() == b"2"
            for forbidden in ("/elsewhere/t", "/news/t"):
                with pytest.raises(RefusedError, match="invalid"):
                    device.publisher(forbidden)
            with pytest.raises(RefusedError):
                device.subscriber("/**")
            device.subscriber("/news/**")
            client.put("news/t", b"3")
            got = device.receive(20)
            assert got is not None
            assert got.payload == b"3"
        assert stranger.try_recv() is None
    assert guarded.counts()["gateway_forbidden"] == before + 4
    metrics = {name: value for name, _, _, value in guarded.service.counted()}
    assert metrics["elea_xrce_forbidden"] == before + 4
    assert metrics["elea_xrce_opens_unproven"] == guarded.counts()["unproven"]


def test_all_others_have_the_rights_of_the_star(guarded: Served) -> None:
    with Device(guarded.udp, device_settings(FREE, key=KEY)) as device:
        device.subscriber("/news/t")
        with pytest.raises(RefusedError):
            device.publisher("/own/t")


def opening(time_ms: int) -> Open:
    proof = psk_proof(KEY, PID, 1, 100, time_ms)
    said = (Property(id=AUTHENTICATION, value=proof),)
    return Open(version=1, pid=PID, lease=100, locators=(), properties=said)


def test_an_open_is_good_once_and_from_one_address(guarded: Served) -> None:
    said = opening(time_ms())
    with Raw(guarded.udp) as device, Raw(guarded.udp) as thief:
        for _ in range(2):  # the answer may be lost: said again from there, it is the same one
            device.say(said)
            assert device.expect(Accept).open_pid == PID
        thief.say(said)
        assert thief.expect(Close).reason == CloseReason.AUTHENTICATION
        strays = guarded.counts()["strays"]
        thief.say(KeepAlive(pid=PID), Close(pid=PID, reason=0))  # neither moved nor ended
        assert eventually(lambda: guarded.counts()["strays"] >= strays + 2)
        assert PID in guarded.devices
        device.say(Close(pid=PID, reason=0))
        device.expect(Close)
        assert eventually(lambda: PID not in guarded.devices)
        device.say(said)
        assert device.expect(Close).reason == CloseReason.AUTHENTICATION


def test_keys_are_shown_nowhere(guarded: Served) -> None:
    config = guarded.daemon.session.config.get_json("plugins")
    shown = json.dumps([guarded.service.status(), config])
    assert "access" in shown
    assert KEY.hex() not in shown


def test_sessions_are_counted_by_host_but_for_this_one(guarded: Served) -> None:
    hub = guarded.service._hub
    assert hub.host_of((1, ("192.0.2.1", 7447))) == "192.0.2.1"
    assert hub.host_of((1, ("::ffff:192.0.2.1", 7447, 0, 0))) == "192.0.2.1"
    for here in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert hub.host_of((1, (here, 7447))) is None
    with (
        Device(guarded.udp, device_settings(PID, key=KEY)) as one,
        Device(guarded.tcp, device_settings(FREE, key=KEY)) as two,
    ):
        assert one.is_open
        assert two.is_open


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no device"),
        ("tea: 00", "line 1: not `pid:key`"),
        ("c0ffee01: 00ff", "line 1: a key of 16 octets or more"),
        ("c0ffee01: secret words", "line 1: a key of 16 octets or more"),
        (f"c0: {KEY.hex()}\nC0: {KEY.hex()}", "line 2: C0 has a key already"),
    ],
)
def test_a_file_of_keys_that_is_none(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_keys(keys_file(tmp_path, text), "plugins/xrce/keys_file")
    assert "secret" not in str(caught.value)
    assert KEY.hex() not in str(caught.value)


def test_a_file_of_keys_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="plugins/xrce/keys_file"):
        XrceService.check({"keys_file": str(tmp_path / "none")})


def test_the_key_of_one_device(tmp_path: Path) -> None:
    assert read_key(keys_file(tmp_path, f"{KEY.hex()}\n")) == KEY
    with pytest.raises(ConfigError, match="16 octets or more"):
        read_key(keys_file(tmp_path, "00"))


def test_a_key_on_the_command_line(
    guarded: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(keys_file(tmp_path, KEY.hex()))
    pub = ["xrce", "pub", "/own/t", "1", "-e", guarded.udp, "--pid", PID.hex()]
    assert main([*pub, "--key-file", file]) == 0
    assert main(pub) != 0
    assert "authentication" in capsys.readouterr().err
    assert main([*pub[:-2], "--key-file", file]) != 0
    assert "a key belongs to one pid" in capsys.readouterr().err
