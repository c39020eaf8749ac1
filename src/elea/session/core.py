"""SessionCore: the entities of a session, its pending queries and what is due. Sans-IO.

Every method is called under the node's lock; only `outbox` takes it by itself. Nothing here runs
user code: what is for the application goes to the outlet of its handler (`deliver`).
"""

from __future__ import annotations

from collections.abc import Callable

from elea.provenance import TimestampStack
from elea.qos import Locality
from elea.session.declared_keys import DeclaredKeys
from elea.session.deliver import Inbox, Subscription
from elea.session.face import Face, SessionSettings
from elea.session.interests import QUERYABLES, SUBSCRIBERS
from elea.session.matching import Writer, Writers, serves
from elea.session.neighbours import Neighbours
from elea.session.outlet import END, Outlet
from elea.session.ports import Lock, NodePort
from elea.session.publish import Outbox
from elea.session.queries import Ask, Gets, PendingGet
from elea.session.queryables import Answerer, Answerers, MakeQuery
from elea.session.stack import Stamper, TimestampCallback
from elea.session.tokens import Tokens
from elea.wire.data.put import Put
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import (
    DeclareSubscriber,
    UndeclareSubscriber,
)
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.shared_extensions import TimestampStack as WireStack


class SessionCore:
    """One session on one node.

    Args:
        node: Where it lives.
        settings: What its configuration says.
        lock: The node's lock. Only publications take it; everything else is called under it.
        now_ns: The monotonic time.
        wall_ns: The time of day.
        make_query: Makes the object that an application answers a query with.
        timestamp_callback: Makes the records of instrumented messages, in place of the clock.
    """

    def __init__(
        self,
        node: NodePort,
        settings: SessionSettings,
        *,
        lock: Lock,
        now_ns: Callable[[], int],
        wall_ns: Callable[[], int],
        make_query: MakeQuery,
        timestamp_callback: TimestampCallback | None = None,
    ) -> None:
        self.inbox = Inbox(f"{settings.namespace}/" if settings.namespace else "")
        self.inbox.core = self
        self.face = Face(node, self.inbox, settings, now_ns, wall_ns)
        stamp = self.face.stamp if settings.timestamping else None
        self.outbox = Outbox(lock, node, self.face.id, self.inbox, now_ns, stamp)
        self.stamper = Stamper(node.zid, node.whatami, self.face.stamp, timestamp_callback)
        self.answerers = Answerers(self.face, self.stamper, make_query)
        self.gets = Gets(self.face, self.stamper, self._ask_local)
        self.writers = Writers(self.face, self._matches_here)
        self.tokens = Tokens(self.face)
        self.neighbours = Neighbours(self.face)
        self.on_due: Callable[[], None] | None = None  # runs what is due, without the lock
        self._subscriptions: dict[int, tuple[Subscription, Locality]] = {}
        self.keys = DeclaredKeys(self.face)
        self.face.keep_ids(self._subscriptions.keys)
        self.face.keep_ids(lambda: (one.id for one in self.answerers.all()))

    # Publications

    def beat(self, key: str, payload: bytes, qos: int) -> None:
        """Publish a few octets by the clock rather than by a call of the application."""
        push = Push(self.face.wire_key(key), Put(payload), qos)
        self.outbox.publish_locked(key, push, True, True, True)

    def undeclare_writer(self, writer: Writer) -> None:
        """It is gone, and its matching listeners with it."""
        for outlet in self.writers.undeclare(writer):
            self.face.emit(outlet, END)

    def listen_to_matches(self, writer: Writer, outlet: Outlet) -> int:
        """Changes of the matching status go to `outlet`; the number ends it."""
        self.face.check_open()
        return self.writers.listen(writer, outlet)

    def end_listener(self, writer: Writer, listener_id: int) -> None:
        """No more changes; END goes to the outlet."""
        outlet = self.writers.end_listener(writer, listener_id)
        if outlet is not None:
            self.face.emit(outlet, END)

    # Subscribers

    def subscribe(self, key: str, outlet: Outlet, origin: Locality) -> Subscription:
        """Samples whose key intersects `key` go to `outlet`."""
        self.face.check_open()
        subscription = Subscription(self.face.new_id(), key, outlet)
        self._subscriptions[subscription.id] = (subscription, origin)
        if origin is not Locality.SESSION_LOCAL:
            self.inbox.remote.add(subscription)
            self.face.declare(DeclareSubscriber(subscription.id, self.face.wire_key(key)))
        if origin is not Locality.REMOTE:
            self.inbox.local.add(subscription)
            self.writers.changed(SUBSCRIBERS, key)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more samples; END goes to the outlet."""
        _, origin = self._subscriptions.pop(subscription.id, (None, Locality.ANY))
        if _ is None:
            return
        self.inbox.remote.remove(subscription)
        self.inbox.local.remove(subscription)
        if origin is not Locality.SESSION_LOCAL and not self.face.closed:
            self.face.declare(UndeclareSubscriber(subscription.id))
        self.face.emit(subscription.outlet, END)
        self.writers.changed(SUBSCRIBERS, subscription.key)

    # Queries

    def declare_answerer(
        self, key: str, outlet: Outlet, *, complete: bool, origin: Locality
    ) -> Answerer:
        """Queries whose key intersects `key` go to `outlet`."""
        self.face.check_open()
        answerer = Answerer(self.face.new_id(), key, outlet, complete=complete, origin=origin)
        self.answerers.declare(answerer)
        self.writers.changed(QUERYABLES, key)
        return answerer

    def undeclare_answerer(self, answerer: Answerer) -> None:
        """No more queries; END goes to the outlet."""
        if self.answerers.undeclare(answerer):
            self.face.emit(answerer.outlet, END)
            self.writers.changed(QUERYABLES, answerer.key)

    def get(self, ask: Ask, outlet: Outlet) -> PendingGet:
        """Ask queryables; replies go to `outlet`."""
        self.face.check_open()
        return self.gets.start(ask, outlet)

    # From the node

    def receive(self, message: object, reliable: bool) -> None:
        """A message of the network for this session."""
        if isinstance(message, Response):
            self.gets.received(message)
        elif isinstance(message, ResponseFinal):
            self.gets.finished(message)
        elif isinstance(message, Request):
            self.answerers.received(message)
        elif isinstance(message, Declare):
            self._declared(message)
        elif isinstance(message, Push):
            self.inbox.push(message.key.suffix, message, reliable)

    def neighbour(self, event: object) -> None:
        """A transport came or went."""
        self.neighbours.heard(event)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        return self.face.next_timer_ns()

    def handle_timer(self, now_ns: int) -> None:
        """A query's deadline, a heartbeat."""
        self.face.handle_timer(now_ns)

    def deliver(self) -> None:
        """Run what is due. The one method that is called without the lock."""
        if self.on_due is not None:
            self.on_due()

    def read_stack(self, stack: WireStack) -> TimestampStack | None:
        """The passages of a sample that reached this session."""
        return self.stamper.received(stack)

    def move(self, node: NodePort, lock: Lock) -> None:
        """Live on another node from now on: declare everything there. Under the new lock.

        Queries that are under way end; they were the old node's.
        """
        face = self.face
        face.node = node
        face.id = node.attach(self.inbox)
        self.outbox.move(lock, node, face.id)
        self.stamper.move(node.zid, node.whatami)
        self.gets.close()
        for subscription, origin in self._subscriptions.values():
            if origin is not Locality.SESSION_LOCAL:
                wire_key = face.wire_key(subscription.key)
                face.declare(DeclareSubscriber(subscription.id, wire_key))
        self.keys.redeclare()
        self.answerers.redeclare()
        self.writers.interests.redeclare()
        self.tokens.redeclare()

    def close(self) -> None:
        """Leave the node; every handler gets END."""
        face = self.face
        if face.closed:
            return
        face.closed = self.outbox.closed = True
        for subscription, _ in list(self._subscriptions.values()):
            self.unsubscribe(subscription)
        for answerer in self.answerers.all():
            self.undeclare_answerer(answerer)
        for writer in self.writers.all():
            self.undeclare_writer(writer)
        for watcher in self.tokens.watchers():
            self.tokens.unwatch(watcher)
            face.emit(watcher.outlet, END)
        self.gets.close()
        self.tokens.close()
        self.neighbours.close()
        face.node.detach(face.id, face.now_ns())

    def _declared(self, declare: Declare) -> None:
        body = declare.body
        interests = self.writers.interests
        match body:
            case DeclareSubscriber():
                interests.declared_subscriber(body)
            case UndeclareSubscriber():
                interests.undeclared_subscriber(body)
            case DeclareQueryable():
                interests.declared_queryable(body)
            case UndeclareQueryable():
                interests.undeclared_queryable(body)
            case DeclareToken():
                self.tokens.declared(body, declare.interest_id)
            case UndeclareToken():
                self.tokens.undeclared(body)
            case DeclareFinal():
                self.tokens.final(declare.interest_id)
                interests.final(declare.interest_id)
            case _:
                pass  # aliases mean nothing to a session

    def _ask_local(self, get: PendingGet, ask: Ask) -> bool:
        return self.answerers.ask(self.gets, get, ask)

    def _matches_here(self, writer: Writer) -> bool:
        if writer.options == SUBSCRIBERS:
            return bool(self.inbox.local.matching(writer.key))
        return any(
            serves(writer, one.key, complete=one.complete)
            for one in self.answerers.local_candidates(writer.key)
        )
