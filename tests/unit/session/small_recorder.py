"""A recorder as sessions see it, small and over a real log: takes samples, answers when they are
on disk, stores each (zid, eid, sn) once. It can be told to misbehave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import elea
from elea.errors import StoreError
from elea.ids import ZenohId
from elea.provenance import SampleKind
from elea.query import ReplyKeyExpr
from elea.sample import Sample
from elea.session.ack import Entry, entry_digest
from elea.session.convert import octets_or_none, wire_encoding, wire_source, wire_stamp
from elea.session.handlers import Callback
from elea.session.query import Query
from elea.session.receipts import proof_of
from elea.session.session import Session
from elea.session.spool_batch import read_batch
from elea.session.spool_log import entry_of, row_of
from elea.sim.world import World
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.timestamp import Timestamp
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.shared_extensions import SourceRef

LISTEN = {"mode": "router", "listen": {"endpoints": ["tcp/0.0.0.0:7447"]}}
CONNECT = {"mode": "client", "connect": {"endpoints": ["tcp/recorder:7447"]}}

Identity = tuple[str, int, int]


class Row(NamedTuple):
    key: str
    kind: str
    payload: str
    identity: Identity
    time: int


class SmallRecorder:
    """Records a key expression of a session.

    Attributes:
        refusal: What it answers in place of storing, if anything.
        refusals_count: How often; for ever if negative.
        is_deaf: Whether samples do not reach it, only questions do.
        lost_count: So many answers do not reach who asked.
        receipts: So many more receipts are sent to who wants them.
        questions: The parameters of what it was asked, with "+" for those with a sample.
    """

    def __init__(
        self,
        session: Session,
        directory: Path,
        key_expr: str = "fleet/**",
        name: str = "fleet",
        *,
        takes_batches: bool = True,
    ) -> None:
        self.name = name
        self.directory = directory
        self.refusal: str | None = None
        self.refusals_count = -1
        self.is_deaf = False
        self.lost_count = 0
        self.receipts = 0
        self.questions: list[str] = []
        self._wanted: dict[int, bytes] = {}  # the nonces of entities that want receipts
        self._session = session
        self._log = Log(directory)
        self._reader = LogReader(directory)
        self._known = {
            (*row.identity, row.time): number for number, row in enumerate(stored(directory))
        }  # one shard: a row's number is its place
        self._digests: dict[tuple[str, int, int, int], bytes] = {}
        self._subscriber = session.declare_subscriber(
            key_expr, Callback(self._on_sample, indirect=False)
        )
        self._queryable = session.declare_queryable(
            f"@elea/log/{name}/put/{key_expr}", Callback(self._on_query, indirect=False)
        )
        self._batches = session.declare_queryable(
            f"@elea/log/{name}/puts/{key_expr if takes_batches else 'none'}",
            Callback(self._on_batch, indirect=False),
        )
        self._token = session.liveliness().declare_token(f"@elea/log/{name}")

    def close(self) -> None:
        for part in (self._token, self._batches, self._queryable, self._subscriber):
            part.undeclare()
        self._log.close()

    def crash(self) -> None:
        """Its session is gone already; the file lock goes with the process."""
        self._log.close()

    def _store(self, entry: Entry) -> tuple[int, bool]:
        source = entry.body.source
        assert source is not None
        assert entry.body.timestamp is not None
        identity = (str(ZenohId(source.zid)), source.eid, source.sn, entry.body.timestamp.time)
        self._digests[identity] = entry_digest(entry)
        if identity in self._known:
            return self._known[identity], True
        [(first, _)] = self._log.store(row_of(entry)).ranges.values()
        self._known[identity] = first
        return first, False

    def _receipt(self, source: SourceRef, digest: bytes, number: int | None) -> None:
        if source.eid in self._wanted and self.receipts:
            self.receipts -= 1
            log = str(self._reader.log_id)
            said = {"log": log, "name": self.name}
            proof = proof_of(self._wanted[source.eid], digest, log, 0, number)
            rows = [[source.eid, source.sn, 0, number, proof]]
            key = f"@elea/log/{self.name}/stored/{ZenohId(source.zid)}"
            self._session.put(key, json.dumps({**said, "stored": rows}))

    def _on_sample(self, sample: Sample) -> None:
        if self.is_deaf or sample.source_info is None:
            return
        body: Put | Del
        stamp, source = wire_stamp(sample.timestamp), wire_source(sample.source_info)
        assert source is not None
        attachment = octets_or_none(sample.attachment)
        if sample.kind is SampleKind.DELETE:
            body = Del(stamp, attachment, source)
        else:
            encoding = wire_encoding(sample.encoding)
            body = Put(sample.payload.to_bytes(), stamp, encoding, attachment, source)
        entry = Entry(str(sample.key_expr), body, 0, published=True)
        if self.refusal is not None:
            self._receipt(source, entry_digest(entry), None)
            return
        number, _ = self._store(entry)
        self._receipt(source, entry_digest(entry), number)

    def _on_query(self, query: Query) -> None:
        with query:
            assert query.accepts_replies() is ReplyKeyExpr.MATCHING_QUERY
            has_sample = query.payload is not None or query.parameters.get("kind") == "delete"
            self.questions.append(("+" if has_sample else "") + str(query.parameters))
            if self.refusal is not None and self.refusals_count:
                self.refusals_count -= 1
                self._refuse(query, self.refusal)
                return
            key = str(query.key_expr).partition("/put/")[2]
            parameters = dict(pair.split("=") for pair in str(query.parameters).split(";"))
            zid, eid = parameters["zid"], int(parameters["eid"])
            stamp = wire_stamp(Timestamp.parse(parameters["ts"]))
            assert stamp is not None
            identity = (zid, eid, int(parameters["sn"]), stamp.time)
            if parameters.get("receipts") == "true" and eid not in self._wanted:
                self._wanted[eid] = bytes.fromhex(parameters["nonce"])
                if identity in self._digests:
                    source = SourceRef(ZenohId.parse(zid).to_bytes(), eid, identity[2])
                    self._receipt(source, self._digests[identity], self._known[identity])
            if not has_sample:
                if identity in self._known:
                    self._answer(query, key, self._known[identity], duplicate=False)
                else:
                    self._refuse(query, "unknown")
                return
            assert parameters["publish"] == "false"
            source = SourceRef(ZenohId.parse(zid).to_bytes(), eid, identity[2])
            attachment = octets_or_none(query.attachment)
            body: Put | Del = Del(stamp, attachment, source)
            if query.payload is not None:
                encoding = wire_encoding(query.encoding) if query.encoding else None
                body = Put(query.payload.to_bytes(), stamp, encoding, attachment, source)
            try:
                number, duplicate = self._store(Entry(key, body, 0, published=True))
            except StoreError as error:
                self._refuse(query, "full", str(error))
                return
            self._answer(query, key, number, duplicate=duplicate)

    def _on_batch(self, query: Query) -> None:
        with query:
            self.questions.append("+batch")
            if self.refusal is not None and self.refusals_count:
                self.refusals_count -= 1
                self._refuse(query, self.refusal)
                return
            key = str(query.key_expr).partition("/puts/")[2]
            assert query.payload is not None
            places = []
            for one in read_batch(query.payload.to_bytes()):
                stamp = wire_stamp(one.timestamp)
                source = SourceRef(ZenohId.parse(one.zid).to_bytes(), one.eid, one.sn)
                body: Put | Del = Del(stamp, one.attachment, source)
                if not one.is_delete:
                    body = Put(
                        *(one.payload, stamp, wire_encoding(one.encoding)), one.attachment, source
                    )
                number, duplicate = self._store(Entry(key, body, 0, published=True))
                places.append([0, number, duplicate])
            if self.lost_count:
                self.lost_count -= 1
                return
            said = {"log": str(self._reader.log_id), "name": self.name, "stored": places}
            query.reply(f"@elea/log/{self.name}/puts/{key}", json.dumps(said))

    def _answer(self, query: Query, key: str, number: int, *, duplicate: bool) -> None:
        if self.lost_count:
            self.lost_count -= 1
            return
        said = {"log": str(self._reader.log_id), "name": self.name, "shard": 0, "seq": number}
        query.reply(
            f"@elea/log/{self.name}/put/{key}", json.dumps({**said, "duplicate": duplicate})
        )

    def _refuse(self, query: Query, error: str, detail: str = "as the test wants") -> None:
        query.reply_err(json.dumps({"error": error, "detail": detail}))


def stored(directory: Path) -> list[Row]:
    """What is on disk."""
    rows: list[Row] = []
    for batch in LogReader(directory).read(0, 0):
        for row in batch.to_pylist():
            entry = entry_of(row)
            source, stamp = entry.body.source, entry.body.timestamp
            assert source is not None
            assert stamp is not None
            payload = (
                entry.body.payload.decode(errors="replace") if isinstance(entry.body, Put) else ""
            )
            identity = (str(ZenohId(source.zid)), source.eid, source.sn)
            kind = "put" if isinstance(entry.body, Put) else "delete"
            rows.append(Row(entry.key, kind, payload, identity, stamp.time))
    return rows


class Scene:
    """A recorder's process, and that of who puts."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.directory = directory
        with world.process("recorder"):
            self.node = elea.open(LISTEN)
        with world.process("robot"):
            self.session = elea.open(CONNECT)

    def record(self, key_expr: str = "fleet/**", *, takes_batches: bool = True) -> SmallRecorder:
        self.world.sleep(0.2)  # what is on its way gets there
        recorder = SmallRecorder(self.node, self.directory, key_expr, takes_batches=takes_batches)
        self.world.sleep(0.2)  # until everybody knows
        return recorder
