"""Extension bodies of INIT and OPEN: QoSLink, Shm, Auth, MultiLink. wire.md 5.4.

The codec takes these bodies apart so that a malformed one is refused with the message; what they
mean for a handshake is the transport's business.
"""

from __future__ import annotations

from typing import Final

from elea.errors import DecodeError
from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import octets, unknown_tree
from elea.wire.extensions import (
    ENC_MASK,
    ENC_UNIT,
    ENC_Z64,
    ENC_ZBUF,
    Extension,
    Known,
    Tree,
    Value,
    decode_chain,
)

METHOD_PUBKEY: Final = 0x01
METHOD_USRPWD: Final = 0x02


@dataclass(slots=True)
class QosLink:
    """What a link is restricted to (5.4.2): a priority range, a reliability, both or neither."""

    qos: bool = False
    priorities: tuple[int, int] | None = None
    reliable: bool | None = None

    def pack(self) -> int:
        """The Z64 value."""
        value = int(self.qos)
        if self.priorities is not None:
            value |= 0x2 | self.priorities[0] << 3 | self.priorities[1] << 11
        if self.reliable is not None:
            value |= 0x4 | self.reliable << 19
        return value


@dataclass(slots=True)
class ShmProbe:
    """Shared-memory probing (5.4.3): segment and challenge as the step has them, and the rest."""

    segment: int | None = None
    challenge: int | None = None
    counters: bytes = b""


@dataclass(slots=True)
class PublicKey:
    """RSA key and nonce (5.4.4, 5.4.5), integers as little-endian octets, as the step has them."""

    modulus: bytes | None = None
    exponent: bytes | None = None
    nonce: bytes | None = None


def unpack_qos_link(value: int, reader: Reader) -> QosLink:
    """The restriction behind a Z64 value."""
    link = QosLink(qos=bool(value & 0x1))
    if value & 0x2:
        first, last = value >> 3 & 0xFF, value >> 11 & 0xFF
        if first > last or last > 7:
            raise reader.error(f"priority range {first}-{last} is not within 0-7")
        link.priorities = (first, last)
    if value & 0x4:
        link.reliable = bool(value >> 19 & 1)
    return link


def _describe_qos_link(value: Value, reader: Reader) -> Tree:
    assert isinstance(value, int)
    link = unpack_qos_link(value, reader)
    tree: Tree = {"tag": value & 0x7}
    if link.priorities is not None:
        tree["priorities"] = list(link.priorities)
    if link.reliable is not None:
        tree["reliable"] = link.reliable
    return tree


QOS_LINK: Final = Known(0x21, "qos_link", _describe_qos_link)


# Shared memory. A step is told by which fields it has: InitSyn segment; InitAck challenge and
# segment; OpenSyn challenge and counters; OpenAck counters.


def read_shm(body: Reader, *, challenge: bool, segment: bool) -> ShmProbe:
    """The body of one step; what is left over are the counters of OPEN."""
    probe = ShmProbe()
    if challenge:
        probe.challenge = body.z64("challenge")
    if segment:
        probe.segment = body.z32("segment")
        body.finish("shared-memory probe")
    else:
        probe.counters = body.rest("counters")
    return probe


def shm_body(probe: ShmProbe) -> Writer:
    """The body of one step."""
    writer = Writer()
    if probe.challenge is not None:
        writer.z64(probe.challenge)
    if probe.segment is not None:
        writer.z64(probe.segment)
    writer.raw(probe.counters)
    return writer


# Public keys: MultiLink, and the first method of Auth.


def read_public_key(body: Reader, *, key: bool, nonce: bool) -> PublicKey:
    """Key and nonce as the step has them."""
    proof = PublicKey()
    if key:
        proof.modulus = body.take(body.z64("modulus length"), "modulus")
        proof.exponent = body.take(body.z64("exponent length"), "exponent")
    if nonce:
        proof.nonce = body.take(body.z64("nonce length"), "nonce")
    body.finish("public key")
    return proof


def public_key_body(proof: PublicKey) -> Writer:
    """Key and nonce as the step has them."""
    writer = Writer()
    for part in (proof.modulus, proof.exponent, proof.nonce):
        if part is not None:
            writer.block(part)
    return writer


def public_key_tree(proof: PublicKey) -> Tree:
    """Key and nonce, described."""
    tree: Tree = {}
    for name, part in (("n", proof.modulus), ("e", proof.exponent), ("nonce", proof.nonce)):
        if part is not None:
            tree[name] = octets(part)
    return tree


# Auth: a chain of methods, each an extension of its own.


def read_auth(body: Reader) -> tuple[Extension, ...]:
    """The methods of one step; their bodies stay octets, for the authenticator to judge."""
    return decode_chain(body, "auth")


def read_usrpwd(body: Reader) -> tuple[bytes, bytes]:
    """User name and proof from the OpenSyn entry of the user/password method."""
    user = body.take(body.z64("user length"), "user")
    proof = body.take(body.z64("hmac length"), "hmac")
    body.finish("user/password entry")
    return user, proof


def usrpwd_body(user: bytes, proof: bytes) -> bytes:
    """The OpenSyn entry of the user/password method."""
    writer = Writer()
    writer.block(user)
    writer.block(proof)
    return writer.to_bytes()


def describe_auth(value: Value, reader: Reader) -> Tree:
    """The methods of an Auth extension."""
    return {"methods": [_method_tree(one) for one in read_auth(reader)]}


def _method_tree(one: Extension) -> Tree:
    method = one.header & 0x0F
    encoding = one.header & ENC_MASK
    if method == METHOD_USRPWD:
        if encoding == ENC_UNIT:
            return {"ext": "usrpwd"}
        if encoding == ENC_Z64:
            return {"ext": "usrpwd", "nonce": one.value}
        if isinstance(one.value, bytes):
            return _usrpwd_tree(one, one.value)
    if method == METHOD_PUBKEY and encoding == ENC_UNIT:
        return {"ext": "pubkey"}
    if method == METHOD_PUBKEY and encoding == ENC_ZBUF and isinstance(one.value, bytes):
        return {"ext": "pubkey", "value": octets(one.value)}
    return unknown_tree(one)


def _usrpwd_tree(one: Extension, value: bytes) -> Tree:
    try:
        user, proof = read_usrpwd(Reader(value))
    except DecodeError:
        # The authenticator will refuse it; to describe it must not fail.
        return unknown_tree(one)
    return {"ext": "usrpwd", "user": octets(user), "hmac": octets(proof)}
