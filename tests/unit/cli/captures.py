"""Builds capture files: TCP and UDP packets in pcap and pcapng, by hand."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from ipaddress import ip_address

ETHERNET, NULL, RAW, SLL, SLL2 = 1, 0, 101, 113, 276
SYN, ACK = 0x02, 0x10
CLIENT, ROUTER = ("10.0.0.1", 40_000), ("10.0.0.2", 7447)

End = tuple[str, int]


def tcp(source: End, target: End, sequence: int, payload: bytes = b"", flags: int = ACK) -> bytes:
    """A TCP segment in an IP packet."""
    header = struct.pack(
        ">HHIIBBHHH", source[1], target[1], sequence & 0xFFFFFFFF, 0, 5 << 4, flags, 0, 0, 0
    )
    return _ip(source[0], target[0], 6, header + payload)


def udp(source: End, target: End, payload: bytes) -> bytes:
    """A UDP datagram in an IP packet."""
    header = struct.pack(">HHHH", source[1], target[1], 8 + len(payload), 0)
    return _ip(source[0], target[0], 17, header + payload)


def _ip(source: str, target: str, protocol: int, body: bytes) -> bytes:
    addresses = ip_address(source).packed + ip_address(target).packed
    if len(addresses) == 32:
        return struct.pack(">IHBB", 6 << 28, len(body), protocol, 64) + addresses + body
    total = 20 + len(body)
    return struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0, 64, protocol, 0) + addresses + body


def link(kind: int, packet: bytes) -> bytes:
    """An IP packet as it lies on a link."""
    ethertype = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    match kind:
        case 1:
            return bytes(12) + struct.pack(">H", ethertype) + packet
        case 113:
            return bytes(14) + struct.pack(">H", ethertype) + packet
        case 276:
            return struct.pack(">H", ethertype) + bytes(18) + packet
        case 0:
            return b"\x02\0\0\0" + packet
        case _:
            return packet


def pcap(packets: list[bytes], kind: int = RAW, *, order: str = "<", nano: bool = False) -> bytes:
    """A pcap file; packets are one millisecond apart."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    out = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 65_535, kind)
    for number, packet in enumerate(packets):
        data = link(kind, packet)
        fraction = number * (1_000_000 if nano else 1_000)
        out += struct.pack(order + "IIII", 1, fraction, len(data), len(data)) + data
    return out


def pcapng(packets: list[bytes], kind: int = ETHERNET, *, order: str = "<") -> bytes:
    """A pcapng file with nanosecond timestamps and a block nobody knows."""

    def block(type_: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        length = 12 + len(body)
        return struct.pack(order + "II", type_, length) + body + struct.pack(order + "I", length)

    out = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack(order + "HHIHHBxxxHH", kind, 0, 0, 9, 1, 9, 0, 0))
    out += block(0xBAD, b"whatever")
    for number, packet in enumerate(packets):
        data = link(kind, packet)
        time = 1_000_000_000 + number * 1_000_000
        head = struct.pack(order + "IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
        out += block(6, head + data)
    return out


@dataclass
class Talk:
    """Both directions of a TCP connection, as packets in the order they were captured."""

    packets: list[bytes] = field(default_factory=list)
    near: End = CLIENT
    far: End = ROUTER
    sequences: dict[End, int] = field(default_factory=dict)

    def open(self, near_sn: int = 1_000, far_sn: int = 9_000) -> None:
        """The three-way handshake, as far as it matters."""
        self.packets.append(tcp(self.near, self.far, near_sn, flags=SYN))
        self.packets.append(tcp(self.far, self.near, far_sn, flags=SYN | ACK))
        self.sequences = {self.near: near_sn + 1, self.far: far_sn + 1}

    def say(self, source: End, data: bytes) -> None:
        """One segment in order."""
        target = self.far if source == self.near else self.near
        self.packets.append(tcp(source, target, self.sequences[source], data))
        self.sequences[source] += len(data)
