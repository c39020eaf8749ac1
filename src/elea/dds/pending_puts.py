"""What a route from DDS is about to put: runs of plain samples, and single ones."""

from __future__ import annotations

from dataclasses import dataclass

from elea.dds.qos import ReaderClass
from elea.dds.stamps import WriterClock
from elea.session.publisher import Origin


@dataclass(slots=True)
class Source:
    """One DDS writer of the route."""

    guid: bytes
    reader_class: ReaderClass
    clock: WriterClock
    origin: Origin | None
    is_durable: bool


@dataclass(slots=True)
class Run:
    """Samples of one writer that are put with nothing beside their stamps."""

    source: Source
    payloads: list[bytes]
    times: list[int]
    start: int = 0


@dataclass(slots=True)
class Single:
    """A sample with an attachment, or a deletion."""

    source: Source
    payload: bytes | None  # None: a deletion
    time: int
    attachment: bytes
    instance: str = ""  # the key of the instance, if each has its own
