"""Bridge: one domain and one session, with one thread that talks to DDS (dds.md 2).

Threads of the session never call DDS: they put samples into lines of routes, or post functions,
and wake the DDS thread.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from elea.dds import ros
from elea.dds.admission import Admission
from elea.dds.announced import Announced
from elea.dds.answers import Answers
from elea.dds.cache import CacheBudget
from elea.dds.circling import Circling
from elea.dds.counts import BridgeCounts, RouteCounts
from elea.dds.describe import Description
from elea.dds.device_resources import DeviceResources
from elea.dds.forwarding import Forwarding
from elea.dds.from_dds import FromDds
from elea.dds.history import HistoryQueries
from elea.dds.instances import InstancePublishers
from elea.dds.origins import Origins
from elea.dds.port import Dds, Tier, TopicType
from elea.dds.presence import Presence
from elea.dds.qos import Qos
from elea.dds.remote_writers import RemoteWriters
from elea.dds.rights import DomainRights
from elea.dds.ros_graph import RosGraph
from elea.dds.route_groups import RouteGroups
from elea.dds.routes import Direction, Plan, RouteId, RouteTable
from elea.dds.service_routes import ServiceRoute
from elea.dds.services import Services
from elea.dds.settings import DdsSettings
from elea.dds.state import LOG, StateCell
from elea.dds.to_dds import ToDds
from elea.dds.types import TypeStore
from elea.dds.upkeep import Upkeep
from elea.errors import ClosedError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.session.session import Session

IDLE_NS: Final = 1_000_000_000  # longest wait
STOP_S: Final = 5.0
STOP_WAIT_NS: Final = 500_000_000  # for acknowledgements of all routes together

Route = FromDds | ToDds | ServiceRoute


class _Ends(Protocol):
    def undeclare(self) -> None: ...


class _Takes(Protocol):
    """What the samples of a mirror reader are for."""

    id: RouteId
    state: StateCell

    def take(self, reader: int, now_ns: int) -> None: ...


class Bridge:
    """Bridges one domain.

    `STUCK_NS`: a turn of the DDS thread that takes longer is told as stuck.

    Args:
        session: Of the node.
        dds: A participant of the domain.
        settings: The section of the configuration.
        limits: Bounds.
    """

    STUCK_NS: Final = 10_000_000_000

    def __init__(
        self, session: Session, dds: Dds, settings: DdsSettings, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.session = session
        self.dds = dds
        self.rights = DomainRights(session)
        self.settings = settings = self.rights.ruled(settings)
        self.limits = limits
        self.counts = BridgeCounts()
        self.budget = CacheBudget(limits.dds_cache_len)
        self.types = TypeStore(dds, settings, limits)
        self.answers = Answers(self)
        self.instances = InstancePublishers(session, self.undeclare)
        self.announced = Announced(self)
        self.services = Services(self)
        self.graph = RosGraph(self)
        self.forwarding = Forwarding(self)
        self.devices = DeviceResources(self)
        self.admission = Admission(self, (self.services, self.graph))
        self.table = RouteTable(
            settings.names,
            settings.filter,
            pattern_writers=settings.pattern_writers,
            count_max=limits.dds_routes_count,
            renamed=self.announced.key_of,
        )
        self.routes: dict[RouteId, Route] = {}
        self.groups = RouteGroups()
        self.routes_by_reader: dict[int, _Takes] = {}
        self.mirror_qos: dict[int, tuple[Qos, TopicType]] = {}
        self.remote_writers = RemoteWriters(self)
        self.presence = Presence(self)
        self.circling = Circling(self)
        self.describe = Description(self)
        self.turn_ns = time.monotonic_ns()  # when the last turn of the DDS thread began
        self.doing = "starting"
        self.origins = Origins(session.zid(), numbers=settings.numbering)
        self.upkeep = Upkeep(self, self._interrupt)
        self._service_ids = itertools.count()
        self._posted: deque[Callable[[int], None]] = deque()
        self._is_waiting = False
        self._is_stopping = False
        self._stop_end_ns = 0  # until then routes that end at a stop wait for acknowledgements
        self._messages_ns = time.monotonic_ns()
        self._logged: set[str] = set()
        self.history = HistoryQueries(
            session,
            self.post,
            self.rights,
            timeout_s=settings.queries_timeout_s,
            running_max=limits.dds_queries_count,
            waiting_max=limits.dds_queries_waiting_count,
            samples_max=limits.dds_cache_depth * 100,
        )
        self._thread = threading.Thread(target=self._run, name="elea-dds", daemon=True)

    @property
    def linger_ns(self) -> int:
        """How long routes and mirrors outlive their reason."""
        return round(self.settings.linger_s * 1e9)

    @property
    def is_standby(self) -> bool:
        """Whether another bridge serves the domain."""
        return self.presence.is_standby

    @property
    def marks_own(self) -> bool:
        """Whether the bridge's own samples can be told by their source (D-631)."""
        return self.settings.numbering

    def now_ns(self) -> int:
        """Return the monotonic time."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Return the time of the day."""
        return time.time_ns()

    def node_time(self) -> int:
        """Return the NTP64 time of the node's own clock."""
        return self.session.new_timestamp().time.value

    def start(self) -> None:
        """Start the DDS thread."""
        self.presence.start()
        self.answers.start()
        self.forwarding.start()
        self.devices.start()
        for type_ in self.types.known():
            self.answers.publish_schema(type_, self.type_label(type_.name))
        self.announced.declare()
        self._thread.start()

    def stop(self) -> None:
        """End: mirrors are deleted, tokens undeclared, the participant leaves (D-008)."""
        self._is_stopping = True
        self.dds.wake()
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            LOG.error("the DDS thread did not end: it is in %s", self.doing)

    # For threads of the session.

    def post(self, function: Callable[[int], None]) -> None:
        """Have the DDS thread call a function with the monotonic time."""
        self._posted.append(function)
        self._interrupt()

    def _interrupt(self) -> None:
        if self._is_waiting:
            self.dds.wake()

    # For routes.

    def stop_wait_ns(self) -> int:
        """Return how long a route that ends may wait for acknowledgements: only at a stop."""
        return max(0, self._stop_end_ns - self.now_ns())

    def new_counts(self) -> RouteCounts:
        """Return counters of a new route."""
        return RouteCounts()

    def next_service_id(self) -> int:
        """Return a number for the mirrors of one more service (D-666)."""
        return next(self._service_ids)

    def type_label(self, type_name: str) -> str:
        """Return a type's name as encodings and schemas have it."""
        return ros.type_label(type_name) if self.settings.ros else type_name

    def user_data_of(self, plan: Plan) -> bytes:
        """Return the user data of a route's mirrors: the type hash of ROS, or nothing (D-351)."""
        if not self.settings.ros:
            return b""
        hashes = (ros.type_hash_of(one.qos.user_data) for one in plan.endpoints)
        return next(filter(None, hashes), b"")

    def type_of(self, plan: Plan, now_ns: int) -> TopicType | None:
        """Return the type for the mirrors of a route; None if it did not come yet."""
        self.doing = "a type lookup"
        found, next_ns = self.types.of(plan, now_ns)
        is_over = bool(self.types.fresh) or (found is not None and found.tier is Tier.UNRESOLVED)
        while self.types.fresh:
            fresh = self.types.fresh.pop()
            self.answers.publish_schema(fresh, self.type_label(fresh.name))
        if next_ns is not None:
            self.upkeep.touch_plan_at(plan, next_ns)
        if is_over:
            self.forwarding.types_changed()
        return found

    def change(self, settings: DdsSettings) -> None:
        """Take settings that differ in what may change while running (D-784)."""

        def act(_now_ns: int) -> None:
            self.settings = self.rights.ruled(settings)
            self.history.timeout_s = settings.queries_timeout_s
            self._refilter()
            for route in list(self.routes.values()):
                route.reconfigure()
            self.upkeep.touch_all()

        self.post(act)

    def _refilter(self) -> None:
        """Apply `allow`, `deny` and access rules to all endpoints; denied routes end at once."""
        self.apply(self.table.filter_by(self.settings.filter))
        self.services.refilter()
        for route in list(self.routes.values()):
            if not self.settings.filter.allows(route.id.key, route.id.direction):
                self.end_route(route)

    def has_key(self, plan: Plan) -> bool:
        """Whether the type of a route is known and has key members."""
        found, _ = self.types.of(plan, self.now_ns())
        return found is not None and found.tier is Tier.EXACT and found.has_key

    def instance_key(self, route: FromDds, payload: bytes, *, is_key: bool) -> str:
        """Return the key of an instance in layout *instance*; empty if it has none."""
        found, _ = self.types.of(route.plan, self.now_ns())
        schema = None if found is None else self.answers.schemas.of(found)
        text = "" if schema is None else schema.instance_text(payload, is_key=is_key)
        return f"{route.id.key}/{text}" if text else ""

    def undeclare(self, *declared: _Ends | None) -> None:
        """Undeclare things of the session, which may be closed."""
        for one in declared:
            if one is not None:
                with suppress(ClosedError):
                    one.undeclare()

    # History.

    def ask_bridge(self, zid: str) -> None:
        """Ask a bridge that appeared for the history of all durable routes (D-566)."""
        for route in list(self.routes.values()):
            if isinstance(route, ToDds):
                route.history.ask_again(zid)

    def other_came(self, zid: str) -> None:
        """Learn what a bridge that does the same has put of the durable routes."""
        for route in list(self.routes.values()):
            if isinstance(route, FromDds):
                route.other_came(zid)

    def others_known(self) -> None:
        """Go on with routes that waited for what other bridges have put."""
        now_ns = self.now_ns()
        for route in list(self.routes.values()):
            if isinstance(route, FromDds):
                route.others_known(now_ns)

    # The DDS thread.

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                try:
                    self._turn()
                except Exception as error:
                    if isinstance(error, ClosedError) and self.session.is_closed():
                        return
                    self.counts.failures += 1
                    LOG.exception("a turn of the DDS thread failed")
        finally:
            self._close()

    def _turn(self) -> None:
        timeout_ns = self._timeout_ns()
        self.doing = "waiting"
        if timeout_ns:
            self._is_waiting = True
            if self._posted or self.upkeep.has_woken:  # put there before the flag was seen
                timeout_ns = 0
        ready = self.dds.wait(timeout_ns)
        self._is_waiting = False
        self.turn_ns = now_ns = time.monotonic_ns()
        if self.rights.have_changed():
            self._refilter()
        for _ in range(len(self._posted)):
            self._call(self._posted.popleft(), now_ns)
        if ready.discovery:
            self.admission.discover()
        self.doing = "samples"
        for reader in ready.readers:
            route = self.routes_by_reader.get(reader)
            if route is not None:
                self.upkeep.guarded(route, partial(route.take, reader, now_ns))
        self.upkeep.turn(now_ns)
        self.graph.turn(now_ns)
        self.presence.tell_quiet(now_ns)
        self._tell_messages(now_ns)
        took_ns = time.monotonic_ns() - now_ns
        self.counts.turn_ns_max = max(self.counts.turn_ns_max, took_ns)

    def _timeout_ns(self) -> int:
        if self._posted or self.upkeep.has_woken:
            return 0
        now_ns = time.monotonic_ns()
        due_ns = self.graph.due_ns()
        longest_ns = IDLE_NS if due_ns is None else max(0, min(IDLE_NS, due_ns - now_ns))
        return self.upkeep.timeout_ns(now_ns, longest_ns)

    def _call(self, function: Callable[[int], None], now_ns: int) -> None:
        try:
            function(now_ns)
        except ClosedError:
            raise
        except Exception:
            self.counts.failures += 1
            LOG.exception("a task of the DDS thread failed")

    # Routes.

    def apply(self, changed: set[RouteId]) -> None:
        """Make, change and end routes whose plan changed."""
        left: list[Route] = []
        for id_ in changed:
            plan = self.table.plans.get(id_)
            route = self.routes.get(id_)
            if plan is None:
                if route is not None:
                    left.append(route)
                continue
            if route is None:
                route = self._make(plan, changed)
                left += self.groups.lingering(route)
            route.end_ns = None
            route.update(plan)
            self.upkeep.touch(route)
            if not id_.type_hash:
                for endpoint in plan.endpoints:
                    self.answers.note_ros_hash(endpoint)
        for route in left:
            if route.id in self.routes:
                self._leave(route)

    def _leave(self, route: Route) -> None:
        """End a route without endpoints: at once if another one has them, with their type."""
        beside = self.groups.of_same_name(route)
        successor = next((one for one in beside if one.id in self.table.plans), None)
        now_ns = self.now_ns()
        match route, successor:
            case ToDds(), ToDds():
                successor.succeed(route, now_ns)
            case FromDds(), FromDds():
                successor.succeed(route, now_ns)
            case _:
                self.end_later(route)
                return
        self.end_route(route)

    def _make(self, plan: Plan, changed: set[RouteId]) -> Route:
        route: Route
        if plan.id.direction is Direction.FROM_DDS:
            route = FromDds(self, plan)
        else:
            old = self._predecessor(plan.id, changed)
            route = ToDds(self, plan, None if old is None else old.release_inlet())
            route.sources = self.remote_writers.of(plan.id.key)
        self.add_route(route)
        return route

    def _predecessor(self, id_: RouteId, changed: set[RouteId]) -> ToDds | None:
        """Return the route whose readers have another type now, that of a new route."""
        same = replace(id_, type_hash=b"")
        for other in changed:
            route = self.routes.get(other)
            if (
                isinstance(route, ToDds)
                and other not in self.table.plans
                and replace(other, type_hash=b"") == same
            ):
                return route
        return None

    def add_route(self, route: Route) -> None:
        """Look after a route."""
        self.routes[route.id] = route
        self.groups.add(route)

    def end_later(self, route: Route) -> None:
        """End a route that has no reason any more, after `linger` (D-307)."""
        if route.end_ns is None:
            route.end_ns = self.now_ns() + self.linger_ns
            self.upkeep.touch_at(route, route.end_ns)

    def mirrors_changed(self) -> None:
        """Mirrors were made or deleted: the ROS graph is to be told."""
        self.graph.changed()

    def end_route(self, route: Route) -> None:
        """End a route now."""
        del self.routes[route.id]
        self.upkeep.forget(route)
        self.groups.remove(route)
        self.upkeep.guarded(route, route.close)
        if isinstance(route, ServiceRoute):
            self.services.ended(route.id)
            self.counts.services.add(route.counts)
        elif isinstance(route, FromDds):
            self.counts.from_dds.add(route.counts)
        else:
            self.counts.to_dds.add(route.counts)

    def log_once(self, text: str) -> None:
        """Log a warning that is not repeated."""
        if text not in self._logged:
            self._logged.add(text)
            LOG.warning("%s", text)

    def _tell_messages(self, now_ns: int) -> None:
        """Log what the DDS library had to say, once a second (D-756)."""
        if now_ns - self._messages_ns >= IDLE_NS:
            self._messages_ns = now_ns
            for text in self.dds.messages():
                LOG.warning("Cyclone DDS: %a", text)

    def _close(self) -> None:
        self.doing = "stopping"
        self._stop_end_ns = self.now_ns() + STOP_WAIT_NS
        self.history.close()
        for route in list(self.routes.values()):
            self.end_route(route)
        self.instances.close()
        self.services.stop()
        self.forwarding.stop()
        self.devices.stop()
        self.graph.stop()
        self.answers.stop()
        self.presence.stop()
        self.dds.close()
        self.doing = "stopped"
