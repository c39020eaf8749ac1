"""Spark's side of the data space with Eclipse nodes: logs served to them, samples through them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zenoh
from tests.interop.ends import ECLIPSE, ELEA, WAIT_S, eventually, free_endpoint, session
from tests.unit.spark.logs import fill, log_at
from tests.unit.spark.test_sink import batch, sink
from tests.unit.store.log.rows import numbers_of

from elea.spark.options import Options
from elea.spark.rows import place_of, read_range
from elea.spark.sessions import close_all
from elea.spark.sink import Sent, send
from elea.store.logserver import LogServer


def ask(client: Any, selector: str) -> list[Any]:
    replies: list[Any] = []
    client.get(selector, replies.append, consolidation=zenoh.ConsolidationMode.NONE, timeout=WAIT_S)
    assert eventually(lambda: replies and b'"last"' in _attachment(replies[-1]))
    return replies


def _attachment(reply: Any) -> bytes:
    if reply.ok is None or reply.ok.attachment is None:
        return b'"last"'  # it is the only one
    return bytes(reply.ok.attachment.to_bytes())


@pytest.mark.line("R174")
def test_an_eclipse_client_reads_a_log(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    with log_at(tmp_path, 1) as log, session(ELEA, "router", listen=endpoint) as node:
        fill(log, 0, 300)
        server = LogServer(node, "fleet", tmp_path, log)
        with session(ECLIPSE, "client", connect=endpoint) as client:
            [info] = ask(client, "@elea/log/fleet/info")
            assert json.loads(info.ok.payload.to_string())["shards"] == [{"first": 0, "end": 300}]
            batches: list[pa.RecordBatch] = []
            for reply in ask(client, "@elea/log/fleet/read/0?lo=25;hi=275"):
                batches += pa.ipc.open_stream(reply.ok.payload.to_bytes())
            assert numbers_of(batches) == [*range(25, 275)]
        server.stop()


@pytest.mark.line("R175")
def test_rows_go_through_an_eclipse_router_both_ways(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    got: list[Any] = []
    with session(ECLIPSE, "router", listen=endpoint) as router:
        router.declare_subscriber("out/**", got.append)
        assert send(sink(endpoint), iter([batch(0, 50)]), "query/0", 3) == Sent(45, 5)
        assert eventually(lambda: len(got) == 50)
        keys = [str(one.key_expr) for one in got]
        assert keys == [f"out/{number % 3}" for number in range(50)]
        identities = {(one.source_info.source_id.eid, one.source_info.source_sn) for one in got}
        assert len(identities) == 50  # by content: a retry has the same ones in any order
        with log_at(tmp_path, 1) as log, session(ELEA, "client", connect=endpoint) as node:
            fill(log, 0, 300)
            server = LogServer(node, "fleet", tmp_path, log)
            given = {"log": "zenoh:fleet", "connect": endpoint}
            source = Options(given).stream().source
            log_id = place_of(source).log_id
            found = list(read_range(source, log_id, 0, 0, 300))
            assert [row for one in found for row in one["seq"].to_pylist()] == [*range(300)]
            server.stop()
        close_all()
