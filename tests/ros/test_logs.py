"""From a fleet to a log, to tables and to another fleet: counted, with what ROS nodes check."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from tests.interop.ends import eventually
from tests.ros.robot import Robot, fleet, robot

import elea.ros as ros
from elea.cli.main import main
from elea.config import yaml_text
from elea.errors import EleaError, InvalidValueError
from elea.ros.formats.shipped import shipped
from elea.ros.recording import RosRecording
from elea.ros.replaying import ReplayOptions, RosReplay
from elea.spark.pipelines.problems import Problems
from elea.spark.pipelines.reading import parsed
from elea.spark.pipelines.silver import Silver
from elea.store.log.reader import LogReader

line = pytest.mark.line
IMU = "sensor_msgs/msg/Imu"
STRING = "std_msgs/msg/String"
THING = "string label\nfloat64[] xyz"
COUNT = 20


@pytest.fixture
def endpoint() -> Iterator[str]:
    with fleet() as where:
        yield where


def publish_all(endpoint: str, talker: Robot, ready: Any) -> dict[str, int]:
    """Messages of five types; one of them only its own node can explain."""
    imu = talker.publisher("/robot1/imu", IMU)
    image = talker.publisher(
        "/robot1/image", "sensor_msgs/msg/CompressedImage", backends={"cpu": ""}
    )
    text = talker.publisher("/robot1/chatter", STRING)
    assert ready()
    for published in (imu, image, text):
        published.wait_matching()
    for number in range(COUNT):
        header = {"stamp": {"sec": number}, "frame_id": "f" * (number % 3)}
        imu.publish({"header": header, "orientation": {"x": number}})
        image.publish({"format": "png", "data": bytes([number])}, suffix="_buf_cpu")
        text.publish({"data": str(number)})
    return {"/robot1/imu": COUNT, "/robot1/image": COUNT, "/robot1/chatter": COUNT}


def topics_of(log: Path) -> dict[str, int]:
    from elea.ros.formats.keys import parse_key

    found: dict[str, int] = {}
    for batch in LogReader(log).read(0, 0):
        for row in batch.select(["key", "kind"]).to_pylist():
            topic = parse_key(row["key"])
            if topic is not None and row["kind"] == 0:
                found[topic.name] = found.get(topic.name, 0) + 1
    return found


@pytest.fixture
def recorded(endpoint: str, tmp_path: Path) -> Path:
    """A log of what a robot published, its history before the recording included."""
    log = tmp_path / "log"
    types = ros.Types()
    types.add_text("my_pkg/msg/Thing", THING, "test")
    with (
        robot(endpoint) as talker,
        ros.Node("maker", connect=endpoint, types=types) as maker,
        ros.Node("recorder", connect=endpoint, rosout=False, describe=False) as node,
    ):
        latched = talker.publisher("/tf_static", "tf2_msgs/msg/TFMessage", ros.LATCHED)
        latched.publish({"transforms": [{"child_frame_id": "wheel"}]})
        things = maker.create_publisher("my_pkg/msg/Thing", "/thing", ros.LATCHED)
        things.publish({"label": "a", "xyz": [1, 2]})
        node.graph.settle(20)
        recording = RosRecording(node, log)
        expected = publish_all(endpoint, talker, lambda: True)
        expected |= {"/tf_static": 1, "/thing": 1}

        def seen() -> set[str]:
            return {one.name for one in node.graph.tokens() if one.zid == node.context.zid}

        listened = {"/robot1/imu", "/robot1/image"}  # ROS operators see who listens
        assert eventually(lambda: listened <= seen())
        # Rows are counted on disk: the recorder's own count has tokens, too.
        total = sum(expected.values())
        assert eventually(lambda: recording.recorder.counts().rows >= total)
        assert eventually(lambda: log.is_dir() and sum(topics_of(log).values()) >= total)
        recording.stop()
    assert topics_of(log) == expected
    return log


@line("R2-701", "R2-324", "R2-224", "R2-251", "R2-908", "R2-323")
def test_a_fleet_is_recorded_with_history_tokens_and_definitions(recorded: Path) -> None:
    assert any("/MP/" in key for key in LogReader(recorded).keys("@ros2_lv/**"))
    types = ros.Types(release="jazzy")
    assert types.load(recorded) == 6  # those of /rosout, too
    assert types["my_pkg/msg/Thing"]().label == ""


@line("R2-751", "R2-753", "R2-754", "R2-381", "R2-203", "R2-908")
def test_a_recorded_fleet_becomes_tables(recorded: Path, tmp_path: Path) -> None:
    file = f"""
pipeline: fleet
log: {recorded}
storage: {tmp_path / "tables"}
tables:
  imu:
    decode: ros2
    topic: /{{robot}}/imu
    type: {IMU}
  things:
    decode: ros2
    topic: /thing
  images:
    decode: ros2
    topic: /{{robot}}/image
"""
    problems = Problems()
    told = yaml_text.loads(file)
    assert isinstance(told, dict)
    pipeline = parsed(told, tmp_path, problems)
    assert problems.found == []
    assert pipeline is not None
    rows: dict[str, list[dict[str, Any]]] = {}
    for table in pipeline.landed:
        silver = Silver(table)  # type: ignore[arg-type]
        for batch in LogReader(recorded).read(0, 0):
            split = silver.split(silver.wanted(batch))
            assert split.bad is None
            rows.setdefault(table.name, []).extend(split.good.to_pylist())
    assert {name: len(found) for name, found in rows.items()} == {
        "imu": COUNT,
        "things": 1,
        "images": COUNT,
    }
    first = rows["imu"][0]
    assert (first["robot"], first["ros_topic"], first["ros_seq"]) == ("robot1", "/robot1/imu", 1)
    assert [one["orientation"]["x"] for one in rows["imu"]] == list(range(COUNT))
    assert {one["ros_node"] for one in rows["imu"]} == {"/robot1/talker"}
    assert rows["things"][0]["ros_node"] == "/maker"
    assert rows["imu"][5]["header"]["stamp"].timestamp() == 5
    assert rows["things"][0]["xyz"] == [1.0, 2.0]
    assert rows["images"][3]["data"] == b"\x03"


@line("R2-752", "R2-756")
def test_topics_become_tables_by_themselves(recorded: Path, tmp_path: Path) -> None:
    told: dict[str, object] = {
        "pipeline": "p",
        "log": str(recorded),
        "storage": str(tmp_path),
        "ros2": {"tables": ["robot1/*", "thing"], "tf": True},
    }
    problems = Problems()
    pipeline = parsed(told, tmp_path, problems)
    assert problems.found == []
    assert pipeline is not None
    names = {one.name for one in pipeline.tables}
    listed = {"robot1_imu", "robot1_image", "robot1_chatter", "thing", "tf_static", "ros_tf"}
    assert names == listed
    counts = {}
    for table in pipeline.landed:
        silver = Silver(table)  # type: ignore[arg-type]
        batches = list(LogReader(recorded).read(0, 0))
        counts[table.name] = sum(silver.split(silver.wanted(one)).good.num_rows for one in batches)
    assert counts == {**dict.fromkeys(listed - {"ros_tf", "thing", "tf_static"}, COUNT),
                      "thing": 1, "tf_static": 1}  # fmt: skip
    for wrong, place in (({"tables": "a//b"}, "ros2.tables"), ("x", "ros2"), ({"x": 1}, "ros2.x")):
        problems = Problems()
        parsed({**told, "ros2": wrong}, tmp_path, problems)
        assert any(one.place.startswith(place) for one in problems.found), problems.found


@line("R2-751")
def test_a_table_without_a_type_says_what_there_is(recorded: Path, tmp_path: Path) -> None:
    for topic, reason in (("/**", "has the types"), ("/nothing", "has no such topic yet")):
        told = {
            "pipeline": "p",
            "log": str(recorded),
            "storage": str(tmp_path),
            "tables": {"a": {"decode": "ros2", "keyexpr": f"0{topic}"}},
        }
        problems = Problems()
        parsed(told, tmp_path, problems)
        assert any(reason in one.reason for one in problems.found), problems.found


@line("R2-708", "R2-709", "R2-908", "R2-306")
def test_a_log_is_replayed_to_another_fleet(recorded: Path) -> None:
    with (
        fleet() as endpoint,
        robot(endpoint, "listener") as listener,
        ros.Node("elea_replay", connect=endpoint, rosout=False, describe=False) as node,
    ):
        imu = listener.subscription("/robot1/imu", IMU)
        late = listener.subscription("/tf_static", "tf2_msgs/msg/TFMessage", ros.LATCHED)
        clock = listener.subscription("/clock", "rosgraph_msgs/msg/Clock")
        node.graph.settle(20)
        options = ReplayOptions(speed=0, clock_hz=1000, wait_s=0.1)
        replay = RosReplay(node, recorded, options)
        matched = threading.Event()

        def now() -> int:
            # The first look at the clock comes when all publishers are declared.
            if not matched.is_set():
                [one] = [p for t, (p, _) in replay._publishers.items() if t.name == "/robot1/imu"]
                assert eventually(lambda: one._publisher.matching_status.matching)
                matched.set()
            return 1_000

        assert replay.run(now_ns=now) == 3 * COUNT + 2
        assert imu.reach(COUNT)
        assert late.reach(1)
        assert clock.reach(1)
        assert [one.sequence_number for one in imu.attachments] == list(range(1, COUNT + 1))
        assert len({one.gid for one in imu.attachments}) == 1
        assert [one.orientation.x for one in imu.messages] == list(range(COUNT))
        assert imu.attachments[0].source_time_ns > 1_700_000_000_000_000_000  # kept
        token = node.graph.publishers("/tf_static")[0]
        assert token.qos.is_transient_local
        listener.publisher("/robot1/chatter", STRING)
        assert eventually(lambda: len(node.graph.publishers("/robot1/chatter")) == 2)
        with pytest.raises(EleaError, match=r"publishes /robot1/chatter .*--remap"):
            RosReplay(node, recorded, options).run(now_ns=lambda: 0)
        remapped = ReplayOptions(
            topics=["/robot1/chatter"], remap={"/robot1/chatter": "/copy"}, speed=0
        )
        assert RosReplay(node, recorded, remapped).run(now_ns=lambda: 0) == COUNT


@line("R2-708")
def test_stamps_may_be_those_of_now(recorded: Path, endpoint: str) -> None:
    with (
        robot(endpoint, "listener") as listener,
        ros.Node("elea_replay", connect=endpoint, rosout=False, describe=False) as node,
    ):
        imu = listener.subscription("/robot1/imu", IMU)
        node.graph.settle(20)
        options = ReplayOptions(topics=["/robot1/imu"], speed=0, stamps="now")
        replay = RosReplay(node, recorded, options)
        replay._declare()
        [(publisher, _)] = replay._publishers.values()
        assert eventually(lambda: publisher._publisher.matching_status.matching)
        replay.run(now_ns=lambda: 5_000_000_007)
        assert imu.reach(COUNT)
        assert {one.header.stamp.sec for one in imu.messages} == {5}
        assert {one.header.stamp.nanosec for one in imu.messages} == {7}
        assert {one.source_time_ns for one in imu.attachments} == {5_000_000_007}


def test_options_of_a_replay_are_checked() -> None:
    for options in ({"stamps": "x"}, {"speed": -1.0}, {"remap": {"/a": "b c"}}):
        with pytest.raises(InvalidValueError):
            ReplayOptions(**options)


@line("R2-701", "R2-702")
def test_the_command_records_a_file_and_replays_a_log(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "drive.mcap"
    with robot(endpoint) as talker:
        published = talker.publisher("/robot1/chatter", STRING, ros.QoS(
            durability=ros.Durability.TRANSIENT_LOCAL, depth=5))  # fmt: skip
        for number in range(5):
            published.publish({"data": str(number)})
        words = ["ros2", "record", "/robot1/*", "--to", str(file), "--connect", endpoint]
        assert main([*words, "--count", "7", "--duration", "60"]) == 0
    with file.open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        texts = [one[3].data for one in reader.iter_decoded_messages()]
    assert sorted(texts) == ["0", "1", "2", "3", "4"]
    assert not file.with_name("drive.mcap.recording").exists()
    assert main(["ros2", "record", "--to", str(tmp_path / "x"), "--connect", endpoint]) == 2
    assert "expected names of topics, or --all" in capsys.readouterr().err
    log = tmp_path / "again"
    assert main(["log", "import", str(file), "--to", str(log), "--ros2", "--quiet"]) == 0
    assert main(["ros2", "replay", str(log), "--speed", "0", "--connect", endpoint]) == 0
    assert "5 messages published" in capsys.readouterr().err
    assert main(["ros2", "replay", str(log), "--remap", "x", "--connect", endpoint]) == 2


@line("R2-710")
def test_a_plain_replay_keeps_attachments(recorded: Path) -> None:
    rows = pa.Table.from_batches(list(LogReader(recorded).read(0, 0))).to_pylist()
    kind = shipped().hash(IMU)
    attached = [one["attachment"] for one in rows if one["key"].endswith(kind)]
    assert len(attached) == COUNT
    assert all(len(one) == 33 for one in attached)
