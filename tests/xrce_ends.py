"""One end of a reliable channel of XRCE, told by hand; octets in hexadecimal."""

from __future__ import annotations

from tests.xrce_network import MS

from elea.xrce.channel.receiver import ReliableReceiver
from elea.xrce.channel.rtt import RoundTrip
from elea.xrce.channel.sender import ReliableSender, Window
from elea.xrce.channel.serial import Serial
from elea.xrce.encode import encode
from elea.xrce.message_records import StreamData, Synch

RTT_NS = 10 * MS


def round_trip() -> RoundTrip:
    made = RoundTrip()
    made.sample(RTT_NS)
    return made


def sender(bits: int = 14, count: int = 256, length: int = 2**20) -> ReliableSender:
    return ReliableSender(Serial(bits), round_trip(), Window(count, length, count))


def receiver(bits: int = 14, count: int = 256, length: int = 2**20) -> ReliableReceiver[str]:
    return ReliableReceiver(Serial(bits), round_trip(), store_count=count, store_len=length)


def send(end: ReliableSender, text: str = "a", now_ns: int = 0, *, flush: bool = False) -> None:
    data = StreamData(reliable=True, sync=False, sn=end.next_sn, id=2, payload=text.encode())
    end.send(encode(data), now_ns, flush=flush)


def sent(end: ReliableSender) -> list[str]:
    return [octets.hex(" ") for octets in end.data_to_send()]


def acks(end: ReliableReceiver[str]) -> list[str]:
    return [encode(one).hex(" ") for one in end.acks_to_send()]


def take(
    end: ReliableReceiver[str], sn: int, now_ns: int = 0, *, answer: bool = False
) -> list[str]:
    return end.receive(sn, f"m{sn}", 10, now_ns, answer=answer)


def synch(sn: int, count: int | None = None, *, sync: bool = False) -> Synch:
    return Synch(reliable=True, sync=sync, sn=sn, count=count)
