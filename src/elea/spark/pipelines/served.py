"""PipelineServer: what a pipeline is and how it does, as keys of the data space.

@elea/pipeline/NAME             token: it runs
@elea/pipeline/NAME/status      what `elea pipeline status --json` tells
@elea/pipeline/NAME/definition  its tables: kinds, keys, what each is made of, what it publishes
@elea/pipeline/NAME/batches     the last batches of each table, with the lag after each
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from elea.encoding import Encoding
from elea.errors import ClosedError, EleaError
from elea.json5 import Json
from elea.session.handlers import Callback
from elea.spark.options import Options
from elea.spark.pipelines.definition import Archive, Decoded, Gold, Pipeline, Stream, Table, View
from elea.spark.pipelines.graph import sources_of
from elea.spark.pipelines.queries import Handle, Job
from elea.spark.pipelines.state import Status

if TYPE_CHECKING:
    from elea.session.query import Query
    from elea.session.session import Session

PREFIX: Final = "@elea/pipeline"
BATCHES_COUNT: Final = 120  # of each table
_LOOK_S: Final = 1.0
_CHUNK: Final = re.compile(r"[^A-Za-z0-9_.-]")


class PipelineServer:
    """Serves one pipeline until `stop`.

    Args:
        session: Where.
        pipeline: What it is.
        status: How it does; None while nothing is known. Called once a second, and by queries.
    """

    def __init__(
        self, session: Session, pipeline: Pipeline, status: Callable[[], Status | None]
    ) -> None:
        self._pipeline = pipeline
        self._status = status
        self._history = History()
        self._stopping = threading.Event()
        self.root = f"{PREFIX}/{chunk_of(pipeline.name)}"
        self._queryable = session.declare_queryable(
            f"{self.root}/*", Callback(self._asked, indirect=False)
        )
        self._token = session.liveliness().declare_token(self.root)
        self._thread = threading.Thread(target=self._look, name="elea-pipeline-told", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._stopping.set()
        self._thread.join()
        for declared in (self._token, self._queryable):
            with suppress(ClosedError):  # the session went first
                declared.undeclare()

    def _look(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            with suppress(EleaError, OSError):  # the file is being replaced, or is not there yet
                status = self._status()
                if status is not None:
                    self._history.note(status)

    def _asked(self, query: Query) -> None:
        with query:
            asked = str(query.key_expr).rpartition("/")[2]
            parts: dict[str, Callable[[], Json]] = {
                "status": self._told,
                "definition": lambda: definition_of(self._pipeline),
                "batches": self._history.told,
            }
            for name, tell in parts.items():
                if asked in (name, "*", "**"):
                    try:
                        octets = json.dumps(tell())
                    except (EleaError, OSError) as error:
                        query.reply_err(str(error))
                        continue
                    query.reply(f"{self.root}/{name}", octets, encoding=Encoding.APPLICATION_JSON)

    def _told(self) -> Json:
        status = self._status()
        if status is None:
            return {"pipeline": self._pipeline.name, "state": "starting", "tables": {}}
        found: dict[str, Json] = asdict(status)
        return found


class History:
    """The last batches of each table. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[object, int]] = {}
        self._batches: dict[str, deque[list[Json]]] = {}

    def note(self, status: Status) -> None:
        """Keep what is new of each table: the time, rows, seconds, rows and seconds behind."""
        with self._lock:
            for name, one in status.tables.items():
                state = one.batch, one.rows
                if self._known.get(name) == state:
                    continue
                self._known[name] = state
                kept = self._batches.setdefault(name, deque(maxlen=BATCHES_COUNT))
                at_s = round(status.at_s, 3)
                kept.append([at_s, one.batch, one.rows, one.batch_s, one.lag, one.lag_s])

    def told(self) -> Json:
        """By table, in the order of time."""
        with self._lock:
            batches: dict[str, Json] = {name: [*one] for name, one in self._batches.items()}
        return {
            "columns": ["time", "batch", "rows", "seconds", "behind", "behind_s"],
            "tables": batches,
        }


def definition_of(pipeline: Pipeline) -> dict[str, Json]:
    """The graph of a pipeline: which table is made of which, and of which keys."""
    return {
        "pipeline": pipeline.name,
        "log": pipeline.log,
        "storage": pipeline.storage,
        "format": pipeline.format,
        "trigger_s": pipeline.trigger_s,
        "tables": [_table(pipeline, one) for one in pipeline.tables],
    }


def _table(pipeline: Pipeline, table: Table) -> dict[str, Json]:
    told: dict[str, Json] = {
        "name": table.name,
        "kind": table.kind if isinstance(table, Gold) else type(table).__name__.lower(),
        "level": _level(table),
        "from": [*sources_of(pipeline, table)],
        "keys": [],
    }
    if isinstance(table, Archive):
        told["keys"] = list(table.key_exprs or ("**",))
    if isinstance(table, Decoded):
        told["keys"] = list(table.key_exprs)
        told["key"] = table.key
    if isinstance(table, View):
        told["sql"] = table.sql
    if table.publish is not None:
        told["publish"] = {"key": table.publish.key, "encoding": table.publish.encoding}
    return told


def _level(table: Table) -> str:
    match table:
        case Archive():
            return "bronze"
        case Decoded():
            return "silver"
        case Gold() | View() | Stream():
            return "gold"


def chunk_of(name: str) -> str:
    """The name of a pipeline as one chunk of a key."""
    return _CHUNK.sub("_", name) or "_"


def job_of(pipeline: Pipeline, status: Callable[[], Status]) -> Job | None:
    """A job that serves what a pipeline tells; None: it reaches no data space."""
    if not pipeline.reach():
        return None

    def start() -> Handle:
        from elea.session.session import open
        from elea.spark.sessions import config_of

        session = open(config_of(Options(pipeline.reach()).sink().reach))
        try:
            return _Served(session, PipelineServer(session, pipeline, status))
        except BaseException:
            session.close()
            raise

    return Job("told", (), start)


class _Served:
    """A session that serves."""

    def __init__(self, session: Session, server: PipelineServer) -> None:
        self._session = session
        self._server = server

    def is_active(self) -> bool:
        """As `Handle`."""
        return not self._session.is_closed()

    def error(self) -> str | None:
        """As `Handle`."""
        return "the session was closed"

    def progress(self) -> Mapping[str, Any]:
        """As `Handle`."""
        return {}

    def stop(self) -> None:
        """As `Handle`."""
        self._server.stop()
        self._session.close()
