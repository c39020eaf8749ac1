"""Samples that came close to being lost: all of them pass, or each of them is counted."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.dds.conftest import Rig
from tests.dds.peers import (
    Peer,
    subscribed,
    until,
)

import elea
from elea.dds.port import NO_ROOM

line = pytest.mark.line


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


def number(sample: elea.Sample) -> int:
    return int.from_bytes(sample.payload.to_bytes()[4:8], "little")


def _valid(other: Peer, name: str, found: list[int], count: int) -> bool:
    found += [one["value"]["number"] for one in other.take(name) if one["valid"]]
    return len(found) >= count


@line("D-451", "D-456")
@pytest.mark.parametrize("full", ["shared", "exclusive"])
def test_a_sample_waits_for_each_mirror_writer_that_has_no_room(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    topic = f"Both {full}".title().replace(" ", "")
    rig.peer.reader(f"{topic} shared", topic, "Chatter", depth=0)
    rig.peer.reader(f"{topic} exclusive", topic, "Chatter", depth=0, exclusive=True)
    rig.matched(f"{topic} shared", f"{topic} exclusive")
    subscribed(rig.far, topic)
    route: Any = rig.route("to_dds", topic)
    until(lambda: len(route.mirrors) == 2)
    writers = {id_[1].name.lower(): one.mirror.handle for id_, one in route._writers.items()}
    dds: Any = rig.bridge.dds
    write = dds.write
    refused = 0

    def written(writer: int, payload: bytes, source_ns: int) -> int:
        nonlocal refused
        if writer == writers[full] and refused < 5:
            refused += 1
            return NO_ROOM
        result: int = write(writer, payload, source_ns)
        return result

    monkeypatch.setattr(dds, "write", written)
    for value in range(5):
        rig.far.put(topic, chatter(value))
    for kind in ("shared", "exclusive"):
        got: list[int] = []
        until(partial(_valid, rig.peer, f"{topic} {kind}", got, 5), f"5 samples at {kind}: {got}")
        assert got == list(range(5))
    assert refused == 5
    assert route.counts.lost == {}
    assert route.counts.samples == 5


@line("D-565")
def test_history_beyond_the_limit_is_counted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.bridge.history, "_samples_max", 3)
    stamps = [rig.far.new_timestamp() for _ in range(5)]

    def answer(query: elea.Query) -> None:
        with query:
            for value, stamp in enumerate(stamps):
                query.reply("Long", chatter(value), timestamp=stamp)

    with rig.far.declare_queryable("Long/@dds_pub_cache/far", answer):
        with rig.near.declare_querier("Long/@dds_pub_cache/far") as querier:
            until(lambda: querier.matching_status.matching)
        rig.peer.reader("long", "Long", "Chatter", depth=0, durability="transient_local")
        samples = rig.peer.taken("long", 3)
    assert [one["value"]["number"] for one in samples] == [0, 1, 2]
    route: Any = rig.route("to_dds", "Long")
    assert route.counts.lost == {"history": 2}
