"""Several bridges: one domain, two domains, and what must not circulate."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.dds.peers import (
    LIMIT_S,
    bridge,
    config_of,
    matched_there,
    next_domain,
    peer,
    put,
    session_pair,
    subscribed,
    until,
)
from tests.meta.tree import ROOT
from tests.ports import free_port

import elea
from elea.dds.port import Tier, TopicType
from elea.dds.service import DdsService
from elea.query import ConsolidationMode, QueryConsolidation, ReplyKeyExpr
from elea.sample import Sample
from elea.session.handlers import FifoChannel

line = pytest.mark.line


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


def number(sample: Sample) -> int:
    return int.from_bytes(sample.payload.to_bytes()[4:8], "little")


class OtherBridge:
    """A bridge in a child process."""

    def __init__(self, zid: str, domain: int, endpoint: str, **section: Any) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        command = [sys.executable, "-m", "tests.dds.bridge_main"]
        self._process = subprocess.Popen(
            [*command, zid, str(domain), endpoint, json.dumps(section)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def counts(self) -> dict[str, Any]:
        """Ask for its counters."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._line())
        return found

    def end(self, *, crash: bool = False) -> None:
        """End it."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            if crash:
                self._process.kill()
            self._process.stdin.close()
            self._process.wait(30)
            assert self._process.stdout is not None
            self._process.stdout.close()


@contextmanager
def other_bridge(*args: Any, **section: Any) -> Iterator[OtherBridge]:
    made = OtherBridge(*args, **section)
    try:
        yield made
    finally:
        made.end()


@line("D-202", "D-633", "D-634", "D-636", "D-637")
@pytest.mark.parametrize("standby", [True, False])
def test_two_bridges_of_one_domain_bring_each_sample_once(standby: bool) -> None:
    domain = next_domain()
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    config = config_of(listen=endpoint, mode="router")
    config.insert_json5("id", '"f0"')
    with (
        elea.open(config) as near,
        elea.open(config_of(connect=endpoint, mode="client")) as user,
        bridge(near, domain, standby=standby) as first,
        other_bridge("a0", domain, endpoint, standby=standby) as second,
        peer(domain) as other,
    ):
        until(lambda: first.presence.is_standby == standby)
        samples = user.declare_subscriber("Talk", FifoChannel(100))
        other.writer("w", "Talk", "Chatter")
        other.reader("r", "Talk", "Chatter", depth=0)
        guid = other.reader("h", "Hear", "Chatter", depth=0)
        bridges = 1 if standby else 2
        until(lambda: other.matched("w") == 1 + bridges and other.matched("h") == bridges)

        def know_each_other() -> bool:
            counts = second.counts()
            return bool(counts["bridges"] == ["f0"] and counts["endpoints"] == 3)

        until(know_each_other)
        until(lambda: "a0" in first.presence._bridges and len(first.table.endpoints) == 3)

        def tokens() -> list[str]:
            replies = user.liveliness().get(f"@/*/@dds/{domain}/R/{guid}/Hear")
            return [str(one.ok.key_expr) for one in replies if one.ok]

        # A bridge declares the token of a reader after its subscriber, by the same link.
        until(lambda: len(tokens()) == 2)
        for value in range(20):
            other.write("w", [{"number": value, "text": ""}])
        assert [one["value"]["number"] for one in other.taken("r", 20)] == list(range(20))
        got = [number(samples.handler.recv(LIMIT_S)) for _ in range(20 * bridges)]
        assert sorted(got) == sorted(list(range(20)) * bridges)
        put(user, "Hear", chatter(99))
        heard = other.taken("h", bridges)
        assert [one["value"]["number"] for one in heard] == [99] * bridges
        assert other.take("r") == []
        assert samples.handler.try_recv() is None
        # Bridges make no routes for each other's mirrors.
        endpoints = list(first.table.endpoints.values())
        assert all(one.topic in ("Talk", "Hear") for one in endpoints)
        prefixes = {one.guid[:12] for one in endpoints}
        assert prefixes == {bytes.fromhex(other.guid)[:12]}
        assert second.counts()["endpoints"] == 3
        samples.undeclare()


@line("D-637", "D-638")
def test_a_standby_takes_over() -> None:
    domain = next_domain()
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    config = config_of(listen=endpoint, mode="router")
    config.insert_json5("id", '"f0"')
    with (
        elea.open(config) as near,
        elea.open(config_of(connect=endpoint, mode="client")) as user,
        bridge(near, domain) as first,
        other_bridge("a0", domain, endpoint) as second,
        peer(domain) as other,
    ):
        until(lambda: first.presence.is_standby)
        samples = user.declare_subscriber("Talk", FifoChannel(100))
        other.writer("w", "Talk", "Chatter")
        until(lambda: other.matched("w") == 1)
        other.write("w", [{"number": 1, "text": ""}])
        assert number(samples.handler.recv(LIMIT_S)) == 1
        second.end()
        until(lambda: not first.presence.is_standby)
        matched_there(other, "w", first)
        other.write("w", [{"number": 2, "text": ""}])
        assert number(samples.handler.recv(LIMIT_S)) == 2
        assert samples.handler.try_recv() is None
        samples.undeclare()


@line("D-312", "D-638")
def test_a_bridge_that_took_over_put_the_history_of_durable_writers_again() -> None:
    domain = next_domain()
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    config = config_of(listen=endpoint, mode="router")
    config.insert_json5("id", '"f0"')
    with (
        elea.open(config) as near,
        elea.open(config_of(connect=endpoint, mode="client")) as user,
        bridge(near, domain) as first,
        peer(domain) as other,
    ):
        samples = user.declare_subscriber("Latched", FifoChannel(100))
        subscribed(near, "Latched")  # durable topics are read whether there is one or not
        other.writer("w", "Latched", "Chatter", depth=10, durability="transient_local")
        here = first.dds.guid[:12].hex()

        def readers() -> set[str]:
            """The participants that read; one that crashed does until its lease ends."""
            return {one[:24] for one in other.matched_guids("w")}

        def passes(value: int) -> None:
            """The writer sends what it keeps to a new mirror first: nothing of it comes again."""
            other.write("w", [{"number": value, "text": ""}])
            assert number(samples.handler.recv(LIMIT_S)) == value

        until(lambda: here in readers())
        passes(1)
        with other_bridge("a0", domain, endpoint) as second:  # asks what was put before it came
            until(lambda: first.presence.is_standby and readers() and here not in readers())
            passes(2)
            crashed = readers()
            second.end(crash=True)  # its cache is lost: what it put was heard
            until(lambda: here in readers())
            passes(3)
        with other_bridge("a0", domain, endpoint) as third:
            until(lambda: readers() - crashed - {here} and here not in readers())
            passes(4)
            third.end()
            until(lambda: here in readers())
            passes(5)
        assert samples.handler.try_recv() is None
        assert len(kept_of(user, "Latched")) == 5  # late joiners get all of it
        samples.undeclare()


@line("D-312", "D-509", "D-566")
def test_instances_of_a_bridge_that_crashed_and_came_back_stayed_away() -> None:
    """They have no writer meanwhile; then they are what durable readers get, as before."""
    one, two = next_domain(), next_domain()
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    durable: dict[str, Any] = {"depth": 1, "durability": "transient_local"}
    with (
        elea.open(config_of(listen=endpoint, mode="router")) as near,
        bridge(near, two),
        peer(one) as left,
        peer(two) as right,
    ):
        left.writer("w", "Kept", "Keyed", **durable)
        left.write("w", [{"id": id_, "value": id_} for id_ in range(3)])
        right.reader("r", "Kept", "Keyed", **durable)
        for zid in ("a0", "a1"):
            with other_bridge(zid, one, endpoint) as other:
                found = right.taken("r", 3)
                assert sorted(x["value"]["id"] for x in found if x["valid"]) == [0, 1, 2]
                right.reader(zid, "Kept", "Keyed", **durable)
                late = right.taken(zid, 3)
                assert sorted(x["value"]["id"] for x in late if x["valid"]) == [0, 1, 2]
                if zid == "a0":
                    other.end(crash=True)
                    ended = right.taken("r", 3)
                    assert [(x["state"], x["valid"]) for x in ended] == [(64, False)] * 3


def kept_of(session: elea.Session, key: str) -> list[elea.Reply]:
    none = QueryConsolidation(ConsolidationMode.NONE)
    expr = f"{key}/@dds_pub_cache/*"
    return list(session.get(expr, accept_replies=ReplyKeyExpr.ANY, consolidation=none))


@line("D-001", "D-632", "D-639")
def test_two_domains_of_one_service_join() -> None:
    one, two = next_domain(), next_domain()
    with session_pair() as (near, _far), peer(one) as left, peer(two) as right:
        service = DdsService(near, {"domains": [{"domain": one}, {"domain": two}]})
        try:
            for here in (left, right):
                here.writer("w", "Join", "Chatter")
                here.reader("r", "Join", "Chatter", depth=0)
            until(lambda: left.matched("w") == 2 and right.matched("w") == 2)
            until(lambda: left.matched("r") == 2 and right.matched("r") == 2)
            left.write("w", [{"number": 1, "text": ""}])
            assert [x["value"]["number"] for x in right.taken("r", 1)] == [1]
            right.write("w", [{"number": 2, "text": ""}])
            assert [x["value"]["number"] for x in left.taken("r", 2)] == [1, 2]
            assert [x["value"]["number"] for x in right.taken("r", 1)] == [2]

            def written() -> object:
                return {name: value for name, _, _, value in service.counted()}[
                    "elea_dds_to_samples"
                ]

            until(lambda: written() == 2)
            assert f"bridge/{one}" in service.status()
        finally:
            service.stop()


@line("D-640")
def test_samples_went_round_a_ring_of_domains_and_networks_for_ever() -> None:
    """Domain one, network, domain two, another network, and domain one again."""
    one, two = next_domain(), next_domain()
    ends = [f"tcp/127.0.0.1:{free_port()}" for _ in range(2)]
    with (
        elea.open(config_of(listen=ends[0], mode="router")) as near,
        elea.open(config_of(listen=ends[1], mode="router")) as far,
        bridge(near, one) as first,
        bridge(far, two) as second,
        other_bridge("a0", two, ends[0]) as third,
        other_bridge("a1", one, ends[1]) as fourth,
        peer(one) as left,
        peer(two) as right,
    ):
        for here in (left, right):
            here.reader("r", "Ring", "Keyed", depth=0)
        left.writer("w", "Ring", "Keyed")
        # Its reader and both bridges read the writer; the readers hear both of theirs.
        until(lambda: left.matched("w") == 3 and left.matched("r") == 3)
        until(lambda: right.matched("r") == 2)
        until(lambda: first.presence.strangers and second.presence.strangers)
        for value in range(5):
            left.write("w", [{"id": value, "value": value}])
        left.dispose("w", {"id": 0, "value": 0})
        found = right.taken("r", 5)
        left.taken("r", 5)

        def dropped() -> int:
            found = [dict(made.counts.duplicates) for made in (first, second)]
            found += [made.counts()["duplicates_by_rule"] for made in (third, fourth)]
            return sum(int(one.get("D-640", 0)) for one in found)

        until(lambda: dropped() >= 5)
        left.write("w", [{"id": 9, "value": 9}])
        while not any(one["valid"] and one["value"]["id"] == 9 for one in found):
            found += right.taken("r", 1)
        counts = [
            sum(one.counts.samples for one in made.routes.values()) for made in (first, second)
        ]
        assert max(counts) <= 2 * 6  # each way around once, and not again


@line("D-455", "D-815")
def test_a_malformed_optional_member_ended_the_process() -> None:
    """The library reads past the end of it, in CDR 1."""
    domain = next_domain()
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    good = bytes.fromhex(
        "00010000 03000000 72310000 07000000 00000000 00000000 0000f03f 00000000 00000040"
        "00000000 00000840 01000000 0000003f 01000000 01000000 02000000 78000000 017f0800 05000000"
        "06000000 02000000 6e000000 01000000 04000000"
    )
    at = good.index(b"\x02\0\0\0n")  # the length of the text in the member `note`
    with (
        elea.open(config_of(listen=endpoint, mode="router")) as near,
        other_bridge("a0", domain, endpoint) as made,
        peer(domain) as other,
    ):
        other.reader("r", "Robots", "Robot", depth=0)
        until(lambda: other.matched("r"))
        for broken in (
            good[: at + 3] + b"\x80" + good[at + 4 :],
            good[:at] + b"\xff\xff\xff\x7f" + good[at + 4 :],
            good[:at],
            good[: at - 4] + b"\xff\xff\xff\xff" + good[at:],
        ):
            put(near, "Robots", broken)
        put(near, "Robots", good)
        assert [one["value"]["note"] for one in other.taken("r", 1)] == ["n"]
        counts = made.counts()
        assert (counts["to_dds_samples"], counts["to_dds_lost"], counts["failures"]) == (1, 4, 0)


@line("D-816")
def test_keys_without_a_reader_reach_no_topic() -> None:
    domain = next_domain()
    with session_pair() as (near, far), bridge(near, domain) as made, peer(domain) as other:
        other.reader("r", "Wanted", "Chatter")
        until(lambda: other.matched("r"))
        far.put("Unwanted", chatter(1))
        put(far, "Wanted", chatter(2))
        assert [x["value"]["number"] for x in other.taken("r", 1)] == [2]
        assert {id_.topic for id_ in list(made.routes)} == {"Wanted"}


@line("D-206", "D-207", "D-784", "D-936")
def test_settings_change_while_running() -> None:
    domain = next_domain()
    with session_pair() as (near, far), peer(domain) as other:
        service = DdsService(near, {"domain": domain, "deny": "/Secret$", "scope": "s"})
        try:
            [made] = service.bridges
            other.reader("a", "Open", "Chatter")
            other.reader("b", "Secret", "Chatter")
            until(lambda: other.matched("a"))
            until(lambda: len(made.table.endpoints) == 2)
            assert {id_.key for id_ in list(made.routes)} == {"s/Open"}
            service.change({"domain": domain, "deny": "^nothing$", "scope": "s"})
            until(lambda: other.matched("b"))
            put(far, "s/Secret", chatter(3))
            assert [x["value"]["number"] for x in other.taken("b", 1)] == [3]
            service.change({"domain": domain, "direction": "from_dds", "scope": "s"})
            until(lambda: not other.matched("a") and not other.matched("b"))
            with pytest.raises(elea.ZError, match="needs a restart"):
                service.change({"domain": domain, "scope": "t"})
        finally:
            service.stop()


@line("D-704")
def test_an_endpoint_that_was_asked_for_before_its_type_came_stayed_opaque(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = next_domain(), next_domain()
    with (
        session_pair() as (near, far),
        peer(one) as left,
        bridge(near, one, forward_discovery=True) as first,
        bridge(far, two, forward_discovery=True, on_demand=False) as second,
    ):
        resolve, attempts = first.dds.resolve, itertools.count()

        def resolve_later(guid: bytes, limit_ns: int) -> TopicType | None:
            return resolve(guid, limit_ns) if next(attempts) > 1 else None

        monkeypatch.setattr(first.dds, "resolve", resolve_later)
        left.reader("r", "There", "Keyed", depth=0)
        until(lambda: {route.tier for route in list(second.routes.values())} == {Tier.EXACT})


@line("D-704")
def test_endpoints_elsewhere_are_mirrored_here() -> None:
    one, two = next_domain(), next_domain()
    with (
        session_pair() as (near, far),
        peer(one) as left,
        peer(two) as right,
        bridge(near, one, forward_discovery=True) as first,
        bridge(far, two, forward_discovery=True, on_demand=False) as second,
    ):
        left.reader("r", "There", "Keyed", depth=0)
        left.writer("w", "Back", "Keyed", depth=0)
        # Before anything is in the other domain, it has mirrors of both.
        until(lambda: {id_.topic for id_ in list(second.routes)} == {"There", "Back"})
        mine = list(second.routes.values())
        until(lambda: {route.tier for route in mine} == {Tier.EXACT})
        right.writer("w", "There", "Keyed", depth=0)
        right.reader("r", "Back", "Keyed", depth=0)
        until(lambda: right.matched("w") and right.matched("r"))
        until(lambda: left.matched("w") and left.matched("r"))
        right.write("w", [{"id": 1, "value": 2}])
        assert [x["value"]["value"] for x in left.taken("r", 1)] == [2]
        assert first.counts.failures == second.counts.failures == 0
        left.delete("r")
        until(
            lambda: all(
                one.guid[:1] != b"\xfe" or one.topic != "There"
                for one in list(second.table.endpoints.values())
            )
        )
