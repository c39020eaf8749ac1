"""Proof: the ledger of a fleet held against what is in a log and in tables, sample by sample.

Tables are read from their files, as `deltalake` lists them. What recorder and pipeline counted, and
the code by which they read, has no part in it: they are what is to be checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from elea.demo.ledger import STORED, WAITING, Id, Ledger, numbered_id, ros_id
from elea.demo.plan import ARM_KEY, ROOT, ROS_DOMAIN, TINY, Stream
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind

_IDS: Final = ("zid", "eid", "sn")
_COLUMNS: Final = ("kind", "key", *_IDS, "payload", "attachment")
_SHOWN: Final = 3
_TINY_KEYS: Final = f"{ROOT}/{TINY}"
_ROS_KEYS: Final = f"{ROS_DOMAIN}/"
_NUMBERS: Final = ("n", "payload")  # columns that hold the number that a device gave a sample
_NO_NUMBER: Final = -1  # of a sample that does not say its own
_CDR_MARK: Final = b"\x00"  # CDR begins with it, JSON does not
_ATTACHMENT_LEN: Final = 33  # of rmw_zenoh: number, time, a length, gid
_RIHS: Final = "RIHS01_"


@dataclass(slots=True)
class Evidence:
    """What rows say: how often each sample is there, and which ones nobody has."""

    found: Counter[Id] = field(default_factory=Counter)
    told_lost: set[Id] = field(default_factory=set)
    rows: int = 0
    tiny: int = 0  # those of tiny devices
    dds: int = 0  # those of the DDS robot
    ros: int = 0  # those of the ROS 2 node

    @classmethod
    def of_log(cls, directory: Path) -> Self:
        """Of all rows of a log now."""
        reader, made = LogReader(directory), cls()
        for shard in range(reader.shards_count):
            first = reader.bounds(shard).first
            made.take(reader.read(shard, first, columns=_COLUMNS))
        return made

    @classmethod
    def of_archive(cls, path: Path) -> Self:
        """Of all rows of a table that has the columns of a log."""
        made = cls()
        made.take(scan(path, _COLUMNS))
        return made

    @classmethod
    def of_decoded(cls, *paths: Path) -> Self:
        """Of all rows of tables whose rows are samples, and those that could not be decoded."""
        made = cls()
        for path in paths:
            rows = rows_of(path)
            if rows is not None:
                numbers = [name for name in _NUMBERS if name in rows.schema.names]
                columns = ["key", *_IDS, "attachment", *numbers[:1]]
                for batch in rows.to_batches(columns=columns):
                    made._samples(batch)
        return made

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Look at more rows."""
        for batch in batches:
            kinds = batch.column("kind")
            self._samples(batch.filter(pc.less_equal(kinds, int(RowKind.DELETE))))
            gaps = batch.filter(pc.equal(kinds, int(RowKind.GAP)))
            for row in gaps.select([*_IDS, "payload"]).to_pylist():
                first, count = row["sn"], int(row["payload"])
                lost = (Id(row["zid"], row["eid"], sn) for sn in range(first, first + count))
                self.told_lost.update(lost)

    def _samples(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        keys = batch.column("key").cast(pa.string())
        is_tiny, is_dds = pc.starts_with(keys, _TINY_KEYS), pc.equal(keys, ARM_KEY)
        is_ros = pc.starts_with(keys, _ROS_KEYS)
        is_numbered = pc.or_(is_tiny, is_dds)
        others = batch.filter(pc.invert(pc.or_(is_numbered, is_ros)))
        columns = (others.column(name).to_pylist() for name in _IDS)
        self.found.update(map(Id._make, zip(*columns, strict=True)))
        numbered, of_ros = batch.filter(is_numbered), batch.filter(is_ros)
        if numbered.num_rows:
            number = next(name for name in _NUMBERS if name in batch.schema.names)
            numbers = map(_number_in, numbered.column(number).to_pylist())
            self.found.update(map(numbered_id, numbered.column("key").to_pylist(), numbers))
        self.found.update(map(_attached_id, of_ros.column("attachment").to_pylist()))
        dds = pc.sum(is_dds).as_py() or 0
        self.dds += dds
        self.tiny += numbered.num_rows - dds
        self.ros += of_ros.num_rows

    @property
    def repeated(self) -> int:
        """Rows that are there already."""
        return self.rows - len(self.found)


def is_table(path: Path) -> bool:
    """Whether a table is there, with a first commit."""
    return any((path / "_delta_log").glob("*.json"))


def rows_of(path: Path) -> ds.Dataset | None:
    """The rows of a table as it is now; None: there is none, or nothing in it."""
    files = DeltaTable(str(path)).file_uris() if is_table(path) else []
    return ds.dataset(files, format="parquet") if files else None


def scan(path: Path, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Rows of a table, from its files; none if there is no table yet."""
    rows = rows_of(path)
    if rows is not None:
        yield from rows.to_batches(columns=list(columns))


def counts_of(lake: Path) -> dict[str, int]:
    """How many rows each table below a directory has."""
    found = {}
    for path in sorted(lake.iterdir()) if lake.is_dir() else ():
        if is_table(path):
            rows = rows_of(path)
            found[path.name] = 0 if rows is None else rows.count_rows()
    return found


class Check(NamedTuple):
    """One thing that was to be shown."""

    name: str
    seen: int
    wanted: int
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is as it should be."""
        return self.seen == self.wanted


@dataclass(frozen=True, slots=True)
class Expected:
    """What a plan says, if it was carried out to its end."""

    sent: int
    acknowledged: int
    lost: int
    garbled: int
    tiny: int = 0
    dds: int = 0
    ros: int = 0


def missing(ledger: Ledger, evidence: Evidence) -> list[Id]:
    """What was sent, is not there, and is not known to be lost."""
    return [id for id in ledger.keys if id not in evidence.found and id not in evidence.told_lost]


def unstored(ledger: Ledger, evidence: Evidence) -> list[Id]:
    """What was acknowledged as stored and is not there."""
    stored = (id for id, state in ledger.states.items() if state == STORED)
    return [id for id in stored if id not in evidence.found]


def prove(ledger: Ledger, bronze: Evidence, expected: Expected | None) -> list[Check]:
    """Everything that must hold between what was sent and what is in the table.

    Args:
        expected: None if the fleet was ended before its time.
    """
    sent = ledger.count()
    stored = ledger.count(STORED)
    lost = bronze.told_lost - bronze.found.keys()
    gone, strange = missing(ledger, bronze), [id for id in bronze.found if id not in ledger.keys]
    not_there = unstored(ledger, bronze)
    return [
        Check("samples sent", sent, expected.sent if expected else sent, "as planned"),
        Check(
            "acknowledged as stored",
            stored,
            expected.acknowledged if expected else stored + ledger.count(WAITING),
            "each waited for",
        ),
        Check("rows of samples", bronze.rows, sent - len(lost), "sent, but for those below"),
        Check(
            "lost on a bad radio",
            len(lost),
            expected.lost if expected else len(lost),
            "each named by a row",
        ),
        Check(
            "of tiny devices, by XRCE",
            bronze.tiny,
            expected.tiny if expected else sum(_is_tiny(key) for key in ledger.keys.values()),
            "known by the numbers in them",
        ),
        Check(
            "of the DDS robot, bridged",
            bronze.dds,
            expected.dds if expected else sum(key == ARM_KEY for key in ledger.keys.values()),
            "known by the numbers in them",
        ),
        Check(
            "of the ROS 2 node",
            bronze.ros,
            expected.ros if expected else sum(map(_is_ros, ledger.keys.values())),
            "known by gid and number",
        ),
        Check("missing", len(gone), 0, _some(ledger, gone)),
        Check("duplicates", bronze.repeated, 0),
        Check("acknowledged but missing", len(not_there), 0, _some(ledger, not_there)),
        Check("from unknown publishers", len(strange), 0),
        Check("identities given twice", len(ledger.repeated), 0),
    ]


def prove_encodings(bronze: Path, streams: Iterable[Stream]) -> list[Check]:
    """That each sample still says how its payload is to be read."""
    wanted = {stream.name: stream.encoding for stream in streams}
    wrong: Counter[str] = Counter()
    for batch in scan(bronze, ("kind", "key", "encoding")):
        puts = pa.table(batch.filter(pc.equal(batch.column("kind"), int(RowKind.PUT))))
        found = puts.group_by(["key", "encoding"]).aggregate([([], "count_all")])
        for row in found.to_pylist():
            if row["encoding"] != wanted.get(_stream_of(row["key"])):
                wrong[f"{row['key']} {row['encoding']}"] += row["count_all"]
    shown = ", ".join(sorted(wrong)[:_SHOWN])
    return [Check("of another encoding", wrong.total(), 0, shown)]


def prove_decoded(
    name: str, ledger: Ledger, bronze: Evidence, good: Path, bad: Path
) -> list[Check]:
    """That a decoded table has each sample of its stream once, or those that are bad have it."""
    wanted = {id for id in bronze.found if _stream_of(ledger.keys.get(id, "")) == name}
    found = Evidence.of_decoded(good, bad)
    return [
        Check(f"rows of {name}", len(found.found.keys() & wanted), len(wanted), "as in bronze"),
        Check(f"duplicates of {name}", found.repeated + len(found.found.keys() - wanted), 0),
    ]


def _is_tiny(key: str) -> bool:
    return key.startswith(_TINY_KEYS)


def _is_ros(key: str) -> bool:
    return key.startswith(_ROS_KEYS)


def _stream_of(key: str) -> str:
    """The name of a stream: the last chunk; of a ROS topic, the one before type and hash."""
    chunks = key.split("/")
    return chunks[-3] if chunks[-1].startswith(_RIHS) and _is_ros(key) else chunks[-1]


def _attached_id(attachment: bytes | None) -> Id:
    """The identity that the attachment of a ROS message says."""
    if attachment is None or len(attachment) != _ATTACHMENT_LEN:
        return ros_id(b"", _NO_NUMBER)
    return ros_id(attachment[17:], int.from_bytes(attachment[:8], "little", signed=True))


def _number_in(said: bytes | int | None) -> int:
    """The number that a device gave a sample: from a column, or a payload in JSON or CDR."""
    if isinstance(said, int):
        return said
    if said is not None and said.startswith(_CDR_MARK):
        return int.from_bytes(said[4:8], "little", signed=True)
    try:
        number = json.loads(said or b"")["n"]
    except (ValueError, KeyError, TypeError):
        return _NO_NUMBER
    return number if isinstance(number, int) else _NO_NUMBER


def _some(ledger: Ledger, ids: list[Id]) -> str:
    shown = ", ".join(f"{ledger.keys[id]} {id.sn}" for id in ids[:_SHOWN])
    return f"{shown} ..." if len(ids) > _SHOWN else shown
