"""Audit lines: what they hold, that none can be changed unseen, and that there are not too many."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import client_of, options, root_of, running

import elea
from elea.daemon.audit import START, Audit, chained, verify, verify_file
from elea.errors import ConfigError
from elea.policy.actions import Action, Flow
from elea.policy.chain import Refusal
from elea.policy.events import LoggedIn, LoginRefused, OverQuota, Refused
from elea.policy.identity import Identity, LinkIdentity
from elea.policy.interceptor import Reason

WHO = Identity(zid="a1", user="anna", links=(LinkIdentity(protocol="tcp", address="127.0.0.1"),))


class Clock:
    """The time of day, as a test says it is."""

    def __init__(self) -> None:
        self.now_ns = 1_800_000_000 * 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns


def refused(key: str = "a/b") -> Refused:
    refusal = Refusal(Reason.ACCESS, Flow.INGRESS, Action.PUT, key, "r1", "denied on a/*")
    return Refused(WHO, refusal)


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_become_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "audit"
    audit = Audit(str(file), clock=Clock())
    with caplog.at_level(logging.INFO, "elea.audit"):
        audit.policy(refused())
        audit.policy(LoggedIn(WHO))
        audit.policy(LoginRefused("tcp/127.0.0.1:5", "wrong password"))
        audit.policy(OverQuota(WHO, "q", True))
        audit.note("config", keys=["metadata"])
        audit.close()
    lines = written(file)
    assert [one["event"] for one in lines] == [
        *("refused", "login", "login_refused", "over_quota", "config")
    ]
    assert [one["seq"] for one in lines] == [1, 2, 3, 4, 5]
    assert lines[0] | {"prev": "", "hash": ""} == {
        "seq": 1,
        "time": "2027-01-15T08:00:00.000000+00:00",
        "event": "refused",
        "reason": "access_control",
        "flow": "ingress",
        "action": "put",
        "key": "a/b",
        "rule": "r1",
        "why": "denied on a/*",
        "identity": "user:anna",
        "zid": "a1",
        "user": "anna",
        "links": [{"protocol": "tcp", "address": "127.0.0.1", "cert": None}],
        "prev": "",
        "hash": "",
    }
    assert [record.message.partition(" ")[0] for record in caplog.records] == [
        json.loads(line)["event"] for line in file.read_text().splitlines()
    ]
    assert "refused reason=access_control flow=ingress action=put key=a/b" in caplog.text
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    for _ in range(3):
        audit = Audit(str(file))
        audit.note("started")
        audit.close()
    assert verify_file(file) is None
    assert [one["seq"] for one in written(file)] == [1, 2, 3]


def test_a_chain_goes_on_after_a_line_that_was_cut(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    audit = Audit(str(file))
    audit.note("started")
    audit.close()
    with file.open("a") as stream:
        stream.write('{"seq":2,"ti')
    audit = Audit(str(file))
    audit.note("started")
    audit.close()
    lines = file.read_text().splitlines()
    assert verify(lines) == "line 2 is no audit line"
    assert verify([lines[0], lines[2]]) is None


def test_a_file_that_is_moved_away_is_followed_by_another(tmp_path: Path) -> None:
    file, moved = tmp_path / "audit", tmp_path / "audit.1"
    audit = Audit(str(file))
    audit.note("first")
    audit.reopen()  # nothing happened to it
    audit.note("second")
    assert eventually(lambda: len(written(file)) == 2)
    file.rename(moved)
    audit.reopen()
    audit.note("third")
    audit.close()
    assert [one["event"] for one in written(moved)] == ["first", "second"]
    assert [one["event"] for one in written(file)] == ["third"]
    assert verify([*moved.read_text().splitlines(), *file.read_text().splitlines()]) is None


def test_what_was_done_to_a_file_is_found() -> None:
    lines, previous = [], START
    for index in range(4):
        line, previous = chained({"seq": index, "event": "x"}, previous)
        lines.append(line)
    assert verify(lines) is None
    assert verify([*lines[:1], *lines[2:]]) == "a line is missing before line 2"
    assert verify([*lines[:1], lines[2], lines[1]]) == "a line is missing before line 2"
    assert verify([lines[0].replace('"x"', '"y"')]) == "line 1 was changed"
    assert verify(["[]"]) == "line 1 is no audit line"


def test_one_neighbour_gets_some_lines_a_second_and_the_rest_is_counted(tmp_path: Path) -> None:
    file, clock = tmp_path / "audit", Clock()
    audit = Audit(str(file), 2, clock=clock)
    for index in range(10):
        audit.policy(refused(f"a/{index}"))
    clock.now_ns += 1_000_000_000
    for _ in range(3):
        audit.policy(refused("later"))
    audit.close()
    lines = written(file)
    assert [one.get("key", one.get("count")) for one in lines] == [
        *("a/0", "a/1", 8, "later", "later", 1)
    ]
    assert lines[2]["event"] == "left_out"
    assert lines[2]["identity"] == "user:anna"


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"elea/audit/file: .*Is a directory"):
        Audit(str(tmp_path))


def test_a_disk_that_is_full_loses_lines_and_nothing_else() -> None:
    audit = Audit("/dev/full")
    for _ in range(3):
        audit.note("started")
    audit.close()
    assert audit.lost >= 1


def test_a_daemon_writes_down_who_comes_and_what_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    chosen = options(f'elea/audit/file:"{file}"', adminspace_permissions="rw")
    with running(chosen) as daemon:
        with client_of(daemon) as client:
            key = f"{root_of(daemon)}/config"
            client.put(f"{key}/metadata", '{secret: "do not write me down"}')
            client.put(f"{key}/mode", '"no such mode"')
            client.put(f"{key}/*", "1")
            assert client.get(f"{root_of(daemon)}", timeout=WAIT_S)
            taken = [
                reply.ok.payload.to_string()
                for reply in client.get(f"{root_of(daemon)}/metrics?compression=false")
                if reply.ok is not None
            ]
        assert "elea_audit_lost_total 0" in taken[0]
    text = file.read_text()
    lines = written(file)
    events = [one["event"] for one in lines]
    assert verify_file(file) is None
    assert "do not write me down" not in text
    assert events.count("admin_write") == 3
    assert {"started", "login", "logout", "config", "config_refused"} <= set(events)
    [left] = [one for one in lines if one["event"] == "logout"]
    assert left["why"]
    assert left["links"][0]["address"] == "127.0.0.1"
    [changed] = [one for one in lines if one["event"] == "config"]
    assert (changed["keys"], changed["policy"]) == (["metadata"], False)


def test_a_wrong_password_is_written_down_without_the_password(tmp_path: Path) -> None:
    file, users = tmp_path / "audit", tmp_path / "users"
    users.write_text("anna:right\n")
    users.chmod(0o600)
    chosen = options(
        f'elea/audit/file:"{file}"', f'transport/auth/usrpwd/dictionary_file:"{users}"'
    )
    with running(chosen) as daemon:
        config = {
            "mode": "client",
            "connect": {"endpoints": [daemon.locators()[0]]},
            "transport": {"auth": {"usrpwd": {"user": "anna", "password": "guessed"}}},
        }
        with pytest.raises(elea.ZError, match="user and password missing or wrong; the router's"):
            elea.open(config)
        nobody = {key: value for key, value in config.items() if key != "transport"}
        with pytest.raises(elea.ZError, match="user and password missing or wrong; the router's"):
            elea.open(nobody)
        config["transport"] = {"auth": {"usrpwd": {"user": "anna", "password": "right"}}}
        with elea.open(config):
            pass
    lines = written(file)
    assert [one["user"] for one in lines if one["event"] == "login"] == ["anna"]
    refused = [one for one in lines if one["event"] == "login_refused"]
    assert refused
    assert refused[0]["address"].startswith("tcp/127.0.0.1:")
    assert "guessed" not in file.read_text()
