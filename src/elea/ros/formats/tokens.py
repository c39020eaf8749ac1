"""Liveliness tokens: every node and endpoint of a fleet, told by its key (R2-151 to R2-157).

rmw_zenoh, a node and an endpoint:
    @ros2_lv/<domain>/<zid>/<nid>/<nid>/NN/<enclave>/<namespace>/<node>
    @ros2_lv/<domain>/<zid>/<nid>/<eid>/<kind>/<enclave>/<namespace>/<node>
        /<name>/<type>/<hash>/<qos>[/backends:<list>]

zenoh-bridge-ros2dds, the bridge itself, topics, services and actions:
    @/<zid>/@ros2_lv
    @/<zid>/@ros2_lv/{MP,MS}/<key>/<type>/<qos>
    @/<zid>/@ros2_lv/{SS,SC,AS,AC}/<key>/<type>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final

from elea.errors import InvalidValueError
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.keys import NO_HASH, TopicKey, is_hash
from elea.ros.formats.names import dds_type, demangled, mangled, ros_type
from elea.ros.formats.qos import QoS, parse_bridge_qos, parse_qos
from elea.ros.formats.xxh3 import xxh3_128

ROOT: Final = "@ros2_lv"
BACKENDS: Final = "backends:"
CPU_BACKEND: Final = {"cpu": ""}
_NODE_COUNT: Final = 9
_ENDPOINT_COUNT: Final = 13
QOS: Final = QoS()
_SLASH: Final = "§"  # what bridges write for it
_ZID: Final = re.compile(r"[0-9a-f]{1,32}")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_ESCAPED: Final = {"%": "%25", ";": "%3B", ":": "%3A", "/": "%2F"}


class Kind(Enum):
    """What a token stands for."""

    NODE = "NN"
    PUBLISHER = "MP"
    SUBSCRIPTION = "MS"
    SERVER = "SS"
    CLIENT = "SC"
    ACTION_SERVER = "AS"  # of bridges
    ACTION_CLIENT = "AC"


_RMW_KINDS: Final = {kind.value: kind for kind in list(Kind)[:5]}
_BRIDGE_KINDS: Final = {kind.value: kind for kind in list(Kind)[1:]}


@dataclass(frozen=True)  # no slots: the gid is remembered
class Token:
    """A node or an endpoint of rmw_zenoh.

    Attributes:
        zid: The Zenoh session, in hex as Zenoh prints it.
        nid: The node's number in its session.
        eid: The endpoint's; of a node, its own again.
        type: In ROS form.
        backends: Names of memories and what is said of each; None: the token has no such part.
        text: What was read; empty: it was made here. Others may write the same in another way,
            and their gid is that of their text.
    """

    domain: int
    zid: str
    nid: int
    eid: int
    kind: Kind
    namespace: str
    node: str
    name: str = ""
    type: str = ""
    hash: str = ""
    qos: QoS = QOS
    enclave: str = "/"
    backends: Mapping[str, str] | None = field(default=None, compare=False)
    text: str = field(default="", init=False, repr=False, compare=False)

    @cached_property
    def key(self) -> str:
        """The key it is declared on, below the prefix of the fleet."""
        if self.text:
            return self.text
        eid = self.nid if self.kind is Kind.NODE else self.eid
        parts = [ROOT, str(self.domain), self.zid, str(self.nid), str(eid), self.kind.value]
        parts += [mangled(self.enclave), mangled(self.namespace), mangled(self.node)]
        if self.kind is not Kind.NODE:
            parts += [mangled(self.name), mangled(dds_type(self.type)), self.hash, self.qos.text()]
            if self.backends is not None:
                parts.append(BACKENDS + backends_text(self.backends))
        return "/".join(parts)

    @cached_property
    def gid(self) -> bytes:
        """The 16 bytes by which messages name their publisher (R2-203)."""
        return xxh3_128(self.key.encode())

    @property
    def node_name(self) -> str:
        """The fully qualified name of the node."""
        return f"{'' if self.namespace == '/' else self.namespace}/{self.node}"

    @property
    def via(self) -> str:
        """How its messages travel."""
        return "rmw_zenoh"

    @property
    def topic(self) -> TopicKey:
        """The key of its data."""
        return TopicKey(self.domain, self.name, self.type, self.hash)


@dataclass(frozen=True)
class BridgeToken:
    """A bridge, or an interface of the nodes behind it; these are not named (R2-402)."""

    zid: str
    kind: Kind  # NODE: the bridge itself
    name: str = ""
    type: str = ""
    qos: QoS = QOS
    hash: str = NO_HASH
    domain: int = 0

    @cached_property
    def key(self) -> str:
        """The key it is declared on."""
        if self.kind is Kind.NODE:
            return f"@/{self.zid}/{ROOT}"
        name = self.name.removeprefix("/").replace("/", _SLASH)
        parts = ["@", self.zid, ROOT, self.kind.value, name, self.type.replace("/", _SLASH)]
        if self.kind in (Kind.PUBLISHER, Kind.SUBSCRIPTION):
            parts.append(self.qos.bridge_text())
        return "/".join(parts)

    @property
    def node_name(self) -> str:
        """What stands for its nodes."""
        return f"bridge {self.zid}"

    @property
    def via(self) -> str:
        """How its messages travel."""
        return f"bridge {self.zid}"

    @property
    def gid(self) -> bytes:
        """Messages behind a bridge name nobody."""
        return b""


AnyToken = Token | BridgeToken


def parse_token(key: str, prefix: str = "") -> AnyToken:
    """What a token says.

    Raises:
        InvalidValueError: it is none of ROS, or not one that can be read.

    Example:
        >>> parse_token("@ros2_lv/0/ab/0/0/NN/%/%robot1/talker").node_name
        '/robot1/talker'
    """
    if prefix and key.startswith(f"{prefix}/"):
        key = key[len(prefix) + 1 :]
    if len(key) > DEFAULT_LIMITS.ros2_token_len:
        raise _bad(key, f"{len(key)} characters exceed ros2_token_len")
    chunks = key.split("/")
    if not all(chunks):
        raise _bad(key, "a chunk is empty")
    try:
        if chunks[0] == ROOT:
            found = _rmw_token(key, chunks)
            object.__setattr__(found, "text", key)
            return found
        if len(chunks) >= 3 and chunks[0] == "@" and chunks[2] == ROOT:
            return _bridge_token(key, chunks)
    except InvalidValueError as error:
        if error.kind == "token":
            raise
        raise _bad(key, str(error)) from error
    raise _bad(key, f"expected {ROOT} at its beginning")


def _rmw_token(key: str, chunks: list[str]) -> Token:
    if len(chunks) < _NODE_COUNT:
        raise _bad(key, f"expected {_NODE_COUNT} chunks or more, got {len(chunks)}")
    domain, zid, nid, eid, kind_text, enclave, namespace, node = chunks[1:_NODE_COUNT]
    kind = _RMW_KINDS.get(kind_text)
    if kind is None:
        raise _bad(key, f"unknown kind {kind_text!a}")
    for number in (domain, nid, eid):
        if _NUMBER.fullmatch(number) is None:
            raise _bad(key, f"expected a number, got {number[:40]!a}")
    if _ZID.fullmatch(zid) is None:
        raise _bad(key, f"expected the id of a session, got {zid[:40]!a}")
    places = (int(domain), zid, int(nid), int(eid), kind)
    names = (demangled(namespace), demangled(node).removeprefix("/"))
    if kind is Kind.NODE:
        return Token(*places, *names, enclave=demangled(enclave))
    if len(chunks) < _ENDPOINT_COUNT:
        raise _bad(key, f"expected {_ENDPOINT_COUNT} chunks or more, got {len(chunks)}")
    name, type, hash, qos = chunks[_NODE_COUNT:_ENDPOINT_COUNT]
    _check_name(key, demangled(name))
    if not is_hash(hash):
        raise _bad(key, f"expected a hash, got {hash[:80]!a}")
    backends = None
    if len(chunks) > _ENDPOINT_COUNT and chunks[_ENDPOINT_COUNT].startswith(BACKENDS):
        backends = parse_backends(chunks[_ENDPOINT_COUNT].removeprefix(BACKENDS))
    return Token(
        *places,
        *names,
        demangled(name),
        ros_type(demangled(type)),
        hash,
        parse_qos(qos),
        demangled(enclave),
        backends,
    )


def _bridge_token(key: str, chunks: list[str]) -> BridgeToken:
    zid = chunks[1]
    if _ZID.fullmatch(zid) is None:
        raise _bad(key, f"expected the id of a session, got {zid[:40]!a}")
    if len(chunks) == 3:
        return BridgeToken(zid, Kind.NODE)
    kind = _BRIDGE_KINDS.get(chunks[3])
    if kind is None:
        raise _bad(key, f"unknown kind {chunks[3]!a}")
    has_qos = kind in (Kind.PUBLISHER, Kind.SUBSCRIPTION)
    if len(chunks) != 6 + has_qos:
        raise _bad(key, f"expected {6 + has_qos} chunks, got {len(chunks)}")
    name, type = (chunk.replace(_SLASH, "/") for chunk in chunks[4:6])
    _check_name(key, f"/{name}")
    qos = parse_bridge_qos(chunks[6]) if has_qos else QoS()
    return BridgeToken(zid, kind, f"/{name}", type, qos)


def _check_name(key: str, name: str) -> None:
    """Refuse a name that no key has: one that is relative, or with an empty chunk."""
    first, *chunks = name.split("/")
    if first or not chunks or not all(chunks):
        raise _bad(key, f"expected an absolute name, got {name[:80]!a}")


def backends_text(backends: Mapping[str, str]) -> str:
    """As a token has them: sorted by name (R2-255).

    Example:
        >>> backends_text({"cuda": "a;b", "cpu": ""})
        'cpu:;cuda:a%3Bb'
    """
    return ";".join(f"{_quoted(name)}:{_quoted(backends[name])}" for name in sorted(backends))


def parse_backends(text: str) -> dict[str, str]:
    """The other way; what has no `:` is a name alone."""
    found = {}
    for part in text.split(";"):
        name, _, said = part.partition(":")
        if name:
            found[_unquoted(name)] = _unquoted(said)
    return found


def watched(domain: int | None, prefix: str = "") -> list[str]:
    """What to watch for the tokens of a domain, or of all, and of bridges (R2-152, R2-155)."""
    front = f"{prefix}/" if prefix else ""
    chosen = "*" if domain is None else str(domain)
    return [f"{front}{ROOT}/{chosen}/**", f"{front}@/*/{ROOT}/**"]


def _quoted(text: str) -> str:
    return "".join(_ESCAPED.get(char, char) for char in text)


def _unquoted(text: str) -> str:
    for char, escaped in reversed(_ESCAPED.items()):  # the percent sign last
        text = text.replace(escaped, char)
    return text


def _bad(key: str, reason: str) -> InvalidValueError:
    return InvalidValueError("token", f"{key[:120]!a}: {reason}")
