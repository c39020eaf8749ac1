"""What trees share: octets, keys, encodings, unknown extensions, reserved bits."""

from __future__ import annotations

import hashlib

import pytest

from elea.wire.batches import decode_batch, describe_batch
from elea.wire.describe import encoding_tree, key_tree, octets, resolution_tree
from elea.wire.fields import WireEncoding, WireExpr


def test_octets_are_hex_up_to_512() -> None:
    assert octets(b"\xab" * 512) == "ab" * 512
    long = b"\xab" * 513
    assert octets(long) == {"len": 513, "sha256": hashlib.sha256(long).hexdigest()}


@pytest.mark.parametrize(
    ("encoding", "tree"),
    [
        (WireEncoding(0), {"id": 0, "name": "zenoh/bytes"}),
        (WireEncoding(5, b"v1"), {"id": 5, "name": "application/json", "schema": "v1"}),
        (WireEncoding(52), {"id": 52, "name": "video/vp9"}),
        (WireEncoding(53), {"id": 53}),
        (WireEncoding(0xFFFF, b"\xff"), {"id": 0xFFFF, "schema": "ff"}),
    ],
)
def test_encodings(encoding: WireEncoding, tree: dict[str, object]) -> None:
    assert encoding_tree(encoding) == tree


def test_keys() -> None:
    assert key_tree(WireExpr(1, "/a", False)) == {
        "scope": 1,
        "suffix": "/a",
        "mapping": "receiver",
    }
    assert key_tree(WireExpr(0), mapping=False) == {"scope": 0}


def test_resolutions() -> None:
    assert resolution_tree(0x0A) == {"frame_sn": 32, "request_id": 32}
    assert resolution_tree(0xF4) == {"frame_sn": 8, "request_id": 16}


def test_unknown_extensions_and_reserved_bits() -> None:
    [tree] = describe_batch(decode_batch(bytes.fromhex("e4 8e ae07 4e0161")))
    assert tree == {
        "msg": "KEEP_ALIVE",
        "ext": [
            {"ext": "unknown", "id": 14, "mandatory": False, "enc": "unit"},
            {"ext": "unknown", "id": 14, "mandatory": False, "enc": "z64", "value": 7},
            {"ext": "unknown", "id": 14, "mandatory": False, "enc": "zbuf", "value": "61"},
        ],
        "reserved": 0x60,
    }
