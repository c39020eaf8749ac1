"""What came from the network is shown as its encoding says, and cannot steer a terminal."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.cli.output import Painter
from elea.cli.samples import Printer, payload_json
from elea.encoding import NAMES, Encoding
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.operate.payload_text import payload_lines
from elea.provenance import SourceInfo
from elea.sample import Sample
from elea.zbytes import ZBytes


def printed(sample: Sample, *, as_json: bool = False, color: bool = False) -> str:
    stream = io.StringIO()
    Printer(as_json=as_json, paint=Painter(enabled=color), stream=stream).sample(sample)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("payload", "encoding", "label", "lines"),
    [
        (b"warm", "zenoh/bytes", "", ["warm"]),
        (b"warm", "zenoh/string", "", ["warm"]),
        (b"", "zenoh/bytes", "", [""]),
        (b"a\nb\t\x1b", "text/plain", "text/plain", ["a", "b\\t\\x1b"]),
        (b"a,b", "text/csv;header", "text/csv;header", ["a,b"]),
        (b"a: 1", "application/yaml", "application/yaml", ["a: 1"]),
        (b"x", "text/of-mine", "text/of-mine", ["x"]),
        (b'{"a":"\\u202e"}', "application/json", "application/json", None),
        (b"[1]", "application/of-mine+json", "application/of-mine+json", ["[", "  1", "]"]),
        (b"\xa1aa\x01", "application/cbor", "application/cbor", ["{", '  "a": 1', "}"]),
        (b"\x61\x1b", "application/of-mine+cbor", "application/of-mine+cbor", ['"\\u001b"']),
        (b"{no json", "application/json", "application/json", ["{no json"]),
        (b"NaN", "application/json", "application/json", ["NaN"]),
        (b"1e999", "application/json", "application/json", ["1e999"]),
        (b"[" * 40 + b"]" * 40, "text/json", "text/json", ["[" * 40 + "]" * 40]),
        (b"[" * 9_999, "text/json", "text/json", ["[" * 9_999]),
    ],
)
def test_texts(payload: bytes, encoding: str, label: str, lines: list[str] | None) -> None:
    shown = payload_lines(ZBytes(payload), Encoding(encoding))
    expected = ["{", '  "a": "\\u202e"', "}"] if lines is None else lines
    assert shown == (label, expected)


@pytest.mark.parametrize(
    ("payload", "encoding"),
    [
        (b"\xa1aa", "application/cbor"),  # cut off
        (b"\xa1aa\x01", "application/cdr"),
        (b"warm", "application/octet-stream"),
        (b"\xff", "text/plain"),
        (b"a\x00b", "zenoh/bytes"),
        (b"\xff", "of/mine"),
    ],
)
def test_everything_else_is_dumped_with_its_encoding(payload: bytes, encoding: str) -> None:
    label, lines = payload_lines(ZBytes(payload), Encoding(encoding))
    assert label == f"{encoding}, {len(payload)} octets"
    assert lines[0].startswith(f"0000  {payload.hex(' ')} ")


def test_a_long_dump_is_cut_and_says_so() -> None:
    _, lines = payload_lines(ZBytes(bytes(1_000)), Encoding.IMAGE_PNG)
    assert len(lines) == 33
    assert lines[-1] == "... 488 octets more; --json prints them all"


@given(payload=st.binary(max_size=80), encoding=st.sampled_from(NAMES), schema=st.text(max_size=9))
def test_whatever_comes_is_safe_to_print(payload: bytes, encoding: str, schema: str) -> None:
    how = Encoding(f"{encoding};{schema}")
    label, lines = payload_lines(ZBytes(payload), how)
    assert all(line.isprintable() for line in (label, *lines))
    sample = Sample(key_expr="a", payload=payload, encoding=how, attachment=payload)
    assert printed(sample, as_json=True).rstrip("\n").isprintable()
    assert printed(sample).replace("\n", "").isprintable()


@given(st.binary(max_size=50))
def test_programs_get_every_octet(payload: bytes) -> None:
    shown = payload_json("payload", ZBytes(payload), Encoding.ZENOH_BYTES)
    if "payload" in shown:
        assert str(shown["payload"]).encode() == payload
    else:
        assert shown.keys() == {"payload_base64"}


def test_programs_get_what_cbor_says() -> None:
    for octets, shown in (
        (b"\xa1aa\x41\xff", {"payload_base64": "oWFhQf8=", "value": {"a": "_w"}}),
        (b"\x01", {"payload": "\x01", "value": 1}),
        (b"\xa1\x01\x02", {"payload_base64": "oQEC"}),  # JSON has no such names
    ):
        assert payload_json("payload", ZBytes(octets), Encoding.APPLICATION_CBOR) == shown


@pytest.mark.parametrize("text", ["NaN", "1e999", "[" * 40 + "]" * 40, "{", "[" * 99_999])
def test_what_is_not_good_json_has_no_value(text: str) -> None:
    shown = payload_json("payload", ZBytes(text), Encoding.APPLICATION_JSON)
    assert shown == {"payload": text}


def test_all_of_a_sample() -> None:
    source = SourceInfo(EntityGlobalId(ZenohId(b"\x01"), EntityId(7)), 3)
    sample = Sample(key_expr="a/b", payload=b"x", attachment=b"\xff", source_info=source)
    assert json.loads(printed(sample, as_json=True)) == {
        "key_expr": "a/b",
        "kind": "put",
        "payload": "x",
        "encoding": "zenoh/bytes",
        "attachment_base64": "/w==",
        "timestamp": None,
        "priority": "data",
        "congestion_control": "drop",
        "express": False,
        "source_id": {"zid": "1", "eid": 7},
        "source_sn": 3,
    }
    assert printed(sample, color=True).startswith("\x1b[32mPUT\x1b[0m \x1b[1ma/b\x1b[0m: x\n")
