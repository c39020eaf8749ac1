"""What a fleet says is planned, can be read by others, and is wrong where it is meant to be."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from elea import cbor, json5
from elea.decode.columns.plan import Plan as DecodePlan
from elea.decode.columns.plan import decode
from elea.decode.columns.ros import ros_layout
from elea.decode.columns.rules import Rule
from elea.decode.layout import Structure
from elea.demo import files, plan
from elea.demo.plan import BATTERY, IMU, POSE, STREAMS, Due, Plan
from elea.demo.tiny import FRAME_LEN
from elea.errors import InvalidValueError

NOW_NS = 1_700_000_000_123_456_789


def test_amounts_follow_from_the_plan() -> None:
    made = Plan(robots=6, duration_s=10.0)
    whole = list(made.samples((0.0, 10.0)))
    assert [sum(due.stream is one for due in whole) for one in STREAMS] == [250, 50, 10]
    assert whole == sorted(whole, key=lambda due: due.at_s)
    first, second = made.lives(plan.RESTARTS)
    assert first[1] < second[0]
    away = sum(first[1] <= due.at_s < second[0] for due in whole)
    assert away > 0
    assert made.count() == 6 * len(whole) - away + made.tiny_count() + made.ros_count()
    assert replace(made, dds=True).count() == made.count() + 100
    lives = [life for robot in range(1, 7) for life in made.lives(robot)]
    acked = [due for life in lives for due in made.samples(life) if due.stream is not IMU]
    assert made.count(acknowledged_only=True) == len(acked)


def test_a_tiny_device_that_sleeps_says_it_all_when_it_wakes() -> None:
    made = Plan(robots=6, duration_s=10.0)
    awake, slept = list(made.readings(plan.MOVES)), list(made.readings(plan.SLEEPS))
    assert [due.number for due in awake] == [due.number for due in slept] == list(range(40))
    assert made.tiny_count() == 80
    assert sum(due.at_s == 6.0 for due in slept) == 9  # those of 4.0 to 5.75, and that of 6.0
    assert not [due for due in slept if 4.0 <= due.at_s < 6.0]
    said = made.reading(1, slept[20])
    assert json.loads(said)["n"] == 20
    assert len(said) > 2 * FRAME_LEN  # it is sent in fragments
    assert said != made.reading(2, slept[20])


def test_the_same_seed_says_the_same() -> None:
    due = Due(1.0, IMU, 25)
    said = {Plan(seed=seed).payload(1, due, NOW_NS) for seed in (1, 1, 2)}
    assert len(said) == 2


def test_payloads_can_be_read() -> None:
    made = Plan()
    imu = json.loads(made.payload(1, Due(0.4, IMU, 10), NOW_NS))
    assert set(imu) == {"n", "ax", "ay", "az", "temp"}
    battery = cbor.loads(made.payload(1, Due(3.0, BATTERY, 3), NOW_NS))
    assert isinstance(battery, cbor.Map)
    assert dict(battery.pairs)["percent"] in range(101)


def test_a_pose_is_what_its_definition_says() -> None:
    definition = files.text("PoseStamped.msg")
    assert isinstance(ros_layout(definition, "geometry_msgs/msg/PoseStamped"), Structure)
    rule = Rule(
        decoder="cdr", message="geometry_msgs/msg/PoseStamped", definitions=definition.encode()
    )
    octets = Plan().payload(3, Due(0.0, POSE, 0), NOW_NS)
    batch = pa.RecordBatch.from_pydict(
        {"key": ["k"], "kind": [0], "payload": [octets], "encoding": [POSE.encoding]}
    )
    [row] = decode(batch, DecodePlan((rule,), "dead")).rows.to_pylist()
    assert row["header"]["stamp"] == {"sec": 1_700_000_000, "nanosec": 123_456_789}
    assert row["header"]["frame_id"] == "map"
    turned = row["pose"]["orientation"]
    assert turned["z"] ** 2 + turned["w"] ** 2 == pytest.approx(1.0)


def test_bad_radios_are_those_of_the_router() -> None:
    router = json5.loads(files.text(files.ROUTER))
    assert isinstance(router, dict)
    items = router["low_pass_filter"]
    assert isinstance(items, list)
    [item] = items
    assert isinstance(item, dict)
    radios = [plan.key_of(robot, IMU) for robot in (plan.CACHED_RADIO, plan.RADIO)]
    assert item["key_exprs"] == radios
    assert item["size_limit"] == plan.LENGTH_MAX
    made = Plan(duration_s=10.0)
    for robot in (plan.RADIO, plan.GARBLES):
        samples = [due for due in made.samples((0.0, 10.0)) if due.stream is IMU]
        long = [len(made.payload(robot, due, NOW_NS)) > plan.LENGTH_MAX for due in samples]
        assert long == [plan.is_long(robot, due) for due in samples]
        # Whoever comes after a sample that is lost tells that it is.
        assert not long[-1]
        assert sum(long) == (made.lost_count() if robot == plan.RADIO else 0)
    garbled = 0
    for due in (due for due in made.samples((0.0, 10.0)) if due.stream is IMU):
        try:
            json.loads(made.payload(plan.GARBLES, due, NOW_NS))
        except ValueError:
            garbled += 1
    assert garbled == made.garbled_count() > 0


def test_one_overheats() -> None:
    made = Plan(duration_s=60.0)

    def celsius(robot: int, at_s: float) -> float:
        said = json.loads(made.payload(robot, Due(at_s, IMU, int(at_s * 25)), NOW_NS))
        return float(said["temp"])

    assert celsius(plan.OVERHEATS, 28.5) > 80
    assert celsius(plan.OVERHEATS, 5.0) < 50
    assert celsius(1, 28.5) < 50


@pytest.mark.parametrize(
    "wrong", [{"robots": 5}, {"robots": 100}, {"duration_s": 0.0}, {"rate": float("inf")}]
)
def test_plans_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValueError, match="legal"):
        Plan(**wrong)  # type: ignore[arg-type]
