"""Plan: what a fleet will publish, sample by sample, before anything runs.

How many samples there are, what is in them and which of them get lost follows from the plan alone,
so that what arrived can be held against it. Only the time of day is not in it.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from elea import cbor
from elea.demo.payloads import pose_to_cdr, to_json
from elea.errors import InvalidValueError

ROOT: Final = "fleet"
TINY: Final = "tiny-"
ROBOTS_MIN: Final = 6  # each of those below is one
ROBOTS_MAX: Final = 99
# What is wrong with a robot, by its number.
CACHED_RADIO: Final = 2  # long samples do not pass; it keeps them for who asks
RADIO: Final = 3  # the same, and it keeps none
RESTARTS: Final = 4
OVERHEATS: Final = 5
GARBLES: Final = 6  # some of its payloads are cut off

# And the tiny devices beside them, which speak XRCE.
TINY_COUNT: Final = 2
MOVES: Final = 1  # to another address, in the middle
SLEEPS: Final = 2  # what it measured meanwhile, it says when it wakes

# A robot that speaks DDS, and a node of ROS 2 on rmw_zenoh.
DDS_NAME: Final = "dds-01"
ARM_TOPIC: Final = f"{DDS_NAME}/arm"
ARM_KEY: Final = f"{ROOT}/{ARM_TOPIC}"  # the bridge puts the scope before the topic
ROS_NAME: Final = "ros_01"  # names of ROS have no dash
ROS_DOMAIN: Final = 0
ODOM_TYPE: Final = "nav_msgs/msg/Odometry"

LENGTH_MAX: Final = 512  # octets of a sample that pass a bad radio; the router's filter says so
_LONG_EVERY: Final = 40
_GARBLED_EVERY: Final = 100
_NOTE: Final = "diagnosis " * 60
_DOWN: Final = (0.45, 0.55)  # the part of the time in which the one that restarts is away
_HOT: Final = (0.35, 0.60)
_ASLEEP: Final = (0.40, 0.60)
_TRACE_LEN: Final = 24  # values of a reading: longer than several frames of a device
_JOINTS_COUNT: Final = 6
_WARM_C: Final = 45.0
_HEAT_C: Final = 50.0


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of sample that every robot publishes.

    Args:
        name: The last chunk of its keys.
        hertz: How often.
        encoding: Of its payloads.
        acknowledged: Whether each put waits until it is on disk.
    """

    name: str
    hertz: float
    encoding: str
    acknowledged: bool


IMU: Final = Stream("imu", 25.0, "application/json", acknowledged=False)
POSE: Final = Stream("pose", 5.0, "application/cdr", acknowledged=True)
BATTERY: Final = Stream("battery", 1.0, "application/cbor", acknowledged=True)
STREAMS: Final = (IMU, POSE, BATTERY)
SOIL: Final = Stream("soil", 4.0, "application/json", acknowledged=False)  # of tiny devices
ARM: Final = Stream("arm", 10.0, "application/cdr;fleet::Arm", acknowledged=False)  # of DDS
ODOM: Final = Stream("odom", 10.0, "zenoh/bytes", acknowledged=False)  # of ROS 2
BESIDE: Final = (SOIL, ARM, ODOM)  # streams of members that are not Zenoh robots


class Due(NamedTuple):
    """One sample: when it is due, in seconds from the start, and which one of its stream it is."""

    at_s: float
    stream: Stream
    number: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fleet publishes.

    Args:
        robots: How many.
        duration_s: For how long.
        rate: How many times as many samples as usual.
        seed: Of all that looks random.
        dds: Whether there is a DDS robot.

    Raises:
        InvalidValueError: there are too few robots or too many, or no time.
    """

    robots: int = 20
    duration_s: float = 60.0
    rate: float = 1.0
    seed: int = 1
    dds: bool = False

    def __post_init__(self) -> None:
        if not ROBOTS_MIN <= self.robots <= ROBOTS_MAX:
            legal = f"legal are {ROBOTS_MIN} to {ROBOTS_MAX}"
            raise InvalidValueError("robots", f"saw {self.robots}; {legal}")
        for name, value in (("duration", self.duration_s), ("rate", self.rate)):
            if not 0 < value < math.inf:
                raise InvalidValueError(name, f"saw {value}; legal is more than 0")

    def lives(self, robot: int) -> list[tuple[float, float]]:
        """From when to when a robot is there."""
        if robot != RESTARTS:
            return [(0.0, self.duration_s)]
        return [(0.0, _DOWN[0] * self.duration_s), (_DOWN[1] * self.duration_s, self.duration_s)]

    def samples(self, life: tuple[float, float]) -> Iterator[Due]:
        """All samples of one robot during a part of the time, in order."""
        return heapq.merge(*(self._of(stream, *life) for stream in STREAMS), key=_at)

    def _of(self, stream: Stream, start_s: float, end_s: float) -> Iterator[Due]:
        hertz = stream.hertz * self.rate
        for number in range(math.ceil(start_s * hertz), math.ceil(end_s * hertz)):
            yield Due(number / hertz, stream, number)

    def due_of(self, stream: Stream) -> Iterator[Due]:
        """All samples of a stream that one robot publishes all the time, in order."""
        return self._of(stream, 0.0, self.duration_s)

    def readings(self, device: int) -> Iterator[Due]:
        """All samples of one tiny device, in order."""
        asleep_s, awake_s = (part * self.duration_s for part in _ASLEEP)
        for due in self._of(SOIL, 0.0, self.duration_s):
            late = device == SLEEPS and asleep_s <= due.at_s < awake_s
            yield due._replace(at_s=awake_s) if late else due

    def count(self, *, acknowledged_only: bool = False) -> int:
        """How many samples the whole fleet publishes."""
        robots = sum(
            due.stream.acknowledged or not acknowledged_only
            for robot in range(1, self.robots + 1)
            for life in self.lives(robot)
            for due in self.samples(life)
        )
        if acknowledged_only:
            return robots
        return robots + self.tiny_count() + self.dds_count() + self.ros_count()

    def tiny_count(self) -> int:
        """How many of those are of tiny devices."""
        devices = range(1, TINY_COUNT + 1)
        return sum(1 for device in devices for _ in self.readings(device))

    def dds_count(self) -> int:
        """How many of those are of the DDS robot."""
        return sum(1 for _ in self.due_of(ARM)) if self.dds else 0

    def ros_count(self) -> int:
        """How many of those are of the ROS 2 node."""
        return sum(1 for _ in self.due_of(ODOM))

    def lost_count(self) -> int:
        """How many of those nobody will ever have: a radio lost them, and there is no cache."""
        imu = self._of(IMU, 0.0, self.duration_s)
        return sum(is_long(RADIO, due) for due in imu)

    def garbled_count(self) -> int:
        """How many of those cannot be decoded."""
        return sum(is_garbled(GARBLES, due) for due in self._of(IMU, 0.0, self.duration_s))

    def payload(self, robot: int, due: Due, time_ns: int) -> bytes:
        """What a robot says at a time of day."""
        dice = random.Random(f"{self.seed}/{robot}/{due.stream.name}/{due.number}")
        phase = due.at_s / 5 + robot
        if due.stream is POSE:
            return pose_to_cdr(
                time_ns,
                10 * robot + 4 * math.cos(phase),
                4 * math.sin(phase),
                math.sin(phase / 2),
                math.cos(phase / 2),
            )
        if due.stream is BATTERY:
            left = max(0.0, 1 - due.at_s / (20 * self.duration_s) - robot / 200)
            cells = [round(3.3 + 0.9 * left + dice.gauss(0, 0.002), 4) for _ in range(3)]
            volts = round(sum(cells), 4)
            return cbor.dumps({"volts": volts, "percent": round(100 * left), "cells": [*cells]})
        return self._imu(robot, due, dice, phase)

    def reading(self, device: int, due: Due) -> bytes:
        """What a tiny device says. It does not know by which number others know its samples: so
        each has one of its own."""
        dice = random.Random(f"{self.seed}/tiny/{device}/{due.number}")
        trace = [round(0.3 + dice.gauss(0, 0.02), 4) for _ in range(_TRACE_LEN)]
        return to_json({"n": due.number, "moisture": trace[-1], "trace": trace})

    def arm(self, due: Due) -> dict[str, int | float | str | list[float]]:
        """The members of a sample of the DDS robot."""
        dice = random.Random(f"{self.seed}/{DDS_NAME}/{due.number}")
        joints = [round(math.sin(due.at_s / 3 + joint), 4) for joint in range(_JOINTS_COUNT)]
        load = round(2.5 + dice.gauss(0, 0.1), 4)
        return {"n": due.number, "joints": joints, "load": load, "mode": "auto"}

    def odometry(self, due: Due, time_ns: int) -> dict[str, object]:
        """The members of a message of the ROS 2 node; all others are zero."""
        seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
        angle = due.at_s / 8
        pose = {
            "position": {"x": 20 * math.cos(angle), "y": 20 * math.sin(angle)},
            "orientation": {"z": math.sin(angle / 2), "w": math.cos(angle / 2)},
        }
        stamp = {"sec": seconds, "nanosec": nanoseconds}
        return {
            "header": {"stamp": stamp, "frame_id": "odom"},
            "child_frame_id": "base_link",
            "pose": {"pose": pose},
            "twist": {"twist": {"linear": {"x": 2.5}, "angular": {"z": 0.125}}},
        }

    def _imu(self, robot: int, due: Due, dice: random.Random, phase: float) -> bytes:
        said: dict[str, float | int | str] = {
            "n": due.number,
            "ax": round(0.6 * math.cos(phase) + dice.gauss(0, 0.05), 4),
            "ay": round(0.6 * math.sin(phase) + dice.gauss(0, 0.05), 4),
            "az": round(9.81 + dice.gauss(0, 0.02), 4),
            "temp": round(self._celsius(robot, due.at_s) + dice.gauss(0, 0.2), 2),
        }
        if is_long(robot, due):
            said["note"] = _NOTE
        text = to_json(said)
        return text[: len(text) // 2] if is_garbled(robot, due) else text

    def _celsius(self, robot: int, at_s: float) -> float:
        first, last = (part * self.duration_s for part in _HOT)
        if robot != OVERHEATS or not first <= at_s <= last:
            return _WARM_C
        return _WARM_C + _HEAT_C * math.sin(math.pi * (at_s - first) / (last - first))


def _at(due: Due) -> float:
    return due.at_s


def name_of(robot: int) -> str:
    """A robot's chunk in its keys."""
    return f"r{robot:02d}"


def key_of(robot: int, stream: Stream) -> str:
    """Where a robot publishes."""
    return f"{ROOT}/{name_of(robot)}/{stream.name}"


def tiny_name(device: int) -> str:
    """A tiny device's chunk in its keys."""
    return f"{TINY}{device:02d}"


def tiny_key(device: int) -> str:
    """Where a tiny device publishes."""
    return f"{ROOT}/{tiny_name(device)}/{SOIL.name}"


def is_long(robot: int, due: Due) -> bool:
    """Whether a sample is too long for the radio of its robot."""
    has_radio = robot in (CACHED_RADIO, RADIO) and due.stream is IMU
    return has_radio and due.number % _LONG_EVERY == _LONG_EVERY // 2


def is_garbled(robot: int, due: Due) -> bool:
    """Whether a payload is cut off."""
    is_one = robot == GARBLES and due.stream is IMU
    return is_one and due.number % _GARBLED_EVERY == _GARBLED_EVERY // 2
