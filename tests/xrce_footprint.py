"""What a device takes in memory: in its own program, and at a gateway. Frames are made before."""

from __future__ import annotations

import dataclasses
import gc
import tracemalloc
from collections.abc import Callable

from tests.xrce_world import BROKER, World, device_settings

from elea.xrce.client import DEVICE_LIMITS, Client
from elea.xrce.declaration_records import (
    PUSH_MODE_ID,
    CommitDecl,
    PublisherDecl,
    ResourceDecl,
    ResultDecl,
    SubscriberDecl,
)
from elea.xrce.encode import encode
from elea.xrce.message_records import Accept, AckNack, Declare, Frag, Open, Pong, StreamData

CLIENTS = 20
PAYLOAD = bytes(100)


def traced(work: Callable[[], object]) -> int:
    """Octets that are still taken after some work."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def client_octets() -> dict[str, int]:
    """One client with `DEVICE_LIMITS`: new, idle with declarations, and with all buffers full."""
    settings = dataclasses.replace(device_settings(0), limits=DEVICE_LIMITS)
    accept = encode(Accept(open_pid=settings.pid, accept_pid=BROKER, lease=300))
    pong = encode(Pong(hash=1))
    result = encode(_declare(0, ResultDecl(commit_id=0, status=0), committed=False))
    interest = encode(_declare(1, SubscriberDecl(id=2, mode=PUSH_MODE_ID), committed=True))
    early = [encode(_data(3 + number)) for number in range(DEVICE_LIMITS.xrce_store_count)]
    slices = [
        encode(Frag(sn_base=0, n=100)) + encode(_data(number, reliable=False))
        for number in range(80)
    ]

    def new() -> Client:
        return Client(settings)

    def idle() -> Client:
        client = new()
        client.open(0)
        client.data_to_send(0)
        client.receive(accept, 0)
        client.receive(pong, 0)
        rid = client.resource("/lab/t")
        client.publisher(rid)
        client.subscriber(client.resource("/lab/u"))
        client.commit()
        client.data_to_send(0)
        client.receive(result, 0)
        client.receive(interest, 0)
        client.receive(encode(AckNack(sn=1)), 0)
        _drained(client)
        assert client.is_matched(rid)
        return client

    def full() -> Client:
        client = idle()
        while client.write(2, PAYLOAD, 0):
            pass
        for frame in (*early, *slices):
            client.receive(frame, 0)
        _drained(client)
        assert client.is_open
        return client

    found = {}
    for name, make in (("new", new), ("idle", idle), ("full", full)):
        make()  # what all clients share is there already
        kept: list[Client] = []
        octets = traced(lambda: kept.extend(make() for _ in range(CLIENTS)))  # noqa: B023
        found[name] = octets // CLIENTS
    return found


def device_octets(count: int) -> int:
    """One idle device at a gateway, with two resources, a publisher and a subscriber."""
    world = World(lease_s=0, interest_always=True)
    gateway = world.gateway
    frames = [
        (
            number,
            encode(Open(version=1, pid=number.to_bytes(4, "big"), lease=0, locators=())),
            encode(
                _declare(
                    0,
                    ResourceDecl(rid=2, resource=b"/fleet/%d/t" % number),
                    ResourceDecl(rid=4, resource=b"/fleet/%d/u" % number),
                    PublisherDecl(rid=2),
                    SubscriberDecl(id=4, mode=PUSH_MODE_ID),
                    CommitDecl(commit_id=0),
                    committed=False,
                )
            ),
            [encode(AckNack(sn=1)), encode(AckNack(sn=2)), encode(Pong(hash=1))],
        )
        for number in range(count + 1)
    ]

    def join(number: int, opening: bytes, declaring: bytes, acks: list[bytes]) -> None:
        now_ns = number * 10**9
        gateway.receive(opening, number, now_ns)
        gateway.receive(declaring, number, now_ns)
        gateway.handle_timer(now_ns + 10**8)
        gateway.data_to_send(now_ns + 10**8)
        for ack in acks:
            gateway.receive(ack, number, now_ns + 10**8)
        while gateway.next_effect() is not None:
            pass
        gateway.data_to_send(now_ns + 10**8)

    join(*frames[0])

    def join_all() -> None:
        for one in frames[1:]:
            join(*one)

    octets = traced(join_all)
    assert len(gateway.devices) == count + 1
    return octets // count


def _declare(sn: int, *declarations: object, committed: bool) -> Declare:
    return Declare(sync=False, committed=committed, sn=sn, declarations=declarations)  # type: ignore[arg-type]


def _data(sn: int, *, reliable: bool = True) -> StreamData:
    return StreamData(reliable=reliable, sync=False, sn=sn, id=4, payload=PAYLOAD)


def _drained(client: Client) -> None:
    client.data_to_send(0)
    while client.next_event() is not None:
        pass
