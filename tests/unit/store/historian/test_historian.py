"""What a historian answers: versions, states, order, filters, bounds."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.cli.ends import WAIT_S, eventually, free_endpoint
from tests.unit.store.historian.rig import (
    ALONE,
    at,
    batch_at,
    historian,
    keep,
    refusal,
    replies,
    sample,
    text,
    values,
    written,
)
from tests.unit.store.log.rows import rows

import elea
from elea.keyexpr.match import intersects
from elea.limits import Limits
from elea.sample import Sample
from elea.store.historian.source import LogSource
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import SCHEMA, RowKind
from elea.store.log.settings import LogSettings
from elea.store.rows import samples_of


@pytest.fixture
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


FLEET = [
    [sample("f/a", 1, {"n": 1}), sample("f/b", 2, {"n": 2}), sample("f/a", 3, {"n": 3})],
    [sample("f/c", 4, {"n": 4}), sample("f/b", 5), sample("f/a", 2.5, {"n": 25})],
    [sample("g", 6, {"n": 6}, sn=9)],
]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    return written(tmp_path / "fleet", *FLEET)


def test_without_a_time_the_last_value_of_each_key_is_replied(
    session: elea.Session, fleet: Path
) -> None:
    with historian(session, fleet):
        expected = [("f/a", {"n": 3}), ("f/c", {"n": 4}), ("g", {"n": 6})]
        assert sorted(values(session, "**")) == expected
        assert values(session, "f/a") == [("f/a", {"n": 3})]
        assert values(session, "f/b") == []
        assert values(session, "nothing") == []


def test_a_reply_has_all_that_the_sample_had(session: elea.Session, fleet: Path) -> None:
    with historian(session, fleet):
        [reply] = replies(session, "g")
        assert reply.timestamp == at(6)
        assert str(reply.encoding) == "application/json"
        assert reply.attachment is not None
        assert reply.attachment.to_bytes() == b"attached"
        assert reply.source_info == sample("g", 6, 0, sn=9).source_info


def test_a_range_of_time_gives_all_versions_by_key_and_time(
    session: elea.Session, fleet: Path
) -> None:
    with historian(session, fleet):
        assert values(session, "f/**?_time=[..]") == [
            *(("f/a", {"n": 1}), ("f/a", {"n": 25}), ("f/a", {"n": 3})),
            *(("f/b", {"n": 2}), ("f/c", {"n": 4})),
        ]
        assert values(session, f"**?_time=]{text(2)}..{text(4)}[") == [
            ("f/a", {"n": 25}),
            ("f/a", {"n": 3}),
        ]
        assert values(session, f"**?_time=[{text(2)};0.5s]") == [
            ("f/a", {"n": 25}),
            ("f/b", {"n": 2}),
        ]


def test_the_state_at_a_time_is_the_last_value_of_each_key_before_it(
    session: elea.Session, fleet: Path
) -> None:
    with historian(session, fleet):
        for when in (text(2.5), str(at(2.5))):
            expected = [("f/a", {"n": 25}), ("f/b", {"n": 2})]
            assert sorted(values(session, f"**?_at={when}")) == expected
        assert values(session, f"f/b?_at={text(4.9)}") == [("f/b", {"n": 2})]
        assert values(session, f"f/b?_at={text(5)}") == []
        assert values(session, f"**?_at={text(0.5)}") == []
        assert sorted(values(session, "**?_at=now()")) == sorted(values(session, "**"))


def test_deletions_are_replied_to_who_asks_for_them(session: elea.Session, fleet: Path) -> None:
    with historian(session, fleet):
        assert values(session, "f/b?_kinds=put,delete;_time=[..]") == [
            ("f/b", {"n": 2}),
            ("f/b", None),
        ]
        assert values(session, "f/*?_kinds=delete") == [("f/b", None)]


def test_the_order_and_how_many(session: elea.Session, fleet: Path) -> None:
    with historian(session, fleet):
        numbers = [value for _, value in values(session, "f/*?_time=[..];_order=time")]
        assert numbers == [{"n": n} for n in (1, 2, 25, 3, 4)]
        assert values(session, "f/a?_time=[..];_order=desc;_max=2") == [
            ("f/a", {"n": 3}),
            ("f/a", {"n": 25}),
        ]
        assert values(session, "**?_after=f/a") == [("f/c", {"n": 4}), ("g", {"n": 6})]


def test_filters_look_at_payloads_and_keys(session: elea.Session, fleet: Path) -> None:
    with historian(session, fleet):
        assert values(session, "**?_time=[..];_filter=n > 3 AND key LIKE 'f/%'") == [
            ("f/a", {"n": 25}),
            ("f/c", {"n": 4}),
        ]
        # Of each key the last value is taken first, and then looked at.
        assert values(session, "**?_filter=n = 1") == []
        assert values(session, "**?_filter=n = 3") == [("f/a", {"n": 3})]


def test_a_projection_is_replied_as_json(session: elea.Session, fleet: Path) -> None:
    with historian(session, fleet):
        [reply] = replies(session, "g?_project=n AS number,key,missing")
        assert json.loads(reply.payload.to_string()) == {"number": 6, "key": "g", "missing": None}
        assert str(reply.encoding) == "application/json"
        assert reply.timestamp == at(6)


@pytest.mark.parametrize(
    "parameters",
    [
        "_time=yesterday",
        "_time=[..];_at=now()",
        "_at=yesterday",
        "_at=1/zz",
        "_kinds=gap",
        "_order=random",
        "_order=time",
        "_max=0",
        "_max=-1",
        "_filter=n >",
        "_project=,",
    ],
)
def test_what_is_not_legal_is_refused_with_the_reason(
    session: elea.Session, fleet: Path, parameters: str
) -> None:
    with historian(session, fleet) as made:
        told = refusal(session, f"**?{parameters}")
        assert told["error"] == "invalid"
        assert told["detail"]
        assert made.counts.invalid == 1


def follow(session: elea.Session, selector: str) -> list[tuple[str, object]]:
    """All answers to a selector, and to those that the answers say come next."""
    found: list[tuple[str, object]] = []
    left = [selector]
    for _ in range(10_000):
        if not left:
            return found
        for reply in session.get(left.pop(0), timeout=WAIT_S):
            if reply.ok is not None:
                value = json.loads(reply.ok.payload.to_string())
                found.append((str(reply.ok.key_expr), value))
            else:
                assert reply.err is not None
                told = json.loads(reply.err.payload.to_string())
                assert told["error"] == "cut"
                left = told["next"] + left
    raise AssertionError("it has no end")


@pytest.mark.parametrize("order", ["asc", "desc", "time"])
@pytest.mark.parametrize("limits", [{"historian_rows_count": 3}, {"historian_rows_len": 300}])
def test_a_cut_answer_says_how_to_go_on(
    session: elea.Session, tmp_path: Path, order: str, limits: dict[str, int]
) -> None:
    blocks = [
        [sample(f"k/{(7 * block + n) % 4}", (block * 5 + n) % 13, block * 5 + n) for n in range(5)]
        for block in range(6)
    ]
    written(tmp_path / "log", *blocks)
    with historian(session, tmp_path / "log") as whole:
        selector = f"k/*?_time=[..];_order={order}"
        expected = values(session, selector)
        assert len(expected) == 30
        whole.stop()
    with historian(session, tmp_path / "log", limits=replace(Limits(), **limits)) as made:
        if order == "time" and "historian_rows_count" in limits:
            assert made.counts.cut == 0
        assert follow(session, selector) == expected
        assert made.counts.cut > 3


def test_the_state_of_many_keys_is_cut_between_keys(session: elea.Session, tmp_path: Path) -> None:
    written(tmp_path / "log", [sample(f"k/{n:03}", n, n) for n in range(100)])
    limits = Limits(historian_rows_count=7)
    with historian(session, tmp_path / "log", limits=limits):
        assert follow(session, "k/*") == [(f"k/{n:03}", n) for n in range(100)]
        assert len(values(session, "k/*?_max=7")) == 7


def test_more_than_fit_at_one_moment_do_not_hold_up_what_follows(
    session: elea.Session, tmp_path: Path
) -> None:
    written(tmp_path / "log", [*(sample("k", 1, n) for n in range(9)), sample("k", 2, 9)])
    limits = Limits(historian_rows_count=4)
    with historian(session, tmp_path / "log", limits=limits):
        found = follow(session, "k?_time=[..]")
        assert len(found) == 5
        assert found[-1] == ("k", 9)


class Table:
    """A source that is no log: rows that were taken out of one."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def select(self, key_expr: str, since: int, until: int) -> Iterator[pa.RecordBatch]:
        keys = self.batch.column("key").to_pylist()
        yield self.batch.filter(pa.array([intersects(key_expr, key) for key in keys]))

    def latest(self, key_expr: str, until: int) -> Iterator[pa.RecordBatch]:
        return self.select(key_expr, 0, until)  # more than one row of a key is no error

    def settle(self) -> None:
        return

    def problems(self) -> list[str]:
        return ["it is old"]


def test_rows_of_a_table_and_of_its_log_are_replied_once(
    session: elea.Session, fleet: Path
) -> None:
    batches = [one for one in LogSource(fleet).select("**", 0, 1 << 64) if one.num_rows]
    with historian(session, Table(batches[0]), fleet) as made:
        assert sorted(values(session, "**")) == [
            *(("f/a", {"n": 3}), ("f/c", {"n": 4}), ("g", {"n": 6})),
        ]
        assert len(values(session, "**?_time=[..]")) == 6
        assert made.status()["problems"] == ["it is old"]


def test_a_historian_answers_for_its_own_keys_once(session: elea.Session, fleet: Path) -> None:
    with historian(session, fleet, key_exprs=["f/a", "f/**"]):
        expected = [("f/a", 1), ("f/a", 3), ("f/a", 25), ("f/b", 2), ("f/c", 4)]
        found = values(session, "**?_time=[..];_project=n")
        assert sorted((key, str(value)) for key, value in found) == sorted(
            (key, str({"n": n})) for key, n in expected
        )


def test_what_was_appended_before_a_query_is_in_its_answer(
    session: elea.Session, tmp_path: Path
) -> None:
    gathered: list[Sample] = []
    with Log(tmp_path / "log") as log:
        log.before_flush.append(lambda: keep(log, gathered))
        with historian(session, tmp_path / "log"):
            for number in range(20):
                log.append(batch_at([sample("k", number, number)], [number * 10**9]))
                assert values(session, "k") == [("k", number)]
            gathered.append(sample("k", 99, 99))
            assert values(session, "k") == [("k", 99)]


def test_a_log_of_another_process_is_followed(session: elea.Session, tmp_path: Path) -> None:
    with historian(session, tmp_path / "log") as made:
        assert values(session, "**") == []
        assert made.status()["problems"]
        written(tmp_path / "log", [sample("k", 1, 1)])
        assert values(session, "**") == [("k", 1)]
        assert made.status()["problems"] == []
        written(tmp_path / "log", [sample("k", 2, 2)])
        assert values(session, "k") == [("k", 2)]


def test_rows_that_are_no_samples_are_not_values(session: elea.Session, tmp_path: Path) -> None:
    with Log(tmp_path / "log", LogSettings(segment_len=1)) as log:
        keep(log, [sample("k", 1, 1)])
        keep(log, [sample("k", 2, 2), sample("l", 2, 2)])
        for kind in (RowKind.GAP, RowKind.DROP, RowKind.TOKEN_PUT):
            batch = batch_at([sample("k", 3, 3), sample("l", 1, 3)], [0, 0])
            kinds = pa.array([int(kind)] * 2, pa.int8())
            log.store(batch.set_column(1, SCHEMA.field("kind"), kinds))
        with historian(session, tmp_path / "log"):
            assert sorted(values(session, "*")) == [("k", 2), ("l", 2)]
            assert values(session, "k") == [("k", 2)]
            assert len(values(session, "k?_time=[..]")) == 2


def test_rows_without_timestamp_have_the_time_of_their_reception(
    session: elea.Session, tmp_path: Path
) -> None:
    written(tmp_path / "log", [sample("k", None, 0), sample("k", 1, 1)])
    with historian(session, tmp_path / "log"):
        assert values(session, "k") == [("k", 1)]
        [old, _] = replies(session, "k?_time=[..]")
        assert old.timestamp is None


def test_too_many_queries_are_told_to_come_again(session: elea.Session, fleet: Path) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    class Slow(Table):
        def settle(self) -> None:
            begun.set()
            assert goes_on.wait(WAIT_S)

    limits = Limits(historian_queries_count=1)
    batches = [one for one in LogSource(fleet).select("**", 0, 1 << 64) if one.num_rows]
    with historian(session, Slow(batches[0]), limits=limits) as made:
        first = session.get("f/a", timeout=WAIT_S)
        assert begun.wait(WAIT_S)
        assert refusal(session, "f/a")["error"] == "busy"
        goes_on.set()
        assert len(list(first)) == 1
        assert made.counts.busy == 1


def test_a_source_that_fails_is_told_to_who_asked(session: elea.Session, fleet: Path) -> None:
    class Broken(Table):
        def select(self, key_expr: str, since: int, until: int) -> Iterator[pa.RecordBatch]:
            raise OSError("no such disk")

    batches = [one for one in LogSource(fleet).select("**", 0, 1 << 64) if one.num_rows]
    with historian(session, Broken(batches[0])) as made:
        told = refusal(session, "f/a?_time=[..]")
        assert told == {"error": "failed", "detail": "no such disk"}
        assert made.counts.errors == 1
        assert made.status()["last_error"]


def test_an_answer_ends_when_nobody_waits_for_it(session: elea.Session, fleet: Path) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    given: list[int] = []

    class Long(Table):
        def select(self, key_expr: str, since: int, until: int) -> Iterator[pa.RecordBatch]:
            for number in range(1_000):
                given.append(number)
                yield self.batch
                begun.set()
                assert goes_on.wait(WAIT_S)

    batches = [one for one in LogSource(fleet).select("f/a", 0, 1 << 64) if one.num_rows]
    token = elea.CancellationToken()
    with historian(session, Long(batches[0])) as made:
        answers = session.get("f/a?_time=[..]", timeout=WAIT_S, cancellation_token=token)
        assert begun.wait(WAIT_S)
        token.cancel()
        goes_on.set()
        assert eventually(lambda: made.counts.abandoned == 1)
        assert list(answers) == []
        assert made.counts.replies == 0
        assert len(given) < 10


def test_an_answer_ends_when_the_asker_leaves(fleet: Path) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    class Slow(Table):
        def settle(self) -> None:
            begun.set()
            assert goes_on.wait(WAIT_S)

    endpoint = free_endpoint()
    quiet = {"scouting": {"multicast": {"enabled": False}}}
    client = {"mode": "client", "connect": {"endpoints": [endpoint]}, **quiet}
    batches = [one for one in LogSource(fleet).select("**", 0, 1 << 64) if one.num_rows]
    with (
        elea.open({**ALONE, "listen": {"endpoints": [endpoint]}}) as router,
        historian(router, Slow(batches[0])) as made,
    ):
        with elea.open(client) as asker:
            asker.get("f/**?_time=[..]", timeout=WAIT_S)
            assert begun.wait(WAIT_S)
        assert eventually(lambda: not list(router.info.transports()))
        goes_on.set()
        assert eventually(lambda: made.counts.abandoned == 1)
        assert made.counts.replies == 0


def test_samples_and_rows_are_the_same() -> None:
    samples = [sample("a", 1, {"x": 1}, sn=2**32 - 1), sample("b", None), sample("c", 2)]
    found = list(samples_of(batch_at(samples, [1, 2, 3])))
    for one, row in zip(samples, found, strict=True):
        assert (row.key, row.payload) == (one.key_text, one.payload.to_bytes())
        assert (row.timestamp, row.source_info) == (one.timestamp, one.source_info)
        assert (row.encoding, int(row.kind)) == (one.encoding, int(one.kind))
        assert row.attachment == (None if one.attachment is None else one.attachment.to_bytes())


def test_the_latest_of_many_segments_is_found(session: elea.Session, tmp_path: Path) -> None:
    settings = LogSettings(segment_len=1, shards_count=3)
    with Log(tmp_path / "log", settings) as log:
        for number in range(0, 200, 10):
            log.store(rows(number, 10, keys_count=17))
    with historian(session, tmp_path / "log"):
        found = {str(one.key_expr): one.source_info for one in replies(session, "k/*")}
        expected = {f"k/{n % 17}": n for n in range(200)}
        assert {key: one and one.source_sn for key, one in found.items()} == expected
        for key, number in itertools.islice(expected.items(), 3):
            [one] = replies(session, key)
            assert one.source_info is not None
            assert one.source_info.source_sn == number


def test_one_of_many_keys_that_were_just_written_is_found(tmp_path: Path) -> None:
    count, block = 300_000, 60_000  # more than are sorted together, none of them listed yet
    with Log(tmp_path / "log") as log:
        for first in range(0, count, block):
            log.store(rows(first, block, keys_count=count))
        log.store(rows(count, 1, keys_count=count))  # the first key again
        reader = LogReader(tmp_path / "log")
        for number in (1, 2, block, count // 2, count - 1):
            [found] = reader.latest_of(f"k/{number}")
            assert found.column("sn").to_pylist() == [number]
        [found] = reader.latest_of("k/0")
        assert found.column("sn").to_pylist() == [count]
        assert len(list(reader.select("k/0"))) == 2
        assert list(reader.latest_of(f"k/{count}")) == []
