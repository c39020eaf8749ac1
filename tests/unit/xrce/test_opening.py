"""Sessions: opening, refusals, repetition, addresses, from both sides."""

from __future__ import annotations

import dataclasses

import pytest
from tests.xrce_network import sample
from tests.xrce_session import (
    BROKER,
    DEVICE,
    OPEN,
    Pair,
    altered,
    answers,
    broker,
    data,
    messages,
    opened,
    pair,
    phase_of,
    settings,
    tell,
)

from elea.errors import LocalProtocolError
from elea.limits import DEFAULT_LIMITS
from elea.xrce.closing import CloseReason
from elea.xrce.declaration_records import Property
from elea.xrce.encode import encode
from elea.xrce.message_records import Accept, Close, KeepAlive, Message, Open
from elea.xrce.properties import VENDOR_CODE, SessionProperties
from elea.xrce.session.acceptor import Accepted, Acceptor
from elea.xrce.session.initiator import Initiator, Opened, Phase
from elea.xrce.session.session import Delivered, Ended
from elea.xrce.session.settings import SECOND_NS

# Opening.


@pytest.mark.line("X-030")
def test_an_open_is_accepted_with_both_pids_and_our_lease() -> None:
    acceptor = broker()
    accept = opened(acceptor)[0]
    assert accept == Accept(open_pid=DEVICE, accept_pid=BROKER, lease=300)
    [pid, event] = acceptor.next_event() or (b"", None)
    assert pid == DEVICE
    assert isinstance(event, Accepted)


@pytest.mark.line("X-031", "X-032")
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (altered(version=2), 2),
        (altered(version=2, pid=b""), 2),  # the version is looked at first
        (altered(pid=b""), 5),
        (altered(pid=bytes(17)), 5),
        (altered(lease=864_001), 5),
        (altered(properties=(Property(id=4, value=b"\x03"),)), 4),
        (altered(properties=(Property(id=4, value=b"\x40"),)), 4),
        (altered(properties=(Property(id=4, value=b"\x03"),), lease=864_001), 4),
        (altered(properties=(Property(id=2, value=b""),)), 5),
        (altered(locators=(b"udp/127.0.0.1:9",) * 17), 5),
        (altered(locators=(bytes(257),)), 5),
    ],
)
def test_an_open_we_cannot_serve_is_refused_with_its_reason(message: Open, reason: int) -> None:
    acceptor = broker()
    assert opened(acceptor, message) == [Close(pid=BROKER, reason=reason)]
    assert acceptor.pids() == []


@pytest.mark.line("X-032")
@pytest.mark.parametrize("bits", [7, 11, 14, 28])
def test_lengths_of_sequence_numbers_are_used(bits: int) -> None:
    properties = SessionProperties(bits=bits)
    made = pair(dataclasses.replace(settings(), properties=properties))
    session = made.broker.session(DEVICE)
    assert session is not None
    assert made.device.session is not None
    assert session.conduits.bits == made.device.session.conduits.bits == bits


@pytest.mark.parametrize(("vendor", "bits"), [(VENDOR_CODE, 1_024), (b"\x01\x10", 31), (b"", 31)])
def test_masks_are_wide_only_towards_our_own_kind(vendor: bytes, bits: int) -> None:
    said = SessionProperties(vendor=vendor)
    made = pair(
        dataclasses.replace(settings(), properties=said),
        dataclasses.replace(settings(BROKER), properties=said),
    )
    session = made.broker.session(DEVICE)
    assert session is not None
    assert made.device.session is not None
    assert session.conduits.mask_bits == made.device.session.conduits.mask_bits == bits


@pytest.mark.line("X-033")
def test_a_full_table_refuses_newcomers() -> None:
    acceptor = broker(limit=1)
    opened(acceptor)
    assert opened(acceptor, altered(pid=b"\x02"), "b") == [Close(pid=BROKER, reason=3)]
    assert isinstance(opened(acceptor)[0], Accept)  # who is in stays in


def test_authentication_decides_and_our_own_open_is_dropped() -> None:
    asked = []

    def authenticate(message: Open, value: bytes | None) -> bool:
        asked.append((message.pid, value))
        return value == b"key"

    acceptor = Acceptor[str](settings(BROKER), authenticate=authenticate)
    assert opened(acceptor) == [Close(pid=BROKER, reason=1)]
    good = altered(properties=(Property(id=12, value=b"key"),))
    assert isinstance(opened(acceptor, good)[0], Accept)
    assert asked == [(DEVICE, None), (DEVICE, b"key")]
    assert opened(acceptor, altered(pid=BROKER)) == []


@pytest.mark.line("X-035")
def test_a_repeated_open_is_accepted_again_and_changes_nothing() -> None:
    acceptor = broker()
    opened(acceptor)
    tell(acceptor, data(), now_ns=SECOND_NS)
    before = acceptor.session(DEVICE)
    tell(acceptor, OPEN, now_ns=2 * SECOND_NS - 1)
    assert [one for _, one in answers(acceptor) if isinstance(one, Accept)]
    assert acceptor.session(DEVICE) is before


@pytest.mark.line("X-036")
def test_too_many_repeated_opens_end_the_session() -> None:
    acceptor = broker()
    for _ in range(10):
        assert isinstance(opened(acceptor)[0], Accept)
    assert opened(acceptor) == []
    assert acceptor.pids() == []


def test_a_device_that_still_asks_is_not_silent() -> None:
    """Accepts may be lost for longer than a session without a word is kept."""
    acceptor = broker()
    for at in (0, 4, 8, 12):
        acceptor.handle_timer(at * SECOND_NS)
        tell(acceptor, OPEN, now_ns=at * SECOND_NS)
    acceptor.handle_timer(22 * SECOND_NS)
    assert acceptor.pids() == [DEVICE]
    acceptor.handle_timer(22 * SECOND_NS + 1)
    assert acceptor.pids() == []


def test_sessions_of_one_host_are_bounded() -> None:
    limits = dataclasses.replace(DEFAULT_LIMITS, xrce_sessions_host_count=2)
    mine = dataclasses.replace(settings(BROKER), limits=limits)
    acceptor: Acceptor[str] = Acceptor(mine, host_of=lambda source: source.partition(":")[0])

    def asked(number: int, host: str = "h") -> Message:
        message = altered(pid=bytes((number,)))
        tell(acceptor, message, f"{host}:{number}")
        said = [one for where, one in answers(acceptor) if where == f"{host}:{number}"]
        return next(one for one in said if isinstance(one, Accept | Close))

    assert [type(asked(number)) for number in (1, 2)] == [Accept, Accept]
    assert asked(3) == Close(pid=BROKER, reason=CloseReason.RESOURCES)
    assert isinstance(asked(1), Accept)  # it is there already
    assert isinstance(asked(4, "other"), Accept)
    tell(acceptor, Close(pid=b"\1", reason=255), "h:1")
    assert isinstance(asked(3), Accept)


def test_an_open_that_differs_begins_anew() -> None:
    acceptor = broker()
    opened(acceptor)
    tell(acceptor, data(0), now_ns=SECOND_NS)
    tell(acceptor, data(1), now_ns=SECOND_NS)
    before = acceptor.session(DEVICE)
    tell(acceptor, OPEN, now_ns=2 * SECOND_NS)
    assert acceptor.session(DEVICE) is before
    tell(acceptor, altered(lease=101), now_ns=2 * SECOND_NS)
    assert acceptor.session(DEVICE) is not before
    events = []
    while (told := acceptor.next_event()) is not None:
        events.append(told[1])
    assert [type(one) for one in events] == [Accepted, Delivered, Delivered, Ended, Accepted]
    tell(acceptor, data(0), now_ns=2 * SECOND_NS)
    assert isinstance((acceptor.next_event() or (b"", None))[1], Delivered)  # numbers from 0


@pytest.mark.line("X-038")
def test_an_open_is_asked_again_and_then_given_up() -> None:
    device = Initiator(settings())
    device.open(0)
    asked = [len(device.data_to_send(0))]
    while phase_of(device) is Phase.OPENING:
        at = device.next_timer_ns()
        assert at == len(asked) * SECOND_NS
        device.handle_timer(at)
        asked.append(len(device.data_to_send(at)))
    assert asked == [1] * 11 + [0]
    assert device.next_event() == Ended(255, "nobody answered")
    device.open(0)  # it may try again
    assert phase_of(device) is Phase.OPENING


@pytest.mark.line("X-039")
def test_a_close_while_opening_ends_the_attempt() -> None:
    device = Initiator(settings())
    device.open(0)
    device.receive(encode(Close(pid=BROKER, reason=4)), 0)
    assert phase_of(device) is Phase.CLOSED
    assert device.next_event() == Ended(4, "refused with reason 4")
    device.open(0)
    device.close(0)
    assert device.next_event() == Ended(0, "closed while opening")


@pytest.mark.line("X-040")
def test_an_accept_for_somebody_else_is_ignored() -> None:
    device = Initiator(settings())
    device.receive(encode(Accept(open_pid=DEVICE, accept_pid=BROKER, lease=0)), 0)
    assert phase_of(device) is Phase.CLOSED  # nothing was asked
    device.open(0)
    with pytest.raises(LocalProtocolError, match="opening already"):
        device.open(0)
    device.receive(encode(Accept(open_pid=b"\x01", accept_pid=BROKER, lease=0)), 0)
    assert phase_of(device) is Phase.OPENING
    device.receive(encode(Accept(open_pid=DEVICE, accept_pid=BROKER, lease=0)), 0)
    assert device.next_event() == Opened(BROKER, SessionProperties())


def test_an_accept_with_a_lease_of_years_is_refused() -> None:
    device = Initiator(settings())
    device.open(0)
    device.data_to_send(0)
    device.receive(encode(Accept(open_pid=DEVICE, accept_pid=BROKER, lease=2**40)), 0)
    assert [messages(one) for one in device.data_to_send(0)] == [[Close(pid=DEVICE, reason=5)]]
    assert phase_of(device) is Phase.CLOSED


def test_a_lost_accept_is_made_up_for() -> None:
    made = Pair(Initiator(settings()), broker())
    lost: list[bytes] = []

    def drop(frame: bytes) -> bool:
        first = not lost and frame[0] & 0x1F == 4
        lost.extend([frame] if first else [])
        return first

    made.drop = drop
    made.device.open(0)
    made.run(3)
    assert lost
    assert phase_of(made.device) is Phase.OPEN
    assert made.broker.pids() == [DEVICE]


# Addresses.


@pytest.mark.line("X-048")
def test_a_keep_alive_from_a_new_address_moves_the_session() -> None:
    acceptor = broker()
    opened(acceptor)
    tell(acceptor, KeepAlive(pid=DEVICE), "b")
    acceptor.send(DEVICE, sample(b"x"), 0)
    assert {source for source, _ in answers(acceptor)} == {"b"}
    tell(acceptor, data(), "b")
    assert acceptor.session(DEVICE) is not None
    fixed = Acceptor[str](settings(BROKER), moves=False)
    opened(fixed)
    tell(fixed, KeepAlive(pid=DEVICE), "b")
    tell(fixed, Close(pid=DEVICE, reason=0), "b")
    assert fixed.strays_count == 2
    assert fixed.pids() == [DEVICE]


def test_one_session_over_two_transports() -> None:
    acceptor = broker()
    opened(acceptor, OPEN, "udp/1")
    opened(acceptor, OPEN, "tcp/1")
    tell(acceptor, data(0), "tcp/1")
    tell(acceptor, data(1), "udp/1")
    events = []
    while (told := acceptor.next_event()) is not None:
        events.append(type(told[1]))
    assert events == [Accepted, Delivered, Delivered]


def test_another_pid_at_an_address_replaces_the_first() -> None:
    acceptor = broker()
    opened(acceptor)
    opened(acceptor, altered(pid=b"\x02"))
    assert acceptor.pids() == [b"\x02"]
