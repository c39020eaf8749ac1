"""MCAP of messages of ROS: written by Elea, read by the libraries that ROS users have, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

import elea.ros as ros
from elea.cli.main import main
from elea.ros.catalog import keep_definitions
from elea.ros.formats.attachment import Attachment, parse_attachment
from elea.ros.formats.keys import NO_HASH, parse_key, topic_key
from elea.ros.formats.library import Library
from elea.ros.formats.messages import plain
from elea.ros.formats.qos import QoS
from elea.ros.formats.shipped import shipped
from elea.ros.formats.tokens import Kind, Token
from elea.store.exchange.rows import Gathering
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind

line = pytest.mark.line
START_US = 1_700_000_000_000_000
CUSTOM = Library.of_text("string label\nfloat64[3] xyz", "my_pkg/msg/Thing").message(
    "my_pkg/msg/Thing"
)
IMU = shipped().message("sensor_msgs/msg/Imu")
STRING = shipped().message("std_msgs/msg/String")
TF = shipped().message("tf2_msgs/msg/TFMessage")
JOINTS = shipped().message("sensor_msgs/msg/JointState")
CLOUD = shipped().message("sensor_msgs/msg/PointCloud2")
GRID = shipped().message("nav_msgs/msg/OccupancyGrid")
VALUES: list[tuple[str, Any, dict[str, Any]]] = [
    ("/robot1/imu", IMU, {"header": {"frame_id": "imu"}, "orientation": {"x": 0.5}}),
    ("/robot1/chatter", STRING, {"data": "Grüße"}),
    ("/tf", TF, {"transforms": [{"child_frame_id": "wheel"}]}),
    ("/robot1/joints", JOINTS, {"name": ["a", "bc"], "position": [1.0, 2.0]}),
    ("/robot1/points", CLOUD, {"width": 2, "data": b"0123456789"}),
    ("/map", GRID, {"info": {"width": 3}, "data": [-1, 0, 100]}),
]
TOTAL = 300


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 300 messages of six types, with tokens and rows of others between."""
    rows: list[dict[str, Any]] = []
    latched = Token(
        0,
        "ab12",
        0,
        1,
        Kind.PUBLISHER,
        "/",
        "map_server",
        "/map",
        GRID.name,
        GRID.hash,
        ros.LATCHED,
    )
    defaults = {"encoding": "zenoh/bytes", "qos": 5, "payload": b""}
    rows.append({**defaults, "key": latched.key, "kind": RowKind.TOKEN_PUT, "recv_ts": START_US})
    for number in range(TOTAL):
        name, kind, value = VALUES[number % len(VALUES)]
        attached = Attachment(number + 1, (START_US + number) * 1_000 + 7, bytes(16))
        rows.append(
            {
                **defaults,
                "key": topic_key(0, name, kind.name, kind.hash),
                "kind": RowKind.PUT,
                "payload": kind.encode(value),
                "attachment": attached.to_bytes(),
                "recv_ts": START_US + 10 * number,
            }
        )
    rows.append({**defaults, "key": "fleet/other", "kind": RowKind.PUT, "recv_ts": START_US})
    return logged(tmp_path / "log", rows)


def logged(path: Path, rows: list[dict[str, Any]]) -> Path:
    gathering = Gathering()
    for row in rows:
        gathering.add({**row, "kind": int(row["kind"])})
    with Log(path) as made:
        made.append(gathering.take()).result()
    return path


def exported(log: Path, to: Path, *words: str) -> None:
    command = ["log", "export", str(log), "--to", str(to), "--profile", "ros2", "--quiet", *words]
    assert main(command) == 0


@line("R2-702", "R2-703", "R2-706", "R2-907")
def test_a_file_is_read_by_mcap_ros2_support(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "drive.mcap"
    exported(log, file)
    assert "2 rows are no messages of ROS" in capsys.readouterr().err
    found: dict[str, list[Any]] = {}
    with file.open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2"
        for schema, channel, message, decoded in reader.iter_decoded_messages():
            assert schema is not None
            assert schema.encoding == "ros2msg"
            found.setdefault(channel.topic, []).append((message, decoded))
    assert {name: len(one) for name, one in found.items()} == {name: 50 for name, _, _ in VALUES}
    message, decoded = found["/robot1/imu"][0]
    assert decoded.orientation.x == 0.5
    assert (message.log_time, message.publish_time) == (START_US * 1_000, START_US * 1_000 + 7)
    assert message.sequence == 1
    assert found["/robot1/chatter"][0][1].data == "Grüße"


@line("R2-703", "R2-704", "R2-907")
def test_a_file_and_a_bag_are_read_by_rosbags(log: Path, tmp_path: Path) -> None:
    file, bag = tmp_path / "drive.mcap", tmp_path / "drive"
    exported(log, file)
    exported(log, bag, "--bag")
    assert {one.name for one in bag.iterdir()} == {"metadata.yaml", "drive_0.mcap"}
    store = get_typestore(Stores.ROS2_JAZZY)
    for path in (file, bag):
        with AnyReader([path], default_typestore=store) as reader:
            kinds = {name: kind for name, kind, _ in VALUES}
            counts: dict[str, int] = {}
            for connection, _, data in reader.messages():
                assert bytes(data) == kinds[connection.topic].encode(
                    next(value for name, _, value in VALUES if name == connection.topic)
                )
                reader.deserialize(data, connection.msgtype)
                counts[connection.topic] = counts.get(connection.topic, 0) + 1
        assert counts == {name: 50 for name, _, _ in VALUES}
    with Reader(bag) as opened:
        [grid] = [one for one in opened.connections if one.topic == "/map"]
        [qos] = grid.ext.offered_qos_profiles  # type: ignore[union-attr]
        assert qos.durability.name == "TRANSIENT_LOCAL"


@line("R2-704", "R2-814")
def test_one_name_that_ros_cannot_have_made_a_whole_bag_unreadable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys may hold any text; libraries of ROS refuse a file for one name or type."""
    odd = QoS(ros.Reliability.UNKNOWN, ros.Durability.UNKNOWN, ros.History.UNKNOWN, depth=10**19)
    names = ["/a: b", '/"q"', "/é", "/- d", "/2f"]
    topics = [(name, STRING.name) for name in [*names, "/plain"]]
    topics += [("/odd", "Odd::X"), ("/odd", "a/msg/b c"), ("/odd", "../msg/X")]
    rows: list[dict[str, Any]] = []
    defaults = {"encoding": "zenoh/bytes", "qos": 5, "payload": b"", "recv_ts": START_US}
    for at, (name, kind) in enumerate(topics):
        token = Token(0, "ab", 0, at, Kind.PUBLISHER, "/", "n", name, kind, STRING.hash, odd)
        rows.append({**defaults, "key": token.key, "kind": RowKind.TOKEN_PUT})
        row = {**defaults, "key": topic_key(0, name, kind, STRING.hash)}
        rows += 2 * [{**row, "kind": RowKind.PUT, "payload": STRING.encode({"data": name})}]
    bag = tmp_path / "bag"
    exported(logged(tmp_path / "log", rows), bag, "--bag")
    told = capsys.readouterr().err
    assert told.count("is none that ROS can have, and is left out") == len(topics) - 1
    with AnyReader([bag]) as reader:
        found = [
            (one.topic, reader.deserialize(raw, one.msgtype).data)  # type: ignore[attr-defined]
            for one, _, raw in reader.messages()
        ]
    assert found == [("/plain", "/plain")] * 2


@line("R2-705")
def test_a_type_without_a_definition_is_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "key": topic_key(0, "/thing", CUSTOM.name, CUSTOM.hash),
            "kind": RowKind.PUT,
            "payload": CUSTOM.encode({"label": "x"}),
            "encoding": "zenoh/bytes",
            "qos": 5,
            "recv_ts": START_US,
        },
        {
            "key": topic_key(0, "/chat", STRING.name, STRING.hash),
            "kind": RowKind.PUT,
            "payload": STRING.encode({"data": "x"}),
            "encoding": "zenoh/bytes",
            "qos": 5,
            "recv_ts": START_US,
        },
    ]
    log = logged(tmp_path / "log", rows)
    exported(log, tmp_path / "a.mcap")
    assert "no definition of my_pkg/msg/Thing" in capsys.readouterr().err
    with (tmp_path / "a.mcap").open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        chats = list(reader.iter_decoded_messages(topics=["/chat"]))
        assert len(chats) == 1
    # Kept with the log, it is known from then on.
    keep_definitions(
        log, {CUSTOM.hash: {"name": CUSTOM.name, "text": CUSTOM.text, "source": "test"}}
    )
    exported(log, tmp_path / "b.mcap")
    with (tmp_path / "b.mcap").open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        [(_, _, _, thing)] = reader.iter_decoded_messages(topics=["/thing"])
        assert thing.label == "x"


@line("R2-707", "R2-324", "R2-907", "R2-321")
def test_a_bag_comes_back_as_it_was(log: Path, tmp_path: Path) -> None:
    file, again = tmp_path / "drive.mcap", tmp_path / "again"
    exported(log, file)
    command = ["log", "import", str(file), "--to", str(again), "--ros2", "--domain", "4", "--quiet"]
    assert main(command) == 0
    expected = {name: (kind, value) for name, kind, value in VALUES}
    reader = LogReader(again)
    batches = list(reader.read(0, 0))
    rows = pa.Table.from_batches(batches).to_pylist()
    assert len(rows) == TOTAL
    for row in rows:
        topic = parse_key(row["key"])
        assert topic is not None
        kind, value = expected[topic.name]
        assert (topic.domain, topic.type, topic.hash) == (4, kind.name, kind.hash)
        assert row["payload"] == kind.encode(value)
    attached = parse_attachment(rows[0]["attachment"])
    assert attached is not None
    assert (attached.sequence_number, attached.source_time_ns) == (1, START_US * 1_000 + 7)
    types = ros.Types()
    assert types.load(again) == len(VALUES)
    assert types.message(IMU.name, IMU.hash).source == "kept with again"


@line("R2-321", "R2-322")
def test_definitions_are_taken_from_a_bag_and_from_files(tmp_path: Path) -> None:
    rows = [
        {
            "key": topic_key(0, "/thing", CUSTOM.name, CUSTOM.hash),
            "kind": RowKind.PUT,
            "payload": CUSTOM.encode({}),
            "encoding": "zenoh/bytes",
            "qos": 5,
            "recv_ts": START_US,
        }
    ]
    log = logged(tmp_path / "log", rows)
    keep_definitions(log, {CUSTOM.hash: {"name": CUSTOM.name, "text": CUSTOM.text, "source": "t"}})
    exported(log, tmp_path / "a.mcap")
    assert ros.Types([tmp_path / "a.mcap"]).message(CUSTOM.name, CUSTOM.hash).text == CUSTOM.text
    with pytest.raises(ros.UnknownTypeError, match="no definition of my_pkg/msg/Thing"):
        ros.Types().message(CUSTOM.name, CUSTOM.hash)
    srv = tmp_path / "share" / "my_pkg" / "srv"
    srv.mkdir(parents=True)
    (srv / "Do.srv").write_text("int8 a\n---\nint8 b\n")
    assert ros.Types([tmp_path / "share"]).service("my_pkg/srv/Do").request.name.endswith("Request")


@line("R2-355", "R2-356")
def test_names_are_trusted_only_if_that_is_said() -> None:
    other = "RIHS01_" + "b" * 64
    with pytest.raises(ros.UnknownTypeError, match=r"is RIHS01_df66…, data is RIHS01_bbbb…"):
        ros.Types().message(STRING.name, other)
    found = ros.Types(trust_names=True).find(STRING.name, other)
    assert (found.kind.name, found.hash_ok) == (STRING.name, False)
    assert ros.Types().find(STRING.name, NO_HASH).kind.source == "shipped (humble)"
    for untrusted in ("RIHS01_" + "0" * 64, "RIHS01_91a0593bacdcc50e" + "c" * 48):
        assert ros.Types().find(STRING.name, untrusted).hash_ok


@line("R2-707")
def test_a_bag_that_was_cut_was_refused_in_the_words_of_a_library(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recorder that was killed leaves a file without its end."""
    exported(log, tmp_path / "a.mcap")
    whole = (tmp_path / "a.mcap").read_bytes()
    for number, cut in enumerate((len(whole) - 1, len(whole) - 9, len(whole) - 200)):
        (tmp_path / "cut.mcap").write_bytes(whole[:cut])
        to = tmp_path / f"log{number}"
        assert main(["log", "import", str(tmp_path / "cut.mcap"), "--to", str(to), "--ros2"]) == 1
        err = capsys.readouterr().err
        assert f"the file ends early, at byte {cut}; {TOTAL} messages before it are good" in err
        assert not to.exists()


@line("R2-321", "R2-322")
def test_of_two_definitions_of_a_name_in_a_bag_one_was_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = Library.of_text("string label\nint32 n", CUSTOM.name).message(CUSTOM.name)
    kinds = {CUSTOM: {"label": "a", "xyz": [1, 2, 3]}, later: {"label": "b", "n": 5}}
    defaults = {"encoding": "zenoh/bytes", "qos": 5, "recv_ts": START_US, "kind": RowKind.PUT}
    rows = [
        {**defaults, "key": topic_key(0, "/two", one.name, one.hash), "payload": one.encode(value)}
        for one, value in kinds.items()
    ]
    log = logged(tmp_path / "log", rows)
    texts = {one.hash: {"name": one.name, "text": one.text, "source": "t"} for one in kinds}
    keep_definitions(log, texts)
    exported(log, tmp_path / "a.mcap")
    assert "my_pkg/msg/Thing has several definitions" in capsys.readouterr().err
    types = ros.Types([tmp_path / "a.mcap"])
    assert [types.find(one.name, one.hash).kind.text for one in kinds] == [
        one.text for one in kinds
    ]
    with (tmp_path / "a.mcap").open("rb") as file:
        decoded = make_reader(file, decoder_factories=[DecoderFactory()]).iter_decoded_messages()
        assert [one[3].label for one in decoded] == ["a", "b"]


def test_a_file_that_is_no_bag_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.mcap").write_bytes(b"\x89MCAP0\r\nnothing")
    command = ["log", "import", str(tmp_path / "a.mcap"), "--to", str(tmp_path / "x"), "--ros2"]
    assert main(command) == 1
    assert "no MCAP" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    with pytest.raises(ros.UnknownTypeError):
        ros.Types().message("a/msg/B")


def test_what_was_exported_says_so(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["log", "export", str(log), "0/robot1/**", "--to", str(tmp_path / "r.mcap")]
    assert main([*command, "--profile", "ros2", "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["left_out"]) == (200, 0)
    assert plain(IMU.decode(IMU.encode(VALUES[0][2])))["orientation"]["x"] == 0.5
