from __future__ import annotations

import hashlib
import importlib.util
import pickle
import sys

import pytest

from elea.zbytes import ZBytes


@pytest.mark.parametrize(
    ("given", "octets"),
    [
        (None, b""),
        (b"abc", b"abc"),
        (bytearray(b"abc"), b"abc"),
        (memoryview(b"xabcx")[1:4], b"abc"),
        (memoryview(b"aXbXcX")[::2], b"abc"),
        ("hé", b"h\xc3\xa9"),
        (ZBytes(b"abc"), b"abc"),
    ],
)
def test_every_form_gives_its_octets(
    given: ZBytes | bytes | bytearray | memoryview | str | None, octets: bytes
) -> None:
    payload = ZBytes(given)
    assert payload.to_bytes() == bytes(payload) == payload.view() == octets
    assert (len(payload), bool(payload)) == (len(octets), bool(octets))
    assert payload.to_string() == str(payload) == octets.decode()
    assert payload == octets
    assert hash(payload) == hash(octets)
    assert pickle.loads(pickle.dumps(payload)) == payload


def test_what_cannot_change_is_not_copied() -> None:
    data = bytes(1000)
    assert ZBytes(data).to_bytes() is data
    assert ZBytes(memoryview(data)[10:]).view().obj is data


def test_what_can_change_is_copied() -> None:
    data = bytearray(b"abc")
    payloads = [ZBytes(data), ZBytes(memoryview(data))]
    data[0] = 0
    assert all(payload == b"abc" for payload in payloads)
    assert payloads[1].view().readonly


def test_equality_with_octets_and_text() -> None:
    assert ZBytes(b"a") == "a" == ZBytes("a")
    assert ZBytes(b"a") == bytearray(b"a") == memoryview(b"a")
    assert ZBytes(b"a") != b"b"
    assert ZBytes(b"1") != 1
    assert ZBytes(b"a") != "\ud800"


def test_octets_that_are_no_text() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        ZBytes(b"\xff").to_string()


@pytest.mark.parametrize("value", [5, 1.5, True, [1], {"a": 1}])
def test_values_need_a_serialization(value: object) -> None:
    with pytest.raises(TypeError, match="expected bytes/str"):
        ZBytes(value)  # type: ignore[arg-type]  # what an untyped caller does


def test_it_is_a_value() -> None:
    payload = ZBytes(b"a")
    with pytest.raises(AttributeError):
        payload.text = "b"  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="not iterable"):
        iter(payload)  # type: ignore[call-overload]  # as in zenoh-python
    assert payload.as_shm() is None


def test_repr_is_bounded() -> None:
    assert repr(ZBytes(b"abc\xff")) == "ZBytes(b'abc\\xff')"
    assert len(repr(ZBytes(bytes(10_000_000)))) < 200
    assert "10000000 bytes" in repr(ZBytes(bytes(10_000_000)))


def test_the_buffer_of_a_payload_is_its_own(build: str) -> None:
    octets = bytes(range(16))
    payload = ZBytes(octets)
    if build == "interpreted" and sys.version_info < (3, 12) and not _has_extension():
        with pytest.raises(TypeError, match="bytes-like"):
            memoryview(payload)
        assert payload.view().obj is octets
        return
    view = memoryview(payload)
    assert view.obj is octets or memoryview(view.obj).obj is octets  # nothing was copied
    assert view.readonly
    del payload
    assert bytes(view) == octets
    assert hashlib.sha256(ZBytes(octets)).digest() == hashlib.sha256(octets).digest()


def _has_extension() -> bool:
    return importlib.util.find_spec("elea._buffer") is not None
