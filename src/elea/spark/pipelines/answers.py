"""Answers: rows of published tables as ordinary keys, for who asks in place of subscribing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from elea.spark.options import Options
from elea.spark.pipelines.definition import Gold, Pipeline, View
from elea.spark.pipelines.gold import KINDS, Standing
from elea.spark.pipelines.publish import ENCODINGS, payload
from elea.spark.pipelines.queries import Handle, Job

if TYPE_CHECKING:
    from elea.session.session import Session


def job_of(pipeline: Pipeline) -> Job | None:
    """A job that answers queries with the last row of each key; None: nothing is published."""
    found = published(pipeline)
    if not found:
        return None

    def start() -> Handle:
        # Late: they need a session, and who only lands tables does not.
        from elea.session.session import open
        from elea.spark.sessions import config_of

        session = open(config_of(Options(pipeline.reach()).sink().reach))
        try:
            for one in found:
                one.declare(session)
        except BaseException:
            session.close()
            raise
        return _Answers(session)

    return Job("answers", (), start)


def published(pipeline: Pipeline) -> list[Standing]:
    """The tables that are published and kept."""
    found = []
    for table in pipeline.tables:
        publish = table.publish
        if publish is None or not isinstance(table, (Gold, View)):
            continue
        encoding = publish.encoding

        def octets(row: Mapping[str, object], encoding: str = encoding) -> bytes:
            return payload(row, encoding)

        time = KINDS[table.kind].time if isinstance(table, Gold) else None
        path = pipeline.path(table.name)
        found.append(
            Standing(path, publish.key, time=time, payload=octets, encoding=ENCODINGS[encoding])
        )
    return found


class _Answers:
    """A session that answers."""

    def __init__(self, session: Session) -> None:
        self._session = session

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
        self._session.close()
