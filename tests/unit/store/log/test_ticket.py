"""Tickets, locations and refusals: what is said over Flight, and what is not legal there."""

from __future__ import annotations

import json
import uuid

import pytest

from elea.errors import CorruptLogError, InvalidValueError, OffsetError, StoreError
from elea.store.log.location import Location
from elea.store.log.ranges import COLUMNS
from elea.store.log.refusal import refusal_of, told_by
from elea.store.log.ticket import Ticket

LOG_ID = uuid.UUID(int=7)


@pytest.mark.parametrize(
    "ticket",
    [
        Ticket(log="fleet"),
        Ticket(log="fleet", log_id=LOG_ID, shard=0, first=0, end=0),
        Ticket(log="a.b", shard=3, first=5, end=2**63, columns=("seq", "key"), lossy=True),
        Ticket(log="a", key_exprs=("k/*", "a;b|c/**"), span=(1, 2**64 - 1)),
    ],
)
def test_a_ticket_comes_back_as_it_went(ticket: Ticket) -> None:
    assert Ticket.decode(ticket.encode()) == ticket


def test_what_is_not_said_is_all_there_is() -> None:
    ticket = Ticket.decode(b'{"v": 1, "log": "fleet", "keyexpr": ["a/**/**", "**"]}')
    assert ticket == Ticket(log="fleet")
    assert ticket.columns == COLUMNS
    assert not ticket.is_filtered
    assert Ticket(log="fleet", lossy=True).is_filtered


@pytest.mark.parametrize(
    ("octets", "complaint"),
    [
        (b"", "legal is JSON, as get_flight_info gives it"),
        (b"\xff\xfe", "legal is JSON"),
        (b"[" * 60_000, "legal is JSON"),
        (b"[]", "saw version 'list'; legal is 1"),
        (b'{"log": "fleet"}', "saw version None; legal is 1"),
        (b'{"v": 2, "log": "fleet"}', "saw version 2; legal is 1: ask get_flight_info"),
        (b'{"v": 1}', "log is 'None'; legal is a text"),
        (b'{"v": 1, "log": "a", "colums": []}', "saw 'colums'; legal are v, log, id, shard"),
        (b'{"v": 1, "log": "a", "columns": ["nix"]}', "saw nix; legal are key"),
        (b'{"v": 1, "log": "a", "columns": []}', "saw none; legal are key"),
        (b'{"v": 1, "log": "a", "columns": "key"}', "legal is a list of texts"),
        (b'{"v": 1, "log": "a", "columns": [1]}', "legal is a list of texts"),
        (b'{"v": 1, "log": "a", "keyexpr": ["a//b"]}', "keyexpr is 'a//b'"),
        (b'{"v": 1, "log": "a", "shard": true}', "shard is 'True'; legal is a number"),
        (b'{"v": 1, "log": "a", "lo": -1}', "lo is '-1'; legal is a number"),
        (b'{"v": 1, "log": "a", "hi": 1.5}', "hi is '1.5'; legal is a number"),
        (b'{"v": 1, "log": "a", "until": 36893488147419103232}', "until is"),
        (b'{"v": 1, "log": "a", "id": "fleet"}', "id is 'fleet'; legal is a UUID"),
        (b'{"v": 1, "log": "a", "lossy": 1}', "legal is true or false"),
        (b" " * 70_000, "saw 70000 octets; 65536 at most"),
    ],
)
def test_what_is_no_ticket_is_told(octets: bytes, complaint: str) -> None:
    with pytest.raises(InvalidValueError, match=complaint):
        Ticket.decode(octets)


@pytest.mark.parametrize(
    ("text", "is_encrypted", "is_this_host"),
    [
        ("grpc://127.0.0.1:8815", False, True),
        ("grpc://localhost:0", False, True),
        ("grpc+tls://[::1]:8815", True, True),
        ("grpc+tls://recorder.example:8815", True, False),
        ("grpc://[2001:db8::1]:8815", False, False),
    ],
)
def test_a_location(text: str, is_encrypted: bool, is_this_host: bool) -> None:
    found = Location.parse(text)
    assert str(found) == text
    assert (found.is_encrypted, found.is_this_host) == (is_encrypted, is_this_host)


@pytest.mark.parametrize(
    "text",
    [
        *("", "fleet", "grpc://", "grpc://host", "grpc://host:", "grpc://:8815", "http://host:1"),
        *("grpc://host:70000", "grpc://host:1/path", "grpc://host:1?x=1", "grpc://[::1"),
        *("tcp/127.0.0.1:7447", "grpc+tcp://host:1", "grpc://host:1#x"),
    ],
)
def test_what_is_no_location_is_told(text: str) -> None:
    with pytest.raises(InvalidValueError, match="legal are grpc://HOST:PORT and grpc"):
        Location.parse(text)


def test_a_password_in_a_location_is_not_shown() -> None:
    with pytest.raises(InvalidValueError, match="saw 'host:1'") as caught:
        Location.parse("grpc://user:hunter2@host:1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind", "raised", "complaint"),
    [
        (OffsetError(1, 2, 5, 9), "trimmed", OffsetError, "row 3 of shard 1 was trimmed"),
        (OffsetError(1, 20, 5, 9), "unknown", StoreError, "not written yet"),
        (CorruptLogError("0/1.log", 5), "damaged", StoreError, "damaged: "),
        (InvalidValueError("shard", "saw 9"), "unknown", StoreError, "no shard: saw 9"),
        (OSError("disk"), "unknown", StoreError, "OSError"),
    ],
)
def test_a_refusal_is_the_same_error_where_it_arrives(
    error: Exception, kind: str, raised: type[Exception], complaint: str
) -> None:
    told = refusal_of(error)
    assert told["error"] == kind
    with pytest.raises(raised, match=complaint):
        told_by(json.dumps(told).encode(), 1, 3)


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b'{"error": "busy", "detail": "later"}', "later"),
        (b'{"error": "absent", "detail": "not yet"}', "not yet"),
        (b'{"error": "trimmed", "detail": "no numbers"}', '{"error": "trimmed"'),
        (b"\xff", "\ufffd"),
        (b"[" * 100_000, "["),
    ],
)
def test_who_may_be_asked_again(octets: bytes, why: str) -> None:
    assert told_by(octets, 0, 0).startswith(why)
