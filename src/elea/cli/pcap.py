"""Capture files: pcap and pcapng to the payloads of TCP streams and UDP datagrams.

Reads what tcpdump and Wireshark write. TCP is put in order per direction: retransmissions are
dropped, a segment that came early waits (bounded), and a hole that never closes ends that
direction, since nothing after it can be cut into batches.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from elea.errors import EleaError

PACKET_LEN_MAX: Final = 1 << 20  # no link delivers more in one packet
EARLY_LEN_MAX: Final = 4 << 20  # octets of one direction that may wait for a hole to close

_PCAP_MAGIC: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
}
_PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_LINK_NULL, _LINK_ETHERNET, _LINK_RAW, _LINK_SLL, _LINK_LOOP, _LINK_SLL2 = 0, 1, 101, 113, 108, 276
_ETHERTYPES: Final = {0x0800, 0x86DD}
_TCP: Final = 6
_UDP: Final = 17


class CaptureError(EleaError):
    """A file that is no capture, or one that is cut or damaged."""


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """One end of a connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(slots=True)
class Segment:
    """One TCP segment or UDP datagram."""

    time: float
    source: Address
    target: Address
    payload: bytes
    sequence: int = 0  # TCP
    syn: bool = False
    ack: bool = False
    tcp: bool = False


def is_capture(data: bytes) -> bool:
    """Whether a file starts as pcap or pcapng does."""
    return data[:4] in _PCAP_MAGIC or data[:4] == _PCAPNG_MAGIC


def segments(data: bytes) -> Iterator[Segment]:
    """The TCP segments and UDP datagrams of a capture, in its order.

    Raises:
        CaptureError: if the file is no capture, or ends inside a packet.
    """
    packets = _pcapng(data) if data[:4] == _PCAPNG_MAGIC else _pcap(data)
    for time, link, packet in packets:
        segment = _segment(time, link, packet)
        if segment is not None:
            yield segment


@dataclass(slots=True)
class TcpStream:
    """One direction of a TCP connection, put in order."""

    expected: int | None = None
    lost: bool = False
    _early: dict[int, bytes] = field(default_factory=dict)
    _early_len: int = 0

    def accept(self, segment: Segment) -> bytes:
        """The octets that `segment` makes available, in order."""
        if segment.syn:
            self.expected = segment.sequence + 1 & 0xFFFFFFFF
            return b""
        if not segment.payload or self.lost:
            return b""
        if self.expected is None:  # the capture began later than the connection
            self.expected = segment.sequence
        out = bytearray(self._take(segment.sequence, segment.payload))
        while out and self._early:
            ready = self._pop_ready()
            if ready is None:
                break
            out += ready
        return bytes(out)

    def _take(self, sequence: int, payload: bytes) -> bytes:
        assert self.expected is not None
        ahead = sequence - self.expected & 0xFFFFFFFF
        if ahead >= 0x80000000:  # begins before what we expect: retransmitted, at least in part
            payload = payload[0x100000000 - ahead :]
        elif ahead:
            self._wait(sequence, payload)
            return b""
        self.expected = self.expected + len(payload) & 0xFFFFFFFF
        return payload

    def _wait(self, sequence: int, payload: bytes) -> None:
        if self._early_len + len(payload) > EARLY_LEN_MAX:
            self.lost = True
            self._early.clear()
            return
        if len(payload) > len(self._early.get(sequence, b"")):
            self._early_len += len(payload) - len(self._early.get(sequence, b""))
            self._early[sequence] = payload

    def _pop_ready(self) -> bytes | None:
        assert self.expected is not None
        for sequence in list(self._early):
            ahead = sequence - self.expected & 0xFFFFFFFF
            if ahead == 0 or ahead >= 0x80000000:
                payload = self._early.pop(sequence)
                self._early_len -= len(payload)
                taken = self._take(sequence, payload)
                if taken:
                    return taken
        return None

    @property
    def waiting(self) -> int:
        """Octets that wait behind a hole."""
        return self._early_len


def _pcap(data: bytes) -> Iterator[tuple[float, int, bytes]]:
    if data[:4] not in _PCAP_MAGIC:
        raise CaptureError(f"not a capture: starts with {data[:4].hex()}, no pcap or pcapng magic")
    order, unit = _PCAP_MAGIC[data[:4]]
    if len(data) < 24:
        raise CaptureError("the capture ends inside its file header")
    link = struct.unpack_from(order + "I", data, 20)[0] & 0x0FFFFFFF
    at = 24
    while at < len(data):
        if at + 16 > len(data):
            raise CaptureError(f"the capture ends inside a packet header at offset {at}")
        seconds, fraction, length, _ = struct.unpack_from(order + "IIII", data, at)
        at += 16
        if length > PACKET_LEN_MAX or at + length > len(data):
            raise CaptureError(f"the capture ends inside a packet of {length} octets at {at}")
        yield seconds + fraction * unit, link, data[at : at + length]
        at += length


@dataclass(slots=True)
class _Interface:
    link: int
    unit: float


def _pcapng(data: bytes) -> Iterator[tuple[float, int, bytes]]:
    order = "<"
    interfaces: list[_Interface] = []
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            raise CaptureError(f"the capture ends inside a block at offset {at}")
        if data[at : at + 4] == _PCAPNG_MAGIC:
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
        kind, length = struct.unpack_from(order + "II", data, at)
        if length < 12 or length % 4 or at + length > len(data):
            raise CaptureError(f"the capture is damaged: a block of {length} octets at offset {at}")
        body = data[at + 8 : at + length - 4]
        at += length
        if kind == 1 and len(body) >= 8:
            link = struct.unpack_from(order + "H", body)[0]
            interfaces.append(_Interface(link, _resolution(body[8:], order)))
        elif kind == 6 and len(body) >= 20:
            index, high, low, captured = struct.unpack_from(order + "IIII", body)
            if index >= len(interfaces) or 20 + captured > len(body):
                raise CaptureError(f"the capture is damaged: a packet before offset {at}")
            interface = interfaces[index]
            time = (high << 32 | low) * interface.unit
            yield time, interface.link, body[20 : 20 + captured]
        elif kind == 3 and len(body) >= 4 and interfaces:
            captured = min(struct.unpack_from(order + "I", body)[0], len(body) - 4)
            yield 0.0, interfaces[0].link, body[4 : 4 + captured]


def _resolution(options: bytes, order: str) -> float:
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(order + "HH", options, at)
        if code == 9 and length == 1 and at + 4 < len(options):
            exponent = options[at + 4]
            return float(2.0 ** -(exponent & 0x7F) if exponent & 0x80 else 10.0**-exponent)
        if code == 0:
            break
        at += 4 + (length + 3) // 4 * 4
    return 1e-6


def _segment(time: float, link: int, packet: bytes) -> Segment | None:
    payload = _network_payload(link, packet)
    if payload is None or not payload:
        return None
    version = payload[0] >> 4
    if version == 4 and len(payload) >= 20:
        header_len = (payload[0] & 0x0F) * 4
        total = int.from_bytes(payload[2:4], "big") or len(payload)  # 0 with segment offload
        fragment = int.from_bytes(payload[6:8], "big") & 0x3FFF
        if fragment:
            return None  # a fragmented packet: Zenoh's own batches stay below the path's limit
        hosts = payload[12:16], payload[16:20]
        return _transport(time, payload[9], hosts, payload[header_len:total])
    if version == 6 and len(payload) >= 40:
        length = int.from_bytes(payload[4:6], "big")
        hosts = payload[8:24], payload[24:40]
        body = payload[40 : 40 + length] if length else payload[40:]
        return _transport(time, payload[6], hosts, body)
    return None


def _network_payload(link: int, packet: bytes) -> bytes | None:
    if link == _LINK_ETHERNET:
        at = 12
        ethertype = int.from_bytes(packet[at : at + 2], "big")
        while ethertype in (0x8100, 0x88A8):  # VLAN tags
            at += 4
            ethertype = int.from_bytes(packet[at : at + 2], "big")
        return packet[at + 2 :] if ethertype in _ETHERTYPES else None
    if link == _LINK_SLL:
        return packet[16:] if int.from_bytes(packet[14:16], "big") in _ETHERTYPES else None
    if link == _LINK_SLL2:
        return packet[20:] if int.from_bytes(packet[0:2], "big") in _ETHERTYPES else None
    if link in (_LINK_NULL, _LINK_LOOP):
        return packet[4:]
    if link in (_LINK_RAW, 12, 14, 228, 229):
        return packet
    raise CaptureError(f"link type {link} is not supported; capture on Ethernet, loopback or 'any'")


def _transport(
    time: float, protocol: int, hosts: tuple[bytes, bytes], body: bytes
) -> Segment | None:
    if protocol not in (_TCP, _UDP) or len(body) < (20 if protocol == _TCP else 8):
        return None
    ports = struct.unpack_from(">HH", body)
    source, target = (
        Address(str(ipaddress.ip_address(host)), port)
        for host, port in zip(hosts, ports, strict=True)
    )
    if protocol == _UDP:
        length = int.from_bytes(body[4:6], "big")
        return Segment(time, source, target, body[8 : max(length, 8)])
    flags = body[13]
    return Segment(
        time,
        source,
        target,
        body[(body[12] >> 4) * 4 :],
        sequence=int.from_bytes(body[4:8], "big"),
        syn=bool(flags & 0x02),
        ack=bool(flags & 0x10),
        tcp=True,
    )
