"""Eclipse Zenoh clients ask tables in SQL, through a router of Elea; access rules hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.interop.ends import ECLIPSE, ELEA, _replies, eventually, free_endpoint, session

from elea.store.sql.door import SqlDoor
from elea.store.sql.settings import SqlSettings

line = pytest.mark.line


@contextmanager
def asker(lake: Path, **config: Any) -> Iterator[Any]:
    """An Eclipse client of a router that has a table, and that answers what is below `open`."""
    write_deltalake(str(lake / "imu"), pa.table({"robot": ["a", "b"], "temp": [20.0, 80.0]}))
    endpoint = free_endpoint()
    with session(ELEA, "router", listen=endpoint, **config) as router:
        door = SqlDoor(router, SqlSettings.read({"tables": str(lake)}))
        other = router.declare_queryable("open/**", lambda query: query.reply("open/a", b"1"))
        try:
            with session(ECLIPSE, "client", connect=endpoint) as client:
                assert eventually(lambda: _replies(client, "open/a"))
                yield client
        finally:
            other.undeclare()
            door.stop()


@line("H7")
def test_an_eclipse_client_asks_in_sql(tmp_path: Path) -> None:
    with asker(tmp_path) as client:
        found = _replies(client, "@sql/lake/**?q=select * from imu order by temp")
        values = [json.loads(one.ok.payload.to_bytes()) for one in found if one.ok is not None]
        assert sorted(values, key=str) == [
            {"robot": "a", "temp": 20.0},
            {"robot": "b", "temp": 80.0},
        ]
        [reply] = _replies(client, "@sql/lake?q=drop table imu")
        assert json.loads(reply.err.payload.to_bytes())["error"] == "invalid"


@line("H7")
def test_a_client_that_may_not_ask_gets_nothing(tmp_path: Path) -> None:
    rules = {
        "enabled": True,
        "default_permission": "allow",
        "rules": [
            {
                "id": "no-sql",
                "permission": "deny",
                "messages": ["query"],
                "flows": ["ingress"],
                "key_exprs": ["@sql/**"],
            }
        ],
        "subjects": [{"id": "all"}],
        "policies": [{"rules": ["no-sql"], "subjects": ["all"]}],
    }
    with asker(tmp_path, more={"access_control": rules}) as client:
        assert _replies(client, "@sql/lake?q=select 1") == []
        assert _replies(client, "open/a")
