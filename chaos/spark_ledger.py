"""What the table has, what was acknowledged, and where in its batch a query was when it died."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from chaos.spark_feed import ZID
from deltalake import DeltaTable

from elea.store.log.reader import LogReader
from elea.store.tables.table import open_table

BEFORE_OFFSETS = "before the offset log"
AFTER_OFFSETS = "after the offset log"
IN_SINK = "inside the sink"
AFTER_COMMIT = "after the table commit"
WINDOWS = (BEFORE_OFFSETS, AFTER_OFFSETS, IN_SINK, AFTER_COMMIT)

_NUMBERS = pa.schema([("shard", pa.int32()), ("seq", pa.int64()), ("id", pa.int64())])


@dataclass(frozen=True, slots=True)
class Job:
    """What a driver does with a log: the tables that it fills, below the directory of all.

    Args:
        consumer: Under this name tables know how far they have the log.
        tables: The first one has all rows, others those of the client only.
        checkpoint: Where Spark keeps how far it is; `*` stands for what is not known before.
    """

    name: str
    consumer: str
    tables: tuple[str, ...]
    checkpoint: str


ARCHIVE = Job("archive", "archive", ("table",), "table/_checkpoints/archive")
PIPELINE = Job(
    "pipeline",
    "chaos",
    ("lake/bronze", "lake/samples"),
    "lake/_elea/checkpoints/landing-*",
)


@dataclass(slots=True)
class Ledger:
    """Tables that are filled from a log, and the file of a client who put samples there."""

    root: Path
    job: Job = ARCHIVE
    zid: str = ZID  # of the client
    _files: dict[str, pa.Table] = field(default_factory=dict)  # which never change
    _places: dict[int, tuple[int, int]] = field(default_factory=dict)
    _read_len: int = 0

    @property
    def log(self) -> Path:
        """The directory of the log."""
        return self.root / "log"

    @property
    def acknowledged(self) -> Path:
        """The file of the client."""
        return self.root / "acknowledged.txt"

    @property
    def tables(self) -> list[Path]:
        """The directories of the tables."""
        return [self.root / name for name in self.job.tables]

    def ends(self, table: Path) -> dict[int, int]:
        """By shard, up to where a table has the log; a driver makes it."""
        if not DeltaTable.is_deltatable(str(table)):
            return {}
        return open_table(table).ends(self.job.consumer, LogReader(self.log).log_id)

    def places(self) -> dict[int, tuple[int, int]]:
        """Where acknowledged samples are, by their numbers."""
        with self.acknowledged.open("rb") as file:
            file.seek(self._read_len)
            for line in file:
                if not line.endswith(b"\n"):  # being written
                    break
                self._read_len += len(line)
                number, shard, seq = map(int, line.split())
                self._places[number] = (shard, seq)
        return self._places

    def has_all(self) -> bool:
        """Whether all tables are as far as what was acknowledged."""
        last: dict[int, int] = {}
        for shard, seq in self.places().values():
            last[shard] = max(seq, last.get(shard, 0))
        found = [self.ends(table) for table in self.tables]
        return all(seq < ends.get(shard, 0) for ends in found for shard, seq in last.items())

    def problems(self, *, whole: bool) -> list[str]:
        """What is wrong: rows missing or double, or acknowledged samples that are not there.

        Args:
            whole: Everything that was put was acknowledged, and is to be there.
        """
        found = []
        for table in self.tables:
            ends, rows = self._state(table)
            wrong = self._wrong_samples(rows, ends, whole=whole)
            if table == self.tables[0]:
                wrong = _wrong_rows(rows, ends) + wrong
            found += [f"{table.name}: {text}" for text in wrong[:5]]
        return found

    def _state(self, table: Path) -> tuple[dict[int, int], pa.Table]:
        """Up to where a table has the log, and its rows, of one moment."""
        while True:
            ends = self.ends(table)
            rows = self._rows(table)
            if self.ends(table) == ends:
                return ends, rows

    def _wrong_samples(self, rows: pa.Table, ends: dict[int, int], *, whole: bool) -> list[str]:
        acknowledged = self.places()
        found = []
        ours = rows.filter(pc.is_valid(rows["id"]))
        places = zip(ours["shard"].to_pylist(), ours["seq"].to_pylist(), strict=True)
        there = dict(zip(ours["id"].to_pylist(), places, strict=True))
        if len(there) != len(ours):
            found.append(f"{len(ours)} rows are of {len(there)} samples")
        if whole and there.keys() != acknowledged.keys():
            text = f"{len(acknowledged)} samples were acknowledged, {len(there)} are there"
            found.append(f"{text}; {sorted(there.keys() ^ acknowledged.keys())[:5]} differ")
        for number, (shard, seq) in acknowledged.items():
            if seq < ends.get(shard, 0) and there.get(number) != (shard, seq):
                text = f"sample {number} was acknowledged at {shard}, {seq}"
                found.append(f"{text} and is at {there.get(number)}")
        return found

    def rows_count(self) -> int:
        """Of the first table, with those of nobody."""
        return len(self._rows(self.tables[0]))

    def _rows(self, table: Path) -> pa.Table:
        is_there = DeltaTable.is_deltatable(str(table))
        uris = DeltaTable(str(table)).file_uris() if is_there else []
        paths = [_path(uri) for uri in uris]
        for path in paths:
            if path not in self._files:
                self._files[path] = _numbers(path, self.zid)
        return pa.concat_tables([_NUMBERS.empty_table(), *(self._files[path] for path in paths)])

    def window(self, since_s: float) -> str:
        """Where a query died, by what it left; files are its own if they are not older."""
        checkpoint = next(self.root.glob(self.job.checkpoint), self.root)
        batch = _last(checkpoint / "offsets")
        if batch is None or batch == _last(checkpoint / "commits"):
            return BEFORE_OFFSETS
        told = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])
        wanted = {int(shard): end for shard, end in told["s"].items()}
        window = AFTER_COMMIT
        for table in self.tables:
            ends = self.ends(table)
            if all(ends.get(shard, 0) >= end for shard, end in wanted.items()):
                continue
            window = AFTER_OFFSETS
            if _has_files(table, ends, since_s):
                return IN_SINK
        return window


def _wrong_rows(rows: pa.Table, ends: dict[int, int]) -> list[str]:
    """Of a table that is to have all rows of the log, whoever put them."""
    found = []
    for shard, end in ends.items():
        seqs = rows.filter(pc.equal(rows["shard"], shard))["seq"]
        distinct_count = pc.count_distinct(seqs).as_py()
        if not (len(seqs) == distinct_count == end) or pc.max(seqs).as_py() != end - 1:
            found.append(f"shard {shard}: {len(seqs)} rows, {distinct_count} distinct of {end}")
    return found


def _has_files(table: Path, ends: dict[int, int], since_s: float) -> bool:
    """Whether there are files, whole or not, of rows that a table does not have."""
    for file in table.glob("date=*/*.parquet*"):
        shard, _, end, *_ = file.name.removeprefix(".").split("-")
        if int(end) > ends.get(int(shard), 0) and file.stat().st_mtime >= since_s:
            return True
    return False


def _numbers(path: str, zid: str) -> pa.Table:
    table = pq.read_table(path, columns=["shard", "seq", "sn", "zid"], partitioning=None)
    ids = pc.if_else(pc.equal(table["zid"], zid), table["sn"], None)
    return pa.table([table["shard"], table["seq"], ids], schema=_NUMBERS)


def _last(directory: Path) -> int | None:
    numbers = [int(file.name) for file in directory.glob("*") if file.name.isdecimal()]
    return max(numbers, default=None)


def _path(uri: str) -> str:
    return unquote(urlsplit(uri).path) if "://" in uri else uri
