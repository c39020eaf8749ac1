"""Lines of the specification that other files do not show, with real Cyclone DDS participants."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.dds.conftest import Rig
from tests.dds.peers import LIMIT_S, block_of, bridge, next_domain, peer, session_pair, until
from tests.meta.tree import ROOT

from elea.dds.settings import DdsSettings
from elea.dds.stamps import ntp64_of
from elea.decode.columns.plan import decode
from elea.decode.columns.schemas import plan_of_samples
from elea.errors import ConfigError
from elea.session.handlers import FifoChannel
from elea.store.log.schema import RowKind
from elea.timestamp import NTP64, Timestamp

line = pytest.mark.line
HOUR_NS = 3_600_000_000_000


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


def matching(publisher: Any) -> Any:
    """A publisher, once it knows a subscriber."""
    until(lambda: publisher.matching_status.matching, f"a subscriber of {publisher.key_expr}")
    return publisher


@line("D-931")
def test_peers_are_other_processes_on_loopback_in_domains_of_their_own(rig: Rig) -> None:
    guid = bytes.fromhex(rig.peer.guid)
    known = until(lambda: rig.bridge.presence.participants.get(guid), "the peer")
    assert int(known.properties["__Pid"]) != os.getpid()
    addresses = known.properties["__NetworkAddresses"].replace(",", " ").split()
    hosts = {one.rpartition("/")[2].rpartition(":")[0] or one for one in addresses}
    assert hosts - {"239.255.0.1"} == {"127.0.0.1"}  # and the group, on loopback alone
    assert rig.bridge.settings.is_loopback
    # Another process of this host, such as a second worker, takes other domains.
    code = "from tests.dds.peers import next_domain; print(next_domain())"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ran.returncode == 0, ran.stderr
    assert block_of(int(ran.stdout)) != block_of(rig.domain)


@line("D-542", "D-543")
def test_clocks_that_are_ahead_are_counted_and_told_both_ways(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    before = rig.bridge.counts.stamps_replaced
    ahead_ns = time.time_ns() + HOUR_NS
    with (
        caplog.at_level(logging.WARNING, "elea.dds"),
        rig.far.declare_subscriber("Ahead", FifoChannel(10)) as subscriber,
    ):
        guid = rig.peer.writer("ahead", "Ahead", "Chatter")
        rig.matched("ahead")
        rig.peer.write("ahead", [{"number": one, "text": ""} for one in (1, 2)], ahead_ns)
        for _ in range(2):
            assert subscriber.handler.recv(LIMIT_S).attachment is not None
        assert rig.bridge.counts.stamps_replaced == before + 2
        rig.peer.reader("ahead in", "AheadIn", "Chatter")
        rig.matched("ahead in")
        stamp = Timestamp(NTP64.from_value(ntp64_of(ahead_ns)), rig.far.zid().to_bytes())
        with rig.far.declare_publisher("AheadIn") as publisher:
            matching(publisher)
            for value in (1, 2):
                publisher.put(chatter(value), timestamp=stamp)
        taken = rig.peer.taken("ahead in", 2)
    assert [one["value"]["number"] for one in taken] == [1, 2]
    assert all(one["ns"] < ahead_ns for one in taken)
    assert rig.bridge.counts.stamps_replaced == before + 4
    told = [one for one in caplog.messages if "ahead" in one and "clock" in one]
    assert len(told) == 2, told
    assert guid in told[0]
    assert "to_dds" in told[1]


CHATTER = "int32 number\nstring text\n"
ROS_HASH = "RIHS01_0a5ea368a53d1d217c29a60084eb457e82789859d4f30ba7efc22b9b9404fdba"


@line("D-877", "D-268")
@pytest.mark.parametrize("announced", [ROS_HASH, "RIHS01_" + "1" * 64])
def test_ros_types_without_type_information_have_the_layout_of_their_definition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, announced: str
) -> None:
    file = tmp_path / "Chatter.msg"
    file.write_text(CHATTER)
    types = {"demo::Chatter": {"ros": "demo_msgs/msg/Chatter", "definitions": str(file)}}
    domain = next_domain()
    with (
        caplog.at_level(logging.WARNING, "elea.dds"),
        session_pair() as (near, far),
        far.declare_subscriber("Bare") as subscriber,
        bridge(near, domain, types=types) as made,
        peer(domain) as other,
    ):
        other.bare_ros_writer(name="w", topic="Bare", user_data=f"typehash={announced};")
        until(lambda: other.bare_matched("w"))
        other.bare_write("w", 7, "hi")
        sample = subscriber.handler.recv(LIMIT_S)
        [route] = made.routes.values()
        assert route.tier is not None
        assert route.tier.value == "exact"

        def schema() -> dict[str, Any] | None:
            for reply in far.get("@schema/cdr/demo::Chatter/*"):
                if reply.ok is not None:
                    told: dict[str, Any] = json.loads(reply.ok.payload.to_bytes())
                    return told if "ros_type_hash" in told else None
            return None

        told = until(schema, "the schema with the announced hash")
    assert (told["layout"], told["ros_type_hash"]) == ("{number: i32, text: string}", announced)
    warned = [one for one in caplog.messages if announced in one]
    assert bool(warned) is (announced != ROS_HASH)
    rows = [
        ("Bare", sample.payload.to_bytes(), str(sample.encoding)),
        ("@schema/cdr/demo::Chatter/00", json.dumps(told).encode(), "application/json"),
    ]
    names = ("key", "payload", "encoding")
    batch = pa.RecordBatch.from_pylist(
        [{**dict(zip(names, row, strict=True)), "kind": int(RowKind.PUT)} for row in rows]
    )
    found = decode(batch.slice(0, 1), plan_of_samples([batch])).rows
    [row] = pa.Table.from_batches([found]).select(["number", "text"]).to_pylist()
    assert row == {"number": 7, "text": "hi"}


@line("D-268", "D-877")
def test_types_of_the_configuration_name_a_layout_or_a_definition(tmp_path: Path) -> None:
    imu = DdsSettings.read({"types": {"T": {"ros": "sensor_msgs/msg/Imu"}}}).types["T"]
    assert imu.layout.startswith("{header: {stamp: {sec: i32, nanosec: u32}, frame_id: string}")
    assert imu.ros_hash.startswith("RIHS01_")
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "expected"),
        ({"layout": "{a: i32}", "ros": "std_msgs/msg/String"}, "expected"),
        ({"layout": "{a: i32}", "definitions": "x"}, "expected"),
        ({"ros": "my_msgs/msg/None"}, "no definition of my_msgs/msg/None"),
        ({"ros": "my_msgs/msg/Arm", "definitions": str(tmp_path / "none.msg")}, "none.msg"),
        ({"rose": "my_msgs/msg/Arm"}, "rose"),
    ]
    for wrong, reason in cases:
        with pytest.raises(ConfigError, match=reason):
            DdsSettings.read({"types": {"T": wrong}})


@line("D-907")
def test_large_samples_pass_without_loss(rig: Rig) -> None:
    with rig.far.declare_subscriber("Large", FifoChannel(100)) as subscriber:
        rig.peer.writer("large", "Large", "Blob", depth=0, blocking=60)
        rig.matched("large")
        for size, count in ((1_000_000, 30), (10_000_000, 2)):
            for _ in range(count):
                rig.peer.raw_burst("large", 1, size)
            found = [len(subscriber.handler.recv(LIMIT_S).payload) for _ in range(count)]
            assert found == [size + 12] * count
        assert subscriber.handler.try_recv() is None
