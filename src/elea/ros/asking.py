"""Definitions asked of the fleet: the service get_type_description (R2-323)."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from elea.errors import EleaError
from elea.ros.formats.definitions import Repeat
from elea.ros.formats.hashes import PREFIX
from elea.ros.formats.library import Library, MessageType
from elea.ros.formats.shipped import shipped
from elea.ros.formats.tokens import Kind, Token

if TYPE_CHECKING:
    from elea.ros.context import Context

_log: Final = logging.getLogger("elea.ros")
SERVICE: Final = "type_description_interfaces/srv/GetTypeDescription"
NAME: Final = "get_type_description"
_NODES_COUNT: Final = 3
_TIMEOUT_S: Final = 2.0
_AGAIN_S: Final = 3600.0
_BASES: Final = {
    1: "",
    2: "int8",
    3: "uint8",
    4: "int16",
    5: "uint16",
    6: "int32",
    7: "uint32",
    8: "int64",
    9: "uint64",
    10: "float32",
    11: "float64",
    15: "bool",
    16: "byte",
    17: "string",
    18: "wstring",
    21: "string",
    22: "wstring",
}


class FleetAsker:
    """Asks nodes for definitions, and believes those whose hash is right."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._asked: dict[tuple[str, str], float] = {}

    def __call__(self, name: str, hash: str) -> bool:
        """Ask for a type; whether it is known now."""
        with self._lock:
            before = self._asked.get((name, hash))
            if before is not None and time.monotonic() - before < _AGAIN_S:
                return False
            servers = self._servers(name, hash)
            if servers:
                self._asked[name, hash] = time.monotonic()
        return any(self._told(server, name, hash) for server in servers[:_NODES_COUNT])

    def _servers(self, name: str, hash: str) -> list[Token]:
        """Nodes that have the type and answer questions."""
        tokens = [one for one in self._context.graph.tokens() if isinstance(one, Token)]
        having = {
            (one.zid, one.nid)
            for one in tokens
            if one.hash == hash and one.type == name and one.zid != self._context.zid
        }
        return [
            one
            for one in tokens
            if one.kind is Kind.SERVER
            and one.name.endswith(f"/{NAME}")
            and (one.zid, one.nid) in having
        ]

    def _told(self, server: Token, name: str, hash: str) -> bool:
        from elea.ros.services import Client  # late: both need the context

        kind = shipped().service(SERVICE)
        token = Token(
            self._context.domain,
            self._context.zid,
            0,
            0,
            Kind.CLIENT,
            "/",
            "elea",
            server.name,
            SERVICE,
            server.hash,
        )
        request = {"type_name": name, "type_hash": hash, "include_type_sources": True}
        try:
            with Client(self._context, token, kind, hidden=True) as client:
                answer = client.call(request, _TIMEOUT_S, wait=0)
            found = definition_of(answer, name, hash)
        except (EleaError, ValueError, KeyError) as error:
            _log.info("%s told nothing of %s: %s", server.node_name, name, error)
            return False
        if found is None:
            _log.warning("%s gave another definition of %s", server.node_name, name)
            return False
        self._context.types.add_text(name, found.text, f"node {server.node_name}")
        return True


def definition_of(answer: Any, name: str, hash: str) -> MessageType | None:
    """The type that an answer describes; None: its hash is another one.

    Raises:
        ValueError: the answer says no, or describes none.
    """
    if not answer.successful:
        raise ValueError(answer.failure_reason or "no reason")
    sources = {
        one.type_name: one.raw_file_contents
        for one in answer.type_sources
        if one.encoding in ("msg", "srv", "action")
    }
    if sources:  # constants and defaults are in the sources alone
        try:
            kind = Library(sources, "fleet").message(name)
            if kind.hash == hash:
                return kind
        except (EleaError, KeyError):
            pass
    whole = answer.type_description
    parts = [whole.type_description, *whole.referenced_type_descriptions]
    files = {part.type_name: _text(part) for part in parts}
    kind = Library(files, "fleet").message(name)
    return kind if kind.hash == hash else None


def _text(part: Any) -> str:
    """A description as `.msg`."""
    lines = []
    for field in part.fields:
        type = field.type
        repeat = Repeat(type.type_id // 48 * 48)
        number = type.type_id % 48
        if number not in _BASES:
            raise ValueError(f"{field.name}: unknown type {type.type_id}")
        base = type.nested_type_name if number == 1 else _BASES[number]
        bound = f"<={type.string_capacity}" if number in (21, 22) else ""
        count = {
            Repeat.ONE: "",
            Repeat.ARRAY: f"[{type.capacity}]",
            Repeat.BOUNDED: f"[<={type.capacity}]",
            Repeat.UNBOUNDED: "[]",
        }[repeat]
        if field.name != "structure_needs_at_least_one_member":
            lines.append(f"{base}{bound}{count} {field.name}")
    return "\n".join(lines)


def described(kind: MessageType, type_hash: str, *, sources: bool) -> dict[str, Any]:
    """What a node answers of one of its types."""
    if type_hash and type_hash != kind.hash:
        return {"successful": False, "failure_reason": f"{kind.name} has the hash {kind.hash}"}
    told: Any = kind.described
    return {
        "successful": True,
        "type_description": told,
        "type_sources": [
            {"type_name": name, "encoding": "msg", "raw_file_contents": one.text()}
            for name, one in kind.definitions.items()
        ]
        if sources
        else [],
        "extra_information": [{"key": "hash", "value": kind.hash.removeprefix(PREFIX)}],
    }
