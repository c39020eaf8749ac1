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

CONSUMER = "archive"
BEFORE_OFFSETS = "before the offset log"
AFTER_OFFSETS = "after the offset log"
IN_SINK = "inside the sink"
AFTER_COMMIT = "after the table commit"
WINDOWS = (BEFORE_OFFSETS, AFTER_OFFSETS, IN_SINK, AFTER_COMMIT)

_NUMBERS = pa.schema([("shard", pa.int32()), ("seq", pa.int64()), ("id", pa.int64())])


@dataclass(slots=True)
class Ledger:
    """A table that is filled from a log, and the file of a client who put samples there."""

    log: Path
    table: Path
    acknowledged: Path
    zid: str = ZID  # of the client
    _files: dict[str, pa.Table] = field(default_factory=dict)  # which never change
    _places: dict[int, tuple[int, int]] = field(default_factory=dict)
    _read_len: int = 0

    def ends(self) -> dict[int, int]:
        """By shard, how many rows the table has; a driver makes it."""
        if not DeltaTable.is_deltatable(str(self.table)):
            return {}
        return open_table(self.table).ends(CONSUMER, LogReader(self.log).log_id)

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
        """Whether the table is as far as what was acknowledged."""
        ends = self.ends()
        return all(seq < ends.get(shard, 0) for shard, seq in self.places().values())

    def problems(self, *, whole: bool) -> list[str]:
        """What is wrong: rows missing or double, or acknowledged samples that are not there.

        Args:
            whole: Everything that was put was acknowledged, and is to be there.
        """
        acknowledged = self.places()
        ends = self.ends()
        rows = self._rows()
        found = []
        for shard, end in ends.items():
            seqs = rows.filter(pc.equal(rows["shard"], shard))["seq"]
            distinct_count = pc.count_distinct(seqs).as_py()
            if not (len(seqs) == distinct_count == end) or pc.max(seqs).as_py() != end - 1:
                found.append(f"shard {shard}: {len(seqs)} rows, {distinct_count} distinct of {end}")
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
        return found[:5]

    def rows_count(self) -> int:
        """Of the table, with those of nobody."""
        return len(self._rows())

    def _rows(self) -> pa.Table:
        is_there = DeltaTable.is_deltatable(str(self.table))
        uris = DeltaTable(str(self.table)).file_uris() if is_there else []
        paths = [_path(uri) for uri in uris]
        for path in paths:
            if path not in self._files:
                self._files[path] = _numbers(path, self.zid)
        return pa.concat_tables([_NUMBERS.empty_table(), *(self._files[path] for path in paths)])

    def window(self, checkpoint: Path, since_s: float) -> str:
        """Where a query died, by what it left; files are its own if they are not older."""
        batch = _last(checkpoint / "offsets")
        if batch is None or batch == _last(checkpoint / "commits"):
            return BEFORE_OFFSETS
        ends = self.ends()
        told = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])
        wanted = {int(shard): end for shard, end in told["s"].items()}
        if all(ends.get(shard, 0) >= end for shard, end in wanted.items()):
            return AFTER_COMMIT
        for file in self.table.glob("date=*/*.parquet*"):
            shard, _, end, *_ = file.name.removeprefix(".").split("-")
            is_new = int(end) > ends.get(int(shard), 0)
            if is_new and file.stat().st_mtime >= since_s:
                return IN_SINK
        return AFTER_OFFSETS


def _numbers(path: str, zid: str) -> pa.Table:
    table = pq.read_table(path, columns=["shard", "seq", "sn", "zid"], partitioning=None)
    ids = pc.if_else(pc.equal(table["zid"], zid), table["sn"], None)
    return pa.table([table["shard"], table["seq"], ids], schema=_NUMBERS)


def _last(directory: Path) -> int | None:
    numbers = [int(file.name) for file in directory.glob("*") if file.name.isdecimal()]
    return max(numbers, default=None)


def _path(uri: str) -> str:
    return unquote(urlsplit(uri).path) if "://" in uri else uri
