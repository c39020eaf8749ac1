"""Samples that go on without becoming messages are the ones that the general way sends."""

from __future__ import annotations

from queue import Empty

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import strategies

from elea.answers import DROPPED
from elea.fast.egress import Egress, Outlet
from elea.fast.sink import FaceSink
from elea.fast.stamping import Stamper
from elea.ids import ZenohId
from elea.limits import DEFAULT_LIMITS
from elea.routing.core import Routing
from elea.routing.face import FaceSpec, local_face
from elea.routing.push import Destination
from elea.routing.regions import CLIENT
from elea.routing.roles.router import ROUTER_ROLE
from elea.session.columns import ColumnsOutlet
from elea.session.deliver import Inbox, Subscription
from elea.session.outlet import Channel
from elea.timestamp import NTP64, HybridClock
from elea.transport.batching import TxQueues
from elea.transport.stats import TransportStats
from elea.wire.batches import decode_batch
from elea.wire.buffer import Reader, Writer
from elea.wire.codec import NetworkMessage, encode_one
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.fields import Stamp, WireEncoding, WireExpr
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push, encode
from elea.wire.shared_extensions import SourceRef

SOURCE, SESSION = 1, 9
OTHERS = (2, 3, 4)
LINK = 0
NOW_NS = 1_700_000_000_000_000_000


class Hub:
    """A router: a client that publishes, a session, and clients that subscribe.

    Client 2 knows the keys by an alias, 3 by their text, 4 wants a part of them.
    """

    def __init__(
        self,
        *,
        fast: bool,
        stamps: bool = True,
        drops_future: bool = False,
        session: bool = True,
        batch_len: int = 60_000,
        queue_len: int = 1_000_000,
    ) -> None:
        self.held: list[tuple[int, NetworkMessage]] = []
        self.egress = Egress(self._hold)
        self.routing = Routing(b"\x07", ROUTER_ROLE, self.egress, DEFAULT_LIMITS)
        self.clock = HybridClock(ZenohId(b"\x07"))
        stamper = Stamper(self.clock, lambda: NOW_NS, drops_future=drops_future)
        if stamps:
            self.routing.stamp_samples(stamper.stamp)
        self.queues: dict[int, TxQueues] = {}
        for face_id in (SOURCE, *OTHERS):
            self._client(face_id, batch_len, queue_len)
        self._say(SOURCE, DeclareKeyExpr(1, WireExpr(0, "fleet")))
        self._say(SOURCE, DeclareKeyExpr(2, WireExpr(0, "fleet/a")))
        self._say(2, DeclareKeyExpr(300, WireExpr(0, "fleet/a")))
        for face_id, key in ((2, "**"), (3, "fleet/**"), (4, "fleet/a")):
            self._say(face_id, DeclareSubscriber(1, WireExpr(0, key)))
        self.channel = Channel(10_000, is_ring=False)
        if session:
            inbox = Inbox("")
            inbox.remote.add(Subscription(1, "fleet/*", self.channel))
            self.egress.outlets[SESSION] = Outlet(SESSION, inbox, None)
            self.routing.open_face(SESSION, local_face(b"\x07", ROUTER_ROLE.whatami), 0)
            self._say(SESSION, DeclareSubscriber(1, WireExpr(0, "fleet/*")))
        for queues in self.queues.values():
            while queues.pull(LINK) is not None:
                pass
        egress = self.egress if fast else None
        self.sink = FaceSink(self.routing, SOURCE, egress, stamper if stamps else None)

    def _client(self, face_id: int, batch_len: int, queue_len: int) -> None:
        placement = ROUTER_ROLE.place(CLIENT)
        assert placement is not None
        queues = self.queues[face_id] = TxQueues(
            batch_len=batch_len,
            prefix_len=2,
            qos=True,
            mask=0xFFFF,
            initial_sn=0,
            bare=False,
            queue_lens=(queue_len,) * 8,
            stats=TransportStats(),
        )
        for priority in queues.priorities():
            queues.assign(priority, LINK, batch_len)
        self.egress.outlets[face_id] = Outlet(face_id, None, queues)
        spec = FaceSpec(zid=bytes((face_id,)), whatami=CLIENT, region=placement.region)
        self.routing.open_face(face_id, spec, 0)

    def _say(self, face_id: int, declaration: DeclareKeyExpr | DeclareSubscriber) -> None:
        self.routing.receive(face_id, Declare(declaration), True, 0)

    def _hold(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        self.held.append((face_id, message))
        return DROPPED

    def frame(self, *pushes: Push, reliable: bool = True) -> None:
        """Samples of one frame arrive."""
        writer = Writer()
        for push in pushes:
            encode(writer, push)
        self.sink.begin()
        self.sink.frame(Reader(writer.to_bytes()), 5, reliable)

    def fragments(self, push: Push, piece_len: int) -> None:
        """A sample arrives in pieces."""
        writer = Writer()
        encode(writer, push)
        octets = writer.to_bytes()
        pieces = [octets[at : at + piece_len] for at in range(0, len(octets), piece_len)]
        self.sink.begin()
        if not self.sink.pieces(list(pieces), True):
            self.sink.message(Reader(octets), 5, True)

    def general(self) -> bool:
        """Whether something of what came last took the general way."""
        return self.sink.general

    def sent(self) -> dict[int, list[bytes]]:
        """The batches for each client."""
        found: dict[int, list[bytes]] = {}
        for face_id, queues in self.queues.items():
            found[face_id] = []
            batch = queues.pull(LINK)
            while batch is not None:
                found[face_id].append(batch)
                batch = queues.pull(LINK)
        return found

    def messages(self, face_id: int) -> list[Push]:
        """The samples in the frames for a client."""
        found = [one for batch in self.sent()[face_id] for one in decode_batch(batch[2:])]
        return [one for one in found if isinstance(one, Push)]

    def delivered(self) -> list[object]:
        """What the session got."""
        found: list[object] = []
        while True:
            try:
                found.append(self.channel.take(blocking=False, timeout=None))
            except Empty:
                return found


PAST = Stamp(NTP64.from_nanos(NOW_NS - 1).value, b"\x09")
FUTURE = Stamp(NTP64.from_nanos(NOW_NS + 10**10).value, b"\x09")
SOON = Stamp(NTP64.from_nanos(NOW_NS + 10**8).value, b"\x09")
SOURCED = SourceRef(b"\x05", 3, 1 << 20)
PLAIN = [
    Put(b""),
    Put(b"12345678"),
    Put(bytes(500), PAST),
    Put(b"x", SOON, WireEncoding(3)),
    Put(b"x", None, WireEncoding(3, b"schema"), b"attached"),
    Put(b"x", None, None, b"", SOURCED),
    Put(b"x", PAST, WireEncoding(0), b"attached", SOURCED),
]
KEYS = [WireExpr(2), WireExpr(1, "/a"), WireExpr(0, "fleet/b"), WireExpr(0, "fleet/a")]

keys = st.sampled_from([*KEYS, WireExpr(0, "none"), WireExpr(77), WireExpr(2, "", sender=False)])
bodies: st.SearchStrategy[Put | Del] = st.one_of(
    st.sampled_from(PLAIN),
    st.sampled_from([Put(b"y", FUTURE), Del(PAST, b"x")]),
    strategies.samples,
)


@st.composite
def arrivals(draw: st.DrawFn) -> Push:
    """Mostly samples that are plain, of keys that have a route."""
    if draw(st.integers(0, 9)) == 0:
        return draw(strategies.pushes())
    return Push(
        draw(keys),
        draw(bodies),
        draw(st.sampled_from([0x05, 0x0D, 0x15, 0x02, 0x25, 0x45])),
        node_id=draw(st.sampled_from([0, 0, 0, 1, 5, 200])),
    )


@settings(deadline=None)
@given(
    frames=st.lists(st.lists(arrivals(), max_size=6), max_size=4),
    reliable=st.booleans(),
    stamps=st.booleans(),
    drops_future=st.booleans(),
    as_router=st.booleans(),
)
def test_both_ways_send_the_same_octets(
    frames: list[list[Push]], reliable: bool, stamps: bool, drops_future: bool, as_router: bool
) -> None:
    hubs = [Hub(fast=fast, stamps=stamps, drops_future=drops_future) for fast in (False, True)]
    for hub in hubs:
        if as_router:
            source = hub.routing.push_source(SOURCE)
            assert source is not None
            cache = source.cache
            source.routes = lambda node_id, cache=cache: cache if node_id < 100 else None
        warm = [Push(key, Put(b"")) for key in KEYS]
        hub.frame(*warm)
        for pushes in frames:
            hub.frame(*pushes, reliable=reliable)
    general, fast = hubs
    assert fast.sent() == general.sent()
    assert fast.delivered() == general.delivered()
    assert fast.held == general.held == []
    assert fast.routing.stats.drops == general.routing.stats.drops
    assert fast.clock.refused_count == general.clock.refused_count
    assert fast.clock.tick(NOW_NS) == general.clock.tick(NOW_NS)
    assert fast.sink.received == general.sink.received


@pytest.mark.parametrize("body", PLAIN)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("stamps", [True, False])
def test_plain_samples_do_not_become_messages(body: Put, key: WireExpr, stamps: bool) -> None:
    hub = Hub(fast=True, stamps=stamps)
    hub.frame(Push(key, body))
    assert hub.general()  # the first one finds the route
    hub.frame(*[Push(key, body, qos, node_id=3) for qos in (5, 5, 13)])
    assert not hub.general()
    assert len(hub.messages(2)) == 4
    assert len(hub.delivered()) == 4


def test_a_sample_from_the_future_is_stamped_anew_or_dropped_in_place() -> None:
    hub = Hub(fast=True)
    hub.frame(Push(WireExpr(2), Put(b"first")))
    hub.frame(Push(WireExpr(2), Put(b"x", FUTURE)))
    assert not hub.general()
    message = hub.messages(3)[-1]
    assert isinstance(message.body, Put)
    assert message.body.timestamp is not None
    assert message.body.timestamp.id == b"\x07"
    assert hub.clock.refused_count == 1
    strict = Hub(fast=True, drops_future=True)
    for _ in range(3):
        strict.frame(Push(WireExpr(2), Put(b"x", FUTURE)))
    assert strict.messages(3) == []
    assert strict.clock.refused_count == 3


def test_who_finds_no_room_does_not_stop_the_others() -> None:
    hub = Hub(fast=True, queue_len=400)
    for _ in range(3):
        hub.frame(*[Push(WireExpr(2), Put(bytes(64)), 0x0D)] * 10)
        hub.queues[2].pull(LINK)
        hub.queues[3].pull(LINK)
    assert {face_id for face_id, _ in hub.held} == set(OTHERS)
    waiting = [message for face_id, message in hub.held if face_id == 4]
    assert len(hub.messages(4)) + len(waiting) == 30
    message = waiting[0]
    assert isinstance(message, Push)
    assert isinstance(message.body, Put)
    assert message.body.timestamp is not None


class Watcher:
    """A guard that lets everything pass."""

    def check(self, message: NetworkMessage, reliable: bool) -> NetworkMessage | None:
        return message


def test_whoever_guards_a_face_sees_every_message() -> None:
    hub = Hub(fast=True)
    hub.frame(Push(WireExpr(2), Put(b"")))
    hub.egress.outlets[3].guard = Watcher()
    hub.frame(Push(WireExpr(2), Put(b"")))
    assert hub.general()
    hub.egress.outlets[3].guard = None
    hub.frame(Push(WireExpr(2), Put(b"")))
    assert not hub.general()
    hub.sink.guard = Watcher()
    hub.frame(Push(WireExpr(2), Put(b"")))
    assert hub.general()


def keys_of(messages: list[Push]) -> list[str]:
    return [one.key.suffix for one in messages]


@pytest.mark.parametrize("in_fragments", [True, False])
def test_an_alias_is_what_it_means_now(in_fragments: bool) -> None:
    hub = Hub(fast=True)
    for key in (WireExpr(0, "fleet/a"), WireExpr(0, "fleet/b")):
        hub.frame(Push(key, Put(b"")))  # they have routes now
    hub.messages(3)
    hub.frame(Push(WireExpr(2), Put(b"1")))
    said = [Declare(UndeclareKeyExpr(2)), Declare(DeclareKeyExpr(2, WireExpr(0, "fleet/b")))]
    writer = Writer()
    for one in said:
        if in_fragments:
            hub.sink.message(Reader(encode_one(one)), 5, True)
        else:
            writer.raw(encode_one(one))
    encode(writer, Push(WireExpr(2), Put(b"2")))
    hub.sink.frame(Reader(writer.to_bytes()), 5, True)
    assert keys_of(hub.messages(3)) == ["fleet/a", "fleet/b"]


def test_who_subscribes_or_leaves_later_is_seen() -> None:
    hub = Hub(fast=True)
    sample = Push(WireExpr(1, "/b"), Put(b""))
    for _ in range(3):
        hub.frame(sample)
    assert [len(hub.messages(face_id)) for face_id in OTHERS] == [3, 0, 0], "all queues are pulled"
    hub._say(4, DeclareSubscriber(2, WireExpr(0, "fleet/b")))
    hub.frame(sample)
    hub.frame(sample)
    assert len(hub.messages(4)) == 2
    hub.delivered()
    hub.routing.close_face(SESSION, 0)
    del hub.egress.outlets[SESSION]
    hub.frame(sample)
    assert hub.delivered() == []
    assert len(hub.messages(4)) == 1


def test_keys_that_are_remembered_are_bounded() -> None:
    hub = Hub(fast=True)
    hub.sink = FaceSink(hub.routing, SOURCE, hub.egress, None, 2)
    for number in [*range(5), *range(5)]:
        hub.frame(Push(WireExpr(0, f"fleet/{number}"), Put(b"")))
        assert len(hub.sink._aims) <= 2
    assert not hub.general()
    assert keys_of(hub.messages(3)) == [f"fleet/{number}" for number in [*range(5), *range(5)]]


def test_each_frame_begins_once_for_who_takes_it() -> None:
    hub = Hub(fast=True)
    inbox = hub.egress.outlets[SESSION].raw
    assert isinstance(inbox, Inbox)
    times: list[int] = []

    def wall_ns() -> int:
        times.append(len(times) * 1_000)
        return times[-1]

    columns = ColumnsOutlet(Channel(10, is_ring=False), 1_000, 1 << 20, wall_ns)
    inbox.remote.add(Subscription(2, "fleet/*", columns))
    samples = [Push(key, Put(b"")) for key in (WireExpr(2), WireExpr(0, "fleet/b"))]
    hub.frame(*samples)
    times.clear()
    for count in (1, 2):
        hub.frame(*samples, *samples)
        assert not hub.general()
        assert len(times) == count


@pytest.mark.parametrize(
    "body", [Put(bytes(5_000)), Put(bytes(5_000), PAST, WireEncoding(3, b"s"))]
)
def test_fragments_and_long_samples_go_on_as_they_would(body: Put) -> None:
    for piece_len in (1_000, 6_000):
        hubs = [Hub(fast=fast, batch_len=1_500) for fast in (False, True)]
        for hub in hubs:
            hub.frame(Push(WireExpr(2), Put(b"")))
            hub.fragments(Push(WireExpr(2), body, 0x0D), piece_len)
            assert hub.general() is (hub is hubs[0])
            hub.frame(Push(WireExpr(2), body))
        general, fast = hubs
        assert fast.sent() == general.sent()
        assert fast.delivered() == general.delivered()


@given(key=strategies.wire_exprs(), qos=strategies.u8s, node_id=strategies.u16s)
def test_a_head_is_what_the_encoder_writes(key: WireExpr, qos: int, node_id: int) -> None:
    where = Destination(3, key, node_id)
    for body in (Put(b"x", PAST), Put(b"x", None, WireEncoding(3))):
        writer = Writer()
        encode(writer, Push(key, body, qos, None, node_id))
        whole = writer.to_bytes()
        header = 0x21 if body.timestamp is not None else 0x41
        assert whole.startswith(where.head(qos, header))
        assert whole.startswith(where.head(qos, header))


@pytest.mark.parametrize("encoding", [None, WireEncoding(3), WireEncoding(3, b"schema")])
@pytest.mark.parametrize("stamp", [None, PAST])
@pytest.mark.parametrize("qos", [0x05, 0x1D])
def test_values_of_publishers_leave_as_their_messages_would(
    encoding: WireEncoding | None, stamp: Stamp | None, qos: int
) -> None:
    hubs = [Hub(fast=True, session=False) for _ in range(2)]
    general, fast = hubs
    for hub in hubs:
        hub.frame(Push(WireExpr(2), Put(b"")))
    source = fast.routing.push_source(SOURCE)
    assert source is not None
    route = source.cache.samples["fleet/a"]
    ways = fast.egress.ways(route, SOURCE, Put(b"", None, encoding), qos)
    assert ways is not None
    for payload in (b"", b"12345678", bytes(70_000)):
        for way, where in zip(ways, route, strict=True):
            message = Push(where.key, Put(payload, stamp, encoding), qos)
            general.egress.send(where.face_id, message, True)
            fast.egress.send_value(way, payload, stamp, True)
    assert fast.sent() == general.sent()
    fast.egress.outlets[3].guard = Watcher()
    assert fast.egress.ways(route, SOURCE, Put(b"", None, encoding), qos) is None
