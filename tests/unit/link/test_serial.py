"""serial: what is particular about devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.link.line import Line
from tests.link.rig import turns

from elea.errors import ConfigError, LinkError
from elea.limits import SERIAL_BATCH_LEN_MAX, SERIAL_OFFERED_LEN
from elea.link.base import READ, Link, PendingLink
from elea.link.endpoint_options import check_options, inert_options
from elea.link.serial import Serial, SerialDialling, SerialLink, SerialListener
from elea.link.serial_framing import ACK, INIT, RESET, encode_frame
from elea.link.settings import LinkSettings
from elea.locator import Endpoint
from elea.node.ports import Teller

S_NS = 1_000_000_000


class Alarm:
    """What was asked of the timer last."""

    def __init__(self) -> None:
        self.delay_ns: int | None = None
        self.call: Callable[[], None] = self.cancel

    def later(self, delay_ns: int, call: Callable[[], None]) -> Alarm:
        self.delay_ns, self.call = delay_ns, call
        return self

    def is_set(self) -> bool:
        return self.delay_ns is not None

    def cancel(self) -> None:
        self.delay_ns, self.call = None, self.cancel


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


@pytest.fixture
def alarm() -> Alarm:
    return Alarm()


def endpoint_of(path: str, options: str = "baudrate=115200") -> Endpoint:
    return Endpoint.parse(f"serial/{path}#{options}")


def listen(path: str, options: str = "baudrate=115200") -> SerialListener:
    endpoint = endpoint_of(path, options)
    [address] = Serial().resolve(endpoint, listening=True)
    return Serial().listen(endpoint, address, LinkSettings())


def dial(path: str, options: str = "baudrate=115200") -> SerialDialling:
    endpoint = endpoint_of(path, options)
    [address] = Serial().resolve(endpoint, listening=False)
    made = Serial().connect(endpoint, address, LinkSettings())
    assert isinstance(made, SerialDialling)
    return made


def accepted(listener: SerialListener) -> SerialLink:
    for _ in turns():
        pending = listener.accept()
        if pending is not None:
            link = pending.step()
            assert isinstance(link, SerialLink)
            return link
    raise AssertionError("nobody came")


def connected(pending: PendingLink) -> Link:
    for _ in turns():
        link = pending.step()
        if link is not None:
            return link
    raise AssertionError("no answer")


def batch_of(link: Link) -> bytes:
    for _ in turns():
        batch = link.read(65_536)
        if batch is not None:
            return batch
    raise AssertionError("nothing came")


def seen_on(line: Line) -> bytearray:
    """What the far end sends, as it goes over the wire."""
    seen = bytearray()

    def change(data: bytes) -> bytes:
        seen.extend(data)
        return data

    line.to_near = change
    return seen


def losing(lost: bytearray) -> Callable[[bytes], bytes]:
    """A wire that keeps everything."""

    def lose(data: bytes) -> bytes:
        lost.extend(data)
        return b""

    return lose


def until(done: Callable[[], bool]) -> None:
    for _ in turns():
        if done():
            return
    raise AssertionError("it never happened")


@pytest.mark.parametrize("act", [listen, dial])
def test_a_device_that_is_missing_says_what_to_do(act: Callable[[str], object]) -> None:
    with pytest.raises(LinkError, match=r"serial//dev/no-such-tty: .*ENOENT.*plug it in or check"):
        act("/dev/no-such-tty")


@pytest.mark.parametrize("act", [listen, dial])
def test_what_is_no_serial_device_is_refused(act: Callable[[str], object], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    with pytest.raises(LinkError, match=r"ENOTTY.*it is no serial device"):
        act(str(path))
    assert path.read_bytes() == b"data"


@pytest.mark.parametrize("act", [listen, dial])
def test_a_device_in_use_is_refused_and_free_after_the_end(
    act: Callable[[str], SerialListener | SerialDialling], line: Line
) -> None:
    first = listen(line.far)
    with pytest.raises(LinkError, match="another program uses it; `fuser -v`"):
        act(line.far)
    first.close()
    first.close()
    act(line.far).close()


def test_a_shared_device_is_not_locked(line: Line) -> None:
    first = listen(line.far, "exclusive=false")
    listen(line.far, "exclusive=false").close()
    first.close()


def test_no_descriptor_is_left_of_what_failed(line: Line, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    first = listen(line.far)
    before = len(os.listdir("/proc/self/fd"))
    for path in (line.far, str(tmp_path / "file"), "/dev/no-such-tty"):
        for act in (listen, dial):
            with pytest.raises(LinkError):
                act(path)
    assert len(os.listdir("/proc/self/fd")) == before
    first.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("baudrate=12345", "baudrate is one of 50, .*9600.*115200.*, saw 12345"),
        ("baudrate=0", "saw 0"),
        ("baudrate=fast", "baudrate is a number"),
        ("exclusive=maybe", "exclusive is true or false"),
        ("tout=-1", "tout is a number"),
    ],
)
def test_options_without_sense_are_refused(line: Line, options: str, message: str) -> None:
    for act in (listen, dial):
        with pytest.raises(ConfigError, match=message):
            act(line.far, options)


def test_options_that_are_known() -> None:
    check_options(endpoint_of("/dev/ttyUSB0", "baudrate=9600;exclusive=true;tout=50000"))
    with pytest.raises(ConfigError, match="did you mean baudrate"):
        check_options(endpoint_of("/dev/ttyUSB0", "baud_rate=9600"))
    [line] = inert_options(endpoint_of("/dev/ttyUSB0", "release_on_close=false"))
    assert "a listener keeps its device" in line


def test_init_is_sent_again_until_there_is_an_answer(line: Line, alarm: Alarm) -> None:
    lost = bytearray()
    line.to_far = losing(lost)
    listener = listen(line.far)
    pending = dial(line.near)
    pending.use_timer(alarm.later)
    assert alarm.delay_ns == S_NS
    until(lambda: bytes(lost) == encode_frame(INIT))
    assert pending.step() is None
    line.to_far = bytes
    alarm.call()
    assert alarm.delay_ns == S_NS
    far = accepted(listener)
    near = connected(pending)
    assert not alarm.is_set()
    near.write([b"batch"])
    assert batch_of(far) == b"batch"
    for one in (near, far, listener):
        one.close()


def test_reset_makes_it_wait_as_long_as_the_endpoint_says(line: Line, alarm: Alarm) -> None:
    lost = bytearray()
    line.to_far = losing(lost)
    pending = dial(line.near, "baudrate=115200;tout=7000")
    until(lambda: bytes(lost) == encode_frame(INIT))
    line.to_far = bytes
    pending.use_timer(alarm.later)
    line.send_to_near(encode_frame(RESET))
    until(lambda: pending.step() is None and alarm.delay_ns == 7_000_000)
    listener = listen(line.far)
    alarm.call()
    far = accepted(listener)
    near = connected(pending)
    for one in (near, far, listener):
        one.close()


def test_a_looped_line_is_named(line: Line) -> None:
    pending = dial(line.near)
    line.send_to_near(encode_frame(INIT))
    with pytest.raises(LinkError, match="looped back, or both ends connect; let one of them"):
        connected(pending)
    pending.close()
    pending.close()


def test_a_line_that_is_hung_up_while_dialling_is_an_error(line: Line) -> None:
    pending = dial(line.near)
    line.close()
    with pytest.raises(LinkError, match="hung up"):
        connected(pending)
    pending.close()


def test_a_restarted_end_is_reset_and_then_answered(line: Line) -> None:
    seen = seen_on(line)
    listener = listen(line.far)
    line.send_to_far(encode_frame(INIT) + encode_frame(0, b"first"))
    far = accepted(listener)
    assert listener.fileno() == -1
    assert batch_of(far) == b"first"
    line.send_to_far(encode_frame(0, b"last") + encode_frame(INIT))
    assert batch_of(far) == b"last"
    with pytest.raises(LinkError, match="the other end began anew"):
        batch_of(far)
    far.close()
    far.close()
    assert far.fileno() == -1
    assert listener.fileno() >= 0
    line.send_to_far(encode_frame(INIT) + encode_frame(0, b"again"))
    far = accepted(listener)
    assert batch_of(far) == b"again"
    until(lambda: bytes(seen) == _answers())
    far.close()
    listener.close()


def _answers() -> bytes:
    answer = encode_frame(INIT | ACK)
    return answer + encode_frame(RESET) + answer


def test_a_peer_that_forgot_the_conversation_ends_the_link(line: Line) -> None:
    listener = listen(line.far)
    line.send_to_far(encode_frame(INIT))
    far = accepted(listener)
    line.send_to_far(encode_frame(RESET))
    with pytest.raises(LinkError, match="it was restarted"):
        batch_of(far)
    far.close()
    listener.close()


def test_noise_is_counted_and_keeps_nobody_from_reading(line: Line) -> None:
    counts: list[int] = []
    listener = listen(line.far)
    listener.on_dropped = counts.append
    line.send_to_far(b"\xff\x01noise\0" * 50 + encode_frame(INIT))
    far = accepted(listener)
    assert sum(counts) == 50
    far.on_dropped = counts.append
    for at in range(14):  # never the whole frame
        good = encode_frame(0, b"good %d" % at)
        line.send_to_far(good[:at] + b"\0" + b"\x80" * 1_800 + b"\0" + good)
        assert batch_of(far) == b"good %d" % at
    assert sum(counts) >= 50 + 14
    far.close()
    listener.close()


def test_a_batch_that_is_too_long_breaks_the_link(line: Line) -> None:
    listener = listen(line.far)
    line.send_to_far(encode_frame(INIT))
    far = accepted(listener)
    assert far.info.batch_len_max == SERIAL_OFFERED_LEN
    assert far.info.remote == far.info.local == listener.locator  # what logs and rules name
    assert far.info.interfaces == (os.path.basename(line.far),)
    with pytest.raises(LinkError, match="larger than the link"):
        far.write([b"x" * (SERIAL_BATCH_LEN_MAX + 1)])
    far.close()
    listener.close()


def test_a_full_line_takes_no_more_and_loses_nothing(line: Line) -> None:
    listener = listen(line.far)
    pending = dial(line.near)
    far, near = accepted(listener), connected(pending)
    batches = [bytes([number]) * 1_400 for number in range(250)]
    sent = 0
    while near.write([batches[sent]]):
        sent += 1
    assert 2 < sent < len(batches)
    got: list[bytes] = []
    while len(got) < sent:
        got.append(batch_of(far))
        near.write([])
    assert got == batches[:sent]
    assert near.wants(False) == READ
    for one in (near, far, listener):
        one.close()


def test_an_unplugged_device_is_listened_to_again_when_it_is_back(
    tmp_path: Path, alarm: Alarm, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tty"
    first, second = Line(), Line()
    path.symlink_to(first.far)
    listener = listen(str(path))
    listener.use_timer(alarm.later)
    changes: list[int] = []
    listener.notify(lambda: changes.append(listener.fileno()))
    first.close()
    until(lambda: listener.accept() is None and listener.fileno() == -1)
    assert changes == [-1]
    assert alarm.delay_ns == S_NS
    path.unlink()
    alarm.call()
    assert listener.fileno() == -1
    path.symlink_to(second.far)
    alarm.call()
    assert changes[-1] == listener.fileno() >= 0
    second.send_to_far(encode_frame(INIT))
    far = accepted(listener)
    second.close()
    # A hang-up in a conversation ends the link, and the listener looks for the device again.
    assert batch_of(far) == b""
    far.close()
    assert listener.fileno() == -1
    assert caplog.text.count("looking for it every 1 s") == 2
    listener.close()
    alarm.call()
    assert listener.fileno() == -1


def test_a_link_outlives_its_listener_until_it_is_recalled(line: Line) -> None:
    seen = seen_on(line)
    listener = listen(line.far)
    line.send_to_far(encode_frame(INIT))
    far = accepted(listener)
    reasons: list[str] = []
    far.on_recall = reasons.append
    listener.close()
    line.send_to_far(encode_frame(0, b"still"))
    assert batch_of(far) == b"still"
    listener.recall("another one comes")
    assert reasons == ["another one comes"]
    until(lambda: bytes(seen) == encode_frame(INIT | ACK) + encode_frame(RESET))
    far.close()
    assert listener.fileno() == -1
    listen(line.far).close()


def test_who_is_on_a_line_may_not_speak_of_this_hosts_loopback(line: Line) -> None:
    listener = listen(line.far)
    line.send_to_far(encode_frame(INIT))
    far = accepted(listener)
    assert Teller.behind(far.info) == Teller(loopback=False)
    far.close()
    listener.close()
