"""Which routes follow from which endpoints."""

from __future__ import annotations

import random
import re

import pytest

from elea.dds.mapping import Names
from elea.dds.port import Endpoint
from elea.dds.qos import Durability, Qos, Reliability
from elea.dds.routes import Direction, Filter, RouteId, RouteTable, Verdict, mirror_partition

line = pytest.mark.line


def endpoint(
    number: int,
    topic: str = "T",
    *,
    writer: bool = True,
    type_name: str = "X",
    type_hash: bytes = b"",
    qos: Qos | None = None,
    participant: int = 1,
) -> Endpoint:
    prefix = bytes((1, 16)) + participant.to_bytes(10, "big")
    guid = prefix + number.to_bytes(3, "big") + (b"\x03" if writer else b"\x04")
    owner = prefix + b"\0\0\x01\xc1"
    return Endpoint(guid, owner, writer, topic, type_name, qos or Qos(), number, type_hash)


def keys(table: RouteTable) -> set[tuple[str, str]]:
    return {(id_.direction.value, id_.key) for id_ in table.plans}


@line("D-203", "D-204", "D-301")
def test_endpoints_make_routes_and_take_them_away() -> None:
    table = RouteTable(Names(), Filter())
    one = endpoint(1)
    [made] = table.add(one)
    assert made == RouteId(Direction.FROM_DDS, "T", "T", "", "X")
    assert table.add(one) == set()
    assert table.add(endpoint(2, writer=False)) != set()
    assert keys(table) == {("from_dds", "T"), ("to_dds", "T")}
    assert table.remove(endpoint(9).guid) == set()
    assert table.remove(one.guid) == {made}
    assert keys(table) == {("to_dds", "T")}
    assert table.add(endpoint(3, "DCPSParticipant")) == set()


@line("D-205")
def test_a_participant_takes_its_endpoints_along() -> None:
    table = RouteTable(Names(), Filter())
    for number in range(5):
        table.add(endpoint(number, f"T{number}", participant=number % 2))
    assert len(table.remove_participant(endpoint(0, participant=0).participant)) == 3
    assert keys(table) == {("from_dds", "T1"), ("from_dds", "T3")}


@line("D-263", "D-264", "D-265")
def test_types_split_routes_and_unknown_ones_join() -> None:
    table = RouteTable(Names(), Filter())
    table.add(endpoint(1))
    assert [id_.type_hash for id_ in table.plans] == [b""]
    table.add(endpoint(2, type_hash=b"a"))
    assert [id_.type_hash for id_ in table.plans] == [b"a"]
    assert len(next(iter(table.plans.values())).endpoints) == 2
    table.add(endpoint(3, type_hash=b"b"))
    assert sorted(id_.type_hash for id_ in table.plans) == [b"a", b"b"]


@line("D-303")
def test_classes_of_writers() -> None:
    table = RouteTable(Names(), Filter())
    for number, reliability in enumerate((*Reliability, *Reliability)):
        table.add(endpoint(number, qos=Qos(reliability=reliability)))
    table.add(endpoint(9, qos=Qos(durability=Durability.TRANSIENT_LOCAL)))
    [plan] = table.plans.values()
    assert len(plan.classes) == 3
    assert plan.is_durable


@line("D-106", "D-310")
def test_of_two_names_with_one_key_the_first_keeps_it() -> None:
    table = RouteTable(Names(), Filter())
    first = endpoint(1, "b/c", qos=Qos(partitions=("a",)))
    second = endpoint(2, "c", qos=Qos(partitions=("a/b",)))
    table.add(first)
    table.add(second)
    assert table.routed(second.guid)["a/b"].verdict is Verdict.COLLISION
    assert len(table.plans) == 1
    table.remove(first.guid)
    assert table.routed(second.guid)["a/b"].verdict is Verdict.ROUTED
    assert [id_.topic for id_ in table.plans] == ["c"]


@line("D-206", "D-207")
def test_allow_deny_and_direction() -> None:
    both = frozenset(Direction)
    table = RouteTable(Names("s"), Filter(re.compile("^s/a|b"), re.compile("bb"), both))
    for number, topic in enumerate(("a", "xb", "abb", "c")):
        table.add(endpoint(number, topic))
    assert keys(table) == {("from_dds", "s/a"), ("from_dds", "s/xb")}
    assert table.routed(endpoint(3, "c").guid)[""].verdict is Verdict.NOT_ALLOWED
    changed = table.filter_by(Filter(None, None, frozenset({Direction.TO_DDS})))
    assert len(changed) == 2
    assert table.plans == {}


@line("D-108", "D-109", "D-310", "D-831")
def test_why_an_endpoint_has_no_route() -> None:
    table = RouteTable(Names(), Filter(), count_max=1)
    wild = endpoint(1, qos=Qos(partitions=("a*",)))
    table.add(wild)
    assert table.routed(wild.guid)["a*"].verdict is Verdict.PATTERN_PARTITION
    long = endpoint(2, "x" * 2_000)
    table.add(long)
    assert table.routed(long.guid)[""].verdict is Verdict.BAD_NAME
    table.add(endpoint(3))
    full = endpoint(4, "U")
    table.add(full)
    assert table.routed(full.guid)[""].verdict is Verdict.FULL
    table.remove(endpoint(3).guid)
    assert table.routed(full.guid)[""].verdict is Verdict.ROUTED
    assert mirror_partition("a*b?") == "a_b_"
    assert mirror_partition("ab") == "ab"


@line("D-102", "D-211", "D-935")
def test_plans_are_a_function_of_what_is_there() -> None:
    random_ = random.Random(7)
    table = RouteTable(Names(), Filter(), pattern_writers=True)
    there: dict[bytes, Endpoint] = {}
    for _ in range(3_000):
        number = random_.randrange(40)
        one = endpoint(
            number,
            f"T{number % 5}",
            writer=number % 2 == 0,
            type_hash=random_.choice((b"", b"a", b"b")),
            qos=Qos(
                reliability=random_.choice(list(Reliability)),
                partitions=random_.choice(((), ("p",), ("p", "q"), ("p*",))),
            ),
        )
        if random_.random() < 0.4:
            there.pop(one.guid, None)
            table.remove(one.guid)
        else:
            there[one.guid] = one
            table.add(one)
    fresh = RouteTable(Names(), Filter(), pattern_writers=True)
    for one in there.values():
        fresh.add(one)
    assert table.plans == fresh.plans
    assert table.endpoints == there
    for guid in list(there):
        table.remove(guid)
    assert table.plans == {}
    assert not table._claims
    assert not table._groups
    assert not table._routed


@line("D-208", "D-815", "D-831")
def test_each_endpoint_that_left_had_all_without_room_looked_at_again() -> None:
    """A peer with thousands beyond `dds_routes_count` held the DDS thread for minutes."""
    decided = 0

    def renamed(_endpoint: Endpoint) -> None:
        nonlocal decided
        decided += 1

    table = RouteTable(Names(), Filter(), count_max=50, renamed=renamed)
    for number in range(1_000):
        table.add(endpoint(number, f"T{number}"))
    table.add(endpoint(1_000, "a/b", qos=Qos(partitions=("x",))))
    assert (len(table.plans), decided) == (50, 1_001)
    for number in range(50):
        changed = table.remove(endpoint(number).guid)
        assert {id_.key for id_ in changed} == {f"T{number}", f"T{number + 50}"}
    assert (len(table.plans), decided) == (50, 1_051)


@line("D-106")
def test_endpoints_whose_key_became_free_are_routed() -> None:
    table = RouteTable(Names(), Filter())
    table.add(endpoint(1, "b/c", qos=Qos(partitions=("a",))))
    for number in (2, 3):
        table.add(endpoint(number, "c", qos=Qos(partitions=("a/b",))))
    assert len(table.plans) == 1
    table.remove(endpoint(2).guid)
    table.remove(endpoint(1).guid)
    [plan] = table.plans.values()
    assert [one.guid for one in plan.endpoints] == [endpoint(3).guid]
    table.remove(endpoint(3).guid)
    assert table.plans == {}
    assert table._colliding == {}
