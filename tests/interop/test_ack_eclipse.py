"""Acknowledged puts of Elea, answered by a recorder that is written with Eclipse Zenoh."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    eclipse_router,
    eventually,
    session,
)

from elea.session.ack import StoredAck
from elea.timestamp import Timestamp

LOG = uuid.UUID(int=7)
Kept = tuple[str, str, bytes, str, bytes | None, int]


class EclipseRecorder:
    """Keeps samples in a list, and answers for them."""

    def __init__(self, opened: Any) -> None:
        self.rows: list[Kept] = []
        self.is_deaf = False
        self._places: dict[tuple[str, str, str], int] = {}
        self._subscriber = opened.declare_subscriber("fleet/**", self._on_sample)
        self._queryable = opened.declare_queryable("@elea/log/e/put/fleet/**", self._on_query)

    def _keep(self, identity: tuple[str, str, str], row: Kept) -> int:
        if identity not in self._places:
            self._places[identity] = len(self.rows)
            self.rows.append(row)
        return self._places[identity]

    def _on_sample(self, sample: Any) -> None:
        if self.is_deaf:
            return
        source = sample.source_info
        identity = (str(source.source_id.zid), str(source.source_id.eid), str(source.source_sn))
        attachment = None if sample.attachment is None else bytes(sample.attachment)
        kind = str(sample.kind).rpartition(".")[2].lower()
        time = int(sample.timestamp.get_time().timestamp())
        head = (str(sample.key_expr), kind, bytes(sample.payload), str(sample.encoding))
        self._keep(identity, (*head, attachment, time))

    def _on_query(self, query: Any) -> None:
        with query:
            asked = dict(pair.split("=") for pair in str(query.parameters).split(";"))
            identity = (asked["zid"], asked["eid"], asked["sn"])
            key = str(query.key_expr).partition("/put/")[2]
            kind = asked.get("kind", "put")
            if query.payload is not None or kind == "delete":
                payload = b"" if query.payload is None else bytes(query.payload)
                encoding = "zenoh/bytes" if query.encoding is None else str(query.encoding)
                attachment = None if query.attachment is None else bytes(query.attachment)
                time = int(Timestamp.parse(asked["ts"]).get_time().timestamp())
                self._keep(identity, (key, kind, payload, encoding, attachment, time))
            if identity not in self._places:
                query.reply_err(json.dumps({"error": "unknown", "detail": ""}))
                return
            said = {"log": str(LOG), "name": "e", "shard": 0, "seq": self._places[identity]}
            query.reply(f"@elea/log/e/put/{key}", json.dumps(said))


@pytest.mark.line("K30")
@pytest.mark.parametrize("deaf", [False, True], ids=["hears", "is given"])
def test_a_recorder_of_eclipse_acknowledges(deaf: bool) -> None:
    with (
        eclipse_router() as (_, endpoint),
        session(ECLIPSE, "client", connect=endpoint) as theirs,
        session(ELEA, "client", connect=endpoint) as ours,
    ):
        recorder = EclipseRecorder(theirs)
        recorder.is_deaf = deaf
        asking = ours.declare_querier("@elea/log/e/put/fleet/1")
        publishing = ours.declare_publisher("fleet/1")
        assert eventually(lambda: asking.matching_status.matching)
        assert eventually(lambda: publishing.matching_status.matching)
        options = {"encoding": "text/plain", "attachment": "x"}
        first = ours.put("fleet/1", "a", ack="stored", timeout=30, **options)
        assert first == StoredAck(LOG, "e", 0, 0)
        assert ours.put("fleet/1", "", ack="stored", timeout=30).seq == 1
        assert ours.delete("fleet/1", ack="stored", timeout=30).seq == 2
        assert [row[:5] for row in recorder.rows] == [
            ("fleet/1", "put", b"a", "text/plain", b"x"),
            ("fleet/1", "put", b"", "zenoh/bytes", None),
            ("fleet/1", "delete", b"", "zenoh/bytes", None),
        ]
        assert len({row[5] > 1_600_000_000 for row in recorder.rows}) == 1
