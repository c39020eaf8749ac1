"""Messages as trees of plain values: what `elea explain --json` prints.

Each message module describes its own message; here is what they share. Octets are lower-case hex,
and their length and digest when there are more than 512.
"""

from __future__ import annotations

import hashlib
from typing import Final

from elea.encoding import NAMES as ENCODING_NAMES
from elea.wire.buffer import Reader
from elea.wire.extensions import ENC_MASK, ENC_NAMES, Chain, Extension, ExtensionTable, Extras, Tree
from elea.wire.fields import Stamp, WireEncoding, WireExpr

_INLINE_LEN_MAX: Final = 512

ROLE_NAMES: Final = ("router", "peer", "client")
CONSOLIDATION_NAMES: Final = ("auto", "none", "monotonic", "latest")


def octets(value: bytes) -> str | Tree:
    """A byte string for a tree."""
    if len(value) <= _INLINE_LEN_MAX:
        return value.hex()
    return {"len": len(value), "sha256": hashlib.sha256(value).hexdigest()}


def key_tree(key: WireExpr, *, mapping: bool = True) -> Tree:
    """A wire expression."""
    tree: Tree = {"scope": key.scope}
    if key.suffix:
        tree["suffix"] = key.suffix
    if mapping:
        tree["mapping"] = "sender" if key.sender else "receiver"
    return tree


def stamp_tree(stamp: Stamp) -> Tree:
    """A timestamp."""
    return {"time": stamp.time, "id": stamp.id.hex()}


def encoding_tree(encoding: WireEncoding) -> Tree:
    """An encoding: its name if the id is in the table, its schema if there is one."""
    tree: Tree = {"id": encoding.id}
    name = ENCODING_NAMES[encoding.id] if encoding.id < len(ENCODING_NAMES) else None
    if name is not None:
        tree["name"] = name
    if encoding.schema:
        try:
            tree["schema"] = encoding.schema.decode("utf-8")
        except UnicodeDecodeError:
            tree["schema"] = encoding.schema.hex()
    return tree


def resolution_tree(resolution: int) -> Tree:
    """The resolution octet of INIT and JOIN, in bits."""
    return {"frame_sn": 8 << (resolution & 3), "request_id": 8 << (resolution >> 2 & 3)}


def add_extensions(tree: Tree, chain: Chain, table: ExtensionTable, extras: Extras | None) -> None:
    """Put `ext` and `reserved` into a message's tree, if it has them."""
    arranged = chain.arrange()
    if arranged:
        # What was kept as unknown is shown as unknown, also where the other dialect knows it.
        kept = extras.unknown if extras is not None else ()
        tree["ext"] = [
            unknown_tree(one) if any(one is other for other in kept) else _known_tree(one, table)
            for one in arranged
        ]
    if extras is not None and extras.reserved:
        tree["reserved"] = extras.reserved


def unknown_tree(one: Extension) -> Tree:
    """An extension its message does not define."""
    tree: Tree = {
        "ext": "unknown",
        "id": one.header & 0x0F,
        "mandatory": one.mandatory,
        "enc": ENC_NAMES[one.header & ENC_MASK],
    }
    if one.value is not None:
        tree["value"] = octets(one.value) if isinstance(one.value, bytes) else one.value
    return tree


def _known_tree(one: Extension, table: ExtensionTable) -> Tree:
    known = table.known[one.header]
    tree: Tree = {"ext": known.name}
    if known.describe is not None:
        body = one.value if isinstance(one.value, bytes) else b""
        tree.update(known.describe(one.value, Reader(body)))
    return tree
