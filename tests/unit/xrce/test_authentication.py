"""Who opens a session: keys, clocks, replays."""

from __future__ import annotations

import dataclasses

import pytest
from tests.xrce_session import BROKER, DEVICE, OPEN, Pair, answers, settings, tell

from elea.xrce.closing import CloseReason
from elea.xrce.declaration_records import Property
from elea.xrce.message_records import Accept, Close, KeepAlive, Message, Open, Ping
from elea.xrce.properties import AUTHENTICATION, SessionProperties
from elea.xrce.session.acceptor import Acceptor
from elea.xrce.session.authentication import (
    OPENS_COUNT,
    SKEW_MS,
    PskChecker,
    PskProver,
    psk_proof,
)
from elea.xrce.session.initiator import Initiator, Opened
from elea.xrce.session.session import Ended

KEY = b"a key of this device"
NOW_MS = 1_700_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


def guarded(clock: Clock) -> Acceptor[str]:
    """A broker that knows one device; its sessions do not move (A-15)."""
    checker = PskChecker({DEVICE: KEY}.get, clock)
    return Acceptor(settings(BROKER, lease_s=30), authenticate=checker, moves=False)


def opening(
    time_ms: int = NOW_MS, *, key: bytes = KEY, pid: bytes = DEVICE, lease: int = 100
) -> Open:
    proof = psk_proof(key, pid, 1, lease, time_ms)
    said = (Property(id=AUTHENTICATION, value=proof),)
    return Open(version=1, pid=pid, lease=lease, locators=(), properties=said)


def heard(broker: Acceptor[str], message: Open, source: str = "a", now_ns: int = 0) -> Message:
    """The answer to an Open."""
    tell(broker, message, source, now_ns)
    said = [one for where, one in answers(broker, now_ns) if where == source]
    return next(one for one in said if isinstance(one, Accept | Close))


def refused(answer: Message) -> bool:
    return answer == Close(pid=BROKER, reason=CloseReason.AUTHENTICATION)


@pytest.mark.line("X-034")
def test_a_key_opens_once_and_a_wrong_one_never() -> None:
    broker = guarded(Clock())
    assert refused(heard(broker, opening(key=b"another")))
    assert refused(heard(broker, OPEN))
    assert broker.pids() == []
    assert isinstance(heard(broker, opening()), Accept)
    broker.close(DEVICE, 0)
    tell(broker, Close(pid=DEVICE, reason=0), "a")
    answers(broker)
    assert broker.pids() == []
    assert refused(heard(broker, opening()))  # the same octets again
    assert refused(heard(broker, opening(), "elsewhere"))
    assert isinstance(heard(broker, opening(NOW_MS + 1)), Accept)


@pytest.mark.line("X-034")
def test_an_open_that_is_repeated_where_it_came_from_is_no_replay() -> None:
    broker = guarded(Clock())
    assert isinstance(heard(broker, opening()), Accept)
    assert isinstance(heard(broker, opening()), Accept)  # our Accept was lost
    assert refused(heard(broker, opening(), "elsewhere"))
    tell(broker, Ping(hash=1), "a", 1)  # the session is used, and not young any more
    before = broker.session(DEVICE)
    assert isinstance(heard(broker, opening(), "a", 10 * 10**9), Accept)
    assert broker.session(DEVICE) is before  # a replay does not begin it anew


@pytest.mark.parametrize("off_ms", [-SKEW_MS, 0, SKEW_MS])
def test_clocks_may_differ_a_little(off_ms: int) -> None:
    assert isinstance(heard(guarded(Clock()), opening(NOW_MS + off_ms)), Accept)


@pytest.mark.parametrize("off_ms", [-SKEW_MS - 1, SKEW_MS + 1])
def test_and_no_more(off_ms: int) -> None:
    assert refused(heard(guarded(Clock()), opening(NOW_MS + off_ms)))


def test_a_proof_is_about_all_that_is_opened() -> None:
    proven = opening()
    for other in (
        Open(version=1, pid=DEVICE, lease=101, locators=(), properties=proven.properties),
        Open(version=1, pid=b"\1", lease=100, locators=(), properties=proven.properties),
    ):
        assert refused(heard(guarded(Clock()), other))


@pytest.mark.parametrize("cut", [0, 1, 9, 40])
def test_a_short_value_is_none(cut: int) -> None:
    whole = opening().properties
    assert whole is not None
    said = (Property(id=AUTHENTICATION, value=whole[0].value[:cut]),)
    message = Open(version=1, pid=DEVICE, lease=100, locators=(), properties=said)
    assert refused(heard(guarded(Clock()), message))


def test_what_is_remembered_is_bounded_and_forgotten() -> None:
    clock = Clock()
    checker = PskChecker({DEVICE: KEY}.get, clock)
    proofs = [opening(NOW_MS + number) for number in range(OPENS_COUNT + 1)]
    taken = [checker(one, one.properties[0].value) for one in proofs if one.properties]
    assert taken == [True] * OPENS_COUNT + [False]
    clock.now_ms += 2 * SKEW_MS + OPENS_COUNT
    later = opening(clock.now_ms)
    assert later.properties is not None
    assert checker(later, later.properties[0].value)
    assert checker.refused_count == 1


def test_a_device_proves_itself_each_time_it_asks() -> None:
    clock = Clock()
    mine = dataclasses.replace(settings(), prove=PskProver(KEY, clock))
    made = Pair(Initiator(mine), guarded(clock))
    lost = [True, True]
    made.drop = lambda _frame: bool(lost) and lost.pop()  # two Opens of the same millisecond
    made.device.open(0)
    made.run(5)
    assert any(isinstance(one, Opened) for one in made.device_events)
    wrong = Pair(Initiator(settings()), guarded(clock))
    wrong.device.open(0)
    wrong.run(1)
    assert [one.reason for one in wrong.device_events if isinstance(one, Ended)] == [1]


def test_sessions_with_keys_stay_where_they_are() -> None:
    """Anybody may know a pid: with keys, neither a KeepAlive nor a Close counts from elsewhere."""
    broker = guarded(Clock())
    heard(broker, opening())
    tell(broker, KeepAlive(pid=DEVICE), "elsewhere")
    tell(broker, Close(pid=DEVICE, reason=0), "elsewhere")
    assert broker.strays_count == 2
    tell(broker, Ping(hash=7), "elsewhere")
    assert [where for where, _ in answers(broker)] == ["elsewhere"]  # as to any stranger
    assert broker.pids() == [DEVICE]


def test_keys_and_proofs_are_not_shown() -> None:
    mine = dataclasses.replace(settings(), prove=PskProver(KEY, Clock()))
    assert "prove" not in repr(mine)
    assert "authentication" not in repr(SessionProperties(authentication=b"proof"))
