"""SQL over tables through queries: what is answered, how, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.unit.cli.ends import WAIT_S
from tests.unit.store.historian.rig import ALONE
from tests.unit.store.tables.made import fill, log_at, part_of

import elea
from elea.config.kinds import Value
from elea.daemon.services import Services
from elea.errors import ConfigError
from elea.limits import Limits
from elea.store.sql.door import SqlDoor
from elea.store.sql.service import SqlService
from elea.store.sql.settings import SqlSettings
from elea.store.tables.table import FORMATS, open_table

ROWS = pa.table({"robot": ["a", "a", "b"], "temp": [20.0, 30.0, 80.0]})


@pytest.fixture(scope="module")
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of a pipeline, and one of a log in each format."""
    root = tmp_path_factory.mktemp("lake")
    write_deltalake(str(root / "imu"), ROWS)
    (root / "not a table").mkdir()
    with log_at(root / "log") as log:
        fill(log, 0, 5)
        for format in FORMATS:
            table = open_table(root / f"bronze_{format}", format)
            table.commit(
                "c",
                [part_of(table, log, shard, 0, end) for shard, end in enumerate(log.ends()) if end],
            )
    return root


@contextmanager
def opened(
    session: elea.Session, tables: Value, limits: Limits | None = None, **more: Value
) -> Iterator[SqlDoor]:
    door = SqlDoor(session, SqlSettings.read({"tables": tables, **more}), limits or Limits())
    try:
        yield door
    finally:
        door.stop()


def asked(session: elea.Session, selector: str, sql: str | None = None) -> list[elea.Reply]:
    return list(session.get(selector, payload=sql, timeout=WAIT_S))


def rows(session: elea.Session, sql: str) -> Any:
    """All rows, asked for with the one key."""
    [reply] = asked(session, "@sql/lake", sql)
    assert reply.ok is not None, reply.err
    return json.loads(reply.ok.payload.to_bytes())


def refusals(session: elea.Session, selector: str, sql: str | None = None) -> list[dict[str, str]]:
    found = asked(session, selector, sql)
    return [json.loads(one.err.payload.to_bytes()) for one in found if one.err is not None]


def test_one_key_has_one_reply_with_all_rows(session: elea.Session, lake: Path) -> None:
    with opened(session, str(lake)) as door:
        sql = "select robot, max(temp) as hottest from imu group by robot order by robot"
        assert rows(session, sql) == [
            {"robot": "a", "hottest": 30.0},
            {"robot": "b", "hottest": 80.0},
        ]
        assert door.counts.queries == 1
        assert door.counts.rows == 2


def test_below_the_key_each_row_is_a_reply(session: elea.Session, lake: Path) -> None:
    with opened(session, str(lake)):
        found = asked(session, "@sql/lake/**?q=select temp from imu order by temp desc")
    replies = [one.ok for one in found if one.ok is not None]
    assert [str(one.key_expr) for one in replies] == ["@sql/lake/0", "@sql/lake/1", "@sql/lake/2"]
    values = [json.loads(one.payload.to_bytes())["temp"] for one in replies]
    assert values == [80.0, 30.0, 20.0]


def test_arrow(session: elea.Session, lake: Path) -> None:
    with opened(session, str(lake)):
        [reply] = asked(session, "@sql/lake?format=arrow", "select * from imu")
    assert reply.ok is not None
    assert str(reply.ok.encoding) == "application/vnd.apache.arrow.stream"
    found = pa.ipc.open_stream(reply.ok.payload.to_bytes()).read_all()
    assert found.to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("format", FORMATS)
def test_tables_of_logs_of_each_format(session: elea.Session, lake: Path, format: str) -> None:
    with opened(session, str(lake)):
        sql = f"select count(*) as n, count(distinct seq) as d from bronze_{format}"
        [found] = rows(session, sql)
    assert found["n"] == 5


def test_values_that_json_does_not_have(session: elea.Session, lake: Path) -> None:
    sql = (
        "select 'x'::blob as octets, 'nan'::double as nan, timestamptz '2026-01-02 03:04:05Z' as t,"
        " 1.50::decimal(5,2) as d, {'a': [1, null]} as s, 1::hugeint as h, interval 2 day as i"
    )
    with opened(session, str(lake)):
        [found] = rows(session, sql)
    assert found["octets"] == "eA=="
    assert found["nan"] is None
    assert found["t"] == "2026-01-02T03:04:05Z"
    assert (found["d"], found["s"], found["h"]) == (1.5, {"a": [1, None]}, 1)
    assert found["i"] == [0, 2, 0]  # months, days, nanoseconds


def test_what_is_committed_is_seen_by_the_next_question(
    session: elea.Session, tmp_path: Path
) -> None:
    with opened(session, str(tmp_path)) as door:
        assert door.tables() == {}
        write_deltalake(str(tmp_path / "t"), ROWS)
        assert rows(session, "select count(*) as n from t") == [{"n": 3}]
        write_deltalake(str(tmp_path / "t"), ROWS, mode="append")
        assert rows(session, "select count(*) as n from T") == [{"n": 6}]


def test_only_tables_that_are_named_in_the_section(session: elea.Session, lake: Path) -> None:
    with opened(session, {"warm": str(lake / "imu")}):
        assert rows(session, "select count(*) as n from warm") == [{"n": 3}]
        [told] = refusals(session, "@sql/lake", "select * from imu")
        assert told["error"] == "invalid"
        assert "imu" in told["detail"]


def test_an_unknown_table_is_answered_with_those_there_are(
    session: elea.Session, lake: Path
) -> None:
    """DuckDB suggested its own, such as pg_constraint."""
    with opened(session, {"imu": str(lake / "imu"), "other": str(lake / "imu")}):
        [told] = refusals(session, "@sql/lake", "select * from imus")
        assert told["detail"] == "no SQL: saw the table 'imus'; there are imu, other"


@pytest.mark.parametrize("tables", ["nolake", {"imu": "nolake"}], ids=["one", "named"])
def test_a_directory_of_tables_that_is_not_there_fails_the_check(tables: Value) -> None:
    """The configuration could be used, and the door had no table."""
    config = elea.Config.from_json5(json.dumps({"plugins": {"sql": {"tables": tables}}}))
    config.insert_json5("plugins_loading/enabled", "true")
    [(path, reason)] = Services().absent(config)
    assert path.startswith("plugins/sql/tables")
    assert "there is no directory 'nolake'" in reason


_REFUSED = (
    "create table x as select 1",
    "drop view imu",
    "insert into imu values ('c', 1)",
    "copy imu to '/tmp/stolen.csv'",
    "copy (select 1) to '/tmp/stolen.csv'",
    "attach '/tmp/other.db'",
    "install httpfs",
    "load httpfs",
    "set threads = 8",
    "pragma version",
    "call pragma_version()",
    "select 1; select 2",
    "select * from read_text('/etc/passwd')",
    "select * from '/etc/passwd'",
    "select * from read_parquet('/tmp/*.parquet')",
    "select * from glob('/*')",
    "select getenv('HOME')",
    "select * from sql",
    "no sql",
    "  ",
    "select set_config('threads', '8')",
    "explain analyze select 1",
)


def test_nothing_but_a_select_over_tables(session: elea.Session, lake: Path) -> None:
    with opened(session, str(lake)) as door:
        told = {sql: refusals(session, "@sql/lake", sql) for sql in _REFUSED}
        wrong = {sql: one for sql, one in told.items() if [x["error"] for x in one] != ["invalid"]}
        assert wrong == {}
        assert door.counts.invalid == len(_REFUSED)
        assert door.counts.errors == 0
    assert not os.path.exists("/tmp/stolen.csv")


@pytest.mark.parametrize(
    ("selector", "seen"),
    [
        ("@sql/lake?format=xml;q=select 1", "xml"),
        ("@sql/lake?rows=0;q=select 1", "'0'"),
        ("@sql/lake?rows=51;q=select 1", "'51'"),
        ("@sql/lake?sql=select 1", "sql"),
        ("@sql/lake", "none"),
    ],
)
def test_parameters_that_are_not_legal(
    session: elea.Session, lake: Path, selector: str, seen: str
) -> None:
    with opened(session, str(lake), rows=50):
        [told] = refusals(session, selector)
    assert told["error"] == "invalid"
    assert seen in told["detail"]
    assert "legal" in told["detail"] or "has it" in told["detail"]


def test_more_rows_than_may_be_are_cut_and_told(session: elea.Session, lake: Path) -> None:
    with opened(session, str(lake), rows=10) as door:
        found = asked(session, "@sql/lake/**", "select * from range(1000)")
        assert sum(one.ok is not None for one in found) == 10
        [told] = [json.loads(one.err.payload.to_bytes()) for one in found if one.err]
        assert told["error"] == "cut"
        assert door.counts.cut == 1
        assert refusals(session, "@sql/lake", "select * from range(10)") == []


def test_more_octets_than_may_be_are_cut(session: elea.Session, lake: Path) -> None:
    with opened(session, str(lake), Limits(sql_rows_len=1000)):
        [told] = refusals(session, "@sql/lake/**", "select repeat('x', 100) from range(50)")
    assert told["error"] == "cut"


def test_an_answer_that_takes_too_long_is_ended(session: elea.Session, lake: Path) -> None:
    slow = "select sum(sin(a.range * b.range)) from range(100000000) a, range(1000000) b"
    with opened(session, str(lake), seconds=1):
        [told] = refusals(session, "@sql/lake", slow)
        assert told["error"] == "invalid"
        assert "1 s" in told["detail"]


def test_an_answer_that_needs_too_much_memory_is_ended(session: elea.Session, lake: Path) -> None:
    sql = "select list(range::varchar || repeat('x', 100)) from range(3000000)"
    with opened(session, str(lake), memory_mb=16):
        [told] = refusals(session, "@sql/lake", sql)
    assert told["error"] == "invalid"
    assert "memory" in told["detail"].lower()


def test_too_long_a_question(session: elea.Session, lake: Path) -> None:
    with opened(session, str(lake), Limits(sql_text_len=100)):
        [told] = refusals(session, "@sql/lake", "select " + "1+" * 100 + "1")
    assert "sql_text_len" in told["detail"]


def test_a_table_that_cannot_be_read_is_told(session: elea.Session, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), ROWS)
    for file in (tmp_path / "t").glob("*.parquet"):
        file.write_bytes(b"nothing")
    with opened(session, str(tmp_path)) as door:
        [told] = refusals(session, "@sql/lake", "select * from t")
        assert told["error"] in ("failed", "invalid")
        assert told["detail"]
        assert door.counts.errors + door.counts.invalid == 1


def test_its_status(session: elea.Session, lake: Path) -> None:
    service = SqlService(session, {"tables": {"imu": str(lake / "imu")}, "name": "fleet"})
    try:
        told = service.status()["sql"]
        assert isinstance(told, dict)
        assert told["key"] == "@sql/fleet"
        assert told["tables"] == {"imu": str(lake / "imu")}
    finally:
        service.stop()


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({}, "plugins/sql/tables"),
        ({"tables": []}, "plugins/sql/tables"),
        ({"tables": {"a-b": "/x"}}, "plugins/sql/tables"),
        ({"tables": {"a": 1}}, "plugins/sql/tables/a"),
        ({"tables": "/x", "name": "a/b"}, "plugins/sql/name"),
        ({"tables": "/x", "rows": 0}, "plugins/sql/rows"),
        ({"tables": "/x", "seconds": "5"}, "plugins/sql/seconds"),
        ({"tables": "/x", "memory_mb": True}, "plugins/sql/memory_mb"),
        ({"tables": "/x", "row": 1}, "plugins/sql/row"),
    ],
)
def test_sections_that_are_not_legal(section: dict[str, Value], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SqlService.check(section)
    assert key in str(caught.value)
