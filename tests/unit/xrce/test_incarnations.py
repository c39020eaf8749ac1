"""An Open that comes again: the same device goes on, or one that was started anew (8.3, A-14)."""

from __future__ import annotations

import dataclasses

import pytest
from tests.xrce_session import answers, messages, settings
from tests.xrce_world import World

from elea.xrce.client import Client
from elea.xrce.declaration_records import (
    CommitDecl,
    ForgetResourceDecl,
    Property,
    PublisherDecl,
    ResourceDecl,
    ResultDecl,
    SubscriberDecl,
)
from elea.xrce.encode import encode
from elea.xrce.gateway.effects import Joined, Left
from elea.xrce.message_records import (
    Accept,
    AckNack,
    Close,
    Declare,
    Frag,
    Hello,
    KeepAlive,
    Message,
    Open,
    Ping,
    Scout,
    StreamData,
    Synch,
)
from elea.xrce.properties import (
    CLIENT_HASH,
    SEQUENCE_NUMBER_LENGTH,
    VENDOR,
    VENDOR_CODE,
    SessionProperties,
)
from elea.xrce.samples.durability import MemoryStore
from elea.xrce.session.acceptor import Acceptor
from elea.xrce.session.scouting import Role, ScoutAnswerer
from elea.xrce.session.settings import SECOND_NS

PID = b"\x99\x01"
SOURCE = 9
NAMES = (
    ResourceDecl(rid=2, resource=b"/lab/t"),
    PublisherDecl(rid=2),
    SubscriberDecl(id=2, mode=1),
    CommitDecl(commit_id=1),
)


def opening(**said: object) -> Open:
    members: dict[str, object] = {"version": 1, "pid": PID, "lease": 0, "locators": ()}
    return Open(**{**members, **said})  # type: ignore[arg-type]


class ByHand:
    """A device that is octets, at a gateway."""

    def __init__(self, *, bits: int | None = None, world: World | None = None) -> None:
        self.world = world or World()
        said = (
            None if bits is None else (Property(id=SEQUENCE_NUMBER_LENGTH, value=bytes((bits,))),)
        )
        self.opening = opening(properties=said)
        self.bits = bits or 14
        self.said: list[Message] = []
        self.say(self.opening)

    def say(self, *said: Message, source: int = SOURCE) -> list[Message]:
        """All of it in one frame; what it is answered."""
        frame = b"".join(map(encode, said))
        self.world.gateway.receive(frame, source, self.world.now_ns)
        return self.hear()

    def hear(self) -> list[Message]:
        world = self.world
        found = [
            one for _, frame in world.gateway.data_to_send(world.now_ns) for one in messages(frame)
        ]
        world.flush_effects()
        self.said += found
        numbers = [one.sn for one in found if isinstance(one, Declare | StreamData)]
        if numbers:  # as a living device does; the highest is the last
            acknowledged = AckNack(sn=(numbers[-1] + 1) % (1 << self.bits))
            world.gateway.receive(encode(acknowledged), SOURCE, world.now_ns)
        return found

    def later(self, seconds: float) -> None:
        """Let time pass."""
        end_ns = self.world.now_ns + int(seconds * SECOND_NS)
        while (at := self.world.gateway.next_timer_ns()) is not None and at <= end_ns:
            self.world.now_ns = max(self.world.now_ns, at)
            self.world.gateway.handle_timer(self.world.now_ns)
            self.hear()
        self.world.now_ns = end_ns

    def again(self) -> list[Message]:
        """Its Open, octet by octet, once more."""
        return self.say(self.opening)

    def puts(self) -> list[tuple[str, bytes]]:
        return [(one.key, one.payload) for one in self.world.puts()]

    @property
    def lives(self) -> int:
        return sum(isinstance(one, Joined) for one in self.world.effects)


def declare(sn: int, *declarations: object) -> Declare:
    return Declare(sync=True, committed=False, sn=sn, declarations=declarations or NAMES)  # type: ignore[arg-type]


def data(sn: int, payload: bytes, id_: int = 2, *, sync: bool = True) -> StreamData:
    return StreamData(reliable=True, sync=sync, sn=sn, id=id_, payload=payload)


# It goes on.


@pytest.mark.line("X-035", "X-037")
@pytest.mark.parametrize("wait_s", [0.1, 2.2, 3, 30, 3_600])
def test_an_open_that_comes_again_late_does_not_destroy_the_session(wait_s: float) -> None:
    device = ByHand()
    device.say(declare(0), data(1, b"one"))
    device.later(wait_s)
    assert isinstance(device.again()[0], Accept)
    device.say(data(2, b"two"))
    assert device.puts() == [("lab/t", b"one"), ("lab/t", b"two")]
    device.world.put("lab/t", b"down")
    assert any(isinstance(one, StreamData) and one.payload == b"down" for one in device.hear())
    assert device.lives == 1


def test_a_device_that_opens_again_every_three_seconds_keeps_its_session() -> None:
    device = ByHand()
    device.say(declare(0))
    for number in range(1, 200):
        device.later(3)
        assert any(isinstance(one, Accept) for one in device.again()), "N_accept does not count"
        device.say(data(number, b"%d" % number))
    assert device.puts() == [("lab/t", b"%d" % number) for number in range(1, 200)]
    assert device.lives == 1


def test_an_old_number_0_that_comes_after_the_open_is_a_copy_if_the_numbers_go_on() -> None:
    device = ByHand()
    device.say(declare(0), data(1, b"one"), data(2, b"two"))
    device.later(3)
    device.again()
    device.say(declare(0))
    device.say(data(3, b"three"))
    device.later(10)
    assert device.puts() == [("lab/t", one) for one in (b"one", b"two", b"three")]
    assert device.lives == 1


@pytest.mark.parametrize("bits", [4, 7])
def test_number_0_of_a_wrap_is_not_a_beginning(bits: int) -> None:
    device = ByHand(bits=bits)
    modulus = 1 << bits
    device.say(declare(0))
    for number in range(1, 3 * modulus):
        if number % modulus in (0, 1, modulus - 1, modulus // 2):
            device.again()
        device.say(data(number % modulus, b"%d" % number))
    device.later(10)
    assert device.puts() == [("lab/t", b"%d" % number) for number in range(1, 3 * modulus)]
    assert device.lives == 1


@pytest.mark.parametrize("bits", [4, 7])
def test_number_0_of_a_wrap_may_come_before_those_that_were_lost(bits: int) -> None:
    device = ByHand(bits=bits)
    modulus = 1 << bits
    for number in range(modulus - 2):
        device.say(data(number, b"%d" % number, id_=4))
    device.again()
    rest = [modulus - 2, modulus - 1, modulus, modulus + 1]
    for number in (rest[2], rest[3], rest[0], rest[1]):
        device.say(data(number % modulus, b"%d" % number, id_=4))
        device.later(0.1)
    device.later(10)
    assert [one for _, one in device.puts()] == [b"%d" % number for number in range(modulus + 2)]
    assert device.lives == 1


@pytest.mark.parametrize("bits", [4, 7])
def test_a_number_0_that_was_asked_for_is_a_retransmission(bits: int) -> None:
    """The window is around the wrap; its answer was lost, and all of it is sent again."""
    device = ByHand(bits=bits)
    modulus = 1 << bits
    for number in range(modulus - 2):
        device.say(data(number, b"%d" % number, id_=4))
    tail = [
        data(number % modulus, b"%d" % number, id_=4) for number in range(modulus - 2, modulus + 2)
    ]
    device.say(tail[3])  # those before it were lost
    assert any(isinstance(one, AckNack) and one.mask is not None for one in device.said)
    device.say(*tail)
    device.again()
    device.say(*tail)
    device.say(*tail[2:])
    device.later(1)
    device.say(data(2, b"last", id_=4))
    device.later(10)
    expected = [b"%d" % number for number in range(modulus + 2)]
    assert [one for _, one in device.puts()] == [*expected, b"last"]
    assert device.lives == 1


@pytest.mark.line("X-051")
def test_a_second_transport_is_added_by_a_nonce_however_late() -> None:
    said = SessionProperties(vendor=VENDOR_CODE, client_hash=b"once").listed()
    acceptor: Acceptor[str] = Acceptor(
        settings(b"\xb2\x0c"), is_stream=lambda one: one.startswith("tcp")
    )
    asked = encode(opening(properties=said))
    acceptor.receive(asked, "udp/1", 0)
    acceptor.receive(encode(data(0, b"x")), "udp/1", 0)
    before = acceptor.session(PID)
    acceptor.receive(asked, "tcp/1", 60 * SECOND_NS)
    assert acceptor.session(PID) is before
    acceptor.receive(asked, "udp/2", 61 * SECOND_NS)  # of a kind that is known: another device
    assert acceptor.session(PID) is not before


# It began anew.


@pytest.mark.line("X-037")
@pytest.mark.parametrize("wait_s", [0.1, 2.2, 60])
def test_numbers_that_restart_begin_anew(wait_s: float) -> None:
    world = World(transient=MemoryStore())
    device = ByHand(world=world)
    device.say(declare(0), data(1, b"one"), data(2, b"two"))
    device.say(
        declare(3, ResourceDecl(rid=8, resource=b"/kept#transient"), CommitDecl(commit_id=2))
    )
    device.say(data(4, b"kept", 8))
    device.later(wait_s)
    device.again()
    assert device.lives == 1, "nothing is dropped before the numbers say so"
    other = (ResourceDecl(rid=2, resource=b"/lab/u"), CommitDecl(commit_id=9))
    said = device.say(declare(0, *other), data(1, b"new"))
    results = [one for decl in said if isinstance(decl, Declare) for one in decl.declarations]
    assert ResultDecl(commit_id=9, status=0) in results
    assert device.puts()[-1] == ("lab/u", b"new")
    assert device.lives == 2
    assert [one.text for one in world.effects if isinstance(one, Left)] == ["the device began anew"]
    assert world.gateway.devices[PID].subscriptions == {}
    assert [one.payload for one in world.gateway.at_rest.matching("kept")] == [b"kept"]


@pytest.mark.line("X-037")
def test_a_device_that_says_the_same_as_before_begins_anew() -> None:
    """Its first messages are equal, octet by octet; that they come one after the other tells it."""
    device = ByHand()
    first = (declare(0), data(1, b"one"), data(2, b"two"))
    device.say(*first)
    device.later(2.2)
    for _ in range(3):
        device.again()
        device.say(first[0])
        device.say(first[1])
        device.say(first[2])
        device.later(3)
    assert device.puts() == [("lab/t", one) for _ in range(4) for one in (b"one", b"two")]
    assert device.lives == 4


def test_a_device_that_declares_the_same_and_then_waits_is_answered() -> None:
    device = ByHand()
    device.say(declare(0), data(1, b"one"))
    device.later(5)
    device.again()
    device.said.clear()
    device.say(declare(0))
    device.later(2)
    results = [
        one for decl in device.said if isinstance(decl, Declare) for one in decl.declarations
    ]
    assert ResultDecl(commit_id=1, status=0) in results
    assert device.lives == 2


def test_a_device_that_begins_anew_with_what_must_not_be_ends_alone() -> None:
    """What was held is received when the time for a decision has come, and may be a violation."""
    device = ByHand()
    bad = bytearray(encode(Frag(sn_base=5, n=2))) + encode(data(0, b"x", 4))
    device.world.gateway.receive(bytes(bad), SOURCE, device.world.now_ns)
    assert PID not in device.world.gateway.devices, "outside of its series"
    device = ByHand()
    device.say(data(0, b"x", 4), data(1, b"y", 4))
    device.later(5)
    device.again()
    device.world.gateway.receive(bytes(bad), SOURCE, device.world.now_ns)
    device.later(5)
    assert PID not in device.world.gateway.devices
    assert any(isinstance(one, Close) and one.reason == 255 for one in device.said)
    assert device.lives == 1, "the second was over before it was told of"


def test_a_restart_whose_first_messages_were_lost_is_seen_by_its_synch() -> None:
    device = ByHand()
    device.say(*(data(number, b"old", 4) for number in range(20)))
    device.later(5)
    device.again()
    for number in range(3, 20):
        device.say(data(number, b"%d" % number, 4))
    assert not any(isinstance(one, AckNack) and one.sn == 20 for one in device.said[-5:])
    device.say(Synch(reliable=True, sync=True, sn=20, count=20))
    device.say(*(data(number, b"%d" % number, 4) for number in range(3)))
    assert [one for _, one in device.puts()] == [b"old"] * 20 + [b"%d" % n for n in range(20)]
    assert device.lives == 2


def test_a_restart_at_the_end_of_the_number_space_is_seen_by_its_synch() -> None:
    device = ByHand(bits=7)
    device.say(*(data(number, b"old", 4) for number in range(120)))
    device.later(5)
    device.again()
    device.say(data(0, b"new", 4))
    assert device.lives == 1
    device.say(Synch(reliable=True, sync=True, sn=1, count=1))
    assert device.lives == 2
    assert device.puts()[-1] == ("@xrce/rid/4", b"new")


@pytest.mark.parametrize("nonce", [b"two", b""])
def test_another_nonce_is_another_incarnation_at_once(nonce: bytes) -> None:
    def asked(value: bytes) -> Open:
        listed = [(VENDOR, VENDOR_CODE), *([(CLIENT_HASH, value)] if value else [])]
        return opening(properties=tuple(Property(id=id_, value=one) for id_, one in listed))

    device = ByHand()
    device.say(asked(b"one"))
    device.say(declare(0))
    assert device.lives == 2  # the one without a nonce was another one, too
    device.say(asked(b"one"))
    assert device.lives == 2
    device.say(asked(nonce))
    assert device.lives == 3


@pytest.mark.parametrize("number", [0, 2])
def test_another_source_is_another_incarnation(number: int) -> None:
    device = ByHand()
    device.say(declare(0), data(1, b"one"))
    device.say(device.opening, source=SOURCE + 1)
    assert device.lives == 2
    device.say(data(number, b"lost"), source=SOURCE + 1)
    assert device.puts() == [("lab/t", b"one")], "id 2 had a name; it gets no anonymous key"


def test_two_clients_of_one_program_are_told_apart_by_their_nonces() -> None:
    world = World()
    mine = dataclasses.replace(
        settings(PID), nonce=b"n", properties=SessionProperties(vendor=VENDOR_CODE)
    )
    client = world.device(mine)
    client.subscriber(client.resource("/a"))
    world.committed(client)
    client.close(world.now_ns)
    world.run(5)
    asked = []
    for _ in range(2):
        other = Client(mine)
        other.open(0)
        asked += other.data_to_send(0)
    client.open(world.now_ns)
    [once_more] = [one for one in client.data_to_send(world.now_ns) if one[0] & 0x1F == 3]
    assert asked[0] == asked[1] != once_more


# Ids that had a name.


def test_an_id_that_had_a_name_never_gets_an_anonymous_key() -> None:
    device = ByHand()
    device.say(declare(0), data(1, b"one"))
    device.say(declare(2, ForgetResourceDecl(rid=2), CommitDecl(commit_id=2)))
    device.say(data(3, b"two"), data(4, b"anonymous", 6))
    assert device.puts() == [("lab/t", b"one"), ("@xrce/rid/6", b"anonymous")]
    assert device.world.gateway.devices[PID].counters.data == 1
    # A subscriber may stand before its resource, as existing devices send it.
    device.say(declare(5, SubscriberDecl(id=2, mode=1), CommitDecl(commit_id=3)))
    device.world.put("@xrce/rid/2", b"nobody's")
    named = ResourceDecl(rid=2, resource=b"/lab/w")
    device.say(declare(6, named, CommitDecl(commit_id=4)))
    device.world.put("lab/w", b"named")
    got = [one.payload for one in device.hear() if isinstance(one, StreamData)]
    assert got == [b"named"]


# Scouts of those that have a session.


def scouted() -> Acceptor[str]:
    acceptor = Acceptor[str](settings(b"\xb2\x0c"), scouting=ScoutAnswerer(Role.BROKER, ()))
    acceptor.receive(encode(opening(lease=50)), "a", 0)
    acceptor.receive(encode(data(0, b"x")), "a", 0)
    answers(acceptor)
    return acceptor


def hellos(acceptor: Acceptor[str], mask: int, now_ns: int, source: str = "a") -> int:
    acceptor.handle_timer(now_ns)
    acceptor.receive(encode(Scout(mask=mask)), source, now_ns)
    return sum(isinstance(one, Hello) for _, one in answers(acceptor, now_ns))


def test_peers_that_scout_for_ever_get_no_hello_and_stay() -> None:
    """A Hello would make such a peer open again, and forget where our numbers are."""
    acceptor = scouted()
    for second in range(3, 60, 3):
        acceptor.receive(encode(Ping(hash=1)), "a", second * SECOND_NS - 1)
        assert hellos(acceptor, Role.PEER | Role.BROKER, second * SECOND_NS) == 0
    assert hellos(acceptor, Role.PEER | Role.BROKER, 60 * SECOND_NS, "b") == 1  # a stranger
    assert hellos(acceptor, Role.BROKER, 60 * SECOND_NS) == 1  # it looks for a broker: us
    assert acceptor.pids() == [PID]


def test_scouts_keep_a_session_and_a_peer_that_says_nothing_else_gets_a_hello() -> None:
    """It may have been started anew, with the same address, and not know of its session."""
    acceptor = scouted()
    mask = Role.PEER | Role.BROKER
    found = [hellos(acceptor, mask, second * SECOND_NS) for second in range(3, 40, 3)]
    assert acceptor.pids() == [PID], "its lease is 5 s"
    assert found[:1] == [0]
    assert all(found[1:])


@pytest.mark.line("X-037")
def test_a_device_whose_property_12_never_changes_is_known_by_its_numbers() -> None:
    """Where nobody checks it, it says nothing about when the Open was made."""
    device = ByHand()
    constant = opening(properties=(Property(id=12, value=b"\x02\x03"),))
    device.say(constant)
    device.say(declare(0))
    for sn in (1, 2, 3):
        device.say(data(sn, b"%d" % sn))
    device.later(3)
    device.say(constant)
    device.say(declare(0, ResourceDecl(rid=2, resource=b"/lab/new"), CommitDecl(commit_id=1)))
    device.say(data(1, b"new"))
    assert device.lives == 2
    assert device.puts()[-1] == ("lab/new", b"new")


def test_a_late_open_of_an_earlier_life_does_not_end_the_session_of_the_next() -> None:
    """The device cannot notice: its data would be acknowledged, and dropped or misnamed."""
    device = ByHand()

    def life(number: int) -> Open:
        nonce = Property(id=CLIENT_HASH, value=b"%d" % number)
        return opening(properties=(Property(id=VENDOR, value=VENDOR_CODE), nonce))

    for number in (1, 2):
        device.say(life(number))
        device.say(declare(0))
        device.say(data(1, b"%d" % number))
    lives = device.lives
    for source in (SOURCE, SOURCE + 1):  # also from where it was before
        assert device.say(life(1), source=source) == []
    device.say(data(2, b"on"))
    assert device.lives == lives
    assert device.puts()[-1] == ("lab/t", b"on")
    device.say(Close(pid=PID, reason=0))
    for number in (1, 3):  # where there is no session, none is lost; a nonce may be used again
        assert any(isinstance(one, Accept) for one in device.say(life(number)))


def test_a_late_open_from_where_a_device_was_before_does_not_take_its_session() -> None:
    device = ByHand()
    device.say(declare(0))
    device.say(data(1, b"before"))
    device.later(2.1)
    elsewhere = SOURCE + 1
    for said in (device.opening, declare(0), data(1, b"after")):
        device.say(said, source=elsewhere)
    assert device.lives == 2
    assert device.say(device.opening, source=SOURCE) == [], "it is a copy: the device speaks"
    device.say(data(2, b"on"), source=elsewhere)
    assert device.lives == 2
    assert device.puts()[-1] == ("lab/t", b"on")
    device.later(2.1)  # it says nothing there any more
    assert any(isinstance(one, Accept) for one in device.say(device.opening, source=SOURCE))
    assert device.lives == 3


# With keys.


def test_a_replayed_open_does_not_end_the_session_it_began() -> None:
    """Of two Opens of one device the older one comes late: a Close would end its session."""
    proofs = {b"first", b"second"}

    def once(_message: Open, value: bytes | None) -> bool:
        good = value in proofs
        proofs.discard(value or b"")
        return good

    def asked(proof: bytes) -> bytes:
        return encode(opening(properties=(Property(id=12, value=proof),)))

    acceptor = Acceptor[str](settings(b"\xb2\x0c"), authenticate=once, moves=False)
    for proof in (b"first", b"second"):
        acceptor.receive(asked(proof), "a", 0)
    acceptor.receive(encode(KeepAlive(pid=PID)), "a", 0)
    before = acceptor.session(PID)
    answers(acceptor)
    for late in (b"first", b"wrong"):
        acceptor.receive(asked(late), "a", 0)
        assert not any(isinstance(one, Close) for _, one in answers(acceptor))
    assert acceptor.session(PID) is before
    acceptor.receive(asked(b"first"), "elsewhere", 0)
    assert any(isinstance(one, Close) and one.reason == 1 for _, one in answers(acceptor))
