"""A log with samples of a few keys, and a historian on a session of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from tests.unit.cli.ends import WAIT_S

import elea
from elea.encoding import Encoding
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.limits import Limits
from elea.provenance import SampleKind, SourceInfo
from elea.sample import Sample
from elea.store.historian.historian import Historian
from elea.store.historian.source import LogSource, Source
from elea.store.log.log import Log
from elea.store.log.settings import LogSettings
from elea.store.recorder.rows import batch_of, sample_row
from elea.timestamp import NTP64, Timestamp

CLOCK = ZenohId(b"\x33")
BASE_S = 1_700_000_000  # 2023-11-14T22:13:20Z
ALONE = {
    "mode": "router",
    "listen": {"endpoints": []},
    "scouting": {"multicast": {"enabled": False}},
}


def at(second: float) -> Timestamp:
    """A timestamp so many seconds after the base."""
    return Timestamp(NTP64.from_nanos(BASE_S * 10**9 + round(second * 10**9)), CLOCK)


def text(second: float) -> str:
    """The same in the language of time ranges."""
    return at(second).to_string_rfc3339_lossy().partition("/")[0]


def sample(
    key: str, second: float | None, value: object = None, *, sn: int | None = None
) -> Sample:
    """A put of JSON at a time; without a value, a deletion."""
    source = None
    if sn is not None:
        source = SourceInfo(EntityGlobalId(ZenohId(b"\x44"), EntityId(7)), sn)
    return Sample(
        key_expr=key,
        payload=b"" if value is None else json.dumps(value).encode(),
        kind=SampleKind.DELETE if value is None else SampleKind.PUT,
        encoding=Encoding.ZENOH_BYTES if value is None else Encoding.APPLICATION_JSON,
        timestamp=None if second is None else at(second),
        attachment=None if sn is None else b"attached",
        source_info=source,
    )


def keep(log: Log, samples: Iterable[Sample]) -> None:
    """In one block."""
    found = list(samples)
    times_ns = [
        (BASE_S * 10**9 if one.timestamp is None else one.timestamp.time.as_nanos())
        for one in found
    ]
    log.store(batch_at(found, times_ns))


def batch_at(samples: Iterable[Sample], times_ns: Iterable[int]) -> pa.RecordBatch:
    """Samples as they are recorded, received at these times."""
    pairs = zip(samples, times_ns, strict=True)
    return batch_of([sample_row(one, ns // 1_000) for one, ns in pairs])


def written(
    directory: Path, *blocks: Sequence[Sample], settings: LogSettings | None = None
) -> Path:
    """A log of these blocks."""
    with Log(directory, settings) as log:
        for block in blocks:
            keep(log, block)
    return directory


@contextmanager
def historian(
    session: elea.Session,
    *sources: Source | Path,
    key_exprs: str | list[str] = "**",
    limits: Limits | None = None,
) -> Iterator[Historian]:
    """One that answers."""
    made = Historian(
        session,
        key_exprs,
        [LogSource(one) if isinstance(one, Path) else one for one in sources],
        limits=limits or Limits(),
    )
    try:
        yield made
    finally:
        made.stop()


def replies(session: elea.Session, selector: str) -> list[elea.Sample]:
    """What is answered, in order; an error fails."""
    found = []
    for reply in session.get(selector, timeout=WAIT_S):
        assert reply.ok is not None, reply.err
        found.append(reply.ok)
    return found


def values(session: elea.Session, selector: str) -> list[tuple[str, object]]:
    """Keys and values of what is answered, in order; None for a deletion."""
    return [
        (
            str(one.key_expr),
            None if one.kind is SampleKind.DELETE else json.loads(one.payload.to_string()),
        )
        for one in replies(session, selector)
    ]


def refusal(session: elea.Session, selector: str) -> dict[str, object]:
    """The error that ends an answer."""
    *_, last = list(session.get(selector, timeout=WAIT_S))
    assert last.err is not None
    told = json.loads(last.err.payload.to_string())
    assert isinstance(told, dict)
    return told
