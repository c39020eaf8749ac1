"""Devices that say anything in any order: a gateway lives, and is empty when they are gone."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from tests.xrce_world import World

from elea.xrce.declaration_records import (
    BindingDecl,
    CommitDecl,
    Declaration,
    ForgetPublisherDecl,
    ForgetResourceDecl,
    ForgetSelectionDecl,
    ForgetSubscriberDecl,
    Property,
    PublisherDecl,
    ResourceDecl,
    ResultDecl,
    SelectionDecl,
    SubscriberDecl,
    SubscriberDeclParamsPart,
)
from elea.xrce.encode import encode
from elea.xrce.gateway.effects import Ask, Effect, Subscribe, Unsubscribe, Unwatch, Watch
from elea.xrce.message_records import (
    AckNack,
    BatchedData,
    Close,
    Declare,
    Message,
    Open,
    Pull,
    StreamData,
    WriteData,
)
from elea.xrce.samples.durability import MemoryStore

SEEDS = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 40
STEPS = 150
NAMES = (b"/a", b"/a/b", b"/*", b"/a/**", b"/a?", b"/a#transient", b"/**#{persistent,transient}",
         b"/a/property", b"/@v/a", b"nothing", b"/a#sticky")  # fmt: skip
QUERIES = (*NAMES, b"/*?{v > 1}", b"/a?{v >}", b"/a?{key LIKE 'a%'}")


class Chaos:
    """Draws what a device says."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def id(self) -> int:
        return self.rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 16_382, 2**63))

    def properties(self) -> tuple[Property, ...] | None:
        if self.rng.random() < 0.7:
            return None
        value = bytes((self.rng.choice((0, 1, 2, 9)),))
        return (Property(id=self.rng.choice((6, 8, 5, 11, 98)), value=value),)

    def declaration(self) -> Declaration:
        rng, said = self.rng, self.properties()
        window = SubscriberDeclParamsPart(
            temporal_origin=rng.randrange(500),
            period=rng.randrange(1_000),
            duration=rng.randrange(300),
        )
        makers = (
            lambda: ResourceDecl(rid=self.id(), resource=rng.choice(NAMES), properties=said),
            lambda: PublisherDecl(rid=self.id(), properties=said),
            lambda: SubscriberDecl(id=self.id(), mode=rng.choice((1, 2, 5)), properties=said),
            lambda: SubscriberDecl(
                id=self.id(), mode=rng.choice((3, 4)), params=window, properties=said
            ),
            lambda: SelectionDecl(
                global_=rng.random() < 0.1, sid=self.id(), query=rng.choice(QUERIES)
            ),
            lambda: BindingDecl(global_=False, old_id=self.id(), new_id=self.id()),
            lambda: ResultDecl(commit_id=rng.randrange(3), status=0),
            lambda: ForgetResourceDecl(rid=self.id()),
            lambda: ForgetPublisherDecl(id=self.id()),
            lambda: ForgetSubscriberDecl(id=self.id()),
            lambda: ForgetSelectionDecl(sid=self.id()),
            lambda: CommitDecl(commit_id=rng.randrange(256)),
        )
        made: Declaration = rng.choice(makers)()
        return made

    def message(self, sn: int) -> Message:
        rng = self.rng
        kind = rng.randrange(8)
        if kind < 4:
            listed = [self.declaration() for _ in range(rng.randrange(1, 4))]
            if rng.random() < 0.8:
                listed.append(CommitDecl(commit_id=rng.randrange(256)))
            committed = rng.random() < 0.05
            return Declare(sync=False, committed=committed, sn=sn, declarations=tuple(listed))
        prid = self.id() if rng.random() < 0.4 else None
        if kind == 4:
            return StreamData(
                reliable=True, sync=False, sn=sn, id=self.id(), prid=prid, payload=b'{"v": 2}'
            )
        if kind == 5:
            name = rng.choice(NAMES)
            return WriteData(reliable=True, sync=False, sn=sn, resource=name, payload=b"2")
        if kind == 6:
            payloads = (b"1", b"2")
            return BatchedData(
                reliable=True, sync=False, sn=sn, id=self.id(), has_prid=False, payload=payloads
            )
        wanted = rng.choice((None, 0, 1, 5))
        return Pull(sync=False, sn=sn, id=self.id(), pull_id=rng.randrange(20), max_samples=wanted)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_gateway_outlives_what_devices_say(seed: int) -> None:
    chaos = Chaos(seed)
    rng = chaos.rng
    world = World(
        seed=seed, transient=MemoryStore(), persistent=MemoryStore(evicts=False), asks=True
    )
    gateway, next_sn, effects = world.gateway, dict.fromkeys((7, 8, 9), -1), list[Effect]()
    for _ in range(STEPS):
        source = rng.choice((7, 8, 9))
        pid = bytes((source,))
        if pid not in gateway.devices:
            opening = Open(version=1, pid=pid, lease=0, locators=())
            gateway.receive(encode(opening), source, world.now_ns)
            next_sn[source] = 0
        elif rng.random() < 0.1:
            world.put(rng.choice(("a", "a/b", "@v/a")), b"3", deleted=rng.random() < 0.3)
        else:
            message = chaos.message(next_sn[source])
            next_sn[source] += 1
            gateway.receive(encode(message), source, world.now_ns)
        session = gateway.acceptor.session(pid)
        if session is not None and session.conduits.unacknowledged_count:
            acknowledged = AckNack(sn=session.conduits.unacknowledged_count)
            gateway.receive(encode(acknowledged), source, world.now_ns)
        world.now_ns += rng.choice((0, 1_000_000, 100_000_000))
        gateway.handle_timer(world.now_ns)
        gateway.data_to_send(world.now_ns)
        while (effect := gateway.next_effect()) is not None:
            effects.append(effect)
            if isinstance(effect, Ask) and rng.random() < 0.7:
                gateway.answered(effect.query_id, [world.sample("a", b"0")], world.now_ns)
    for source in (7, 8, 9):
        ending = Close(pid=bytes((source,)), reason=255)
        gateway.receive(encode(ending), source, world.now_ns)
    while (effect := gateway.next_effect()) is not None:
        effects.append(effect)
    assert gateway.devices == {}, f"seed {seed}"
    wanted: Counter[tuple[str, str]] = Counter()
    for effect in effects:
        match effect:
            case Subscribe() | Watch():
                wanted[type(effect).__name__, effect.key_expr] += 1
            case Unsubscribe():
                wanted["Subscribe", effect.key_expr] -= 1
            case Unwatch():
                wanted["Watch", effect.key_expr] -= 1
            case _:
                continue
        assert all(0 <= count <= 1 for count in wanted.values()), f"seed {seed}"
    assert not +wanted, f"seed {seed}"
