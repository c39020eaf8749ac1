"""A historian with a table: rows that the log has no more, and those that both have, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store.log.rows import numbers_of, rows
from tests.unit.store.tables.made import part_of

import elea
from elea.errors import ConfigError
from elea.store.historian.service import HistorianService
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.tables.table import open_table

ALONE = {"mode": "router", "listen": {"endpoints": []}}
KEPT = LogSettings(segment_len=1, retain_consumed=True, low_water_percent=0)


def test_a_table_has_what_the_log_has_no_more(tmp_path: Path) -> None:
    log_path, table_path = tmp_path / "log", tmp_path / "table"
    table = open_table(table_path, "parquet")
    with Log(log_path, KEPT) as log:
        for first in range(0, 40, 10):
            log.store(rows(first, 10))
        table.commit("archive", [part_of(table, log, 0, 0, 30)])
        log.commit_consumer("archive", {0: 15})
        log.keep_house()
    left = numbers_of(list(LogReader(log_path).read(0, LogReader(log_path).bounds(0).first)))
    assert left == list(range(10, 40))  # 10 to 29 are in both
    section = {"logs": str(log_path), "tables": str(table_path), "key_exprs": "k/**"}
    with elea.open(ALONE) as session:
        service = HistorianService(session, section)
        try:
            replies = list(session.get("k/**?_time=[..]"))
            last = list(session.get("k/0"))
            told = service.status()["historian"]
        finally:
            service.stop()
    samples = [reply.ok for reply in replies if reply.ok is not None]
    assert len(samples) == len(replies)
    found = [int(bytes(sample.payload).split(b":")[0]) for sample in samples]
    assert sorted(found) == list(range(40))
    assert [bytes(reply.ok.payload).split(b":")[0] for reply in last if reply.ok] == [b"39"]
    assert isinstance(told, dict)
    assert told["tables"] == [str(table_path)]


@pytest.mark.parametrize("tables", [3, [4], {}])
def test_what_is_no_table_is_refused(tmp_path: Path, tables: object) -> None:
    section = {"logs": str(tmp_path), "tables": tables}
    with pytest.raises(ConfigError, match="plugins/historian/tables: expected a directory"):
        HistorianService.check(section)  # type: ignore[arg-type]
