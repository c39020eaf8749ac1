"""Devices are subject to the access rules of their router, like its clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.devices.rig import Raw, Served, served, subscriber

import elea
from elea.devices.device import Device, device_settings
from elea.session.session import Session
from elea.xrce.message_records import StreamData
from elea.xrce.status import RefusedError

KEY = bytes(range(32))
PROVEN, OTHER = bytes.fromhex("c0ffee01"), bytes.fromhex("c0ffee02")
ALL = ["put", "delete", "declare_subscriber", "query", "reply"]
DEVICES = {"id": "devices", "link_protocols": ["xrce"]}


def rule(name: str, permission: str, messages: list[str], *keys: str) -> dict[str, Any]:
    return {"id": name, "permission": permission, "messages": messages, "key_exprs": list(keys)}


@contextmanager
def ruled(
    default: str, subjects: list[dict[str, Any]], rules: list[dict[str, Any]], *cfg: str
) -> Iterator[tuple[Served, Session]]:
    """A router with rules for devices, and somebody beside it who may do everything."""
    free = rule("free", "allow", ALL, "**")
    told = {
        "rules": [*rules, free],
        "subjects": [*subjects, {"id": "beside", "link_protocols": ["tcp"]}],
        "policies": [
            {"rules": [one["id"] for one in rules], "subjects": [one["id"] for one in subjects]},
            {"rules": ["free"], "subjects": ["beside"]},
        ],
    }
    lines = [f"access_control/{name}:{json.dumps(value)}" for name, value in told.items()]
    lines += [f'access_control/default_permission:"{default}"', "access_control/enabled:true"]
    with served(*lines, *cfg) as one:
        beside = {
            "mode": "client",
            "connect": {"endpoints": [one.shared]},
            "scouting": {"multicast": {"enabled": False}},
        }
        with elea.open(beside) as session:
            yield one, session


@pytest.mark.parametrize("place", ["udp", "tcp"])
def test_a_device_is_no_way_around_what_rules_deny(place: str) -> None:
    deny = rule("deny", "deny", ALL, "secret/**")
    with ruled("allow", [DEVICES], [deny]) as (one, beside):
        took = subscriber(one, beside, "**")
        with Device(one.endpoint(place), device_settings(PROVEN)) as device:
            device.write_to("/secret/pin", b"1")
            device.write(device.resource("/secret/pin"), b"2")
            device.write_to("/open/t", b"3")
            device.flush()
            sample = took.recv(timeout=WAIT_S)
            assert (str(sample.key_expr), sample.payload.to_bytes()) == ("open/t", b"3")
            with pytest.raises(RefusedError):
                device.publisher("/secret/pin")
            for pattern in ("/secret/pin", "/secret/**", "/**", "/s*/pin", "/secret/p?n"):
                with pytest.raises(RefusedError):
                    device.subscriber(pattern)
            device.subscriber("/open/**")
            beside.put("secret/pin", b"4")
            beside.put("open/u", b"5")
            got = device.receive(WAIT_S)
            assert got is not None
            assert got.payload == b"5"
        assert took.recv(timeout=WAIT_S).payload.to_bytes() == b"4"
        assert took.recv(timeout=WAIT_S).payload.to_bytes() == b"5"
        assert took.try_recv() is None
        assert one.counts()["gateway_forbidden"] >= 8


def test_an_id_that_was_agreed_on_is_no_way_around_rules() -> None:
    deny = rule("deny", "deny", ALL, "secret/**")
    preset = 'plugins/xrce/resources:{"*":{"4":"secret/pin","6":"open/t"}}'
    with ruled("allow", [DEVICES], [deny], preset) as (one, beside):
        took = subscriber(one, beside, "**")
        with Raw(one.udp) as device:
            device.open()
            for sn, id_ in enumerate((4, 6)):
                device.say(StreamData(reliable=True, sync=True, sn=sn, id=id_, payload=b"x"))
            assert str(took.recv(timeout=WAIT_S).key_expr) == "open/t"
            assert eventually(lambda: one.counts()["gateway_forbidden"] == 1)
            assert took.try_recv() is None


def test_who_may_put_needs_no_right_to_delete_nor_to_ask() -> None:
    rules = [
        rule("write", "allow", ["put"], "up/**", "down/**"),
        rule("read", "allow", ["declare_subscriber"], "down/**"),
    ]
    with ruled("deny", [DEVICES], rules) as (one, beside):
        took = subscriber(one, beside, "up/**")
        with Device(one.udp, device_settings(PROVEN)) as device:
            device.write_to("/up/t", b"1")
            device.flush()
            assert took.recv(timeout=WAIT_S).payload.to_bytes() == b"1"
            device.subscriber("/down/t")
            with pytest.raises(RefusedError):
                device.subscriber("/up/t")
            beside.put("down/t", b"2")
            got = device.receive(WAIT_S)
            assert got is not None
            assert got.payload == b"2"


def test_a_pid_is_a_user_if_its_device_proved_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("".join(f"{one.hex()}: {KEY.hex()}\n" for one in (PROVEN, OTHER)))
    keys.chmod(0o600)
    user = {"id": "hall", "usernames": [PROVEN.hex()]}
    hall = rule("hall", "allow", ALL, "hall/**")
    proofs = f"plugins/xrce/keys_file:{json.dumps(str(keys))}"
    with ruled("deny", [user], [hall], proofs) as (one, _):
        with Device(one.udp, device_settings(PROVEN, key=KEY)) as device:
            device.publisher("/hall/t")
            with pytest.raises(RefusedError):
                device.publisher("/cellar/t")
        other = device_settings(OTHER, key=KEY)
        with Device(one.udp, other) as device, pytest.raises(RefusedError):
            device.publisher("/hall/t")
    with (
        ruled("deny", [user], [hall]) as (one, _),
        Device(one.udp, device_settings(PROVEN)) as device,
        pytest.raises(RefusedError),
    ):
        device.publisher("/hall/t")
