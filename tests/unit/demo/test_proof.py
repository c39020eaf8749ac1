"""What was sent, held against rows: every way in which a count can be off is seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.spark.logs import log_at

from elea.demo.ledger import (
    REFUSED,
    SENT,
    STORED,
    WAITING,
    Id,
    Ledger,
    LedgerWriter,
    numbered_id,
    ros_id,
)
from elea.demo.plan import ARM, ARM_KEY, IMU, ODOM
from elea.demo.proof import Check, Evidence, Expected, prove, prove_decoded, prove_encodings
from elea.errors import StoreError
from elea.spark.archiving import archive_local, prepared
from elea.store.log.schema import RowKind
from elea.store.recorder.rows import Row, batch_of
from elea.store.recorder.windows import Identity

ZID, EID = "ab12", 7
KEY = "fleet/r01/imu"
TINY = "fleet/tiny-01/soil"


def row(sn: int, kind: RowKind = RowKind.PUT, payload: bytes = b"x", zid: str = ZID) -> Row:
    return Row(KEY, kind, payload, 1_700_000_000_000_000 + sn, identity=Identity(zid, EID, sn))


def ledger_of(path: Path, states: dict[int, str]) -> Ledger:
    with LedgerWriter(path / "ledger.csv") as ledger:
        for sn, state in states.items():
            ledger.write(KEY, [Id(ZID, EID, sn)], state)
    return Ledger.read(path / "ledger.csv")


def log_of(path: Path, rows: Sequence[Row]) -> Path:
    with log_at(path / "log", 1) as log:
        log.store(batch_of(rows))
    return path / "log"


def off(checks: list[Check]) -> dict[str, int]:
    return {check.name: check.seen for check in checks if not check.holds}


def test_all_is_well(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, {0: SENT, 1: SENT, 2: STORED})
    token = Row("fleet/r01", RowKind.TOKEN_PUT, b"", 1)
    log = log_of(tmp_path, [row(0), token, row(2), row(1, RowKind.GAP, b"1")])
    assert off(prove(ledger, Evidence.of_log(log), Expected(3, 1, 1, 0))) == {}
    target, options = prepared(str(log), tmp_path / "table", "delta", "c", None, None)
    list(archive_local(target, options))
    found = Evidence.of_archive(tmp_path / "table")
    assert (found.rows, len(found.told_lost)) == (2, 1)
    assert off(prove(ledger, found, Expected(3, 1, 1, 0))) == {}
    assert off(prove(ledger, found, None)) == {}
    assert off(prove(ledger, found, Expected(4, 2, 0, 0))) == {
        "samples sent": 3,
        "acknowledged as stored": 1,
        "lost on a bad radio": 1,
    }


def test_a_gap_that_was_filled_later_is_none(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, {0: SENT, 1: SENT})
    log = log_of(tmp_path, [row(0), row(1, RowKind.GAP, b"1"), row(1)])
    assert off(prove(ledger, Evidence.of_log(log), Expected(2, 0, 0, 0))) == {}


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([row(0), row(2)], {"rows of samples": 2, "missing": 1}),
        ([row(0), row(1)], {"rows of samples": 2, "missing": 1, "acknowledged but missing": 1}),
        ([row(0), row(1), row(2), row(2)], {"rows of samples": 4, "duplicates": 1}),
        (
            [row(0), row(1), row(2), row(2, zid="ff")],
            {"rows of samples": 4, "from unknown publishers": 1},
        ),
        # Said to be lost, although somebody was told that it is stored.
        ([row(0), row(1), row(2, RowKind.GAP, b"1")], {"acknowledged but missing": 1}),
    ],
)
def test_what_is_off_is_seen(tmp_path: Path, rows: list[Row], wrong: dict[str, int]) -> None:
    ledger = ledger_of(tmp_path, {0: SENT, 1: SENT, 2: STORED})
    assert off(prove(ledger, Evidence.of_log(log_of(tmp_path, rows)), None)) == wrong


def tiny_row(payload: bytes, sn: int) -> Row:
    return Row(TINY, RowKind.PUT, payload, sn + 1, identity=Identity("gateway", 1, sn))


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ([b'{"n":0}', b'{"n":1}'], {}),
        ([b'{"n":0}'], {"rows of samples": 1, "of tiny devices, by XRCE": 1, "missing": 1}),
        # Once more, as another sample of the gateway: only what is in it tells.
        (
            [b'{"n":0}', b'{"n":1}', b'{"n":1}'],
            {"rows of samples": 3, "of tiny devices, by XRCE": 3, "duplicates": 1},
        ),
        ([b'{"n":0}', b'{"n":'], {"missing": 1, "from unknown publishers": 1}),
        ([b'{"n":0}', b'{"n":"1"}'], {"missing": 1, "from unknown publishers": 1}),
    ],
)
def test_samples_of_tiny_devices_are_known_by_what_is_in_them(
    tmp_path: Path, said: list[bytes], wrong: dict[str, int]
) -> None:
    with LedgerWriter(tmp_path / "ledger.csv") as ledger:
        ledger.write(TINY, [numbered_id(TINY, 0), numbered_id(TINY, 1)], SENT)
    log = log_of(tmp_path, [tiny_row(payload, sn) for sn, payload in enumerate(said)])
    found = Evidence.of_log(log)
    known = Ledger.read(tmp_path / "ledger.csv")
    assert off(prove(known, found, None)) == wrong
    assert off(prove(known, found, Expected(2, 0, 0, 0, tiny=2))) == wrong
    target, options = prepared(str(log), tmp_path / "table", "delta", "c", None, None)
    list(archive_local(target, options))
    assert Evidence.of_decoded(tmp_path / "table") == found  # by payloads, as bad rows are


ODOM_KEY = f"0/ros_01/odom/nav_msgs::msg::dds_::Odometry_/RIHS01_{'0' * 64}"
GID = bytes(range(16))


def arm_row(number: int, sn: int) -> Row:
    payload = b"\x00\x01\x00\x00" + number.to_bytes(4, "little")
    bridged = Identity("bridge", 1, sn)
    return Row(ARM_KEY, RowKind.PUT, payload, sn + 1, identity=bridged, encoding=ARM.encoding)


def odom_row(number: int, *, cut: int = 33) -> Row:
    attachment = number.to_bytes(8, "little") + bytes(8) + b"\x10" + GID
    return Row(ODOM_KEY, RowKind.PUT, b"", number, attachment=attachment[:cut])


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([arm_row(0, 5), arm_row(1, 6), odom_row(1), odom_row(2)], {}),
        (
            [arm_row(0, 5), arm_row(0, 6), odom_row(1), odom_row(2)],
            {"missing": 1, "duplicates": 1},
        ),
        (
            [arm_row(0, 5), arm_row(1, 6), odom_row(1), odom_row(1)],
            {"missing": 1, "duplicates": 1},
        ),
        (
            [arm_row(0, 5), arm_row(1, 6), odom_row(1), odom_row(2, cut=20)],
            {"missing": 1, "from unknown publishers": 1},
        ),
        (
            [arm_row(0, 5), odom_row(1)],
            {
                "rows of samples": 2,
                "of the DDS robot, bridged": 1,
                "of the ROS 2 node": 1,
                "missing": 2,
            },
        ),
    ],
)
def test_samples_of_dds_and_of_ros_are_known_by_what_their_robots_know(
    tmp_path: Path, rows: list[Row], wrong: dict[str, int]
) -> None:
    with LedgerWriter(tmp_path / "ledger.csv") as ledger:
        ledger.write(ARM_KEY, [numbered_id(ARM_KEY, 0), numbered_id(ARM_KEY, 1)], SENT)
        ledger.write(ODOM_KEY, [ros_id(GID, 1), ros_id(GID, 2)], SENT)
    log = log_of(tmp_path, rows)
    found = Evidence.of_log(log)
    known = Ledger.read(tmp_path / "ledger.csv")
    assert off(prove(known, found, None)) == wrong
    assert off(prove(known, found, Expected(4, 0, 0, 0, dds=2, ros=2))) == wrong
    target, options = prepared(str(log), tmp_path / "table", "delta", "c", None, None)
    list(archive_local(target, options))
    assert prove_encodings(tmp_path / "table", (ARM, ODOM))[0].holds
    if not wrong:
        table = tmp_path / "table"
        both = Evidence.of_decoded(table)
        assert (both.dds, both.ros) == (2, 2)
        checks = prove_decoded("odom", known, found, table, tmp_path / "none")
        assert checks[0].holds


def test_encodings_are_held_against_the_plan(tmp_path: Path) -> None:
    rows = [row(0), row(1)._replace(encoding="application/json")]
    target, options = prepared(
        str(log_of(tmp_path, rows)), tmp_path / "table", "delta", "c", None, None
    )
    list(archive_local(target, options))
    [check] = prove_encodings(tmp_path / "table", (IMU,))
    assert (check.seen, check.note) == (1, f"{KEY} zenoh/bytes")
    assert prove_encodings(tmp_path / "none", (IMU,))[0].holds


def test_what_still_waits_is_not_acknowledged(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, {0: WAITING, 1: REFUSED})
    log = log_of(tmp_path, [row(0), row(1)])
    assert off(prove(ledger, Evidence.of_log(log), None)) == {"acknowledged as stored": 0}


def test_decoded_rows_and_bad_ones_together_are_the_samples(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, {0: SENT, 1: SENT})
    bronze = Evidence.of_log(log_of(tmp_path, [row(0), row(1)]))
    for name, sn in (("imu", 0), ("imu_bad", 1), ("twice", 0)):
        log = log_of(tmp_path / name, [row(sn)])
        target, options = prepared(str(log), tmp_path / name / "t", "delta", "c", None, None)
        list(archive_local(target, options))
    good, bad, twice = (tmp_path / name / "t" for name in ("imu", "imu_bad", "twice"))
    assert off(prove_decoded("imu", ledger, bronze, good, bad)) == {}
    missing = prove_decoded("imu", ledger, bronze, good, tmp_path / "none")
    assert off(missing) == {"rows of imu": 1}
    assert off(prove_decoded("imu", ledger, bronze, good, twice)) == {
        "rows of imu": 1,
        "duplicates of imu": 1,
    }


def test_a_ledger_knows_the_last_of_each_sample(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, {0: WAITING})
    assert ledger.count(WAITING) == 1
    with (tmp_path / "ledger.csv").open("a") as file:
        file.write(f"{KEY},{ZID},{EID},0,{STORED}\n")
    ledger = Ledger.read(tmp_path / "ledger.csv")
    assert (ledger.count(), ledger.count(STORED), ledger.repeated) == (1, 1, [])
    with (tmp_path / "ledger.csv").open("a") as file:
        file.write(f"{KEY},{ZID},{EID},0,{STORED}\n")
    assert len(Ledger.read(tmp_path / "ledger.csv").repeated) == 1


@pytest.mark.parametrize("line", ["a,b", f"k,{ZID},x,1,sent", f"k,{ZID},1,1,gone"])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "ledger.csv").write_text(f"{KEY},{ZID},{EID},0,sent\n{line}\n")
    with pytest.raises(StoreError, match="line 2"):
        Ledger.read(tmp_path / "ledger.csv")
    with pytest.raises(StoreError, match="no ledger"):
        Ledger.read(tmp_path / "none.csv")
