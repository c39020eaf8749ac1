"""Landing by a fake engine: each row of the log is in each table once, whatever crashes."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from tests.unit.spark.engine import CrashError, Query
from tests.unit.spark.pipelines import fleet
from tests.unit.spark.test_stream import crashing, no_crash

from elea.errors import ConflictError, StoreError
from elea.spark.offsets import Offset
from elea.spark.options import Options
from elea.spark.pipelines import landing, travel
from elea.spark.pipelines.definition import Decoded, Pipeline
from elea.spark.pipelines.landing_source import (
    MANIFEST,
    OPTION,
    LandingReader,
    LandingSource,
    option_of,
)
from elea.spark.pipelines.silver import Silver
from elea.spark.pipelines.table_source import SilverPlan, TableSource
from elea.spark.pipelines.table_source import option_of as table_option
from elea.store.tables.compaction import compact
from elea.store.tables.table import FORMATS, open_table


@dataclass
class LandingQuery(Query):
    """A query whose sink commits files to tables, and may die between two of them."""

    pipeline: Pipeline | None = None
    die: Callable[[str], None] = field(default=no_crash)

    def keep(self, number: int, batches: list[pa.RecordBatch]) -> None:
        assert self.pipeline is not None
        landed = landing.from_rows(row for one in batches for row in one.to_pylist())
        place = landing.Place.of(self.pipeline)
        taken = landing._taken

        def dying(*args: object, **options: object) -> landing.Committed:
            self.die("before a commit")
            done = taken(*args, **options)  # type: ignore[arg-type]
            self.die("after a commit")
            return done

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(landing, "_taken", dying)
            landing.commit(place, self.pipeline.landed, landed, number)


def query(made: Pipeline, rows_max: str = "40", **options: str) -> LandingQuery:
    given = {"log": made.log, "consumer": "c", "maxRowsPerTrigger": rows_max, **options}
    place = landing.Place.of(made)
    landing.prepare(place, made.landed)
    stream = Options(given).stream()
    return LandingQuery(lambda: LandingReader(stream, place, made.landed), pipeline=made)


def rows_in(made: Pipeline, name: str) -> pa.Table:
    table = open_table(made.path(name))
    paths = [str(made.path(name) / file.path) for file in table.files()]
    return ds.dataset(paths, schema=table.schema(), format="parquet").to_table()


def numbers(made: Pipeline, name: str) -> list[int]:
    return sorted(rows_in(made, name)["sn"].to_pylist())


@settings(max_examples=5, deadline=None)
@given(
    crashes=st.lists(st.integers(0, 16), max_size=5),
    lost=st.lists(st.booleans(), min_size=5, max_size=5),
    unnoted=st.lists(st.booleans(), min_size=5, max_size=5),
    rows_max=st.sampled_from(["30", "60", "1000"]),
    format=st.sampled_from(["delta", "delta", "parquet", "iceberg"]),
    parts=st.sampled_from(["1", "5"]),
    order=st.permutations([0, 1]),
)
def test_every_row_is_in_every_table_once_whatever_crashes(
    tmp_path_factory: pytest.TempPathFactory,
    crashes: list[int],
    lost: list[bool],
    unnoted: list[bool],
    rows_max: str,
    format: str,
    parts: str,
    order: list[int],
) -> None:
    """Also if the checkpoint or the notes are lost, and a table comes later than the others."""
    folder = tmp_path_factory.mktemp("landing")
    more = 'late: {decode: json, keyexpr: "fleet/r1/imu", schema: "{ax: f64}"}\n'
    head = f"{fleet.HEAD}format: {format}\n"
    lines = fleet.TABLES.splitlines(keepends=True)
    tables = "".join(lines[at] for at in order)
    made = fleet.pipeline(folder, tables, head)
    with fleet.log_at(folder / "log") as log:
        fleet.fill(log, 0, 60)
        count = 60
        run = query(made, rows_max, minPartitions=parts)
        for number, at in enumerate(crashes):
            run.die = crash = crashing(at, lambda: None)
            with contextlib.suppress(CrashError):
                run.run(batches_count=5, crash=crash)
            if unnoted[number]:
                (Path(made.storage) / "_elea" / "handed.json").unlink(missing_ok=True)
            if number == 1:
                made = fleet.pipeline(folder, tables + more, head)
            if lost[number] or number == 1:
                run = query(made, rows_max, minPartitions=parts)
            fleet.fill(log, count, 20)
            count += 20
            if number == 2:
                list(compact(open_table(made.path("bronze"))))
        run.die = no_crash
        run.run(batches_count=10_000, crash=no_crash)
    assert numbers(made, "bronze") == list(range(count))
    assert numbers(made, "imu") == fleet.good(count)
    assert numbers(made, "imu_bad") == fleet.bad(count)
    if len(made.landed) > 2:
        wanted = [one for one in fleet.good(count) if fleet.key_of(one) == "fleet/r1/imu"]
        assert numbers(made, "late") == wanted


@pytest.mark.parametrize("format", FORMATS)
def test_a_decoded_table_alone_lands_batches_with_bad_rows_that_are_not_adjacent(
    tmp_path: Path, format: str
) -> None:
    """The table of bad rows lacks the batches between: that was taken for another writer."""
    made = fleet.pipeline(
        tmp_path, fleet.TABLES.splitlines()[1] + "\n", f"{fleet.HEAD}format: {format}\n"
    )
    with fleet.log_at(tmp_path / "log", shards_count=1) as log:
        fleet.fill(log, 0, 120)  # bad: 17, 34, 51, 68, 102, 119
        query(made, "10").run(batches_count=100, crash=no_crash)
    assert numbers(made, "imu") == fleet.good(120)
    assert numbers(made, "imu_bad") == fleet.bad(120)


def test_bad_rows_are_there_once_when_a_batch_runs_again_otherwise_divided(tmp_path: Path) -> None:
    """It died between the two commits, its checkpoint is lost, and batches are larger now."""
    made = fleet.pipeline(tmp_path, fleet.TABLES.splitlines()[1] + "\n")
    with fleet.log_at(tmp_path / "log", shards_count=1) as log:
        fleet.fill(log, 0, 120)
        for at, (rows_max, parts) in enumerate((("40", "1"), ("25", "4"), ("60", "2"))):
            run = query(made, rows_max, minPartitions=parts)
            run.die = crash = crashing(3 + at, lambda: None)
            with contextlib.suppress(CrashError):
                run.run(batches_count=5, crash=crash)
        query(made, "1000", minPartitions="3").run(batches_count=100, crash=no_crash)
    assert numbers(made, "imu") == fleet.good(120)
    assert numbers(made, "imu_bad") == fleet.bad(120)


@pytest.mark.parametrize("format", FORMATS)
def test_tables_without_rows_do_not_send_a_changed_pipeline_back(
    tmp_path: Path, format: str
) -> None:
    """A query that begins anew read from where they end themselves, which may be trimmed by now."""
    bronze = fleet.TABLES.splitlines(keepends=True)[0]
    rare, head = 'rare: {archive: "other/**"}\n', f"{fleet.HEAD}format: {format}\n"
    made = fleet.pipeline(tmp_path, bronze + rare, head)

    def begins(made: Pipeline) -> Mapping[int, int]:
        return Offset.from_json(query(made).make().initialOffset()).ends

    with fleet.log_at(tmp_path / "log", shards_count=1) as log:
        run = query(made)
        for first in range(0, 60, 10):  # one batch each, of which the first only is noted
            some = [number for number in range(first, first + 10) if fleet.is_imu(number)]
            log.store(fleet.batch(0, first + 10).take(pa.array(some)))
            run.run(batches_count=1, crash=no_crash)
        [end] = log.ends()
        own = made.path("rare")
        assert open_table(own).ends(made.name, log.log_id)[0] < end, "it lags"
        changed = fleet.pipeline(tmp_path, rare + bronze, head)  # and now it is the first
        assert begins(changed) == {0: end}
        log.store(fleet.batch(60, 10))
        query(changed).run(batches_count=10, crash=no_crash)
        assert numbers(made, "rare") == [60, 65]
        assert len(numbers(made, "bronze")) == end + 10
        # Who makes the table anew gets what there is.
        shutil.rmtree(made.path("rare"))
        assert begins(changed) == {0: 0}
        query(changed).run(batches_count=10, crash=no_crash)
        assert numbers(made, "rare") == [60, 65]


@pytest.mark.parametrize("name", ["bronze", "imu"])
def test_rows_that_were_missing_before_a_batch_stopped_the_first_table_only(
    tmp_path: Path, name: str
) -> None:
    made = fleet.pipeline(tmp_path)
    place = landing.Place.of(made)
    landing.prepare(place, made.landed)
    with fleet.log_at(tmp_path / "log", shards_count=1) as log:
        fleet.fill(log, 0, 60)
        source = Options({"log": made.log}).stream().source

        def land(number: int, first: int, end: int, *names: str) -> None:
            tables = [made.table(one) for one in names]
            span = (log.log_id, 0, first, end)
            landed = landing.land_range(source, place, tables, {}, span)  # type: ignore[arg-type]
            landing.commit(place, made.landed, landed, number)

        land(1, 0, 10, "bronze", "imu")
        with pytest.raises(ConflictError, match="rows 30 to 39 of shard 0 do not follow"):
            land(2, 30, 40, name)
        land(2, 10, 60, "bronze", "imu")
    assert numbers(made, "bronze") == list(range(60))
    assert numbers(made, "imu") == fleet.good(60)
    assert numbers(made, "imu_bad") == fleet.bad(60)


def test_a_table_whose_notes_are_lost_is_read_what_it_may_lack(tmp_path: Path) -> None:
    """The checkpoint is ahead of it: whether rows between are of this table is not known."""
    bronze = fleet.TABLES.splitlines(keepends=True)[0]
    made = fleet.pipeline(tmp_path, bronze + 'rare: {archive: "other/**"}\n')
    notes = Path(made.storage) / "_elea" / "handed.json"

    def other(first: int, count: int, *, is_other: bool) -> pa.RecordBatch:
        chosen = [one for one in range(count) if fleet.is_imu(first + one) is not is_other]
        return fleet.batch(first, count).take(pa.array(chosen))

    with fleet.log_at(tmp_path / "log", shards_count=1) as log:
        run = query(made)
        for first in (0, 10, 20):
            log.store(other(first, 10, is_other=False))
            run.run(batches_count=1, crash=no_crash)
        [end] = log.ends()
        assert open_table(made.path("rare")).ends(made.name, log.log_id)[0] < end, "it lags"
        notes.unlink()
        for first in (30, 40):
            log.store(other(first, 10, is_other=True))
        run.run(batches_count=1, crash=no_crash)
        assert open_table(made.path("rare")).ends(made.name, log.log_id) == dict(
            enumerate(log.ends())
        )
        log.store(other(50, 10, is_other=False))
        notes.unlink()
        run.run(batches_count=1, crash=no_crash)
        assert open_table(made.path("rare")).ends(made.name, log.log_id) == dict(
            enumerate(log.ends())
        ), "with no notes it says so itself"
    assert numbers(made, "rare") == [30, 35, 40, 45]
    assert len(numbers(made, "bronze")) == log.ends()[0]


@pytest.mark.parametrize("format", FORMATS)
def test_rows_have_columns_of_keys_and_payloads(tmp_path: Path, format: str) -> None:
    made = fleet.pipeline(tmp_path, head=f"{fleet.HEAD}format: {format}\n")
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 100)
        query(made).run(batches_count=100, crash=no_crash)
    rows = {row["sn"]: row for row in rows_in(made, "imu").to_pylist()}
    assert rows[6].items() >= {"robot": "r2", "ax": 3.0, "temp": 6.0, "kind": 0}.items()
    assert rows[26].items() >= {"robot": "r2", "ax": None, "kind": 1}.items()
    assert "payload" not in rows[6]
    bad = {row["sn"]: row for row in rows_in(made, "imu_bad").to_pylist()}
    assert bad[17].items() >= {"payload": b"{bad", "decoder": "json"}.items()
    assert "Expecting property name" in bad[17]["reason"]


def test_members_that_nobody_declared_become_columns(tmp_path: Path) -> None:
    made = fleet.pipeline(tmp_path)
    with fleet.log_at(tmp_path / "log") as log:
        run = query(made, "1000")
        for first, extra in ((0, None), (100, 7), (200, 8), (300, "text"), (400, 9)):
            fleet.fill(log, first, 100, extra)
            run.run(batches_count=100, crash=no_crash)
        assert numbers(made, "imu") == fleet.good(500)  # a text is no number: it is left out
        rows = {row["sn"]: row["extra"] for row in rows_in(made, "imu").to_pylist()}
        assert (rows[6], rows[106], rows[206], rows[307], rows[406]) == (None, None, 8, None, 9)
        query(made).run(batches_count=10, crash=no_crash)  # it is remembered
        assert [one.name for one in landing.drift_of(landing.Place.of(made), "imu")] == ["extra"]


def test_payloads_with_made_up_members_add_few_columns(tmp_path: Path) -> None:
    """What is more than the bound is kept, as JSON, and told once."""
    tables = fleet.TABLES.splitlines()[1].replace("}}", "}, drift_max: 4}") + "\n"
    made = fleet.pipeline(tmp_path, tables)
    events: list[str] = []
    with fleet.log_at(tmp_path / "log", shards_count=1) as log:
        run = query(made, "1000")
        real = landing.commit

        def commit(*args: Any) -> list[landing.Committed]:
            done = real(*args)
            events.extend(event for one in done for event in one.events)
            return done

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(landing, "commit", commit)
            for first in (0, 100, 200):
                batch = fleet.batch(first, 100)
                at = batch.schema.get_field_index("payload")
                texts = [
                    json.dumps(
                        {"ax": 1, "deep": dict.fromkeys("abcdefgh", 1)} | many(first)
                    ).encode()
                    for _ in range(100)
                ]
                payloads = pa.array(texts, pa.binary())
                log.store(batch.set_column(at, batch.schema.field(at), payloads))
                run.run(batches_count=100, crash=no_crash)
    rows = rows_in(made, "imu")
    added = set(rows.column_names) - set(Silver(made.landed[0]).columns.names) - {"date"}  # type: ignore[arg-type]
    assert len(added) == 5
    assert "_extra" in added
    [event] = [event for event in events if "_extra" in event]
    assert "drift_max" in event
    extra = [json.loads(text) for text in rows["_extra"].to_pylist() if text is not None]
    assert extra
    assert all(one["deep"] == dict.fromkeys("abcdefgh", 1) for one in extra)
    assert "m299" in extra[-1]


def many(first: int) -> dict[str, int]:
    return {f"m{number}": number for number in range(first, first + 100)}


HOSTILE = (
    r'{"ax": 1, "\ud800": 1}',
    r'{"ax": 1, "in": {"\ud800": 1, "b": 2}}',
    r'{"ax": 1, "text": "\ud800"}',
    '{"ax": 1, "arr": [{"a": 1}, {"b": "x"}]}',
    '{"ax": 1, "nested": {"arr": [["x"]]}}',
    '{"ax": 1, "a.b": 1, "a": {"b": 2}}',
    '{"ax": 1, "in.b": 1}',
    '{"ax": 1, "": 1, " ": 2, "c,;{}()=": 3}',
)


@pytest.mark.parametrize("table_format", ["delta", "iceberg", "parquet"])
def test_no_member_of_a_payload_stops_a_pipeline(tmp_path: Path, table_format: str) -> None:
    made = fleet.pipeline(tmp_path, head=fleet.HEAD + f"format: {table_format}\n")
    with fleet.log_at(tmp_path / "log", shards_count=1) as log:
        run = query(made, "1000")
        for number in range(2 * len(HOSTILE)):  # the second time columns are there
            batch = fleet.batch(30 * number, 30)
            at = batch.schema.get_field_index("payload")
            text = HOSTILE[number % len(HOSTILE)].encode()
            payloads = pa.array([text] * 30, pa.binary())
            log.store(batch.set_column(at, batch.schema.field(at), payloads))
            run.run(batches_count=100, crash=no_crash)
    rows = sum(file.rows_count for file in open_table(made.path("imu")).files())
    assert rows == sum(fleet.is_imu(one) for one in range(60 * len(HOSTILE)))
    names = open_table(made.path("imu")).schema().names
    assert {"in", "arr", "nested", "_extra"} <= set(names)
    assert "in.b" not in names


@pytest.mark.parametrize("name", ["robot", "ts", "AX"])
def test_members_whose_name_is_taken_are_left_out(tmp_path: Path, name: str) -> None:
    made = fleet.pipeline(tmp_path)
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 30)
        batch = fleet.batch(30, 30)
        text = b'{"ax": 1, "' + name.encode() + b'": 2, "temp": 3}'
        at = batch.schema.get_field_index("payload")
        log.store(batch.set_column(at, batch.schema.field(at), pa.array([text] * 30, pa.binary())))
        run = query(made)
        run.run(batches_count=100, crash=no_crash)
        fleet.fill(log, 60, 30)
        run.run(batches_count=100, crash=no_crash)
    assert numbers(made, "bronze") == list(range(90))
    assert len(numbers(made, "imu")) == sum(map(fleet.is_imu, range(30, 60))) + len(
        [one for one in fleet.good(90) if not 30 <= one < 60]
    )


def test_a_key_that_does_not_fit_is_bad(tmp_path: Path) -> None:
    tables = 'imu: {decode: json, keyexpr: "**", key: "fleet/{robot}/imu", deletes: false}\n'
    made = fleet.pipeline(tmp_path, tables)
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 50)
        query(made).run(batches_count=100, crash=no_crash)
    puts = [one for one in range(50) if not fleet.is_delete(one)]
    assert numbers(made, "imu") == [one for one in puts if fleet.is_imu(one) and one % 17]
    reasons = {row["sn"]: row["reason"] for row in rows_in(made, "imu_bad").to_pylist()}
    assert reasons[5] == "the key does not fit the template"


def test_two_drivers_double_nothing(tmp_path: Path) -> None:
    """Each with its own checkpoint: who is behind adds nothing, or stops."""
    made = fleet.pipeline(tmp_path)
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 100)
        old, new = query(made, "30"), query(made, "45")
        for _ in range(3):
            for driver in (old, new, new):
                with contextlib.suppress(ConflictError):
                    driver.run(batches_count=1, crash=no_crash)
        new.run(batches_count=100, crash=no_crash)
    assert numbers(made, "bronze") == list(range(100))
    assert numbers(made, "imu") == fleet.good(100)


def test_a_type_that_changed_is_refused(tmp_path: Path) -> None:
    made = fleet.pipeline(tmp_path)
    landing.prepare(landing.Place.of(made), made.landed)
    made = fleet.pipeline(tmp_path, fleet.TABLES.replace("temp: f64", "temp: string"))
    with pytest.raises(StoreError, match="column temp is double"):
        landing.prepare(landing.Place.of(made), made.landed)


def test_a_landing_travels_as_text(tmp_path: Path) -> None:
    tables = fleet.TABLES + 'pb: {decode: cdr, keyexpr: "x", schema: "{a: u8}", into: b}\n'
    made = fleet.pipeline(tmp_path, tables)
    assert travel.loads(travel.dumps(made.landed)) == made.landed
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 10)
        text = option_of(landing.Place.of(made), made.landed)
        source = LandingSource({OPTION: text, "log": made.log})
        assert source.schema().count(",") == len(MANIFEST) - 1
        landing.prepare(landing.Place.of(made), made.landed)
        reader = source.streamReader(StructType())
        assert isinstance(reader, LandingReader)
        last = reader.reportLatestOffset()
        assert last is not None
        [part, *_] = reader.partitions(reader.initialOffset(), last)
        assert [one.schema for one in reader.read(part)] == [MANIFEST]


def test_a_decoded_table_is_a_stream(tmp_path: Path) -> None:
    made = fleet.pipeline(tmp_path)
    table = made.table("imu")
    assert isinstance(table, Decoded)
    source = TableSource({"table": table_option(table), "log": made.log})
    assert "`robot` STRING" in source.schema()
    plain = fleet.batch(0, 40)
    batch = pa.RecordBatch.from_arrays(
        [*plain.columns, pa.array([0] * 40, pa.int32()), pa.array(range(40), pa.int64())],
        names=[*plain.schema.names, "shard", "seq"],
    )
    at = batch.schema.get_field_index("key")
    batch = batch.set_column(at, "key", batch.column(at).cast(pa.string()))
    rows = SilverPlan(table).rows(batch)
    assert rows["sn"].to_pylist() == fleet.good(40)
    assert rows.schema.names == [one for one in Silver(table).columns.names if one != "log"]
