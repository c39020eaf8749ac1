"""Flow: samples from devices to the data space and to devices, and what is at rest (12, 13, 15).

It belongs to a gateway, which knows who declared what. Samples go to whoever wants them now; those
that a device has to fetch, or gets first because they are durable, wait in its subscriptions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from elea.errors import RemoteProtocolError
from elea.xrce.closing import CloseReason, violation
from elea.xrce.declaration_records import PUSH_MODE_ID
from elea.xrce.declarations import Action, Named
from elea.xrce.gateway.device import Device, Query, Rest, Written
from elea.xrce.gateway.effects import Ask, Effect, Put
from elea.xrce.gateway.interest import Owner
from elea.xrce.gateway.rest import AtRest
from elea.xrce.gateway.settings import GatewayCounters, GatewaySettings
from elea.xrce.gateway.subscription import Subscription
from elea.xrce.message_records import Pull
from elea.xrce.names import Resource
from elea.xrce.properties import EMPTY_IS_DELETE
from elea.xrce.qualities import Level, is_read_only
from elea.xrce.samples.index import Index
from elea.xrce.samples.keys import key_expressions
from elea.xrce.samples.sample import Sample
from elea.xrce.samples.store import Store

HISTORY_NS: Final = 2_000_000_000  # how long other storages may take to answer
PULL_NS: Final = 10_000_000_000
REST_NS: Final = 60_000_000_000  # how long a Pull may go on with its answer
QUERIES_COUNT: Final = 64  # of one device, unanswered
PRESS_NS: Final = 2_000_000_000  # how long one slow device may hold back all others


class Flow:
    """The samples of a gateway.

    Args:
        settings: How devices are served.
        devices: Those of the gateway, by pid.
        at_rest: What is kept.
        readers: Subscribers of devices, by what they subscribed to.
        counters: Those of the gateway.
        tell: Has something done in the data space.
        pump: Sends what may be sent to a device.
        end: Ends the session of a device.
        lost: Counts what was lost on the way to a device.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        devices: dict[bytes, Device],
        at_rest: AtRest,
        readers: Index[Owner],
        counters: GatewayCounters,
        *,
        tell: Callable[[Effect], None],
        pump: Callable[[Device, int], None],
        end: Callable[[Device, RemoteProtocolError, int], None],
        lost: Callable[[Device], None],
    ) -> None:
        self._settings = settings
        self._devices = devices
        self._at_rest = at_rest
        self._readers = readers
        self._counters = counters
        self._tell = tell
        self._pump = pump
        self._end = end
        self._lost = lost
        self.unsettled: set[bytes] = set()  # devices that wait for what they wrote to be on disk
        self.unkept: set[bytes] = set()  # devices with a persistent sample without room
        self.holding: dict[bytes, None] = {}  # devices with samples that wait for others
        self._pressed: dict[bytes, int] = {}  # devices for which too much waits, since when
        self._queries: dict[int, bytes] = {}  # which device asked
        self._next_query_id = 0

    def write(
        self,
        device: Device,
        written: Written | None,
        payload: bytes,
        now_ns: int,
        *,
        reliable: bool,
        group: bytes | None = None,
    ) -> None:
        """A device wrote a sample, to a group if one is named; None is one it must not write."""
        if written is None:
            self._counters.dropped += 1
            return
        said = written.qualities
        sample = Sample(
            key=written.key,
            path=written.path,
            payload=payload,
            timestamp=self._settings.stamp(),
            encoding=written.encoding,
            reliable=reliable and said.reliable is not False,
            level=said.offered or Level.VOLATILE,
            deleted=not payload and device.can(EMPTY_IS_DELETE),
            priority=said.priority or 5,
        )
        if sample.deleted and not device.rules.allows(Action.DELETE, Resource(written.path)):
            device.counters.forbidden += 1
            self._counters.dropped += 1
            return
        action = Action.DELETE if sample.deleted else Action.WRITE
        if self._settings.exceeds(device.pid, action, sample.key, len(payload)):
            self._counters.limited += 1
            return
        is_promised = sample.reliable and (sample.deleted or sample.level is Level.PERSISTENT)
        if is_promised:
            self.unsettled.add(device.pid)
        if not self._at_rest.keep(sample, now_ns):
            device.counters.refused += 1
            self._counters.refused += 1
            if is_promised:
                self.unkept.add(device.pid)
            return
        self._counters.written += 1
        self._tell(Put(device.pid, sample))
        self.offer(sample, now_ns, writer=device, group=group)

    def offer(
        self,
        sample: Sample,
        now_ns: int,
        *,
        writer: Device | None = None,
        group: bytes | None = None,
    ) -> None:
        """A sample for all devices that want it, but for those that heard it in a group (10.3).

        Peers hear others, and not themselves.
        """
        wanting: list[tuple[Device, Subscription]] = []
        for pid, id_ in list(self._readers.matching(sample.path)):
            device = self._devices.get(pid)
            sub = device.subscriptions.get(id_) if device is not None else None
            if device is not None and device is writer and device.is_peer:
                continue
            if group is not None and _has_heard(device, writer, group):
                continue
            if device is None or sub is None or not sub.wants(sample, self._settings.layout_of):
                continue
            if not sample.deleted or device.can(EMPTY_IS_DELETE):
                wanting.append((device, sub))
        for device, sub in _once_by_name(wanting, sample.path) if len(wanting) > 1 else wanting:
            self._deliver(device, sub, sample, now_ns)

    def _deliver(self, device: Device, sub: Subscription, sample: Sample, now_ns: int) -> None:
        store = sub.store if sub.held is None else sub.held
        if store is None:
            try:
                too_long = device.outlet.too_long_count
                self._push(device, sub, sample, now_ns)
                if device.outlet.too_long_count != too_long:
                    self._lost(device)
            except RemoteProtocolError as error:
                self._end(device, error, now_ns)
                return
            self.weigh(device, now_ns, sub)
            if device.asked_rids:  # a name is to get an id
                self._pump(device, now_ns)
        else:
            dropped = store.dropped_count
            store.put(sample)
            self._counters.stores_dropped += store.dropped_count - dropped
            if sub.is_periodic and not sub.is_pulled and sub.is_open(now_ns):
                self._pump(device, now_ns)

    def _push(self, device: Device, sub: Subscription, sample: Sample, now_ns: int) -> None:
        if not sub.backlog:
            device.post(sub.id, sub.named, sub.qualities, sample, now_ns)
            return
        if sub.behind_count >= self._settings.limits.xrce_outbox_count:
            text = f"{sub.behind_count} samples wait behind the history of {sub.path}"
            raise violation(CloseReason.RESOURCES, text)
        sub.behind_count += 1
        sub.backlog.append(sample)

    # Pulls, and what is at rest.

    def pull(self, device: Device, message: Pull, now_ns: int) -> None:
        sub = device.subscriptions.get(message.id)
        if sub is not None and sub.store is not None and sub.is_pulled:
            sub.pull(message.pull_id, message.max_samples, now_ns)
            return
        named = sub.named if sub is not None else device.table.known(message.id)
        if named is None:
            device.counters.pulls += 1
            return
        if not device.may_ask(message.id, named):
            device.counters.forbidden += 1
            return
        rest = device.rests.get((message.id, message.pull_id))
        if rest is not None and now_ns <= rest.expires_ns:
            rest.wanted, rest.active = message.max_samples, True
            return
        query = Query(message.id, message.pull_id, message.max_samples, now_ns + PULL_NS)
        if sub is not None or not self._ask(device, query, named):
            self._rest(device, query, (), now_ns)

    def _ask(self, device: Device, query: Query, named: Named) -> bool:
        """Ask the data space what is at rest there; False if that is not to be."""
        key_exprs = key_expressions(named.resource.path)
        if not self._settings.asks or not key_exprs or len(device.queries) >= QUERIES_COUNT:
            return False
        if any(self._settings.exceeds(device.pid, Action.ASK, one, 0) for one in key_exprs):
            self._counters.limited += 1
            return False
        query_id = self._next_query_id
        self._next_query_id += 1
        device.ask(query_id, query)
        self._queries[query_id] = device.pid
        timeout_ns = HISTORY_NS if query.pull_id is None else PULL_NS
        self._tell(Ask(query_id, key_exprs, named.selection.predicate, timeout_ns))
        return True

    def _history(self, device: Device, id_: int, samples: Iterable[Sample], now_ns: int) -> None:
        """What a durable subscriber gets first, then what came meanwhile; each once."""
        sub = device.subscriptions.get(id_)
        if sub is None:
            return
        held = sub.held.drain() if sub.held is not None else []
        sub.held = None
        for sample in self._at_rest.merged(sub.named, [*samples, *held]):
            if not sub.wants(sample, self._settings.layout_of):
                continue
            if sub.store is not None:
                self._deliver(device, sub, sample, now_ns)
                continue
            sub.backlog = deque() if sub.backlog is None else sub.backlog
            sub.backlog.append(sample)

    def _rest(self, device: Device, query: Query, samples: Iterable[Sample], now_ns: int) -> None:
        assert query.pull_id is not None
        named = device.table.named(query.id)
        if named is None or not device.may_ask(query.id, named):
            return  # forgotten, or forbidden since it was asked
        newest: dict[str, Sample] = {}
        for sample in self._at_rest.merged(named, samples):
            newest.pop(sample.key, None)  # so that they stay in order
            newest[sample.key] = sample
        probe = Subscription(query.id, PUSH_MODE_ID, named, named.qualities)
        layout_of = self._settings.layout_of
        found = deque(one for one in newest.values() if probe.wants(one, layout_of))
        rest = Rest(named, found, query.wanted, now_ns + REST_NS)
        device.keep_rest(query.id, query.pull_id, rest)

    # What devices cannot take yet.

    def weigh(self, device: Device, now_ns: int, sub: Subscription | None = None) -> None:
        """Look at what waits for a device, behind the history of a subscriber too."""
        if device.outlet.is_holding:
            self.holding[device.pid] = None
        behind_count = sub.behind_count if sub is not None else 0
        if device.outlet.is_pressed or 2 * behind_count >= self._settings.limits.xrce_outbox_count:
            self._pressed.setdefault(device.pid, now_ns)
        elif sub is None or not sub.backlog:
            self._pressed.pop(device.pid, None)

    def release(self, now_ns: int) -> None:
        """Send what waits for other samples of its id."""
        holding, self.holding = self.holding, {}
        for pid in holding:
            device = self._devices.get(pid)
            if device is not None:
                device.outlet.release(now_ns)

    def is_pressed(self, now_ns: int) -> bool:
        """Whether too much waits for a device, and not for so long that it is its own fault."""
        return any(now_ns - since_ns < PRESS_NS for since_ns in self._pressed.values())

    # Questions to the data space.

    def begin(self, device: Device, sub: Subscription, now_ns: int) -> None:
        """A subscriber is there now: a durable one gets first what is at rest."""
        is_asked = sub.requested is not Level.VOLATILE
        if not is_asked and is_read_only(sub.named.resource):
            is_asked = not self._at_rest.matching(sub.named.resource.path)  # others may know it
            if not is_asked:
                self._history(device, sub.id, (), now_ns)
        if not is_asked:
            return
        if not (
            device.rules.allows(Action.ASK, sub.named.resource)
            and self._ask(device, Query(sub.id, None, None, now_ns + HISTORY_NS), sub.named)
        ):
            self._history(device, sub.id, (), now_ns)
        else:
            sub.held = Store(None, HISTORY_NS, self._settings.limits)

    def answered(self, query_id: int, samples: Iterable[Sample], now_ns: int) -> None:
        """All that the data space answers to an `Ask`."""
        pid = self._queries.pop(query_id, None)
        device = self._devices.get(pid) if pid is not None else None
        query = device.queries.pop(query_id, None) if device is not None else None
        if device is None or query is None:
            return
        if query.pull_id is None:
            self._history(device, query.id, samples, now_ns)
        else:
            self._rest(device, query, samples, now_ns)
        self._pump(device, now_ns)

    def expire(self, device: Device, now_ns: int) -> None:
        """Go on without the answers that did not come in time."""
        for query_id, query in list(device.queries.items()):
            if query.deadline_ns <= now_ns:
                self.answered(query_id, (), now_ns)

    def forget_history(self, device: Device, id_: int) -> None:
        """What was asked for a subscriber is not awaited any more."""
        for query_id in device.history_queries(id_):
            del device.queries[query_id], self._queries[query_id]

    def forget(self, device: Device) -> None:
        """Nothing is awaited any more for a device, and nothing waits for it."""
        self.holding.pop(device.pid, None)
        self._pressed.pop(device.pid, None)
        for query_id in device.queries:
            self._queries.pop(query_id, None)


def _has_heard(device: Device | None, writer: Device | None, group: bytes) -> bool:
    """Whether a device wrote a sample to a group itself, or is a member of it."""
    return device is not None and (device is writer or group in device.locators)


def _once_by_name(
    wanting: list[tuple[Device, Subscription]], path: str
) -> list[tuple[Device, Subscription]]:
    """Leave out copies for a device that gets the sample by its name (A-24).

    A device of another vendor gives such a message to all of its subscribers that match, so that a
    second one would come twice to each of them.
    """
    by_name: dict[bytes, Subscription] = {}
    for device, sub in wanting:
        if sub.is_direct and device.hears_by_name(sub.id, sub.named, path):
            first = by_name.get(device.pid)
            if first is None or first.qualities.reliable is False:
                by_name[device.pid] = sub
    return [
        (device, sub)
        for device, sub in wanting
        if by_name.get(device.pid, sub) is sub
        or not sub.is_direct
        or sub.id not in device.table.names
    ]
