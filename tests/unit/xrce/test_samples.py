"""Where samples are kept, when they are sent, and which keys names are."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from elea.decode.layout import parse_layout
from elea.encoding import Encoding
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS
from elea.timestamp import NTP64, Timestamp
from elea.xrce.names import parse
from elea.xrce.samples.durability import TOMBSTONE_NS, MemoryStore
from elea.xrce.samples.index import Index
from elea.xrce.samples.keys import key_expressions, selects
from elea.xrce.samples.sample import Sample
from elea.xrce.samples.schedule import Schedule
from elea.xrce.samples.store import Store
from elea.xrce.selections import parse_selection
from elea.xrce.status import RefusedError

MS = 1_000_000
IDLE_NS = 1_000 * MS


def at(number: int) -> Timestamp:
    return Timestamp(NTP64(number, 0), b"\1")


def sample(key: str = "a", payload: bytes = b"", number: int = 1) -> Sample:
    return Sample.of_key(key, payload, at(number))


def pulled(store: Store, pull_id: int, count: int = 100, now_ns: int = 0) -> list[bytes]:
    store.open(pull_id, now_ns)
    found: list[bytes] = []
    while len(found) < count and (one := store.peek(pull_id)) is not None:
        found.append(one.payload)
        store.advance(pull_id)
    return found


# Keys.


@pytest.mark.line("X-123")
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a/b", ("a/b",)),
        ("myhouse/**/LightStatus", ("myhouse/*/**/LightStatus",)),
        ("myhouse/**", ("myhouse/*/**",)),
        ("**", ("*/**",)),
        ("**/b", ("*/**/b",)),
        ("k**/ping", ("k$*/**/ping",)),
        ("x/**y", ("x/**/$*y",)),
        ("a**b/c", ("a$*b/c", "a$*/**/$*b/c")),
        ("bedroom*/x", ("bedroom$*/x",)),
        ("a/?/b", ("a/*/b",)),
        ("a?c", ("a$*c",)),
        ("a%20b", ("a b",)),
    ],
)
def test_the_table_of_key_expressions(pattern: str, expected: tuple[str, ...]) -> None:
    assert key_expressions(pattern) == expected


def _keys() -> list[str]:
    chunks = ["a", "b", "ab", "aab", "ba"]
    return ["/".join(one) for n in range(1, 5) for one in itertools.product(chunks, repeat=n)]


PATTERNS = ["**", "*", "a/**", "**/b", "a**", "**b", "a**b", "a*/b", "*b/**", "a/*/b", "**a**",
            "a**b**a", "**/a/**", "a**/b", "*/*", "a/**/**/b", "*a*/**b"]  # fmt: skip


@pytest.mark.line("X-123")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_key_expressions_are_exact(pattern: str) -> None:
    path = parse("/" + pattern).path
    found = [KeyExpr(one) for one in key_expressions(path)]
    wrong = [
        key for key in _keys() if selects(path, key) != any(one.intersects(key) for one in found)
    ]
    assert wrong == []


@pytest.mark.line("X-124")
@pytest.mark.parametrize(
    "pattern",
    [
        "?",
        "a?",
        "a/?",
        "?b/**",
        "**?",
        "a**?b",
        "a**b/a**b/a**b/a**b",
        "a**b**a**b**a",
        "a**" * 200,
    ],
)
def test_others_are_covered(pattern: str) -> None:
    path = parse("/" + pattern).path
    found = [KeyExpr(one) for one in key_expressions(path)]
    assert len(found) <= 8
    missed = [
        key for key in _keys() if selects(path, key) and not any(o.intersects(key) for o in found)
    ]
    assert missed == []


@pytest.mark.line("X-125")
@pytest.mark.parametrize(
    ("pattern", "path", "answer"),
    [
        ("**", "@xrce/rid/2", False),
        ("**", "a/@b/c", False),
        ("*/rid/2", "@xrce/rid/2", False),
        ("?xrce/**", "@xrce/rid/2", False),
        ("@xrce/**", "@xrce/rid/2", True),
        ("@xrce/rid/2", "@xrce/rid/2", True),
        ("a/**/@b/*", "a/x/@b/c", True),
        ("a/**/@b/*", "a/x/@c/c", False),
        ("a/@b", "a/b", False),
        ("a**", "ab@c", True),
    ],
)
def test_wildcards_do_not_see_verbatim_chunks(pattern: str, path: str, answer: bool) -> None:
    assert selects(pattern, path) is answer
    found = [KeyExpr(one) for one in key_expressions(pattern)]
    assert any(one.intersects(path) for one in found) is answer


def test_an_index_finds_who_is_interested() -> None:
    index = Index[str]()
    owned = {"a/b": "exact", "a/*": "star", "**": "all", "a/b/**": "below", "x?": "single"}
    for path, owner in owned.items():
        index.add(path, owner)
    assert sorted(index.matching("a/b")) == ["all", "exact", "star"]
    assert sorted(index.matching("a/b/c/d")) == ["all", "below"]
    assert sorted(index.matching("xy")) == ["all", "single"]
    assert sorted(index.matching("@x/b")) == []
    assert sorted(index.matching("a/**")) == ["all", "below", "exact", "star"]
    for path, owner in owned.items():
        index.remove(path, owner)
    assert list(index.matching("a/b")) == list(index.matching("**")) == []


# Stores.


@pytest.mark.line("X-107")
def test_a_pull_session_goes_on_where_it_was() -> None:
    store = Store(None, IDLE_NS)
    for number in range(5):
        store.put(sample(payload=b"%d" % number))
    assert pulled(store, 1, 0) == []
    assert pulled(store, 1, 2) == [b"0", b"1"]
    assert pulled(store, 1) == [b"2", b"3", b"4"]
    assert (len(store), pulled(store, 1)) == (0, [])
    store.put(sample(payload=b"5"))
    assert pulled(store, 1) == [b"5"]


@pytest.mark.line("X-108")
def test_pull_sessions_are_independent() -> None:
    store = Store(None, IDLE_NS)
    store.open(1, 0)
    store.open(2, 0)
    for number in range(3):
        store.put(sample(payload=b"%d" % number))
    assert pulled(store, 1) == [b"0", b"1", b"2"]
    assert len(store) == 3, "the other one has not read them"
    assert pulled(store, 2) == [b"0", b"1", b"2"]
    assert len(store) == 0


@pytest.mark.line("X-109")
def test_a_full_store_drops_its_oldest_and_counts() -> None:
    limits = dataclasses.replace(DEFAULT_LIMITS, xrce_subscriber_count=3, xrce_subscriber_len=500)
    store = Store(None, IDLE_NS, limits)
    for number in range(5):
        store.put(sample(payload=b"%d" % number))
    assert (len(store), store.dropped_count) == (3, 2)
    assert pulled(store, 1, 1) == [b"2"]
    store.put(sample(payload=bytes(400)))
    assert (len(store), store.dropped_count) == (1, 4)
    store.put(sample(payload=bytes(900)))
    assert len(store) == 1, "one sample is kept, however long"


def test_depth_is_per_key() -> None:
    store = Store(1, IDLE_NS)
    for number in range(4):
        store.put(sample("a", b"a%d" % number))
        store.put(sample("b", b"b%d" % number))
    assert pulled(store, 1) == [b"a3", b"b3"]
    assert (store.replaced_count, store.dropped_count) == (6, 0)
    store.put(sample("a", b"x"))
    assert store.oldest is not None
    store.pop()
    assert store.oldest is None


def test_pull_sessions_end_when_nobody_uses_them() -> None:
    store = Store(None, IDLE_NS)
    store.open(1, 0)
    store.put(sample(payload=b"0"))
    assert pulled(store, 2, now_ns=IDLE_NS + 1) == [b"0"]
    assert len(store) == 0, "the first one is over"
    for pull_id in range(40):
        store.open(pull_id, IDLE_NS + 2)
    assert store.peek(0) is None


@pytest.mark.line("X-111")
def test_windows() -> None:
    schedule = Schedule(zero_ns=0, origin_ms=1_000, period_ms=60_000, duration_ms=500)
    answers = {0: False, 999: False, 1_000: True, 1_499: True, 1_500: False, 61_000: True,
               121_499: True, 121_500: False}  # fmt: skip
    assert {ms: schedule.is_open(ms * MS) for ms in answers} == answers
    assert schedule.next_open_ns(0) == 1_000 * MS
    assert schedule.next_open_ns(1_000 * MS) == 61_000 * MS
    assert schedule.next_open_ns(60_999 * MS) == 61_000 * MS


# Durability.


def test_a_newer_sample_replaces_and_an_older_one_does_not() -> None:
    store = MemoryStore()
    assert store.write(sample("a", b"2", 2), 0)
    assert store.write(sample("a", b"1", 1), 0)
    assert [one.payload for one in store.matching("a")] == [b"2"]
    assert store.write(sample("b", b"0", 0), 0)
    assert [one.payload for one in store.matching("*")] == [b"0", b"2"], "by timestamp"
    deep = MemoryStore(depth=2)
    for number in range(4):
        deep.write(sample("a", b"%d" % number, number), 0)
    assert [one.payload for one in deep.matching("**")] == [b"2", b"3"]


def test_what_was_deleted_does_not_come_back_late() -> None:
    store = MemoryStore()
    store.write(sample("a", b"1", 1), 0)
    store.delete("a", at(5), 0)
    assert not store.holds("a")
    assert store.write(sample("a", b"4", 4), 0)
    assert not store.holds("a")
    assert store.write(sample("a", b"6", 6), 0)
    assert store.holds("a")
    store.delete("b", at(5), 0)
    assert store.write(sample("b", b"4", 4), TOMBSTONE_NS + 1)
    assert store.holds("b"), "a day later nobody remembers"


def test_transient_data_makes_room_and_persistent_data_is_refused() -> None:
    limits = dataclasses.replace(DEFAULT_LIMITS, xrce_durable_count=2, xrce_durable_len=1_000)
    transient, persistent = MemoryStore(limits=limits), MemoryStore(evicts=False, limits=limits)
    for store in (transient, persistent):
        assert store.write(sample("a", b"", 1), 0)
        assert store.write(sample("b", b"", 2), 0)
        assert store.write(sample("a", b"", 3), 0), "in place of the older one"
    assert persistent.is_full
    assert not persistent.write(sample("c", b"", 4), 0)
    assert persistent.refused_count == 1
    assert transient.write(sample("c", b"", 4), 0)
    assert (transient.holds("b"), transient.holds("a")) == (False, True)
    assert not transient.write(sample("d", bytes(2_000), 5), 0), "longer than all there is"


# Predicates.

LIGHT = b"""{"luminosity": 40, "on": true, "room": "music",
             "loc": {"lat": 48.0, "lon": 2.0}, "tags": ["a", "b"]}"""
VERDICTS = [
    ("luminosity>0", True),
    ("luminosity > 40", False),
    ("luminosity BETWEEN 0 AND 40", True),
    ("luminosity NOT BETWEEN 10 AND 50", False),
    ("room = 'music'", True),
    ("room LIKE 'mu%'", True),
    ("room LIKE '_usic' AND NOT on = FALSE", True),
    ("NOT (room = 'bed' OR luminosity < 5)", True),
    ("loc.lat >= 48 AND loc.lon < 3", True),
    ("tags[1] = 'b'", True),
    ("missing > 1", False),
    ("missing > 1 OR on = TRUE", True),
    ("NOT missing > 1", False),
    ("room > 3", False),
    ("inRange(loc, '48.0,2.01', 800)", True),
    ("0x28 = luminosity", True),
]
LAYOUT = parse_layout(
    "{luminosity: i32, on: bool, room: string, loc: {lat: f64, lon: f64}, tags: [string]}"
)
CDR = bytes.fromhex(
    "00010000 28000000 01 000000 06000000 6d7573696300 00000000 0000"
    "0000000000004840 0000000000000040 02000000 02000000 6100 0000 02000000 6200"
)


@pytest.mark.line("X-079")
@pytest.mark.parametrize(("predicate", "verdict"), VERDICTS)
def test_the_worked_predicates(predicate: str, verdict: bool) -> None:
    selection = parse_selection(f"/light?{{{predicate}}}".encode())
    assert selection.selects(LIGHT, Encoding.APPLICATION_JSON, key="light") is verdict


@pytest.mark.line("X-079")
@pytest.mark.parametrize(("predicate", "verdict"), VERDICTS)
def test_the_worked_predicates_on_cdr(predicate: str, verdict: bool) -> None:
    query = f"/light?{{{predicate}}}".encode()
    if "missing" in predicate:  # the type says that it is not there
        with pytest.raises(RefusedError):
            parse_selection(query, layout=LAYOUT)
        return
    selection = parse_selection(query, layout=LAYOUT)
    found = selection.selects(CDR, Encoding.APPLICATION_CDR, key="light", layout=LAYOUT)
    assert found is verdict


def test_predicates_see_keys_properties_and_cbor() -> None:
    query = b"/lab/*?{key LIKE 'lab/%' AND property.durability = 1 AND v = 5}"
    selection = parse_selection(query)
    properties = {"durability": 1}
    assert selection.selects(
        b"\xa1\x61v\x05", Encoding.APPLICATION_CBOR, key="lab/t", properties=properties
    )
    assert not selection.selects(b"\xa1", Encoding.APPLICATION_CBOR, key="lab/t")
