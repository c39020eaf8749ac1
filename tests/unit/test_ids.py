from __future__ import annotations

import pickle

import pytest

from elea.errors import InvalidValueError
from elea.ids import EntityGlobalId, EntityId, WhatAmI, WhatAmIMatcher, ZenohId


def test_text_and_wire_order_are_opposite() -> None:
    zid = ZenohId.parse("a1a2a3a4a5a6a7a8")
    assert zid.to_bytes() == bytes(zid) == bytes.fromhex("a8a7a6a5a4a3a2a1")
    assert str(zid) == "a1a2a3a4a5a6a7a8"
    assert int(zid) == 0xA1A2A3A4A5A6A7A8
    assert repr(zid) == str(zid) == "a1a2a3a4a5a6a7a8"


def test_odd_number_of_digits() -> None:
    assert ZenohId.parse("abc").to_bytes() == b"\xbc\x0a"
    assert str(ZenohId(b"\xbc\x0a")) == "abc"


def test_high_zero_octets_are_the_shorter_id() -> None:
    assert ZenohId(b"\x01\0\0") == ZenohId(b"\x01")
    assert ZenohId.from_bytes(bytearray(b"\x01\0")).to_bytes() == b"\x01"
    assert str(ZenohId(b"\0\x01")) == "100"


@pytest.mark.parametrize("octets", [b"", b"\0", bytes(16), bytes(17), b"x" * 17])
def test_octets_that_are_no_id(octets: bytes) -> None:
    with pytest.raises(InvalidValueError, match="octets"):
        ZenohId(octets)


@pytest.mark.parametrize("text", ["", "0", "00ab", "AB", "g", "0x1", " a", "a\n", "١", "a" * 33])
def test_texts_that_are_no_id(text: str) -> None:
    with pytest.raises(InvalidValueError):
        ZenohId.parse(text)


def test_order_is_by_octets_not_by_number() -> None:
    assert int(ZenohId.parse("201")) > int(ZenohId.parse("102"))
    assert ZenohId.parse("201") < ZenohId.parse("102")


def test_generated_from_the_given_source() -> None:
    assert str(ZenohId.generate(lambda n: bytes(range(1, n + 1)))).startswith("100f0e")


@pytest.mark.parametrize("source", [bytes, lambda n: b"\x01" * (n - 1)])
def test_a_broken_random_source_is_noticed(source: object) -> None:
    assert callable(source)
    with pytest.raises(InvalidValueError):
        ZenohId.generate(source)


@pytest.mark.parametrize(
    ("role", "index", "bit", "text"),
    [
        (WhatAmI.ROUTER, 0, 1, "router"),
        (WhatAmI.PEER, 1, 2, "peer"),
        (WhatAmI.CLIENT, 2, 4, "client"),
    ],
)
def test_both_codes_of_a_role(role: WhatAmI, index: int, bit: int, text: str) -> None:
    assert (role.index, int(role), str(role)) == (index, bit, text)
    assert WhatAmI.from_index(index) is WhatAmI(bit) is WhatAmI(text) is role


def test_codes_of_no_role() -> None:
    with pytest.raises(InvalidValueError, match="got 3"):
        WhatAmI.from_index(3)
    for value in (0, 3, "Router", "x"):
        with pytest.raises(InvalidValueError, match="is no role; legal are router, peer, client"):
            WhatAmI(value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, ""),
        ("", ""),
        ("|", ""),
        ("peer|router", "router|peer"),
        (" client |peer|| router", "router|peer|client"),
    ],
)
def test_matcher_from_text(text: str | None, shown: str) -> None:
    matcher = WhatAmIMatcher(text)
    assert str(matcher) == shown
    assert matcher.is_empty() is (shown == "")
    assert matcher == WhatAmIMatcher(shown)


def test_matcher_refuses_what_is_no_role() -> None:
    with pytest.raises(InvalidValueError, match="'any' is no role"):
        WhatAmIMatcher("router|any")


def test_matcher_is_built_without_changing_the_old_one() -> None:
    none = WhatAmIMatcher.empty()
    assert str(none.router().client()) == "router|client"
    assert str(none.peer()) == "peer"
    assert none.is_empty()
    assert WhatAmI.ROUTER | "peer" == WhatAmI.PEER | WhatAmI.ROUTER == WhatAmIMatcher.from_bits(3)
    assert WhatAmI.CLIENT in none.client()
    assert not none.client().matches(WhatAmI.PEER)


def test_values_pickle() -> None:
    entity = EntityGlobalId(ZenohId(b"\x07"), EntityId(3))
    values = (entity, WhatAmI.PEER, WhatAmIMatcher("peer"))
    assert pickle.loads(pickle.dumps(values)) == values


def test_what_is_no_role_no_matcher_and_no_id_is_refused_by_its_type() -> None:
    assert WhatAmIMatcher("peer").matches("peer")
    assert "router" | WhatAmI.PEER == WhatAmI.PEER | "router"
    for call in (
        lambda: WhatAmIMatcher(1),  # type: ignore[arg-type]
        lambda: WhatAmIMatcher("peer").matches(1),  # type: ignore[arg-type]
        lambda: WhatAmI.PEER | 1,  # type: ignore[operator]
        lambda: ZenohId.from_bytes(1),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()
