"""Late joiners on both sides, with Elea and Eclipse Zenoh sessions at the other end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import zenoh
from tests.dds.conftest import Rig
from tests.dds.peers import (
    Peer,
    bridge,
    next_domain,
    peer,
    put,
    served,
    session_pair,
    subscribed,
    until,
)
from tests.ports import free_port

import elea
from elea.dds.from_dds import FromDds
from elea.dds.history import CACHE
from elea.query import ConsolidationMode, QueryConsolidation, QueryTarget, ReplyKeyExpr
from elea.sample import Sample

line = pytest.mark.line
DURABLE: dict[str, Any] = {"durability": "transient_local"}


def kept(rig: Rig, key: str, parameters: str = "") -> list[Sample]:
    """What the cache of a route answers."""
    replies = rig.far.get(
        f"{key}/{CACHE}/*?{parameters}",
        target=QueryTarget.ALL,
        consolidation=QueryConsolidation(ConsolidationMode.NONE),
        accept_replies=ReplyKeyExpr.ANY,
    )
    return [one.ok for one in replies if one.ok is not None]


def number(sample: Sample) -> int:
    return int.from_bytes(sample.payload.to_bytes()[4:8], "little")


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


def asked_all(route: Any) -> None:
    """Wait until a route has asked for history, and has it: its mirror is matched before that."""
    until(lambda: route.history.was_asked and not route.is_asking, "the history of a new route")


@line("D-305", "D-561", "D-563", "D-570")
def test_durable_samples_are_kept_without_subscribers(rig: Rig) -> None:
    rig.peer.writer("one", "Kept", "Chatter", depth=1, **DURABLE)
    rig.peer.writer("two", "Kept", "Chatter", depth=2, **DURABLE)
    rig.matched("one", "two")
    for n in range(3):
        rig.peer.write("one", [{"number": n, "text": ""}])
        rig.peer.write("two", [{"number": 10 + n, "text": ""}])
    until(lambda: sorted(map(number, kept(rig, "Kept"))) == [2, 11, 12])
    samples = kept(rig, "Kept")
    assert {str(one.key_expr) for one in samples} == {"Kept"}
    assert all(one.timestamp is not None for one in samples)
    assert len(kept(rig, "Kept", "_max=1")) == 2
    assert kept(rig, "Kept", "_time=[..now(-1h)]") == []
    rig.peer.delete("one")
    until(lambda: len(kept(rig, "Kept")) == 2)


@line("D-561", "D-562")
def test_depth_counts_per_instance_and_disposed_ones_go(rig: Rig) -> None:
    rig.peer.writer("inst", "Inst", "Keyed", depth=2, dispose=False, **DURABLE)
    rig.matched("inst")
    for value in range(3):
        rig.peer.write("inst", [{"id": id_, "value": value} for id_ in range(3)])
    until(lambda: len(kept(rig, "Inst")) == 6)
    rig.peer.dispose("inst", {"id": 1, "value": 0})
    until(lambda: len(kept(rig, "Inst")) == 4)


@line("D-565", "D-569", "D-571", "D-702")
def test_a_late_reader_gets_the_history_of_others_and_then_live(rig: Rig) -> None:
    asked: list[str] = []

    def answer(query: elea.Query) -> None:
        with query:
            asked.append(str(query.selector))
            for n in (2, 1):
                query.reply("Late", chatter(n), timestamp=stamps[n])
            rig.far.put("Late", chatter(3), timestamp=stamps[3])
            rig.far.put("Late", chatter(2), timestamp=stamps[2])  # which is history as well

    stamps = {n: rig.far.new_timestamp() for n in (1, 2, 3)}
    with rig.far.declare_queryable(f"Late/{CACHE}/far", answer):
        served(rig.near, f"Late/{CACHE}/far")
        rig.peer.reader("volatile", "Late", "Chatter")
        rig.matched("volatile")
        subscribed(rig.far, "Late")
        rig.peer.reader("late", "Late", "Chatter", depth=10, **DURABLE)
        samples = rig.peer.taken("late", 3)
    assert [one["value"]["number"] for one in samples] == [1, 2, 3]
    assert asked == [f"Late/{CACHE}/*?_anyke"]
    put(rig.far, "Late", chatter(4))
    [live] = rig.peer.taken("late", 1)
    assert live["value"]["number"] == 4


@line("D-565", "D-569", "D-309")
def test_late_readers_that_are_deeper_than_the_first_get_history() -> None:
    here, there = next_domain(), next_domain()
    with (
        session_pair() as (near, far),
        bridge(near, here, linger=0.5),
        bridge(far, there, linger=0.5) as made,
        peer(here) as talker,
        peer(there) as listener,
    ):
        talker.writer("w", "Deep", "Chatter", depth=10, **DURABLE)
        served(far, f"Deep/{CACHE}/{near.zid()}")
        until(lambda: talker.matched("w"))
        talker.write("w", [{"number": n, "text": ""} for n in range(10)])
        for name, depth in (("one", 1), ("five", 5), ("all", 0)):
            listener.reader(name, "Deep", "Chatter", depth=depth, **DURABLE)
            count = depth or 10
            got: list[int] = []
            until(partial(_has_taken, listener, name, got, count), f"history of {name}: {got}")
            # A mirror that is replaced gives what it has as well: values may come twice.
            assert sorted(set(got)) == list(range(10 - count, 10))
        [route] = [one for id_, one in list(made.routes.items()) if id_.key == "Deep"]
        asked_all(route)
        talker.write("w", [{"number": 10, "text": ""}])
        got = []
        until(partial(_has_taken, listener, "all", got, 1))
        assert got[-1] == 10
        assert route.counts.lost == {}


def _has_taken(listener: Peer, name: str, got: list[int], count: int) -> bool:
    """Take the values there are; states tell that a mirror was replaced."""
    got += [one["value"]["number"] for one in listener.take(name) if one["valid"]]
    return len(set(got)) >= count


@line("D-566")
def test_a_bridge_that_appears_is_asked_alone(rig: Rig) -> None:
    rig.peer.reader("again", "Again", "Chatter", depth=10, **DURABLE)
    rig.matched("again")
    asked_all(rig.route("to_dds", "Again"))
    before = rig.bridge.counts.duplicates.get("D-566", 0)
    stamps = [rig.far.new_timestamp() for _ in range(2)]
    asked: list[str] = []

    def answer(query: elea.Query) -> None:
        with query:
            asked.append(str(query.key_expr))
            for n, stamp in enumerate(stamps):
                query.reply("Again", chatter(n), timestamp=stamp)

    with rig.far.declare_queryable(f"Again/{CACHE}/abc", answer):
        for _ in range(2):
            with rig.far.liveliness().declare_token("zenoh-plugin-dds/abc"):
                until(partial(_has_more, asked, len(asked)))
    samples = rig.peer.taken("again", 2)
    until(lambda: rig.bridge.counts.duplicates.get("D-566", 0) >= before + 2)
    assert [one["value"]["number"] for one in samples] == [0, 1]
    assert set(asked) == {f"Again/{CACHE}/abc"}
    assert rig.peer.take("again") == []


def _has_more(asked: list[str], count: int) -> bool:
    return len(asked) > count


@line("D-568")
def test_a_transient_reader_gets_what_storages_have(rig: Rig) -> None:
    def answer(query: elea.Query) -> None:
        with query:
            query.reply("Stored", chatter(7), timestamp=rig.far.new_timestamp())

    with rig.far.declare_queryable("Stored", answer):
        until(lambda: list(rig.near.get("Stored")), "the storage is known to the bridge's session")
        rig.peer.reader("stored", "Stored", "Chatter", durability="transient")
        [sample] = rig.peer.taken("stored", 1)
    assert sample["value"]["number"] == 7


@line("D-565")
def test_history_of_advanced_publishers_is_asked_for(rig: Rig) -> None:
    publisher = elea.ext.declare_advanced_publisher(
        rig.far, "Adv", cache=elea.ext.CacheConfig(5), publisher_detection=True
    )
    try:
        publisher.put(chatter(5))
        anything = elea.ReplyKeyExpr.ANY
        until(
            lambda: list(rig.near.get("Adv/@adv/**", accept_replies=anything)),
            "the cache is known to the bridge's session",
        )
        rig.peer.reader("adv", "Adv", "Chatter", **DURABLE)
        [sample] = rig.peer.taken("adv", 1)
    finally:
        publisher.undeclare()
    assert sample["value"]["number"] == 5


@pytest.fixture(scope="module")
def eclipse() -> Iterator[tuple[zenoh.Session, elea.Session]]:
    """An Eclipse Zenoh session, and the Elea session that it is connected to."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    config = zenoh.Config()
    for path, value in (
        ("mode", '"peer"'),
        ("scouting/multicast/enabled", "false"),
        ("listen/endpoints", "[]"),
        ("connect/endpoints", json.dumps([endpoint])),
    ):
        config.insert_json5(path, value)
    from tests.dds.peers import config_of

    with elea.open(config_of(listen=endpoint)) as near, zenoh.open(config) as far:
        until(lambda: near.info.peers_zid())
        yield far, near


@line("D-563", "D-701", "D-702", "D-933")
def test_an_eclipse_session_stands_for_an_eclipse_bridge(
    eclipse: tuple[zenoh.Session, elea.Session],
) -> None:
    far, near = eclipse
    domain = next_domain()
    with bridge(near, domain) as made, peer(domain) as other:
        # Presence: the token of the bridge is seen.
        until(
            lambda: (
                f"zenoh-plugin-dds/{near.zid()}"
                in [
                    str(one.ok.key_expr)
                    for one in far.liveliness().get("zenoh-plugin-dds/**")
                    if one.ok
                ]
            )
        )
        # From DDS: samples arrive with the stamps of their writer.
        received: list[Any] = []
        subscriber = far.declare_subscriber("Talk", received.append)
        guid = other.writer("w", "Talk", "Chatter", **DURABLE)
        until(lambda: other.matched("w"))
        # The samples of a durable writer are read without a subscriber.
        [route] = list(made.routes.values())
        assert isinstance(route, FromDds)
        until(lambda: route.is_wanted)
        other.write("w", [{"number": 1, "text": "a"}])
        until(lambda: received)
        assert received[0].payload.to_bytes()[4:8] == b"\1\0\0\0"
        assert str(received[0].timestamp.get_id()) == bytes.fromhex(guid)[::-1].hex().lstrip("0")
        # The cache, as a bridge asks it.
        replies = list(
            far.get(
                f"Talk/{CACHE}/*?_anyke",
                target=zenoh.QueryTarget.ALL,
                consolidation=zenoh.ConsolidationMode.NONE,
            )
        )
        assert [str(one.ok.key_expr) for one in replies if one.ok] == ["Talk"]
        # To DDS: history of a bridge, then live samples, without encoding and attachment.
        queryable = far.declare_queryable(
            f"Hear/{CACHE}/{far.info.zid()}", lambda query: query.reply("Hear", chatter(1))
        )
        until(lambda: list(near.get(f"Hear/{CACHE}/*?_anyke")), "the queryable of the history")
        other.reader("r", "Hear", "Chatter", depth=10, **DURABLE)
        assert [one["value"]["number"] for one in other.taken("r", 1)] == [1]
        publisher: Any = far.declare_publisher("Hear")  # its stub says bool of `matching_status`
        until(lambda: publisher.matching_status.matching, "the subscriber of the bridge")
        publisher.put(chatter(2))
        assert [one["value"]["number"] for one in other.taken("r", 1)] == [2]
        ended: list[Any] = [queryable, subscriber, publisher]
        for one in ended:
            one.undeclare()


@line("D-638")
def test_a_restarted_bridge_asks_for_durable_samples_again() -> None:
    domain = next_domain()
    with session_pair() as (near, far), peer(domain) as other:
        other.reader("r", "Once", "Chatter", depth=10, **DURABLE)
        stamp = near.new_timestamp()

        def answer(query: elea.Query) -> None:
            with query:
                query.reply("Once", chatter(1), timestamp=stamp)

        with far.declare_queryable(f"Once/{CACHE}/far", answer):
            served(near, f"Once/{CACHE}/far")
            for _ in range(2):
                with bridge(near, domain):
                    until(lambda: other.matched("r"))
                    put(far, "Once", chatter(2))
                    valid: list[int] = []

                    def both(found: list[int] = valid) -> bool:
                        taken = other.take("r")
                        found += [one["value"]["number"] for one in taken if one["valid"]]
                        return len(found) == 2

                    until(both)
                    assert valid == [1, 2]
                until(lambda: not other.matched("r"))
