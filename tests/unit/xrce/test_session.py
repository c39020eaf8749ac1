"""Sessions that are open: data, leases, closing, from both sides."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from tests.xrce_network import sample
from tests.xrce_session import (
    BROKER,
    DEVICE,
    MS,
    OPEN,
    altered,
    answers,
    broker,
    data,
    endings,
    messages,
    opened,
    pair,
    phase_of,
    settings,
    state_of,
    tell,
)

from elea.errors import ClosedError, DecodeError, InvalidValueError
from elea.xrce.encode import encode
from elea.xrce.message_records import Close, KeepAlive, Message, Ping, Pong
from elea.xrce.properties import SessionProperties
from elea.xrce.session.initiator import Phase
from elea.xrce.session.session import TRANSITIONS, Delivered, Ended, Input, Session, State
from elea.xrce.session.settings import SECOND_NS, SessionSettings

# The table.


@pytest.mark.parametrize(("state", "input_"), list(itertools.product(State, Input)))
def test_every_pair_moves_or_is_never_met(state: State, input_: Input) -> None:
    after = TRANSITIONS.get((state, input_))
    if state is State.CLOSED:
        assert after is None
    elif input_ in (Input.EXPIRED, Input.VIOLATED, Input.RECV_ERROR):
        assert after is State.CLOSED
    elif after is None:
        never = {
            (State.OPEN, Input.DRAINED),
            (State.OPEN, Input.TIMEOUT),
            (State.DRAINING, Input.CLOSE),
            (State.DRAINING, Input.TIMEOUT),
            (State.CLOSING, Input.CLOSE),
            (State.CLOSING, Input.DRAINED),
            (State.ANSWERING, Input.CLOSE),
            (State.ANSWERING, Input.TIMEOUT),
        }
        assert (state, input_) in never


# Data and ends.


def test_data_goes_both_ways() -> None:
    made = pair()
    assert made.device.session is not None
    made.device.session.send(sample(b"up"), made.now_ns)
    made.broker.send(DEVICE, sample(b"down"), made.now_ns)
    made.run(1)
    ups = [one for _, one in made.broker_events if isinstance(one, Delivered)]
    downs = [one for one in made.device_events if isinstance(one, Delivered)]
    assert [one.marked.message.payload for one in ups] == [b"up"]  # type: ignore[union-attr]
    assert [one.marked.message.payload for one in downs] == [b"down"]  # type: ignore[union-attr]
    with pytest.raises(ClosedError, match="no session with 09"):
        made.broker.send(b"\x09", sample(b"x"), made.now_ns)


@pytest.mark.line("X-041")
@pytest.mark.parametrize("side", ["device", "broker"])
def test_an_orderly_close_delivers_what_is_under_way(side: str) -> None:
    made = pair()
    device = made.device.session
    assert device is not None
    for number in range(20):
        device.send(sample(b"%d" % number), made.now_ns)
        made.broker.send(DEVICE, sample(b"%d" % number), made.now_ns)
    if side == "device":
        made.device.close(made.now_ns)
    else:
        made.broker.close(DEVICE, made.now_ns)
    with pytest.raises(ClosedError):
        (device.send if side == "device" else lambda *_: made.broker.send(DEVICE, *_))(
            sample(b"late"), made.now_ns
        )
    made.run(3)
    for events in (made.device_events, [one for _, one in made.broker_events]):
        assert sum(isinstance(one, Delivered) for one in events) == 20
        assert isinstance(events[-1], Ended)
        assert events[-1].reason == 0
    assert sum(isinstance(one, Close) for one in made.from_device) == 1
    assert sum(isinstance(one, Close) for one in made.from_broker) == 1
    assert made.broker.pids() == []
    assert made.broker.next_timer_ns() is None
    assert made.device.next_timer_ns() is None


def test_a_close_that_nobody_answers_ends_by_itself() -> None:
    made = pair()
    made.cut = True
    made.device.close(made.now_ns)
    made.run(0.9)
    assert phase_of(made.device) is Phase.OPEN
    made.run(0.2)
    assert phase_of(made.device) is Phase.CLOSED
    assert endings(made)[0] == [Ended(0, "closed")]


def test_closing_does_not_wait_for_ever_for_acknowledgements() -> None:
    made = pair()
    made.cut = True
    assert made.device.session is not None
    made.device.session.send(sample(b"x"), made.now_ns)
    made.device.close(made.now_ns)
    made.run(1.9)
    assert not [one for one in made.from_device if isinstance(one, Close)]
    made.run(0.2)
    assert [one for one in made.from_device if isinstance(one, Close)]
    made.run(1)
    assert phase_of(made.device) is Phase.CLOSED


@pytest.mark.line("X-042")
def test_a_close_with_an_error_is_not_answered() -> None:
    acceptor = broker()
    opened(acceptor)
    tell(acceptor, Close(pid=DEVICE, reason=255))
    assert answers(acceptor) == []
    assert acceptor.pids() == []
    tell(acceptor, Close(pid=b"\x77", reason=0))
    assert answers(acceptor) == []


@pytest.mark.line("X-043")
def test_a_close_of_another_pid_is_ignored() -> None:
    made = pair()
    made.device.receive(encode(Close(pid=b"\x01", reason=0)), made.now_ns)
    assert phase_of(made.device) is Phase.OPEN
    tell(made.broker, Close(pid=b"\x01", reason=0), made.source, made.now_ns)
    assert made.broker.pids() == [DEVICE]


@pytest.mark.line("X-011")
def test_an_unknown_message_ends_the_session_and_what_was_before_it_counts() -> None:
    acceptor = broker()
    opened(acceptor)
    acceptor.next_event()
    frame = encode(data(0)) + b"\x0a" + encode(data(1))
    acceptor.receive(frame, "a", 0)
    assert isinstance((acceptor.next_event() or (b"", None))[1], Delivered)
    ended = (acceptor.next_event() or (b"", None))[1]
    assert isinstance(ended, Ended)
    assert ended.reason == 255
    assert Close(pid=BROKER, reason=255) in [one for _, one in answers(acceptor)]
    assert acceptor.next_event() is None
    assert acceptor.pids() == []


@pytest.mark.line("X-022")
def test_a_conduit_too_many_ends_the_session_with_5() -> None:
    acceptor = broker()
    opened(acceptor)
    acceptor.receive(bytes.fromhex("13 08") + encode(data()), "a", 0)
    assert answers(acceptor) == [("a", Close(pid=BROKER, reason=5))]


@pytest.mark.line("X-049")
def test_strangers_have_no_effect_and_no_answer() -> None:
    acceptor = broker()
    for text in (
        "47 00 02 01 61",
        "06 00 01 06 05",
        "0b 00 02 00",
        "4e 00",
        "0f 00",
        "0a",
        "10 01 aa",
    ):
        acceptor.receive(bytes.fromhex(text), "stranger", 0)
    assert answers(acceptor) == []
    assert acceptor.next_event() is None
    assert acceptor.strays_count == 7


# Leases.


@pytest.mark.parametrize("side", ["device", "broker"])
def test_silence_ends_a_session_after_exactly_the_lease_of_the_peer(side: str) -> None:
    made = pair(settings(lease_s=10), settings(BROKER, lease_s=30))
    end = made.device.session if side == "device" else made.broker.session(DEVICE)
    assert end is not None
    lease_ns = 30 * SECOND_NS if side == "device" else 10 * SECOND_NS
    end.touch(made.now_ns)
    end.handle_timer(made.now_ns + lease_ns)
    assert state_of(end) is State.OPEN
    end.handle_timer(made.now_ns + lease_ns + 1)
    assert state_of(end) is State.CLOSED
    said = [one for frame in end.data_to_send(made.now_ns) for one in messages(frame)]
    assert said[-1] == Close(pid=DEVICE if side == "device" else BROKER, reason=0)


def test_a_device_that_is_cut_off_is_let_go() -> None:
    made = pair()
    made.cut = True
    made.run(9.8)
    assert made.broker.pids() == [DEVICE]
    made.run(0.4)
    assert made.broker.pids() == []
    [ended] = endings(made)[1]
    assert ended.text == "nothing came for 10 s, the peer's lease"
    made.run(31)
    assert phase_of(made.device) is Phase.CLOSED


@pytest.mark.line("X-045")
@pytest.mark.parametrize(
    "message", [Ping(hash=1), KeepAlive(pid=DEVICE), data(), Pong(hash=9), OPEN]
)
def test_any_message_renews_the_lease(message: Message) -> None:
    acceptor = broker()
    opened(acceptor)
    tell(acceptor, data(), now_ns=SECOND_NS)
    at = 2 * SECOND_NS - 1
    tell(acceptor, message, now_ns=at)
    acceptor.handle_timer(at + 10 * SECOND_NS)
    assert acceptor.pids() == [DEVICE]
    acceptor.handle_timer(at + 10 * SECOND_NS + 1)
    assert acceptor.pids() == []


@pytest.mark.line("X-046")
def test_a_lease_of_zero_never_ends() -> None:
    acceptor = broker()
    opened(acceptor, altered(lease=0))
    tell(acceptor, data(), now_ns=0)
    for hour in range(48):
        acceptor.handle_timer(hour * 3_600 * SECOND_NS)
    assert acceptor.pids() == [DEVICE]


@pytest.mark.line("X-047")
def test_idle_sessions_stay_alive_by_keep_alives_of_both() -> None:
    made = pair(settings(lease_s=3), settings(BROKER, lease_s=6))
    made.device.session.send(sample(b"x"), made.now_ns)  # type: ignore[union-attr]
    made.run(120)
    assert phase_of(made.device) is Phase.OPEN
    assert made.broker.pids() == [DEVICE]
    assert 110 < sum(isinstance(one, KeepAlive) for one in made.from_device) < 125
    assert 55 < sum(isinstance(one, KeepAlive) for one in made.from_broker) < 65


def test_a_newcomer_that_says_nothing_more_is_let_go() -> None:
    acceptor = broker()
    opened(acceptor, altered(lease=0))
    acceptor.handle_timer(10 * SECOND_NS)
    assert acceptor.pids() == [DEVICE]
    acceptor.handle_timer(10 * SECOND_NS + 1)
    assert acceptor.pids() == []
    assert Close(pid=BROKER, reason=0) in [one for _, one in answers(acceptor)]
    opened(acceptor, altered(lease=0))
    tell(acceptor, KeepAlive(pid=DEVICE), now_ns=SECOND_NS)
    acceptor.handle_timer(60 * SECOND_NS)
    assert acceptor.pids() == [DEVICE]


def test_a_device_that_is_idle_costs_little() -> None:
    """A gateway has thousands of them; the figure is for what this layer keeps of each."""
    acceptor = broker()
    count = 500

    def join(number: int) -> None:
        pid, source = number.to_bytes(4, "big"), f"udp/{number}"
        tell(acceptor, altered(pid=pid), source, number * SECOND_NS)
        tell(acceptor, data(), source, number * SECOND_NS)
        acceptor.send(pid, sample(b"x"), number * SECOND_NS)
        acceptor.data_to_send(number * SECOND_NS)
        while acceptor.next_event() is not None:
            pass

    join(0)
    tracemalloc.start()
    for number in range(1, count + 1):
        join(number)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(acceptor.pids()) == count + 1
    assert kept / count < 8 * 1024


# Round trips, stalls, settings.


@pytest.mark.line("X-100")
def test_pings_are_answered_and_measure_the_way() -> None:
    acceptor = broker()
    for hash_ in (1, 2**16 + 5, 2**64 - 1):
        tell(acceptor, Ping(hash=hash_), "stranger")
        assert answers(acceptor) == [("stranger", Pong(hash=hash_))]
    made = pair()
    for _ in range(10):
        made.device.session.send(sample(b"x"), made.now_ns)  # type: ignore[union-attr]
        made.run(6)
    session = made.device.session
    assert session is not None
    assert abs(session.conduits.round_trip.rtt_ns - 10 * MS) < 2 * MS
    assert session.conduits.round_trip.samples_count > 5


def test_strangers_are_not_answered_without_end() -> None:
    acceptor = broker()
    for _ in range(150):
        tell(acceptor, Ping(hash=1), "stranger")
    assert len(answers(acceptor)) == 100
    for number in range(30):
        tell(acceptor, altered(version=9, pid=bytes((number,))), "stranger")
    assert len(answers(acceptor)) == 20
    tell(acceptor, Ping(hash=1), "stranger", now_ns=SECOND_NS)
    assert len(answers(acceptor)) == 1


def test_a_peer_that_acknowledges_nothing_is_let_go() -> None:
    session = Session(settings(), BROKER, 10 * SECOND_NS, SessionProperties(), 0)
    session.send(sample(b"x"), 0)
    for second in range(1, 11):
        session.touch(second * SECOND_NS)
        session.handle_timer(second * SECOND_NS)
    assert state_of(session) is State.OPEN
    session.handle_timer(10 * SECOND_NS + 1)
    assert session.take_events() == [Ended(255, "the peer acknowledges nothing")]


def test_malformed_octets_for_a_session_that_ended_are_ignored() -> None:
    session = Session(settings(), BROKER, 0, SessionProperties(), 0)
    for _ in range(2):
        session.violated(DecodeError("no", 0), 0)
    (event,) = session.take_events()
    assert isinstance(event, Ended)
    assert session.next_timer_ns() is None


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"pid": b""}, "0 octets; legal are 1 to 16"),
        ({"pid": bytes(17)}, "17 octets"),
        ({"pid": b"\x01", "lease_ns": 1}, "legal are 0, for ever, and 100 ms to a day"),
        ({"pid": b"\x01", "lease_ns": -1}, "legal are 0"),
        ({"pid": b"\x01", "lease_ns": 86_401 * SECOND_NS}, "legal are 0"),
    ],
)
def test_settings_that_no_peer_would_accept_are_refused(
    members: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidValueError, match=words):
        SessionSettings(**members)  # type: ignore[arg-type]
