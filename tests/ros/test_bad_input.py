"""What a robot must not send: each is counted and told, and the next message comes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zenoh
import zenoh.shm
from tests.interop.ends import ECLIPSE, eventually, session
from tests.ros.robot import CLIENT, Robot, fleet, robot

import elea.ros as ros
from elea.cli.main import main
from elea.limits import DEFAULT_LIMITS
from elea.ros.endpoints import RawMessage
from elea.ros.formats.attachment import Attachment
from elea.ros.formats.keys import topic_key
from elea.ros.formats.shipped import shipped
from elea.ros.formats.tokens import Kind, Token
from elea.ros.recording import RosRecording
from elea.ros.replaying import ReplayOptions, RosReplay
from elea.store.log.reader import LogReader

line = pytest.mark.line
IMU = "sensor_msgs/msg/Imu"
POINTS = "sensor_msgs/msg/PointCloud2"
DAY_NS = 86_400_000_000_000


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with fleet() as where:
        yield where


@pytest.fixture
def talker(endpoint: str) -> Iterator[Robot]:
    with robot(endpoint) as made:
        yield made


@pytest.fixture
def node(endpoint: str) -> Iterator[ros.Node]:
    with ros.Node("inspector", namespace="/ops", connect=endpoint) as made:
        yield made


def wrong_payloads() -> dict[str, bytes]:
    imu, points = shipped().message(IMU), shipped().message(POINTS)
    good = imu.encode({"header": {"frame_id": "base"}})
    return {
        "no header": b"",
        "half a header": good[:3],
        "cut in a number": good[:-1],
        "cut in the text": good[:18],
        "bytes behind it": good + bytes(8),
        "another encapsulation": b"\x00\x55" + good[2:],
        "a parameter list": b"\x00\x03" + good[2:],
        "big endian in name only": b"\x00\x00" + good[2:],
        "a text of 4 GiB": good[:12] + b"\xff\xff\xff\xff" + good[16:],
        "a text that is no UTF-8": good.replace(b"base", b"b\xffse"),
        "a message of another type": points.encode({"data": bytes(100)}),
    }


@line("R2-382", "R2-383", "R2-812", "R2-325", "R2-817")
@pytest.mark.parametrize("wrong", wrong_payloads().values(), ids=wrong_payloads())
def test_a_payload_that_lies_is_refused_and_the_next_one_comes(
    talker: Robot, node: ros.Node, caplog: pytest.LogCaptureFixture, wrong: bytes
) -> None:
    published = talker.publisher("/robot1/imu", IMU)
    queued = node.create_subscription(IMU, "/robot1/imu")
    called: list[float] = []
    heard = node.create_subscription(
        IMU, "/robot1/imu", lambda message: called.append(message.orientation.x)
    )
    published.wait_matching()
    with caplog.at_level(logging.WARNING, "elea.ros"):
        published.publish({"header": {"frame_id": "base"}, "orientation": {"x": 1.0}})
        published.publish(wrong)
        published.publish({"header": {"frame_id": "base"}, "orientation": {"x": 2.0}})
        first, bad, last = (queued.take(20) for _ in range(3))
    assert (first.orientation.x, last.orientation.x) == (1.0, 2.0)
    assert isinstance(bad, RawMessage)
    assert (bad.payload, bool(bad.reason)) == (wrong, True)
    assert eventually(lambda: called == [1.0, 2.0])
    assert (queued.undecodable, heard.undecodable, queued.lost) == (1, 1, 0)
    refusals = [one for one in caplog.messages if "refused" in one]
    assert len(refusals) == 1  # for both subscriptions
    assert "0/robot1/imu/" in refusals[0]
    metrics = {(name, topic): value for name, topic, value in node.context.metrics()}
    assert metrics["elea_ros2_decode_errors", "/robot1/imu"] == 2
    assert metrics["elea_ros2_messages", "/robot1/imu"] == 6


@line("R2-206", "R2-202", "R2-817")
def test_a_clock_that_is_ahead_or_before_1970_is_shown_as_it_is_counted_and_told(
    talker: Robot, node: ros.Node, caplog: pytest.LogCaptureFixture
) -> None:
    published = talker.publisher("/robot1/imu", IMU)
    subscription = node.create_subscription(IMU, "/robot1/imu")
    published.wait_matching()
    times = [time.time_ns() + 400 * DAY_NS, -1, 2**63 - 1, -(2**63), time.time_ns()]
    with caplog.at_level(logging.WARNING, "elea.ros"):
        for number, source_time in enumerate(times, 1):
            attached = Attachment(number, source_time, published.token.gid).to_bytes()
            published.publish({}, attach=attached)
        found = [subscription.take(60).info for _ in times]
    assert [one.source_time for one in found] == times
    assert [one.node for one in found] == ["/robot1/talker"] * len(times)
    metrics = {(name, topic): value for name, topic, value in node.context.metrics()}
    assert metrics["elea_ros2_clocks_ahead", ""] == 2
    [told] = [one for one in caplog.messages if "ahead" in one]
    assert published.token.gid.hex() in told
    subscription.close()
    assert node.context.counts.clocks_ahead == 2  # of the closed subscription


@line("R2-205")
def test_numbers_that_jump_are_losses_and_those_that_fall_are_none(
    talker: Robot, node: ros.Node
) -> None:
    published = talker.publisher("/robot1/imu", IMU)
    subscription = node.create_subscription(IMU, "/robot1/imu")
    published.wait_matching()
    for number in (1, 2**63 - 1, -(2**63), 5):
        attached = Attachment(number, 1, published.token.gid).to_bytes()
        published.publish({}, attach=attached)
    found = [subscription.take(20).info for _ in range(4)]
    assert [one.lost for one in found] == [0, 2**63 - 3, 0, 0]


@line("R2-103", "R2-151", "R2-814")
def test_odd_names_are_no_topics(
    talker: Robot, node: ros.Node, caplog: pytest.LogCaptureFixture
) -> None:
    zid = talker.token.zid
    base = f"@ros2_lv/0/{zid}/0"
    odd = [
        f"{base}/1/MP/%/%/n/%\x1b[31m/std_msgs::msg::dds_::String_/{'h' * 9}/::,1:,:,:,,",
        f"{base}/2/XX/%/%/n/%a/std_msgs::msg::dds_::String_/h/::,1:,:,:,,",
        f"{base}/3/MP/%/%/n/%a/std_msgs::msg::dds_::String_/h/9:,1:,:,:,,",
        f"{base}/{'4' * 1_500}/NN/%/%/n",
    ]
    before = node.graph.bad_count
    with caplog.at_level(logging.WARNING, "elea.ros"):
        kept = [talker.session.liveliness().declare_token(one) for one in odd]
        talker.publisher("/robot1/good", IMU)
        assert node.graph.wait_for("/robot1/good", 20)
        assert node.graph.settle(20)
    # The last one is longer than any key of a node (`keyexpr_len`): the graph never hears of it.
    assert len(odd[-1]) > DEFAULT_LIMITS.keyexpr_len
    assert eventually(lambda: node.graph.bad_count - before == len(odd) - 1)
    assert "\x1b" not in caplog.text
    assert "token left out" in caplog.text
    del kept


@line("R2-204")
def test_gids_of_subscriptions_are_shown_and_never_compared(talker: Robot, node: ros.Node) -> None:
    image = "sensor_msgs/msg/CompressedImage"
    subscription = node.create_subscription(image, "/robot1/image")
    assert eventually(lambda: node.graph.subscriptions("/robot1/image"))
    [shown] = node.graph.subscriptions("/robot1/image")
    assert isinstance(shown, Token)
    assert shown.gid == subscription.token.gid
    assert node.graph.publisher(shown.gid or b"") is None  # no message is of a subscription
    # A message that says it is of a subscription has no node, and arrives all the same.
    published = talker.publisher("/robot1/image", image)
    published.wait_matching()
    published.publish({"format": "png"}, attach=Attachment(1, 1, shown.gid or b"").to_bytes())
    message = subscription.take(20)
    assert (message.format, message.info.node) == ("png", None)


@line("R2-227")
def test_a_publisher_with_shared_memory_is_read_as_any_other(endpoint: str, node: ros.Node) -> None:
    kind = shipped().message(IMU)
    payload = kind.encode({"header": {"frame_id": "base"}, "orientation": {"x": 3.0}})
    subscription = node.create_subscription(IMU, "/robot1/imu")
    more = {**CLIENT, "transport/shared_memory/enabled": True}
    with session(ECLIPSE, "client", connect=endpoint, more=more) as opened:
        published = Robot(opened).publisher("/robot1/imu", IMU)
        published.wait_matching()
        provider = zenoh.shm.ShmProvider.default_backend(1 << 16)
        shared = provider.alloc(len(payload))
        shared[:] = payload
        attached = Attachment(1, 7, published.token.gid).to_bytes()
        published.publisher.put(zenoh.ZBytes(shared), attachment=attached)
        message = subscription.take(20)
    assert message.orientation.x == 3.0
    assert message.info.sequence_number == 1


def _odd_tokens(talker: Robot) -> list[str]:
    """Tokens that Zenoh takes: types and names that ROS cannot have, QoS that lies."""
    place = f"@ros2_lv/0/{talker.token.zid}/0"
    string, digest, qos = "std_msgs::msg::dds_::String_", "RIHS01_" + "a" * 64, "::,10:,:,:,,"
    ends = [
        *(
            f"%odd/{one}/{digest}/{qos}"
            for one in ("Odd", "::", "_", "dds_::_", "..::msg::dds_::X_")
        ),
        *(f"{one}/{string}/{digest}/{qos}" for one in ("%", "%%", "%a%%b", "a%b", "%é", "%a%")),
        *(
            f"%odd/{string}/{digest}/{one}"
            for one in (":1:,99999999999999999999:,:,:,,", "3:3:3,0:,:,4,,")
        ),
    ]
    return [f"{place}/{100 + at}/MP/%/%/liar/{end}" for at, end in enumerate(ends)]


@line("R2-151", "R2-701", "R2-505", "R2-814", "R2-904")
def test_a_token_of_a_type_that_ros_cannot_have_ended_a_recording(
    endpoint: str, talker: Robot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = _odd_tokens(talker)
    kept = [talker.session.liveliness().declare_token(one) for one in keys]
    for words in (("doctor",), ("topic", "info", "-v", "/odd"), ("topic", "list", "-t")):
        main(["ros2", *words, "--connect", endpoint])
        assert "expected a name such as" not in capsys.readouterr().err
    with ros.Node("recorder", connect=endpoint, rosout=False, describe=False) as node:
        node.graph.settle(20)
        recording = RosRecording(node, tmp_path / "log")
        good = talker.publisher("/robot1/chatter", "std_msgs/msg/String")
        good.wait_matching()
        good.publish({"data": "x"})
        odd = f"0/odd/Odd::X/{good.kind.hash}"
        talker.session.put(odd, b"\0\1\0\0", congestion_control=zenoh.CongestionControl.BLOCK)
        read = sum(not one.endswith("4,,") for one in keys)
        reader = LogReader(tmp_path / "log")
        # Tokens of others are rows as well: their number does not tell that both samples are there.
        assert eventually(lambda: {good.key, odd} <= recorded_keys(reader))
        assert recording.stop() >= read + 2
    del kept
    with ros.Node("replayer", connect=endpoint) as node:
        replay = RosReplay(node, tmp_path / "log", ReplayOptions(speed=0, force=True))
        assert replay.run() == 1


def recorded_keys(reader: LogReader) -> set[str]:
    bounds = reader.bounds(0)
    batches = reader.read(0, bounds.first, bounds.end, columns=["key"])
    return {key for batch in batches for key in batch.column("key").to_pylist()}


@line("R2-285")
def test_a_server_that_ended_left_its_callers_waiting(talker: Robot, node: ros.Node) -> None:
    """A call that nobody answers ends when its query does, and a future of it as well."""
    kind = shipped().service("std_srvs/srv/Trigger")
    key = topic_key(0, "/mute", kind.name, kind.hash)
    with talker.session.declare_queryable(key, lambda query: query.drop(), complete=True):
        talker.declare(talker.endpoint(Kind.SERVER, "/mute", kind.name, kind.hash))
        client = node.create_client(kind.name, "/mute")
        with pytest.raises(ros.ServiceError, match="ended without a reply") as caught:
            client.call({}, 60, wait=20)
        assert not isinstance(caught.value, ros.ServiceTimeoutError)


@line("R2-285")
def test_an_error_that_speaks_of_a_timeout_is_no_timeout(talker: Robot, node: ros.Node) -> None:
    kind = shipped().service("std_srvs/srv/Trigger")
    key = topic_key(0, "/motor", kind.name, kind.hash)

    def refuse(query: Any) -> None:
        with query:
            query.reply_err("motor: timeout of the bus")

    with talker.session.declare_queryable(key, refuse, complete=True):
        talker.declare(talker.endpoint(Kind.SERVER, "/motor", kind.name, kind.hash))
        client = node.create_client(kind.name, "/motor")
        with pytest.raises(ros.ServiceError, match="motor: timeout of the bus") as caught:
            client.call({}, 20, wait=20)
        assert not isinstance(caught.value, ros.ServiceTimeoutError)


@line("R2-304", "R2-305")
def test_a_list_keeps_its_type_when_it_becomes_empty(endpoint: str, node: ros.Node) -> None:
    values = {"gains": [1.0], "key": b"ab", "a.b.c": 1, "a.d": 2, "a": 3}
    with ros.Node("tuned", connect=endpoint, parameters=values) as tuned:
        assert tuned.parameters is not None

        def call(kind: str, name: str, request: Any) -> Any:
            made = node.create_client(f"rcl_interfaces/srv/{kind}", f"/tuned/{name}")
            return made.call(request, 20, wait=20)

        given = [
            {"name": "gains", "value": {"type": 8, "double_array_value": []}},
            {"name": "key", "value": {"type": 5, "byte_array_value": b"cd"}},
            {"name": "gains", "value": {"type": 9, "string_array_value": []}},
            {"name": "a", "value": {"type": 77}},
        ]
        results = call("SetParameters", "set_parameters", {"parameters": given}).results
        assert [one.successful for one in results] == [True, True, False, False]
        asked = call("GetParameters", "get_parameters", {"names": ["gains", "key"]}).values
        assert [one.type for one in asked] == [8, 5]
        assert bytes(asked[1].byte_array_value) == b"cd"

        def listed(**request: Any) -> list[str]:
            found = call("ListParameters", "list_parameters", request).result.names
            return list(found)

        assert listed(depth=1) == ["a", "gains", "key"]
        assert listed(depth=2) == ["a", "a.d", "gains", "key"]
        assert listed(prefixes=["a"], depth=1) == ["a", "a.d"]
        assert listed(prefixes=["a"]) == ["a", "a.b.c", "a.d"]
        for odd in ([1, 2.5], 1 << 63, [True, 1], {"x": 1}):
            with pytest.raises(ValueError, match="expected a bool"):
                tuned.parameters["rate"] = odd
