"""A log by its files and by queries: the same rows, and what happens when somebody is not there."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.ends import ELEA, free_endpoint, session
from tests.unit.spark.engine import Query
from tests.unit.spark.logs import WISHES, all_rows, fill, log_at, range_of, source, stream
from tests.unit.store.log.rows import stamp

import elea
from elea.errors import ConfigError, LinkError, OffsetError, StoreError
from elea.spark import served as served_place
from elea.spark.batch import HistoryReader
from elea.spark.options import History, Options
from elea.spark.places import FilePlace, open_place
from elea.spark.rows import read_range
from elea.spark.served import ServedPlace
from elea.spark.sessions import close_all
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log, pack_log
from elea.store.log.ranges import COLUMNS
from elea.store.logserver import LogServer

ROWS = 600


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Log, Path]]:
    directory = tmp_path_factory.mktemp("log")
    with log_at(directory) as made:
        fill(made, 0, ROWS)
        yield made, directory


@pytest.fixture(scope="module")
def served(log: tuple[Log, Path]) -> Iterator[str]:
    """An endpoint at which the log is served as `fleet`."""
    endpoint = free_endpoint()
    with session(ELEA, "router", listen=endpoint) as node:
        server = LogServer(node, "fleet", log[1], log[0])
        yield endpoint
        server.stop()
        close_all()


@pytest.mark.parametrize("more", WISHES)
def test_both_give_the_same_rows(
    log: tuple[Log, Path],
    served: str,
    more: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served_place, "_ASK_ROWS_FIRST", 64)  # several queries for one range
    monkeypatch.setattr(served_place, "_ASK_LEN", 4_096)
    by_file = open_place(source(str(log[1])))
    by_query = open_place(source("zenoh:fleet", served))
    assert isinstance(by_file, FilePlace)
    assert isinstance(by_query, ServedPlace)
    assert by_file.log_id == by_query.log_id
    assert by_file.bounds() == by_query.bounds()
    rows_count = 0
    for shard, bounds in enumerate(by_file.bounds()):
        expected = range_of(by_file, shard, 3, bounds.end - 5, **dict(more))
        assert range_of(by_query, shard, 3, bounds.end - 5, **dict(more)) == expected
        rows_count += len(expected)
    assert bool(rows_count) is (more.get("key_exprs") not in (("nothing",), ("a;b|c",)))


@pytest.mark.parametrize("rounds", [True, False])
def test_a_range_is_asked_for_in_parts(
    log: tuple[Log, Path], served: str, monkeypatch: pytest.MonkeyPatch, *, rounds: bool
) -> None:
    """Servers of before give exactly the rows of a part, also where that cuts a block."""
    asked = []
    to_range = LogServer._range

    def given(self: LogServer, shard: int, parameters: elea.Parameters) -> tuple[int, int]:
        low, high = (int(parameters[name] or "") for name in ("lo", "hi"))
        found = to_range(self, shard, parameters) if rounds else (low, high)
        asked.append((low, high) == found)
        return found

    monkeypatch.setattr(LogServer, "_range", given)
    monkeypatch.setattr(served_place, "_ASK_ROWS_FIRST", 7)
    monkeypatch.setattr(served_place, "_ASK_LEN", 999)
    by_file = open_place(source(str(log[1])))
    by_query = open_place(source("zenoh:fleet", served))
    end = by_file.bounds()[0].end - 5
    assert range_of(by_query, 0, 3, end) == range_of(by_file, 0, 3, end)
    assert len(asked) > 3
    assert all(asked) is not rounds


def test_both_know_times_octets_and_consumers(log: tuple[Log, Path], served: str) -> None:
    by_file = open_place(source(str(log[1])))
    by_query = open_place(source("zenoh:fleet", served))
    assert by_file.seek(stamp(200)) == by_query.seek(stamp(200))
    assert by_file.seek(stamp(ROWS)) == [one.end for one in by_file.bounds()]
    end = by_file.bounds()[0].end
    for place in (by_file, by_query):
        assert place.committed("nobody") is None
        place.commit("c", {0: 11}, 60)
        assert place.committed("c") == {0: 11}
        assert place.cut(0, 0, end, 1) == 1
        assert place.cut(0, 0, end, 10**9) == end
        assert 1 < place.cut(0, 0, end, 3_000) < end


def test_a_query_over_zenoh_reads_every_row_once(log: tuple[Log, Path], served: str) -> None:
    options = {"log": "zenoh:fleet", "connect": served, "maxRowsPerTrigger": "170"}
    query = Query(lambda: stream(Path("unused"), **options))
    query.run(batches_count=100, crash=lambda _: None, available_now=True)
    assert query.rows() == all_rows(log[0])


def test_the_next_place_is_taken_where_the_first_is_not(log: tuple[Log, Path], served: str) -> None:
    assert isinstance(open_place(source(f"/nowhere,{log[1]}")), FilePlace)
    assert isinstance(open_place(source("/nowhere,zenoh:fleet", served)), ServedPlace)
    assert isinstance(open_place(source(f"file://{log[1]}")), FilePlace)
    with pytest.raises(StoreError, match=r"/nowhere: .*/neither: "):
        open_place(source("/nowhere,/neither"))
    with pytest.raises(ConfigError, match="a path of the host that reads"):
        open_place(source("file://host/log"))


def test_nobody_serves_it(served: str) -> None:
    with pytest.raises(StoreError, match="nobody serves it; served are fleet: the name is"):
        open_place(source("zenoh:other", served, timeout="1"))


def test_a_query_of_what_is_there_now_was_tried_for_the_whole_timeout() -> None:
    """Spark asks `prepareForTriggerAvailableNow` first, and that did not connect beforehand."""
    endpoint = free_endpoint()
    reader = stream(Path("unused"), log="zenoh:fleet", connect=endpoint, timeout="3600")
    with pytest.raises(LinkError, match="Connection refused"):
        reader.prepareForTriggerAvailableNow()


def test_nobody_is_there() -> None:
    with pytest.raises(StoreError, match="zenoh:fleet: "):
        open_place(source("zenoh:fleet", free_endpoint(), timeout="0.3"))


def test_rows_that_are_not_there_are_an_error(served: str) -> None:
    place = open_place(source("zenoh:fleet", served))
    with pytest.raises(StoreError, match="not written yet"):
        range_of(place, 0, 0, 100_000)


def test_a_log_that_is_replaced_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    log_at(tmp_path / "log", 1).close()
    log_at(tmp_path / "new", 1).close()
    with session(ELEA, "router", listen=endpoint) as node:
        server = LogServer(node, "fleet", tmp_path / "log")
        both = [
            open_place(source(str(tmp_path / "log"))),
            open_place(source("zenoh:fleet", endpoint)),
        ]
        server.stop()
        (tmp_path / "log").rename(tmp_path / "old")
        with pytest.raises(StoreError, match="start the query again"):
            both[0].bounds()
        (tmp_path / "new").rename(tmp_path / "log")
        server = LogServer(node, "fleet", tmp_path / "log")
        for place in both:
            with pytest.raises(StoreError, match="start the query again"):
                place.bounds()
            assert not place.is_current()
        server.stop()
        close_all()


def test_a_new_read_sees_the_log_that_has_the_name_now(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    options = {"log": "zenoh:fleet", "connect": endpoint}
    with session(ELEA, "router", listen=endpoint) as node:
        for count in (3, 5):
            with log_at(tmp_path / str(count), 1) as made:
                fill(made, 0, count)
            server = LogServer(node, "fleet", tmp_path / str(count))
            wanted = Options(options).batch()
            assert isinstance(wanted, History)
            parts = HistoryReader(wanted).partitions()
            assert sum(part.end - part.first for part in parts) == count  # type: ignore[attr-defined]
            server.stop()
        close_all()


def test_rows_of_another_log_are_an_error(log: tuple[Log, Path]) -> None:
    import uuid

    with pytest.raises(StoreError, match="are wanted; here is log"):
        list(read_range(source(str(log[1])), uuid.UUID(int=1), 0, 0, 1))


class Flaky:
    """Serves a log badly: what it answers to a read is told beforehand."""

    def __init__(self, node: elea.Session, name: str, answers: list[str]) -> None:
        self._answers = answers
        self._name = name
        self.asked = 0
        node.declare_queryable(f"@elea/log/{name}/info", self._info)
        node.declare_queryable(f"@elea/log/{name}/read/*", self._read)

    def _info(self, query: elea.Query) -> None:
        told = {"log": "00000000-0000-0000-0000-000000000007", "shards": [{"first": 0, "end": 9}]}
        with query:
            query.reply(query.key_expr, json.dumps(told))

    def _read(self, query: elea.Query) -> None:
        self.asked += 1
        answer = self._answers.pop(0) if self._answers else "nothing"
        with query:
            if answer.startswith("{"):
                query.reply_err(answer)
            elif answer == "wrong":
                query.reply(query.key_expr, b"", attachment=b'{"lo": 3, "hi": 9}')
            elif answer == "garbage":
                query.reply(query.key_expr, b"", attachment=b"garbage")


@pytest.mark.parametrize(
    ("answers", "error", "complaint"),
    [
        (['{"error": "busy", "detail": "later"}', "wrong", "nothing"], StoreError, "no answer"),
        (["wrong"] * 1_000, StoreError, "rows from 3 on came in place of 0"),
        (
            ['{"error": "trimmed", "detail": "d", "first": 5, "end": 9}'],
            OffsetError,
            "row 0 of shard 0 was trimmed; the log has rows 5 to 8",
        ),
        (['{"error": "damaged", "detail": "octet 5"}'], StoreError, "damaged: octet 5"),
        (["garbage"], ValueError, "garbage"),
    ],
)
def test_bad_answers(answers: list[str], error: type[Exception], complaint: str) -> None:
    endpoint = free_endpoint()
    with session(ELEA, "router", listen=endpoint) as node:
        flaky = Flaky(node, "bad", list(answers))
        place = open_place(source("zenoh:bad", endpoint, timeout="3"))
        with pytest.raises(error, match=complaint):
            range_of(place, 0, 0, 9)
        assert flaky.asked >= 1
        close_all()


def test_rows_that_are_packed_while_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_place, "_ASK_ROWS_FIRST", 64)  # several queries for one range
    monkeypatch.setattr(served_place, "_ASK_LEN", 4_096)
    with log_at(tmp_path, 1, segment_len=9_000) as made:
        fill(made, 0, 400, 7)
    endpoint = free_endpoint()
    with session(ELEA, "router", listen=endpoint) as node:
        server = LogServer(node, "packed", tmp_path)
        place = open_place(source("zenoh:packed", endpoint))
        found = place.read(0, 3, 390, COLUMNS)
        seqs = next(found)[2].column("seq").to_pylist()
        pack_log(RealDisk(tmp_path, writable=True), "zstd")  # blocks begin elsewhere from now on
        seqs += [seq for _, _, batch in found for seq in batch.column("seq").to_pylist()]
        assert seqs == [*range(3, 390)]
        server.stop()
        close_all()


def test_who_serves_may_go_and_come_again(log: tuple[Log, Path]) -> None:
    endpoint = free_endpoint()
    with session(ELEA, "router", listen=endpoint) as node:
        server = LogServer(node, "again", log[1])
        place = open_place(source("zenoh:again", endpoint, timeout="20"))
        server.stop()
        servers: list[LogServer] = []
        timer = threading.Timer(0.5, lambda: servers.append(LogServer(node, "again", log[1])))
        timer.start()
        assert len(range_of(place, 0, 0, 100)) == 100
        timer.join()
        servers[0].stop()
        close_all()
