"""Fuzz a gateway of XRCE: whatever a device says after its Open, the gateway lives.

The octets are frames of one device, cut where an octet 0xf7 stands, with half a second after each;
another device has subscribed to everything. What a frame breaks ends the session of its device, and
no other. At the end nothing is left of the first one.
"""

from __future__ import annotations

import json
from pathlib import Path

from elea.timestamp import HybridClock, TimestampId
from elea.xrce.declaration_records import (
    PUSH_MODE_ID,
    CommitDecl,
    PublisherDecl,
    ResourceDecl,
    SubscriberDecl,
)
from elea.xrce.encode import encode
from elea.xrce.gateway.gateway import Gateway
from elea.xrce.gateway.settings import GatewaySettings
from elea.xrce.message_records import AckNack, Close, Declare, Open, Pull, StreamData
from elea.xrce.samples.durability import MemoryStore
from elea.xrce.session.settings import SessionSettings

_EXAMPLES = Path(__file__).parent.parent / "tests" / "vectors" / "xrce" / "examples.jsonl"
_CUT = b"\xf7"
_STEP_NS = 500_000_000
_DEVICE, _OTHER = b"\1", b"\2"

# A gateway and two devices take 60 KiB before the first octet is read, and one declaration of six
# octets is several tables; a Synch may ask for a window of answers.
MEMORY_ALLOWANCE = 1024 * 1024


def _declares(*frames: tuple[object, ...]) -> bytes:
    return _CUT.join(
        encode(Declare(sync=True, committed=False, sn=sn, declarations=said))  # type: ignore[arg-type]
        for sn, said in enumerate(frames)
    )


_WILD = (
    ResourceDecl(rid=2, resource=b"/**"),
    SubscriberDecl(id=2, mode=PUSH_MODE_ID),
    CommitDecl(commit_id=1),
)
_OWN = (
    ResourceDecl(rid=4, resource=b"/a#transient"),
    PublisherDecl(rid=4),
    CommitDecl(commit_id=2),
)
SEEDS = [
    *(
        bytes.fromhex(json.loads(line)["hex"])
        for line in _EXAMPLES.read_text(encoding="ascii").splitlines()
    ),
    _declares(_WILD, _OWN),
    _CUT.join(
        (
            _declares(_OWN),
            encode(StreamData(reliable=True, sync=True, sn=1, id=4, payload=b"1")),
            encode(Pull(sync=True, sn=2, id=4, pull_id=1)),
            encode(AckNack(sn=1, mask=3)),
        )
    ),
]


def one_input(data: bytes) -> None:
    clock = HybridClock(TimestampId.from_bytes(b"\1"))
    now_ns = 0
    settings = GatewaySettings(stamp=lambda: clock.now(now_ns), transient=MemoryStore(), asks=False)
    gateway: Gateway[int] = Gateway(SessionSettings(pid=b"\xb2", lease_ns=0), settings)
    for pid in (_DEVICE, _OTHER):
        gateway.receive(encode(Open(version=1, pid=pid, lease=0, locators=())), pid[0], 0)
    gateway.receive(_declares(_WILD), _OTHER[0], 0)
    for frame in data.split(_CUT)[:16]:
        gateway.receive(frame, _DEVICE[0], now_ns)
        gateway.handle_timer(now_ns)
        gateway.data_to_send(now_ns)
        while gateway.next_effect() is not None:
            pass
        now_ns += _STEP_NS
    assert _OTHER in gateway.devices or _OTHER in data
    gateway.receive(encode(Close(pid=_DEVICE, reason=255)), _DEVICE[0], now_ns)
    assert _DEVICE not in gateway.devices
