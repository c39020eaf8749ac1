"""Subscribers that begin with what was published before."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.cli.ends import WAIT_S, eventually, free_endpoint
from tests.unit.store.historian.rig import ALONE, historian, keep, sample

import elea
from elea.errors import InvalidValueError
from elea.limits import Limits
from elea.provenance import SampleKind
from elea.session.seam import Seam
from elea.session.since import start_of
from elea.store.log.log import Log
from elea.store.log.settings import LogSettings
from elea.store.log.single import Rows
from elea.store.log.writer import Stored
from elea.store.recorder.recording import Recording
from elea.store.recorder.settings import RecordingSettings
from elea.timestamp import NTP64, Timestamp


@pytest.fixture
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


def numbers(
    subscriber: elea.Subscriber[elea.handlers.Handler[elea.Sample]], count: int
) -> list[int]:
    """The payloads of the next samples."""
    return [json.loads(subscriber.recv(WAIT_S).payload.to_string()) for _ in range(count)]


def test_history_comes_before_live_samples_and_nothing_comes_twice(
    session: elea.Session, tmp_path: Path
) -> None:
    with Log(tmp_path / "log") as log, historian(session, tmp_path / "log"):
        keep(log, [sample("k", n, n) for n in range(5)])
        with session.declare_subscriber("k", since="2023-11-14T22:13:22Z") as subscriber:
            now = session.new_timestamp()
            session.put("k", "5", timestamp=now)  # recorded, too, before the second question
            live = elea.Sample(key_expr="k", payload=b"5", timestamp=now)
            keep(log, [live])
            assert numbers(subscriber, 4) == [2, 3, 4, 5]
            session.put("k", "6", timestamp=session.new_timestamp())
            assert numbers(subscriber, 1) == [6]
            told = subscriber.history
            assert told is not None
            assert (told.is_live, told.is_answered, told.history_count) == (True, True, 3)
            assert told.duplicate_count >= 1
            assert subscriber.try_recv() is None


class SlowLog(Log):
    """A log of which each append waits."""

    gate = threading.Event()

    def append(self, rows: Rows, *, wake: bool = True, divisible: bool = False) -> Future[Stored]:
        assert self.gate.wait(WAIT_S)
        return super().append(rows, wake=wake, divisible=divisible)


def test_a_recorder_that_is_behind_is_waited_for(session: elea.Session, tmp_path: Path) -> None:
    def put(number: int) -> None:
        session.put("k", str(number), timestamp=session.new_timestamp())

    settings = RecordingSettings(
        key_exprs=("k",),
        name="log",
        directory=tmp_path / "log",
        log=LogSettings(low_water_percent=0),
    )
    gate = SlowLog.gate
    gate.set()
    recording = Recording(session, settings, open_log=SlowLog)
    with historian(session, tmp_path / "log") as asked:
        put(0)
        assert eventually(lambda: recording.counts().rows == 1)
        gate.clear()
        put(1)  # no subscriber yet, and recorded when it is settled
        with session.declare_subscriber("k", since="-1m") as subscriber:
            put(2)
            assert eventually(lambda: asked.counts.queries >= 3)  # it has settled
            assert subscriber.try_recv() is None
            gate.set()
            assert numbers(subscriber, 3) == [0, 1, 2]
            told = subscriber.history
            assert told is not None
            assert (told.behind_count, told.late_count, told.errors) == (0, 0, ())
    recording.stop()


def test_deletions_are_part_of_history(session: elea.Session, tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log, historian(session, tmp_path / "log"):
        keep(log, [sample("k", 1, 1), sample("k", 2)])
        with session.declare_subscriber("k", since=datetime(2023, 1, 1, tzinfo=UTC)) as subscriber:
            kinds = [subscriber.recv(WAIT_S).kind for _ in range(2)]
            assert kinds == [SampleKind.PUT, SampleKind.DELETE]


def test_without_a_historian_live_samples_come_and_it_is_told(
    session: elea.Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with session.declare_subscriber("k", since="-10m") as subscriber:
        session.put("k", "1")
        assert numbers(subscriber, 1) == [1]
        assert subscriber.history is not None
        assert not subscriber.history.is_answered
        assert "no history of k" in caplog.text
    with session.declare_subscriber("k") as subscriber:
        assert subscriber.history is None


def test_history_that_is_longer_than_one_answer_comes_whole(
    session: elea.Session, tmp_path: Path
) -> None:
    with Log(tmp_path / "log") as log:
        keep(log, [sample(f"k/{n % 3}", n, n) for n in range(300)])
        limits = Limits(historian_rows_count=50)
        with historian(session, tmp_path / "log", limits=limits) as made:
            handler = elea.handlers.FifoChannel[elea.Sample](10)
            with session.declare_subscriber("k/*", handler, since="1970-01-01T00:00:00Z") as got:
                assert numbers(got, 300) == list(range(300))
                assert made.counts.cut >= 5


def test_a_callback_gets_history_too(session: elea.Session, tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log, historian(session, tmp_path / "log"):
        keep(log, [sample("k", n, n) for n in range(3_000)])
        found: list[int] = []

        def take(one: elea.Sample) -> None:
            found.append(json.loads(one.payload.to_string()))

        subscriber = session.declare_subscriber("k", take, since="2000-01-01T00:00:00Z")
        assert eventually(lambda: len(found) == 3_000)
        assert found == list(range(3_000))
        subscriber.undeclare()


def test_a_historian_that_fails_leaves_a_trace(session: elea.Session) -> None:
    def answer(query: elea.Query) -> None:
        with query:
            query.reply_err('{"error": "failed", "detail": "no disk"}')

    queryable = session.declare_queryable("k", answer)
    with session.declare_subscriber("k", since="-1m") as subscriber:
        assert eventually(lambda: bool(subscriber.history and subscriber.history.is_live))
        assert subscriber.history is not None
        assert len(subscriber.history.errors) == 2
        assert "no disk" in subscriber.history.errors[0]
    queryable.undeclare()


def test_a_historian_that_is_busy_is_asked_again(session: elea.Session) -> None:
    asked: list[int] = []

    def answer(query: elea.Query) -> None:
        asked.append(1)
        with query:
            if len(asked) == 1:
                query.reply_err('{"error": "busy", "detail": "later"}')
            else:
                query.reply("k", "1", timestamp=session.new_timestamp())

    queryable = session.declare_queryable("k", answer)
    with session.declare_subscriber("k", since="-1m") as subscriber:
        assert subscriber.recv(WAIT_S).payload.to_string() == "1"
        assert subscriber.history is not None
        assert not subscriber.history.errors
    queryable.undeclare()


@pytest.mark.parametrize("odd", ['{"error": "cut"}', '{"error": "cut", "next": [5]}', "[", "1"])
def test_odd_errors_are_told_and_end(session: elea.Session, odd: str) -> None:
    queryable = session.declare_queryable("k", lambda query: query.reply_err(odd))
    with session.declare_subscriber("k", since="-1m") as subscriber:
        assert eventually(lambda: bool(subscriber.history and subscriber.history.is_live))
        assert subscriber.history is not None
        assert subscriber.history.errors
    queryable.undeclare()


def test_it_works_on_an_event_loop(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    served = {**ALONE, "listen": {"endpoints": [endpoint]}}
    quiet = {"scouting": {"multicast": {"enabled": False}}}
    asking = {"mode": "client", "connect": {"endpoints": [endpoint]}, **quiet}
    with (
        elea.open(served) as session,
        Log(tmp_path / "log") as log,
        historian(session, tmp_path / "log"),
    ):
        keep(log, [sample("k", n, n) for n in range(3)])

        async def main() -> list[str]:
            async with (
                elea.aio.open(asking) as own,
                own.declare_subscriber("k", since="2000-01-01T00:00:00Z") as got,
            ):
                found = [(await got.recv(WAIT_S)).payload.to_string() for _ in range(3)]
                assert got.history is not None
                assert got.history.is_answered
                return found

        assert asyncio.run(main()) == ["0", "1", "2"]


def test_since_takes_times_of_all_kinds() -> None:
    now_ns = 1_000 * 10**9
    stamp = Timestamp(NTP64.from_nanos(5 * 10**9), elea.ZenohId(b"\x01"))
    for given, expected_s in (
        ("-100s", 900),
        ("-1.5m", 910),
        ("now()", 1_000),
        ("now(-1s)", 999),
        ("1970-01-01T00:00:07Z", 7),
        ("-2h", 0),
        (stamp, 5),
        (timedelta(seconds=10), 990),
        (timedelta(seconds=-10), 990),
        (datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC), 9),
    ):
        assert start_of(given, now_ns) == expected_s * 10**9
    for wrong in ("yesterday", "", "-", 5, None):
        with pytest.raises(InvalidValueError, match=r"expected|legal"):
            start_of(wrong, now_ns)  # type: ignore[arg-type]


def test_a_wrong_since_declares_nothing(session: elea.Session) -> None:
    with pytest.raises(InvalidValueError):
        session.declare_subscriber("k", since="soon")
    publisher = session.declare_publisher("k")
    assert not publisher.matching_status.matching


def seam(given: list[str], **limits: int) -> Seam:
    return Seam(lambda one: given.append(one.payload.to_string()), 10**18, limits=Limits(**limits))


def stamped(number: int, second: int = 0) -> elea.Sample:
    stamp = Timestamp(NTP64(1_000_000_000 + second, number), elea.ZenohId(b"\x01"))
    return elea.Sample(key_expr="k", payload=str(number).encode(), timestamp=stamp)


def test_live_samples_without_room_are_counted_and_found_in_history() -> None:
    given: list[str] = []
    one = seam(given, since_held_count=2)
    for number in range(4):
        one.live(stamped(number))
    assert one.refused_count == 2
    for number in range(4):
        one.history(stamped(number))
    one.answered(None)
    one.close(2 * 10**18)
    assert given == ["0", "1", "2", "3"]
    one.live(stamped(5))
    one.live(stamped(3))
    assert given[4:] == ["5"]
    one.forget()
    one.live(stamped(3))
    assert given[5:] == ["3"]


def test_octets_that_are_held_are_bounded_too() -> None:
    given: list[str] = []
    one = seam(given, since_held_len=1_000)
    for number in range(10):
        one.live(stamped(number))
    assert one.refused_count > 0


def test_a_history_without_end_is_refused() -> None:
    given: list[str] = []
    one = seam(given, since_found_count=3)
    for number in range(5):
        one.history(stamped(number))
    assert one.refused_count == 2


def test_more_history_than_may_be_held_is_given_early_and_late_samples_are_told() -> None:
    given: list[str] = []
    one = seam(given, since_held_count=4)
    for number in range(10):
        one.history(stamped(0, number))
    one.answered(None)
    assert len(given) == 5
    assert one.tail_ns == (1_000_000_000 + 5) * 10**9
    one.history(stamped(7, 2))
    assert one.late_count == 1
    one.close(2 * 10**18)
    assert len(given) == 10


def test_history_is_behind_until_it_reaches_the_first_live_sample_of_each_stream() -> None:
    one = seam([])
    one.live(stamped(5))
    one.live(stamped(6))
    assert one.behind() == NTP64.as_nanos(NTP64(1_000_000_000, 5))
    one.history(stamped(4))
    assert one.behind() is not None
    one.history(stamped(6))  # the first one was lost on its way there: this one is later
    assert one.behind() is None
    other = elea.Sample(key_expr="other", payload=b"7", timestamp=stamped(7).timestamp)
    one.live(other)
    assert one.behind() is None  # it came after the question: left to the last look


def test_streams_without_timestamps_are_followed_by_their_numbers() -> None:
    def numbered(sn: int) -> elea.Sample:
        source = elea.EntityGlobalId(elea.ZenohId(b"\x02"), 1)  # type: ignore[arg-type]
        info = elea.SourceInfo(source, sn)
        return elea.Sample(key_expr="k", payload=str(sn).encode(), source_info=info)

    one = seam([])
    one.live(numbered(0))
    assert one.behind() == one.tail_ns
    one.history(numbered(0xFFFF_FFFF))  # the one before
    assert one.behind() == one.tail_ns
    one.history(numbered(1))
    assert one.behind() is None


def test_a_last_look_counts_what_was_not_given_and_nothing_else() -> None:
    given: list[str] = []
    one = seam(given, since_held_count=8)
    one.history(stamped(1))
    one.live(stamped(2))
    one.answered(None)
    one.close(1_000_000_100 * 10**9)
    one.live(stamped(3, 50))  # published before, received after
    assert given == ["1", "2", "3"]
    for known in (stamped(1), stamped(2), stamped(3, 50)):
        one.history(known)
    assert one.late_count == 0
    one.history(stamped(4))
    one.history(elea.Sample(key_expr="k", payload=b"?"))  # nobody knows whether it was given
    assert one.late_count == 1
    assert len(given) == 3
    for number in range(10):
        one.live(stamped(number, 60))
    assert one.doubt[0] > 1_000_000_050 * 10**9  # what was forgotten is not judged


def test_two_samples_of_one_moment_are_told_apart_by_their_numbers() -> None:
    given: list[str] = []
    one = seam(given)
    source = elea.EntityGlobalId(elea.ZenohId(b"\x02"), 1)  # type: ignore[arg-type]
    stamp = stamped(0).timestamp
    for sn in (1, 2, 1):
        info = elea.SourceInfo(source, sn)
        one.live(elea.Sample(key_expr="k", payload=b"%d" % sn, timestamp=stamp, source_info=info))
    one.history(stamped(0))  # a storage that does not keep who published
    one.close(2 * 10**18)
    assert given == ["1", "2"]
    assert one.duplicate_count == 2
