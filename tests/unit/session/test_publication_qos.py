"""`qos/publication`: qualities that an operator sets in place of the program's."""

from __future__ import annotations

import pytest

import elea
from elea import CongestionControl, Locality, Priority, Reliability

EVERYTHING = {
    "priority": "real_time",
    "congestion_control": "block",
    "express": True,
    "reliability": "best_effort",
}


def opened(*entries: tuple[str, dict[str, object]], **more: object) -> elea.Session:
    publication = [{"key_exprs": [key], "config": config} for key, config in entries]
    return elea.open(
        {
            "listen": {"endpoints": []},
            "scouting": {"multicast": {"enabled": False}},
            "qos": {"publication": publication},
            **more,
        }
    )


def of(sample: elea.Sample) -> tuple[Priority, CongestionControl, bool]:
    return sample.priority, sample.congestion_control, sample.express


AS_CONFIGURED = (Priority.REAL_TIME, CongestionControl.BLOCK, True)
AS_ASKED = (Priority.BACKGROUND, CongestionControl.DROP, False)


def test_a_put_and_a_delete_take_what_is_configured() -> None:
    with opened(("a/**", EVERYTHING)) as session:
        samples = session.declare_subscriber("**")
        session.put("a/b", b"", priority=Priority.BACKGROUND)
        session.delete("a/b", priority=Priority.BACKGROUND)
        assert session.try_put("a/b", b"", priority=Priority.BACKGROUND)
        session.put("b", b"", priority=Priority.BACKGROUND)
        told = [of(samples.recv(timeout=20)) for _ in range(4)]
    assert told == [AS_CONFIGURED] * 3 + [AS_ASKED]


def test_a_publisher_has_what_is_configured() -> None:
    with opened(("a/**", EVERYTHING)) as session:
        samples = session.declare_subscriber("**")
        publisher = session.declare_publisher("a/*", priority=Priority.BACKGROUND)
        assert publisher.priority is Priority.REAL_TIME
        assert publisher.congestion_control is CongestionControl.BLOCK
        assert publisher.reliability is Reliability.BEST_EFFORT
        publisher.put(b"")
        assert of(samples.recv(timeout=20)) == AS_CONFIGURED
        wider = session.declare_publisher("**", priority=Priority.BACKGROUND)  # not included
        assert wider.priority is Priority.BACKGROUND


@pytest.mark.parametrize("asked", [None, Locality.ANY])
def test_the_destination_is_what_is_configured(asked: Locality | None) -> None:
    with opened(("a/**", {"allowed_destination": "remote"})) as session:
        samples = session.declare_subscriber("**")
        session.put("a/b", b"", allowed_destination=asked)
        session.declare_publisher("a/b", allowed_destination=asked).put(b"")
        session.put("b", b"")
        assert str(samples.recv(timeout=20).key_expr) == "b"


def test_the_exact_key_wins_and_then_the_last_entry() -> None:
    low: dict[str, object] = {"priority": "data_low"}
    high: dict[str, object] = {"priority": "data_high"}
    with opened(("a/b", low), ("a/*", {"express": True}), ("a/**", high)) as session:
        assert session.declare_publisher("a/b").priority is Priority.DATA_LOW
        assert session.declare_publisher("a/c").priority is Priority.DATA_HIGH


def test_keys_are_those_without_the_namespace() -> None:
    with opened(("a/**", {"priority": "data_high"}), namespace="n") as session:
        assert session.declare_publisher("a/b").priority is Priority.DATA_HIGH
    with opened(("n/a/**", {"priority": "data_high"}), namespace="n") as session:
        assert session.declare_publisher("a/b").priority is Priority.DATA
