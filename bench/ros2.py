"""ROS 2: messages to columns and to objects, the graph, and live messages, as ratios of one run.

    python bench/ros2.py            JSON lines
    python bench/ros2.py --quick    fewer messages

`columns_s` is what `elea.spark.decode` makes of payloads in a batch; `rosbags_arrow_s` the same
work by rosbags, whose objects are turned into an Arrow array; `rosbags_s` its objects alone. `bar`
is what section 19 of docs/spec/ros2.md asks of `ratio`. `mixed` are payloads of many lengths.
`graph` is a client's first look at a fleet; `live` compares a subscription that decodes with a
plain subscriber, in one process over TCP on loopback.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy
import pyarrow as pa
from rosbags.typesys import Stores, get_typestore

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script: find `tests`

from tests.ports import free_port

import elea
import elea.ros as ros
from elea.decode.columns.ros import RosDecoder
from elea.ros.formats.attachment import Attachment
from elea.ros.formats.library import MessageType
from elea.ros.formats.shipped import shipped
from elea.ros.formats.tokens import Kind, Token, parse_token

ROUNDS: Final = 5
NODES_OF_SESSION: Final = 100
STORE: Final = get_typestore(Stores.ROS2_JAZZY)
HEADER: Final = {"stamp": {"sec": 1_700_000_000, "nanosec": 5}, "frame_id": "base_link"}
Value = Callable[[int], dict[str, Any]]


def joints(number: int) -> dict[str, Any]:
    names = [f"joint_{place:02d}" for place in range(12)]
    values = [number + place / 7 for place in range(12)]
    return {"header": HEADER, "name": names, "position": values, "velocity": values}


def transforms(number: int) -> dict[str, Any]:
    one = {
        "header": HEADER,
        "child_frame_id": "wheel_l",
        "transform": {"translation": {"x": number}},
    }
    return {"transforms": [one] * 3}


def cloud(number: int) -> dict[str, Any]:
    fields = [
        {"name": name, "offset": 4 * place, "datatype": 7, "count": 1}
        for place, name in enumerate(("x", "y", "z", "intensity"))
    ]
    data = bytes([number % 256]) * 160_000
    sizes = {"height": 1, "width": 10_000, "point_step": 16, "row_step": 160_000}
    return {"header": HEADER, "fields": fields, "data": data, **sizes}


CASES: Final[list[tuple[str, str, Value, int, float]]] = [
    (
        "Imu",
        "sensor_msgs/msg/Imu",
        lambda n: {"header": HEADER, "orientation": {"x": n}},
        5_000,
        12,
    ),
    ("JointState, 12", "sensor_msgs/msg/JointState", joints, 5_000, 8),
    (
        "LaserScan, 720",
        "sensor_msgs/msg/LaserScan",
        lambda n: {"header": HEADER, "ranges": [float(n)] * 720},
        2_000,
        6,
    ),
    ("TFMessage, 3", "tf2_msgs/msg/TFMessage", transforms, 5_000, 12),
    ("String", "std_msgs/msg/String", lambda n: {"data": f"Hello World: {n % 10}"}, 20_000, 8),
]


def best(function: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Seconds of the best of some rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def plain(value: Any) -> Any:
    """What Arrow takes of an object of rosbags."""
    if isinstance(value, numpy.ndarray):
        return value
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "__msgtype__"):
        names = [name for name in value.__dataclass_fields__ if name != "__msgtype__"]
        return {name: plain(getattr(value, name)) for name in names}
    return value


def columns(name: str, kind: MessageType, payloads: list[bytes], bar: float) -> None:
    column = pa.array(payloads, pa.binary())
    decoder = RosDecoder(kind)
    outcome = decoder.decode(column)
    if len(outcome.rows) != len(payloads):
        raise AssertionError(f"{name}: rows are missing")
    few = payloads[: max(len(payloads) // 4, 200)]
    objects = best(lambda: [STORE.deserialize_cdr(one, kind.name) for one in few]) / len(few)
    arrow = best(
        lambda: pa.array([plain(STORE.deserialize_cdr(one, kind.name)) for one in few])
    ) / len(few)
    ours = best(lambda: decoder.decode(column)) / len(payloads)
    own = best(lambda: [kind.decode(one) for one in few]) / len(few)
    told(
        case=name,
        bytes=len(payloads[0]),
        columns_s=round(1 / ours),
        rosbags_arrow_s=round(1 / arrow),
        rosbags_s=round(1 / objects),
        objects_s=round(1 / own),
        ratio=round(arrow / ours, 1),
        bar=bar,
    )


def clouds(count: int) -> None:
    kind = shipped().message("sensor_msgs/msg/PointCloud2")
    payloads = [kind.encode(cloud(number)) for number in range(count)]
    column = pa.array(payloads, pa.binary())
    decoder = RosDecoder(kind)
    seconds = best(lambda: decoder.decode(column))
    octets = numpy.frombuffer(column.buffers()[2], "u1")
    copied = best(lambda: octets.copy())
    rate = column.nbytes / seconds / 1e9
    told(
        case="PointCloud2, 160 kB",
        columns_s=round(count / seconds),
        gb_s=round(rate, 2),
        memcpy_gb_s=round(column.nbytes / copied / 1e9, 2),
        bar="1 GB/s or 0.5 of memcpy",
    )


def mixed(count: int) -> None:
    draw = random.Random(3)
    cases: list[tuple[str, str, Value]] = [
        ("JointState", "sensor_msgs/msg/JointState", lambda n: mixed_joints(draw)),
        ("TFMessage", "tf2_msgs/msg/TFMessage", lambda n: mixed_transforms(draw)),
        ("String", "std_msgs/msg/String", lambda n: {"data": "x" * draw.randrange(400)}),
    ]
    for name, type, value in cases:
        kind = shipped().message(type)
        payloads = [kind.encode(value(number)) for number in range(count)]
        column = pa.array(payloads, pa.binary())
        decoder = RosDecoder(kind)
        ours = best(lambda: decoder.decode(column)) / count  # noqa: B023
        few = payloads[:1_000]
        objects = best(lambda: [STORE.deserialize_cdr(one, kind.name) for one in few]) / len(few)  # noqa: B023
        told(
            case=f"{name}, mixed",
            columns_s=round(1 / ours),
            rosbags_s=round(1 / objects),
            ratio=round(objects / ours, 1),
            bar=0.8,
        )


def mixed_joints(draw: random.Random) -> dict[str, Any]:
    count = draw.randrange(4, 20)
    names = ["j" * draw.randrange(1, 30) for _ in range(count)]
    return {"header": HEADER, "name": names, "position": [1.0] * count}


def mixed_transforms(draw: random.Random) -> dict[str, Any]:
    items = [
        {
            "header": {"frame_id": "f" * draw.randrange(30)},
            "child_frame_id": "c" * draw.randrange(9),
        }
        for _ in range(draw.randrange(1, 6))
    ]
    return {"transforms": items}


def graph(nodes: int, endpoints: int) -> None:
    """How long a client needs to know a fleet, and what a token takes."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    hash = shipped().hash("std_msgs/msg/String")
    expected = nodes * (endpoints + 1)
    with ExitStack() as stack:
        stack.enter_context(elea.open(config("router", listen=endpoint)))
        kept = []
        for number in range(nodes):
            if number % NODES_OF_SESSION == 0:
                session = stack.enter_context(elea.open(config("client", connect=endpoint)))
            zid, place = str(session.zid()), f"/r{number}"
            node = Token(0, zid, number, number, Kind.NODE, place, "n")
            tokens = [node] + [
                replace(
                    node,
                    kind=Kind.PUBLISHER,
                    eid=nodes + number * endpoints + one,
                    name=f"{place}/t{one}",
                    type="std_msgs/msg/String",
                    hash=hash,
                )
                for one in range(endpoints)
            ]
            kept += [session.liveliness().declare_token(one.key) for one in tokens]
        with ros.Context(connect=endpoint, ask_fleet=False) as before:  # until the router has all
            before.graph.wait_until(lambda: len(before.graph.tokens()) == expected, 120)
        start = time.perf_counter()
        with ros.Context(connect=endpoint, ask_fleet=False) as context:
            done = context.graph.wait_until(lambda: len(context.graph.tokens()) == expected, 60)
            seconds = time.perf_counter() - start
    keys = _keys("ab12", hash)
    tracemalloc.start()
    made = {key: parse_token(key) for key in keys}
    memory = tracemalloc.get_traced_memory()[0] / len(made)
    tracemalloc.stop()
    told(
        case=f"graph, {nodes} nodes of {endpoints}",
        tokens=expected,
        known=done,
        seconds=round(seconds, 2),
        bytes_per_token=round(memory),
        bar="5 s, 2000 bytes",
    )


def _keys(zid: str, hash: str) -> list[str]:
    return [
        Token(
            0, zid, number, number, Kind.PUBLISHER, f"/r{number}", "n", f"/r{number}/t",
            "std_msgs/msg/String", hash,
        ).key
        for number in range(2_000)
    ]  # fmt: skip


def live(count: int) -> None:
    """Imu decoded and handed over, against the same samples to a plain subscriber.

    In turns, the best of some rounds: other work on the machine must not decide. With attachments
    both take what rmw_zenoh sends.
    """
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    kind = shipped().message("sensor_msgs/msg/Imu")
    payload = kind.encode({"header": HEADER})
    key = f"0/imu/sensor_msgs::msg::dds_::Imu_/{kind.hash}"
    attachments = [Attachment(one + 1, 5, bytes(16)).to_bytes() for one in range(count)]
    with (
        elea.open(config("peer", listen=endpoint)) as here,
        elea.open(config("peer", connect=endpoint)) as there,
    ):
        cases: list[tuple[str, list[bytes] | None, bool]] = [
            ("live, Imu", None, False),
            ("live, Imu, attachments", attachments, False),
            ("live, Imu, attachments, a member read of each", attachments, True),
        ]
        for name, attached, reads in cases:
            plain, decoded = [], []
            for _ in range(ROUNDS):
                got = [0]
                subscriber = here.declare_subscriber(key, counter(got))
                plain.append(received(there, key, payload, attached, count, got))
                subscriber.undeclare()
                with ros.Node("bench", session=here, rosout=False, describe=False) as node:
                    got = [0]
                    callback = reader(got) if reads else counter(got)
                    node.create_subscription(kind.name, "/imu", callback, qos=10)
                    decoded.append(received(there, key, payload, attached, count, got))
            (plain_s, plain_cpu), (ros_s, ros_cpu) = (
                (min(wall for wall, _ in one), min(cpu for _, cpu in one))
                for one in (plain, decoded)
            )
            told(
                case=name,
                decoded_s=round(count / ros_s),
                plain_s=round(count / plain_s),
                ratio=round(plain_s / ros_s, 2),
                cpu_ratio=round(plain_cpu / ros_cpu, 2),
                bar=None if reads else 0.5,
            )


def counter(got: list[int]) -> Callable[[Any], None]:
    def heard(_message: Any) -> None:
        got[0] += 1

    return heard


def reader(got: list[int]) -> Callable[[Any], None]:
    def heard(message: Any) -> None:
        got[0] += message.orientation.x == 0.0

    return heard


def received(
    there: elea.Session,
    key: str,
    payload: bytes,
    attachments: list[bytes] | None,
    count: int,
    got: list[int],
) -> tuple[float, float]:
    """Seconds until so many samples were received, and of this process's CPU."""
    publisher = there.declare_publisher(key, congestion_control=elea.CongestionControl.BLOCK)
    while not publisher.matching_status.matching:
        time.sleep(0.01)
    start, cpu = time.perf_counter(), time.process_time()
    if attachments is None:
        for _ in range(count):
            publisher.put(payload)
    else:
        for attachment in attachments:
            publisher.put(payload, attachment=attachment)
    while got[0] < count:
        time.sleep(0.001)
        if time.perf_counter() - start > 120:
            raise AssertionError(f"{got[0]} of {count} came")
    seconds = time.perf_counter() - start, time.process_time() - cpu
    publisher.undeclare()
    return seconds


def config(mode: str, *, listen: str | None = None, connect: str | None = None) -> elea.Config:
    made = elea.Config()
    made.insert_json5("mode", json.dumps(mode))
    made.insert_json5("listen/endpoints", json.dumps([listen] if listen else []))
    made.insert_json5("connect/endpoints", json.dumps([connect] if connect else []))
    made.insert_json5("scouting/multicast/enabled", "false")
    return made


def told(**line: object) -> None:
    print(json.dumps({"bench": "ros2", **line}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure ROS 2.")
    parser.add_argument("--quick", action="store_true", help="fewer messages")
    quick = parser.parse_args().quick
    live(2_000 if quick else 50_000)  # first: what comes later leaves threads and memory behind
    for name, type, value, count, bar in CASES:
        kind = shipped().message(type)
        number = count // 10 if quick else count
        columns(name, kind, [kind.encode(value(one)) for one in range(number)], bar)
    clouds(50 if quick else 500)
    mixed(500 if quick else 5_000)
    graph(50 if quick else 1_000, 20)


if __name__ == "__main__":
    main()
