"""One subscriber of one device: what it wants, and what waits for it (13)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from elea.decode.layout import Layout
from elea.encoding import Encoding
from elea.limits import Limits
from elea.xrce.declaration_records import (
    PERIODIC_PULL_MODE_ID,
    PERIODIC_PUSH_MODE_ID,
    PULL_MODE_ID,
    PUSH_MODE_ID,
)
from elea.xrce.declarations import Named, Subscriber
from elea.xrce.qualities import Level, Qualities
from elea.xrce.samples.sample import Sample
from elea.xrce.samples.schedule import Schedule
from elea.xrce.samples.store import PULL_SESSIONS_COUNT, Store

LEASES_COUNT: Final = 10  # a pull session lives so long without a Pull
_HOUR_NS: Final = 3_600_000_000_000
_NO_PULLS: Final[dict[int, int | None]] = {}  # shared by all without, and never changed
_PULLED: Final = (PULL_MODE_ID, PERIODIC_PULL_MODE_ID)


@dataclass(slots=True)
class Subscription:
    """A subscriber at work."""

    id: int
    mode: int
    named: Named
    qualities: Qualities
    schedule: Schedule | None = None
    store: Store | None = None  # none if samples are pushed
    pulls: dict[int, int | None] = field(
        default_factory=lambda: _NO_PULLS
    )  # more that each may have
    held: Store | None = None  # what came while its history is awaited
    backlog: deque[Sample] | None = None  # history to push, and what came then
    behind_count: int = 0  # of those that came then
    served_count: int = 0  # Pulls that got all they asked for, or all that there is

    @classmethod
    def of(
        cls,
        id_: int,
        subscriber: Subscriber,
        named: Named,
        lease_ns: int,
        limits: Limits,
        now_ns: int,
    ) -> Subscription:
        """The subscriber that was declared now."""
        qualities = subscriber.qualities.over(named.qualities)
        if subscriber.mode == PUSH_MODE_ID:
            return cls(id_, subscriber.mode, named, qualities)
        schedule = None
        if subscriber.period_ms:
            schedule = Schedule(
                now_ns, subscriber.origin_ms, subscriber.period_ms, subscriber.duration_ms
            )
        depth = subscriber.depth or (1 if schedule else None)
        idle_ns = LEASES_COUNT * lease_ns or _HOUR_NS
        store = Store(depth, idle_ns, limits)
        return cls(id_, subscriber.mode, named, qualities, schedule, store)

    @property
    def path(self) -> str:
        """The path or pattern it is about."""
        return self.named.resource.path

    @property
    def requested(self) -> Level:
        """How durable the data has to be that it wants."""
        return self.qualities.requested or Level.VOLATILE

    @property
    def is_pulled(self) -> bool:
        """Whether samples wait for a Pull."""
        return self.mode in _PULLED

    @property
    def is_periodic(self) -> bool:
        """Whether it hears nothing outside of its windows."""
        return self.schedule is not None

    @property
    def is_direct(self) -> bool:
        """Whether samples are sent as they come: nothing is stored, and no history comes first."""
        return self.store is None and self.held is None and not self.backlog

    def is_open(self, now_ns: int) -> bool:
        """Whether samples may be sent now."""
        return self.schedule is None or self.schedule.is_open(now_ns)

    def wants(self, sample: Sample, layout_of: Callable[[str, Encoding], Layout | None]) -> bool:
        """Whether a sample whose path matches is one of those it wants."""
        if sample.level is not None and sample.level < self.requested:
            return False
        selection = self.named.selection
        if not selection.predicate:
            return True
        properties = {"reliability": int(sample.reliable), "durability": int(sample.level or 0)}
        return not sample.deleted and selection.selects(
            sample.payload,
            sample.encoding,
            key=sample.key,
            properties=properties,
            layout=layout_of(sample.key, sample.encoding),
        )

    def pull(self, pull_id: int, max_samples: int | None, now_ns: int) -> None:
        """A Pull came; of one pull session the newest counts."""
        assert self.store is not None
        self.store.open(pull_id, now_ns)
        self.pulls = self.pulls or {}
        self.pulls.pop(pull_id, None)
        self.pulls[pull_id] = max_samples
        while len(self.pulls) > PULL_SESSIONS_COUNT:
            del self.pulls[next(iter(self.pulls))]

    def ready(self, now_ns: int) -> tuple[Sample, int | None] | None:
        """The sample to send next, and the pull session that it is for."""
        if self.backlog:
            return self.backlog[0], None
        if self.store is None or not self.is_open(now_ns):
            return None
        if self.mode == PERIODIC_PUSH_MODE_ID:
            oldest = self.store.oldest
            return (oldest, None) if oldest is not None else None
        for pull_id in list(self.pulls):
            sample = self.store.peek(pull_id) if self.pulls[pull_id] != 0 else None
            if sample is not None:
                return sample, pull_id
            del self.pulls[pull_id]  # it has all that there is, or all that it asked for
            self.served_count += 1
        return None

    def done(self, pull_id: int | None) -> None:
        """That sample was sent."""
        if self.backlog:
            self.backlog.popleft()
            self.behind_count = min(self.behind_count, len(self.backlog))
            return
        assert self.store is not None
        if pull_id is None:
            self.store.pop()
            return
        self.store.advance(pull_id)
        left = self.pulls[pull_id]
        self.pulls[pull_id] = None if left is None else left - 1
