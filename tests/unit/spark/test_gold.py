"""Gold tables without Spark: options, watermarks, intervals, numbers, rules, what is remembered."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time as clock
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.ends import WAIT_S
from tests.unit.spark.gold_tables import Source, us
from tests.unit.store.historian.rig import ALONE, at

import elea
from elea.errors import ConfigError, StoreError
from elea.predicate import MappingFields
from elea.spark.pipelines.gold import KINDS, AlertRule, Event, Gold, Kind, Standing, refresh
from elea.spark.pipelines.gold.inputs import Rows
from elea.spark.pipelines.gold.losses import MISSING, Hole, Numbers, Run, holes_of, remembered
from elea.spark.pipelines.gold.memory import Memory, Remembered, Seen
from elea.spark.pipelines.gold.presence import Interval, intervals
from elea.spark.pipelines.gold.refresh import fitted
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.spark.pipelines.gold.watermark import Device, Life, watermark
from elea.spark.pipelines.outbox import Outbox
from elea.store.tables.compaction import compact
from elea.store.tables.results import Results, open_results
from elea.store.tables.table import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elea.spark.pipelines.gold.base import Apply

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("kind", "given_options", "complaint"),
    [
        ("window", {}, "window.every: is missing"),
        ("window", {"every": "1 parsec"}, "window.every: saw '1 parsec'; legal is a duration"),
        ("window", {"every": "0 s"}, "above 0"),
        ("window", {"every": "1 s", "values": {"a": "median"}}, "of a legal are count, min"),
        ("window", {"every": "1 s", "evry": 1}, "window.evry: is unknown; legal are every, slide"),
        ("window", "1 s", "window: saw '1 s'; legal are every"),
        ("latest", {"by": []}, "one at least"),
        ("latest", {"by": ["a", "a"]}, "each once"),
        ("presence", {"key": "fleet/{robot"}, "presence.key"),
        ("latency", {"keys": ["a//b"]}, "key expressions"),
        ("alert", {"when": "temp >"}, "alert.when: saw 'temp >'; legal is a predicate"),
        ("align", {"how": "forward"}, "legal are backward, nearest"),
    ],
)
def test_a_wrong_option_is_told(kind: str, given_options: object, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KINDS[kind].parsed(given_options)
    assert complaint in str(caught.value)


def test_every_kind_says_what_it_is() -> None:
    for name, kind in KINDS.items():
        assert name == kind.name
        assert kind.mode in ("append", "update")
        assert kind.help
        assert all(option.help for option in kind.options)
    with pytest.raises(ConfigError, match=r"tables\.pose\.from: saw gps; align takes 2 to 8"):
        KINDS["align"].check_sources(["gps"], "tables.pose.from")


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.booleans(), st.integers(0, 100))),
    st.integers(0, 50),
)
def test_a_watermark_is_before_all_who_count(
    positions: dict[str, int], lives: dict[str, tuple[bool, int]], late: int
) -> None:
    now = max([*positions.values(), *(since for _, since in lives.values())])
    devices: dict[Device, int] = {(name,): position for name, position in positions.items()}
    known: dict[Device, Life] = {(name,): Life(*life) for name, life in lives.items()}
    found = watermark(devices, known, now, late)
    assert now - late <= found <= now
    for name, position in positions.items():
        is_alive = name not in lives or lives[name][0]
        if is_alive and now - position <= late:
            assert found <= max(position, lives.get(name, (True, 0))[1])
    dead: dict[Device, Life] = {device: Life(False, 0) for device in devices}
    assert watermark(devices, dead, now, late) == now


def test_intervals_of_tokens() -> None:
    known = {"a": Interval("a", 3, None)}
    events = [("a", True, 4), ("b", False, 5), ("a", False, 6), ("a", True, 6), ("c", True, 7)]
    assert intervals(known, events) == [
        Interval("b", 5, 5),
        Interval("a", 3, 6),
        Interval("a", 6, None),
        Interval("c", 7, None),
    ]


@given(
    st.sets(st.integers(0, 40), min_size=1),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 39), max_size=4),
)
def test_numbers_that_are_missing(seen: set[int], start: int, cuts: list[int]) -> None:
    """Whatever the batches, and also where numbers begin again: the same holes."""
    numbers = Numbers("k")
    low = min(seen)
    numbers.receive([Run((start + low) % 2**32, (start + low) % 2**32, 0, 0)], is_only_key=True)
    bounds = sorted({*cuts, 0, 41})
    for first, end in itertools.pairwise(bounds):
        batch = sorted(seen & set(range(first, end)))
        runs: list[Run] = []
        for number in batch:
            sn = (start + number) % 2**32
            if runs and sn == runs[-1].last + 1:
                runs[-1] = runs[-1]._replace(last=sn, last_us=number)
            else:
                runs.append(Run(sn, sn, number, number))
        numbers.receive(sorted(runs, reverse=True), is_only_key=True)
    missing = {
        (number - start) % 2**32
        for hole in numbers.holes
        for number in range(hole.first, hole.last + 1)
    }
    assert missing == set(range(low, max(seen))) - seen


def test_what_was_said_to_be_lost_and_came_is_not_lost() -> None:
    numbers = Numbers("k")
    numbers.lose(5, 4, at_us=1)
    numbers.receive([Run(6, 7, 2, 2), Run(9, 9, 3, 3)], is_only_key=True)
    assert [(one.first, one.last, one.reason) for one in numbers.holes] == [
        (5, 5, "lost"),
        (8, 8, "lost"),
    ]
    numbers.receive([Run(20, 20, 4, 4)], is_only_key=False)
    assert len(numbers.holes) == 2


def test_numbers_of_a_restarted_publisher_fill_no_gaps_of_before() -> None:
    numbers = Numbers("k")
    numbers.receive([Run(0, 9, 10, 19), Run(15, 20, 25, 30)], is_only_key=True)
    numbers.lose(18, 1, at_us=31)
    expected = [(10, 14, "missing"), (18, 18, "lost")]
    numbers.receive([Run(0, 12, 100, 112)], is_only_key=True)  # it counts anew
    assert [(one.first, one.last, one.reason) for one in numbers.holes] == expected
    numbers.receive([Run(13, 30, 113, 130), Run(33, 40, 133, 140)], is_only_key=True)
    expected.append((31, 32, "missing"))
    assert [(one.first, one.last, one.reason) for one in numbers.holes] == expected
    numbers.receive([Run(11, 12, 21, 22), Run(31, 31, 131, 131)], is_only_key=True)  # late
    assert [(one.first, one.last) for one in numbers.holes] == [
        *((10, 10), (13, 14), (18, 18)),
        (32, 32),
    ]
    table = holes_of({("z", 1): numbers}, [("z", 1)])
    assert len(set(table["id"].to_pylist())) == table.num_rows == 4


def test_what_a_publisher_said_it_sent_is_no_restart_when_it_comes() -> None:
    numbers = Numbers("k")
    numbers.receive([Run(0, 4, 10, 14)], is_only_key=True)
    numbers.lose(5, 4, at_us=20)
    numbers.receive([Run(6, 7, 16, 17)], is_only_key=True)
    numbers.receive([Run(9, 9, 19, 19)], is_only_key=True)
    assert [(one.first, one.last) for one in numbers.holes] == [(5, 5), (8, 8)]


VALUES = st.sampled_from([70, 78, 85, None])


@given(st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=40), st.integers(0, 6))
def test_alerts_come_in_pairs(steps: list[tuple[int, int | None]], for_s: int) -> None:
    rule = AlertRule("hot", "temp > 80", for_s * SECOND, "temp < 75")
    machine, again = rule.machine(), rule.machine()
    now, found = 0, []
    for step, value in steps:
        now += step * SECOND
        event = machine.fields(MappingFields({"temp": value}), "k", now)
        assert event == again.fields(MappingFields({"temp": value}), "k", now)
        found += [] if event is None else [event]
    assert [one.state for one in found] == (["raised", "cleared"] * len(found))[: len(found)]
    for raised, cleared in zip(found[::2], found[1::2], strict=False):
        assert raised.id == cleared.id
        assert raised.at_us - raised.since_us >= for_s * SECOND
        assert json.loads(raised.values) == {"temp": 85}
    assert len({one.id for one in found}) == (len(found) + 1) // 2
    assert machine.unread_count == sum(value is None for _, value in steps)


def test_rows_that_are_older_do_not_count() -> None:
    machine = AlertRule("hot", "t > 80", by=("robot",)).machine()
    for at_us, value in ((5, 10), (4, 90), (5, 90)):
        event = machine.fields(MappingFields({"t": value, "robot": 7}), "k", at_us)
    assert machine.late_count == 1
    assert event is not None
    assert event.group == ("7",)


def test_a_rule_as_a_subscriber() -> None:
    rule = AlertRule("hot", "temp > 80", by=("robot",), key="fleet/{robot}/imu")
    events: list[Event] = []
    with elea.open(ALONE) as session:
        published = session.declare_subscriber("alerts/**")
        rule.subscribe(session, events.append, publish="alerts/{robot}/hot")
        for second, temp in ((1, 90), (2, 91), (3, 70)):
            session.put(
                "fleet/r1/imu",
                json.dumps({"temp": temp}),
                encoding="application/json",
                timestamp=at(second),
            )
        told: list[tuple[str, dict[str, object]]] = []
        deadline = clock.monotonic() + WAIT_S
        while len(told) < 2 and clock.monotonic() < deadline:
            sample = published.try_recv()
            if sample is None:
                clock.sleep(0.005)
                continue
            told.append((str(sample.key_expr), json.loads(sample.payload.to_bytes())))
    assert [one.state for one in events] == ["raised", "cleared"]
    assert [(key, one["state"], one["robot"]) for key, one in told] == [
        ("alerts/r1/hot", "raised", "r1"),
        ("alerts/r1/hot", "cleared", "r1"),
    ]
    with (
        elea.open(ALONE) as session,
        pytest.raises(ValueError, match="neither key_expr nor key"),
    ):
        AlertRule("hot", "temp > 80").subscribe(session)


def test_what_is_remembered_comes_back(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    assert memory.load(0) is None
    seen = [Seen({"ab": {"0": 7}}, ("sorted-1.parquet",))]
    told = Remembered("d", seen, {"n": 1}, pa.table({"x": [1, None]}))
    memory.store(3, told)
    memory.store(4, Remembered("d"))
    memory.forget(4)
    assert memory.load(4) == Remembered("d", [])
    with pytest.raises(StoreError, match="is missing"):
        memory.load(3)
    memory.store(4, told)
    found = memory.load(4)
    assert found is not None
    assert (found.seen, found.mark, found.state) == (seen, {"n": 1}, told.state)
    [file] = tmp_path.glob("_elea/round-*4.arrow")
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(StoreError, match="is damaged"):
        memory.load(4)


def test_files_are_new_once(tmp_path: Path) -> None:
    """Also when compaction puts the same rows, and rows that are new, into other files."""
    source = Source(tmp_path / "t")
    spark = cast("object", None)  # not needed to know which files there are
    source.add({"at": 1}, {"at": 2})
    first = Rows(spark, source.path, Seen())  # type: ignore[arg-type]
    assert first.has_new
    seen = first.seen()
    assert not Rows(spark, source.path, seen).has_new  # type: ignore[arg-type]
    source.add({"at": 3, "sn": 7}, shard=1)
    list(compact(open_table(source.path)))
    second = Rows(spark, source.path, seen)  # type: ignore[arg-type]
    assert second.has_new
    seen = second.seen()
    assert {log: dict(ends) for log, ends in seen.ends.items()} == {"11111111": {"0": 2, "1": 1}}
    assert not Rows(spark, source.path, seen).has_new  # type: ignore[arg-type]


def _counted(round: Round) -> Changes:
    """A kind for tests: how many rounds there were, and one row for each."""
    number = round.mark.get("rounds", 0) + 1
    rows = pa.table({"number": [number], "seen": [round.inputs[0].is_whole]})
    return Changes(None if number == 3 else rows, mark={"rounds": number})


class NoSpark:
    """A session that is not asked for anything but another one."""

    def __init__(self) -> None:
        self.conf = self

    def newSession(self) -> NoSpark:
        return NoSpark()

    def set(self, name: str, value: str) -> None:
        assert name.startswith("spark.sql.")
        assert value


COUNTED = Kind("counted", "", (), "update", lambda _: ("number",), cast("Apply", None), _counted)


def test_a_round_that_is_killed_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = cast("SparkSession", NoSpark())
    source = Source(tmp_path / "t")
    gold = Gold(COUNTED, {}, [source.path], tmp_path / "gold")
    published: list[tuple[int, int]] = []

    def publish(rows: pa.Table, number: int) -> None:
        published.extend((one, number) for one in rows["number"].to_pylist())

    outbox = Outbox(tmp_path / "own" / "outbox.arrow", publish)

    def rounds() -> list[int]:
        found = open_results(gold.path).rows(["number"])
        assert found is not None
        return sorted(found["number"].to_pylist())

    source.add({"at": 1})
    assert refresh(spark, gold, outbox=outbox).number == 1
    assert refresh(spark, gold, outbox=outbox).rows is None  # nothing is new
    source.add({"at": 2})
    change = Results.change
    for is_after in (False, True):

        def dies(self: Results, *args: object, is_after: bool = is_after) -> None:
            if is_after:
                change(self, *args)  # type: ignore[arg-type]
            raise RuntimeError("killed here")

        monkeypatch.setattr(Results, "change", dies)
        with pytest.raises(RuntimeError, match="killed here"):
            refresh(spark, gold, outbox=outbox)
        monkeypatch.undo()
        assert rounds() == ([1, 2] if is_after else [1])
        assert published == [(1, 1)]
    # The second round was done, all but its end.
    assert refresh(spark, gold, outbox=outbox).rows is None
    assert published == [(1, 1), (2, 2)]
    assert refresh(spark, gold, outbox=outbox).rows is None
    assert len(published) == 2
    source.add({"at": 3})
    assert refresh(spark, gold).number == 2  # it changed nothing, and that is remembered
    source.add({"at": 4})
    assert refresh(spark, gold).number == 3
    assert rounds() == [1, 2, 4]
    other = replace(gold, options={"by": "x"})
    with pytest.raises(ConfigError, match="make it anew"):
        refresh(spark, other, is_final=True)
    assert refresh(spark, replace(gold, sources=[tmp_path / "none"])).rows is None


def test_rules_need_no_spark() -> None:
    code = "import sys, elea.spark.pipelines.gold.rules; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_columns_that_came_later_are_left_out() -> None:
    rows = pa.table({"b": [1], "c": [2]})
    found = fitted(Changes(rows), pa.schema([("a", pa.string()), ("b", pa.int64())]), Path("t"))
    assert found.rows is not None
    assert found.rows.to_pylist() == [{"a": None, "b": 1}]


def test_rows_answer_queries(tmp_path: Path) -> None:
    path = tmp_path / "last"
    standing = Standing(path, "gold/{robot}/last", time="at")
    with elea.open(ALONE) as session:
        standing.declare(session)

        def asked(selector: str) -> dict[str, object]:
            found = {}
            for reply in session.get(selector, timeout=WAIT_S):
                if reply.ok is None:
                    assert reply.err is not None
                    return {"error": reply.err.payload.to_string()}
                found[str(reply.ok.key_expr)] = json.loads(reply.ok.payload.to_bytes())
            return found

        assert asked("gold/**") == {}  # no table yet
        table = open_results(path, "delta")
        times = pa.array([us(2), us(1), us(0)], pa.timestamp("us", tz="UTC"))
        table.change(1, pa.table({"robot": ["a", "a", "a/*"], "n": [2, 1, 0], "at": times}))
        one = {"robot": "a", "n": 2, "at": "2023-11-14T22:13:22Z"}
        assert asked("gold/**") == {"gold/a/last": one}
        assert standing.keyless_count == 1
        assert asked("gold/*/last?_filter=n > 2") == {}
        assert "expected a field" in str(asked("gold/**?_filter=n >"))
        table.change(2, pa.table({"robot": ["b"], "n": [5], "at": times[:1]}))
        assert set(asked("gold/**")) == {"gold/a/last", "gold/b/last"}
        wrong = Standing(path, "gold/{nobody}")
        with pytest.raises(ConfigError, match="no column nobody"):
            wrong.rows()


def test_losses_of_a_publisher_that_was_forgotten_stay_when_it_publishes_again() -> None:
    """Only the rows of the table know of them: what was not received since is still missing."""
    publisher = ("a", 1)
    stored = holes_of(
        {publisher: Numbers("k", 5, 9, holes=[Hole(2, 4, MISSING, 1, 9)])}, [publisher]
    )
    known = remembered(None, stored)
    assert known.numbers == {}
    numbers = known.of(publisher, "k")
    numbers.receive([Run(60, 61, 70, 71)], is_only_key=True)
    assert [(one.first, one.last) for one in numbers.holes] == [(2, 4)], "6 to 59 are not known"
    numbers.receive([Run(2, 3, 5, 6)], is_only_key=True)
    assert [(one.first, one.last) for one in numbers.holes] == [(4, 4)]
