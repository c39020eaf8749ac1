"""The generated codec: flags nobody defined, kinds nobody knows, bounds, values that do not fit."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.xrce_codecs import INTERPRETER, decode_all, generated_outcome, interpreted_outcome

from elea.errors import DecodeError, InvalidValueError, ShortError
from elea.limits import (
    XRCE_BATCH_COUNT_MAX,
    XRCE_DECLARATIONS_COUNT_MAX,
    XRCE_PROPERTIES_COUNT_MAX,
    XRCE_PROPERTY_LEN_MAX,
)
from elea.xrce.buffer import Reader, put_nat
from elea.xrce.declaration_records import Property, ResultDecl, SubscriberDecl
from elea.xrce.decode import read_message
from elea.xrce.encode import encode
from elea.xrce.message_records import BatchedData, Declare, Message, Open, Scout, StreamData, Synch


def decode(text: str) -> Message:
    [message] = decode_all(bytes.fromhex(text))
    return message


def nat(number: int) -> bytes:
    out = bytearray()
    put_nat(out, number, "n")
    return bytes(out)


@pytest.mark.line("X-009", "X-010")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("c1 03", "01 03"),
        ("e5 01 b2 04", "05 01 b2 04"),
        ("ec 01", "0c 01"),
        ("f0 01 aa", "10 01 aa"),
        ("73 05", "13 05"),
        ("06 00 01 c6 05", "06 00 01 06 05"),
        ("c9 00 01 61 00", "49 00 01 61 00"),
    ],
)
def test_flags_that_are_not_defined_are_ignored_and_not_sent(text: str, canonical: str) -> None:
    assert encode(decode(text)).hex(" ") == canonical
    assert generated_outcome(bytes.fromhex(text)) == interpreted_outcome(bytes.fromhex(text))


@pytest.mark.parametrize("kind", [0, 10, 17, 20, 21, 22, 23, *range(24, 32)])
def test_kinds_without_a_definition_are_malformed(kind: int) -> None:
    for data in (bytes((kind, 0, 0)), bytes((kind | 0xE0,))):
        with pytest.raises(DecodeError, match=f"kind is {kind}") as caught:
            read_message(Reader(b"\x0c\x01" + data, 2))
        assert type(caught.value) is DecodeError
        assert caught.value.offset == 2


@pytest.mark.parametrize("kind", [0, *range(12, 32)])
def test_declarations_without_a_definition_are_malformed(kind: int) -> None:
    with pytest.raises(DecodeError, match=f"kind is {kind}") as caught:
        decode(f"06 00 01 {kind:02x}")
    assert caught.value.offset == 3


@pytest.mark.line("X-012")
@pytest.mark.parametrize(
    "text",
    [
        "02 01 ff ff ff ff ff ff ff ff ff 01",
        "03 01 ff ff ff ff 7f",
        "07 01 02 ff ff ff ff ff ff ff ff 7f 61",
        "09 00 ff ff ff 7f",
        "48 00 02 ff ff 03 00 00",
        "06 00 ff 07 08 02",
    ],
)
def test_lengths_that_lie_reserve_nothing(text: str) -> None:
    data = bytes.fromhex(text)
    decode_all(b"\x0c\x01")  # what is loaded once
    tracemalloc.start()
    with pytest.raises(ShortError):
        read_message(Reader(data))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024


@pytest.mark.line("X-012")
@pytest.mark.parametrize(
    ("start", "bound"),
    [
        ("21 01", XRCE_PROPERTIES_COUNT_MAX),
        ("21 01 01 00", XRCE_PROPERTY_LEN_MAX),
        ("06 00", XRCE_DECLARATIONS_COUNT_MAX),
        ("08 00 02", XRCE_BATCH_COUNT_MAX),
        ("88 00 02", XRCE_BATCH_COUNT_MAX),
    ],
)
def test_more_than_a_bound_allows_is_malformed(start: str, bound: int) -> None:
    within = bytes.fromhex(start) + nat(bound)
    beyond = bytes.fromhex(start) + nat(bound + 1)
    assert generated_outcome(within)[0] == interpreted_outcome(within)[0] == "ShortError"
    assert generated_outcome(beyond)[0] == interpreted_outcome(beyond)[0] == "DecodeError"


def test_bounds_hold_for_what_is_sent_too() -> None:
    properties = (Property(id=1, value=b""),) * (XRCE_PROPERTIES_COUNT_MAX + 1)
    with pytest.raises(InvalidValueError, match="at most 64"):
        encode(Scout(mask=1, properties=properties))


def test_a_property_longer_than_it_needs_is_kept_whole() -> None:
    message = decode("23 01 01 aa 00 00 01 04 02 07 ff")
    assert isinstance(message, Open)
    assert message.properties == (Property(id=4, value=b"\x07\xff"),)


@pytest.mark.line("X-014")
def test_an_empty_list_of_properties_is_read_and_never_sent() -> None:
    message = decode("21 03 00")
    assert message == Scout(mask=3, properties=())
    assert encode(message).hex(" ") == "01 03"
    assert INTERPRETER.encode(INTERPRETER.decode(bytes.fromhex("21 03 00"))[0]).hex(" ") == "01 03"


def test_an_unknown_mode_is_a_number_without_parameters() -> None:
    message = decode("06 00 01 03 02 05")
    assert message == Declare(
        sync=False, committed=False, sn=0, declarations=(SubscriberDecl(id=2, mode=5),)
    )


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        (ResultDecl(commit_id=1, status=2), "ResultDecl.id: it is missing; status asks for it"),
        (ResultDecl(commit_id=1, status=0, id=2), "ResultDecl.id: it is there; status rules"),
        (SubscriberDecl(id=2, mode=3), "SubscriberDecl.params: it is missing; mode asks"),
        (ResultDecl(commit_id=256, status=0), "commitId: 256 is no octet"),
    ],
)
def test_a_record_that_contradicts_itself_is_not_sent(
    declaration: ResultDecl | SubscriberDecl, words: str
) -> None:
    with pytest.raises(InvalidValueError, match=words):
        encode(Declare(sync=False, committed=False, sn=0, declarations=(declaration,)))


@pytest.mark.line("X-015")
def test_several_messages_in_one_frame_come_in_order() -> None:
    found = decode_all(bytes.fromhex("4e 00 47 00 02 01 61 47 01 02 01 62"))
    assert found == [
        Synch(reliable=True, sync=False, sn=0),
        StreamData(reliable=True, sync=False, sn=0, id=2, payload=b"a"),
        StreamData(reliable=True, sync=False, sn=1, id=2, payload=b"b"),
    ]


def test_a_batch_of_n_samples_costs_three_octets_and_one_for_each() -> None:
    """(3 + n) / n octets of overhead for each sample, as the protocol promises, less the count."""
    for count in (1, 10, 100):
        batch = BatchedData(
            reliable=True, sync=False, sn=1, id=2, has_prid=False, payload=(b"on",) * count
        )
        overhead = len(encode(batch)) - 2 * count
        assert overhead == 3 + 1 + count  # header, sn, id; how many; and the length of each
