"""The values handed to applications: samples, replies, and nodes found by scouting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from elea.encoding import Encoding
from elea.ids import EntityGlobalId, WhatAmI, ZenohId
from elea.lazy_sample import Sample as Sample
from elea.provenance import InterceptionPoint as InterceptionPoint
from elea.provenance import SampleKind as SampleKind
from elea.provenance import SourceInfo as SourceInfo
from elea.provenance import TimestampContext as TimestampContext
from elea.provenance import TimestampInstrumentation as TimestampInstrumentation
from elea.provenance import TimestampInstrumentationBuilder as TimestampInstrumentationBuilder
from elea.provenance import TimestampStack as TimestampStack
from elea.provenance import TimestampStackRecord as TimestampStackRecord
from elea.records import dataclass, field
from elea.zbytes import ZBytes

_EMPTY: Final = ZBytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyError:
    """What a queryable answers instead of a sample when it cannot serve a query."""

    payload: ZBytes = _EMPTY
    encoding: Encoding = Encoding.ZENOH_BYTES
    timestamp_stack: TimestampStack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer to a query."""

    result: Sample | ReplyError
    replier_id: EntityGlobalId | None = None

    @property
    def ok(self) -> Sample | None:
        """The sample, or None if the reply is an error."""
        return self.result if isinstance(self.result, Sample) else None

    @property
    def err(self) -> ReplyError | None:
        """The error, or None if the reply is a sample."""
        return self.result if isinstance(self.result, ReplyError) else None


@dataclass(frozen=True, slots=True, init=False)
class Hello:
    """A node found by scouting: its role, its identity and where to reach it."""

    whatami: WhatAmI
    zid: ZenohId
    locators: list[str] = field(hash=False)  # as they were told, unchecked

    def __init__(self, *, whatami: WhatAmI, zid: ZenohId, locators: Iterable[str] = ()) -> None:
        object.__setattr__(self, "whatami", whatami)
        object.__setattr__(self, "zid", zid)
        object.__setattr__(self, "locators", list(locators))

    def __str__(self) -> str:
        role = str(self.whatami).capitalize()
        return (
            f"Hello {{ zid: {self.zid}, whatami: {role}, locators: [{', '.join(self.locators)}] }}"
        )
