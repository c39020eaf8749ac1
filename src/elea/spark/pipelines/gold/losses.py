"""`losses`: samples that are missing, as ranges of the numbers their publisher gave them.

| reason | |
| --- | --- |
| `lost` | a recorder noticed, asked for them, and nobody had them |
| `missing` | a publisher's numbers go on without them |
| `dropped` | a recorder had received them and could not store them; their numbers are not known |

Samples that come later fill what is missing, unless they are newer than all before: then their
publisher was restarted and counts anew, and what it lost before stays lost. Only publishers that
number the samples of one key are looked at for `missing`: others may have published to keys that
nobody records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import pyarrow as pa

from elea.limits import DEFAULT_LIMITS
from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import Kind, Option, Options
from elea.spark.pipelines.gold.frames import collected, moment, require
from elea.spark.pipelines.gold.rounds import Changes, Round
from elea.store.log.schema import TIME, RowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOST: Final = "lost"
MISSING: Final = "missing"
DROPPED: Final = "dropped"
_SN_MODULUS: Final = 2**32
_SEVERAL: Final = ""  # in place of the key of a publisher that has several

Publisher: TypeAlias = tuple[str, int]  # zid, eid


class Run(NamedTuple):
    """Numbers without a gap that were received, with the times of the first and the last."""

    first: int
    last: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class Hole:
    """Numbers that are missing, first and last included.

    Args:
        from_us: The time of the sample before; or of when it was noticed,
        to_us: and of the one after.
    """

    first: int
    last: int
    reason: str
    from_us: int
    to_us: int


@dataclass(slots=True)
class Numbers:
    """What is known of one publisher.

    Args:
        key: Of its samples; empty if there are several.
        last: The highest number that was received, or is known to be lost; None: none yet.
        last_us: The time of the latest sample.
        received: The highest number that was received; None: not known.
        began_us: When it was restarted; 0: not that we know.
    """

    key: str
    last: int | None = None
    last_us: int = 0
    received: int | None = None
    began_us: int = 0
    holes: list[Hole] = field(default_factory=list)

    def lose(self, first: int, count: int, at_us: int) -> None:
        """A recorder says that these are lost."""
        first = first if self.last is None else _near(first, self.last)
        last = first + count - 1
        self._fill(first, last)
        self.holes.append(Hole(first, last, LOST, at_us, at_us))
        if self.last is None or last > self.last:
            self.last = last  # its time is by the clock of the recorder, and proves no restart

    def receive(self, runs: Sequence[Run], *, is_only_key: bool) -> None:
        """These were received."""
        highest = max((run.last for run in runs), default=0) if self.last is None else self.last
        for run in sorted(runs, key=lambda run: (run.first_us, _near(run.first, highest))):
            first = _near(run.first, highest)
            last = first + run.last - run.first
            if self._is_restart(first, run.first_us):
                self.began_us, self.last, self.received = run.first_us, last, last
            elif run.last_us < self.began_us:  # of before the restart
                self._fill(first, last, is_before=True)
                continue
            elif self.last is None or first <= self.last:
                self._fill(first, last)
            elif self.last is not None and first > self.last + 1 and is_only_key:
                between = Hole(self.last + 1, first - 1, MISSING, self.last_us, run.first_us)
                self.holes.append(between)
            self.last = last if self.last is None else max(self.last, last)
            self.received = last if self.received is None else max(self.received, last)
            self.last_us = max(self.last_us, run.last_us)

    def _is_restart(self, first: int, at_us: int) -> bool:
        """Whether numbers begin anew: one that was received before comes with a newer time."""
        return self.received is not None and first <= self.received and at_us > self.last_us > 0

    def _fill(self, first: int, last: int, *, is_before: bool = False) -> None:
        """These are there; `is_before`: they are of before the restart, as are some holes."""
        found: list[Hole] = []
        for hole in self.holes:
            if (hole.to_us < self.began_us) != is_before:
                found.append(hole)
                continue
            if hole.first < first:
                found.append(replace(hole, last=min(hole.last, first - 1)))
            if hole.last > last:
                found.append(replace(hole, first=max(hole.first, last + 1)))
        self.holes = list(dict.fromkeys(found))


def _near(sn: int, other: int) -> int:
    """A number of 32 bits as one that does not begin again, as near to another as can be."""
    turns = (other - sn + _SN_MODULUS // 2) // _SN_MODULUS
    return sn + turns * _SN_MODULUS


def _runs(rows: DataFrame) -> pa.Table:
    """By publisher, the runs of numbers; and the key, if there is one only."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    samples = rows.where(
        f"kind in ({int(RowKind.PUT)}, {int(RowKind.DELETE)})"
        " and zid is not null and eid is not null and sn is not null"
    )
    one = samples.groupBy("zid", "eid", "sn").agg(
        sql.min(sql.unix_micros(moment(rows))).alias("at"),
        sql.min("key").alias("low"),
        sql.max("key").alias("high"),
    )
    numbered = one.withColumn(
        "run", sql.col("sn") - sql.row_number().over(Window.partitionBy("zid", "eid").orderBy("sn"))
    )
    found = numbered.groupBy("zid", "eid", "run").agg(
        sql.min("sn").alias("first"),
        sql.max("sn").alias("last"),
        sql.min_by("at", "sn").alias("first_us"),
        sql.max_by("at", "sn").alias("last_us"),
        sql.min("low").alias("low"),
        sql.max("high").alias("high"),
    )
    return collected(found)


def _told(rows: DataFrame) -> pa.Table:
    """What recorders say of gaps and drops."""
    from pyspark.sql import functions as sql

    told = rows.where(f"kind in ({int(RowKind.GAP)}, {int(RowKind.DROP)})")
    return collected(
        told.select(
            "key",
            "kind",
            "zid",
            "eid",
            "sn",
            sql.col("payload").cast("string").try_cast("bigint").alias("count"),
            sql.unix_micros("recv_ts").alias("at"),
            sql.concat_ws("/", "log", "shard", "seq").alias("place"),
        )
    )


class Known:
    """What is known of publishers.

    Args:
        numbers: Of those that are remembered.
        holes: Of all in the table. A publisher that was forgotten has them still: of those in
            between it is not known whether they were received.
    """

    def __init__(
        self,
        numbers: dict[Publisher, Numbers] | None = None,
        holes: Mapping[Publisher, list[Hole]] | None = None,
    ) -> None:
        self.numbers = {} if numbers is None else numbers
        self._holes = {} if holes is None else holes

    def of(self, publisher: Publisher, key: str) -> Numbers:
        """What is known of one; it begins now, if it is new or was forgotten."""
        found = self.numbers.get(publisher)
        if found is None:
            found = Numbers(key, holes=list(self._holes.get(publisher, ())))
            self.numbers[publisher] = found
        return found


def _advance(known: Known, rows: DataFrame) -> tuple[set[Publisher], pa.Table]:
    """Take in new rows; which publishers they are of, and what was dropped."""
    require(rows, ("key", "kind", "zid", "eid", "sn", "payload", "recv_ts"), "from")
    touched: set[Publisher] = set()
    drops = []
    for row in _told(rows).to_pylist():
        if row["kind"] == RowKind.DROP:
            drops.append(row)
        elif row["zid"] is not None and row["sn"] is not None and (row["count"] or 0) > 0:
            publisher = (row["zid"], row["eid"])
            known.of(publisher, row["key"]).lose(row["sn"], row["count"], row["at"])
            touched.add(publisher)
    by_publisher: dict[Publisher, list[dict[str, Any]]] = {}
    for row in _runs(rows).to_pylist():
        by_publisher.setdefault((row["zid"], row["eid"]), []).append(row)
    for publisher, found in by_publisher.items():
        keys = {row[end] for row in found for end in ("low", "high")}
        numbers = known.of(publisher, found[0]["low"])
        if keys != {numbers.key}:
            numbers.key = _SEVERAL
        runs = [Run(*(row[name] for name in Run._fields)) for row in found]
        numbers.receive(runs, is_only_key=numbers.key != _SEVERAL)
        touched.add(publisher)
    return touched, _drops(drops)


def _refresh(round: Round) -> Changes:
    stored = round.table.rows()
    known = remembered(round.state, stored)
    before = {} if stored is None else {row["id"]: row for row in stored.to_pylist()}
    touched, drops = _advance(known, round.inputs[0].fresh())
    now = {row["id"]: row for row in holes_of(known.numbers, touched).to_pylist()}
    old = {id for id, row in before.items() if (row["zid"], row["eid"]) in touched}
    changed = [row for id, row in now.items() if before.get(id) != row]
    gone = sorted(old - set(now))
    rows = pa.concat_tables([pa.Table.from_pylist(changed, _SCHEMA), drops])
    removed = pa.table({"id": pa.array(gone, pa.string())})
    publishers_max = cast(
        "int", round.options.get("publishers_max", DEFAULT_LIMITS.gold_publishers_count)
    )
    forgotten_count = max(0, len(known.numbers) - publishers_max)
    state = _state(known.numbers, publishers_max)
    return Changes(rows, removed, state=state, forgotten_count=forgotten_count)


def _apply(spark: SparkSession, frames: Mapping[str, DataFrame], options: Options) -> DataFrame:
    known = Known()
    touched, drops = _advance(known, next(iter(frames.values())))
    return spark.createDataFrame(pa.concat_tables([holes_of(known.numbers, touched), drops]))


_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("key", pa.string()),
        pa.field("zid", pa.string()),
        pa.field("eid", pa.int64()),
        pa.field("first_sn", pa.int64()),
        pa.field("last_sn", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("from_ts", TIME),
        pa.field("to_ts", TIME),
    ]
)


def holes_of(known: Mapping[Publisher, Numbers], chosen: Iterable[Publisher]) -> pa.Table:
    """The losses of some publishers, as rows of the table."""
    rows: list[tuple[object, ...]] = []
    ids: set[str] = set()
    for zid, eid in sorted(chosen):
        for hole in sorted(known[zid, eid].holes, key=lambda hole: (hole.first, hole.from_us)):
            first, last = hole.first % _SN_MODULUS, hole.last % _SN_MODULUS
            id = f"{zid}/{eid}/{first}"
            if id in ids:  # of another incarnation
                id += f"/{hole.from_us}"
            ids.add(id)
            count = hole.last - hole.first + 1
            key = known[zid, eid].key or None
            rows.append(
                (id, hole.reason, key, zid, eid, first, last, count, hole.from_us, hole.to_us)
            )
    return _shaped(rows)


def _drops(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return _shaped(
        [
            (row["place"], DROPPED, row["key"], None, None, None, None, row["count"])
            + (row["at"],) * 2
            for row in rows
        ]
    )


def _shaped(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(_SCHEMA)
    arrays = [
        pa.array(column, pa.int64()).cast(TIME) if one.type == TIME else pa.array(column, one.type)
        for column, one in zip(columns, _SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _state(known: Mapping[Publisher, Numbers], publishers_max: int) -> pa.Table:
    if len(known) > publishers_max:
        latest = sorted(known.items(), key=lambda item: -item[1].last_us)
        known = dict(latest[:publishers_max])
    return pa.table(
        {
            "zid": pa.array([zid for zid, _ in known], pa.string()),
            "eid": pa.array([eid for _, eid in known], pa.int64()),
            "key": pa.array([one.key for one in known.values()], pa.string()),
            "last": pa.array([one.last for one in known.values()], pa.int64()),
            "last_us": pa.array([one.last_us for one in known.values()], pa.int64()),
            "received": pa.array([one.received for one in known.values()], pa.int64()),
            "began_us": pa.array([one.began_us for one in known.values()], pa.int64()),
        }
    )


def remembered(state: pa.Table | None, stored: pa.Table | None) -> Known:
    """From what is remembered, and from the holes that are in the table."""
    known: dict[Publisher, Numbers] = {}
    for row in [] if state is None else state.to_pylist():
        more = (row.get("received"), row.get("began_us", 0))  # earlier versions did not know
        known[row["zid"], row["eid"]] = Numbers(row["key"], row["last"], row["last_us"], *more)
    if stored is None:
        return Known(known)
    holes: dict[Publisher, list[Hole]] = {}
    times = {name: stored[name].cast(pa.int64()).to_pylist() for name in ("from_ts", "to_ts")}
    for at, row in enumerate(stored.to_pylist()):
        if row["first_sn"] is None:
            continue
        publisher = (row["zid"], row["eid"])
        numbers = known.get(publisher)
        last = numbers.last if numbers is not None else None
        first = _near(row["first_sn"], last or 0)
        hole = Hole(
            *(first, first + row["count"] - 1, row["reason"]),
            *(times["from_ts"][at], times["to_ts"][at]),
        )
        holes.setdefault(publisher, []).append(hole)
        if numbers is not None:
            numbers.holes.append(hole)
    return Known(known, holes)


LOSSES: Final = Kind(
    name="losses",
    help="samples that are missing, as ranges of their publisher's numbers, with the reason",
    options=(
        Option(
            "publishers_max",
            values.count,
            "how many publishers are remembered; of more the latest ones, and it is told",
            DEFAULT_LIMITS.gold_publishers_count,
            defines=False,
        ),
    ),
    mode="update",
    identity=lambda options: ("id",),
    apply=_apply,
    refresh=_refresh,
)
