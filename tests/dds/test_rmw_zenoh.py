"""ROS nodes on DDS and on rmw_zenoh: played by Cyclone DDS and by an Eclipse Zenoh session."""

from __future__ import annotations

import time
from typing import Any

import pytest
import zenoh
from tests.dds.peers import LIMIT_S, bridge, next_domain, peer, session_pair, until
from tests.dds.test_ros_mode import eclipse_pair

from elea.dds.settings import DdsSettings
from elea.errors import ConfigError
from elea.ros.formats.attachment import Attachment, parse_attachment
from elea.session.handlers import FifoChannel

line = pytest.mark.line
HASH = "RIHS01_" + "ab" * 32
TYPE = "action_msgs::msg::dds_::GoalStatusArray_"
GID = bytes(range(1, 17))


def number_of(payload: bytes) -> int:
    return int.from_bytes(payload[4:8], "little")


@line("D-671")
def test_nodes_on_dds_and_on_zenoh_hear_each_other() -> None:
    domain = next_domain()
    key = f"{domain}/bot1/status/{TYPE}/{HASH}"
    section: dict[str, Any] = {"names": "ros2", "namespace": "/bot1", "rmw_zenoh": True}
    with (
        eclipse_pair() as (far, near),
        bridge(near, domain, **section) as made,
        peer(domain) as other,
    ):
        heard = far.declare_subscriber(key, zenoh.handlers.FifoChannel(10))
        guid = other.writer("w", "rt/status", "Status", user_data=f"typehash={HASH};")
        until(lambda: other.matched("w"), "the bridge, though only rmw_zenoh's key is wanted")
        sent_ns = time.time_ns() - 5_000_000_000
        for value in (1, 2):
            other.write("w", [{"status": value}], sent_ns + value)
        found = [heard.recv() for _ in range(2)]
        assert [number_of(one.payload.to_bytes()) for one in found] == [1, 2]
        attached = [parse_attachment(one.attachment.to_bytes()) for one in found]
        gid = bytes.fromhex(guid)
        assert attached == [Attachment(one, sent_ns + one, gid) for one in (1, 2)]
        # The other way: what a node of rmw_zenoh publishes reaches DDS readers, once.
        other.reader("r", "rt/orders", "Status", user_data=f"typehash={HASH};")
        until(lambda: other.matched("r"))
        orders = far.declare_publisher(f"{domain}/bot1/orders/{TYPE}/{HASH}")
        until(lambda: orders.matching_status.matching)
        for value in (3, 4):
            beside = Attachment(value, sent_ns + value, GID).to_bytes()
            orders.put(b"\0\1\0\0" + value.to_bytes(4, "little"), attachment=beside)
        taken = other.taken("r", 2)
        assert [(one["value"]["status"], one["ns"]) for one in taken] == [
            (value, sent_ns + value) for value in (3, 4)
        ]
        # What has no attachment of rmw_zenoh is no message of a node.
        orders.put(b"\0\1\0\0\5\0\0\0")
        orders.put(b"\0\1\0\0\6\0\0\0", attachment=Attachment(6, sent_ns, GID).to_bytes())
        assert [one["value"]["status"] for one in other.taken("r", 1)] == [6]
        assert made.describe.counts()["to_dds_lost_attachment"] == 1


@line("D-671", "D-312")
def test_two_bridges_bring_each_sample_once() -> None:
    domain, second = next_domain(), next_domain()
    with (
        session_pair() as (near, far),
        far.declare_subscriber("status", FifoChannel(10)) as subscriber,
        bridge(near, domain, names="ros2", rmw_zenoh=True),
        bridge(far, second, names="ros2", rmw_zenoh=True) as made,
        peer(domain) as talker,
        peer(second) as listener,
    ):
        listener.reader("r", "rt/status", "Status")
        until(lambda: listener.matched("r"))
        talker.reader("own", "rt/status", "Status")
        talker.writer("w", "rt/status", "Status")
        until(lambda: talker.matched("w") == 2 and talker.matched("own"))
        for value in range(10):
            talker.write("w", [{"status": value}])
        for name, at in (("r", listener), ("own", talker)):
            assert [one["value"]["status"] for one in at.taken(name, 10)] == list(range(10))
        for _ in range(10):
            subscriber.handler.recv(LIMIT_S)
        assert listener.take("r") == talker.take("own") == []
        assert made.counts.duplicates.get("D-671", 0) in (0, 10)  # domains have keys of their own


def test_it_needs_ros_names() -> None:
    with pytest.raises(ConfigError, match='needs names: "ros2"'):
        DdsSettings.read({"rmw_zenoh": True})
