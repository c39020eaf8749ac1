"""Messages that are received are decoded late, and nothing can be told from that."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest

from elea.errors import DecodeError
from elea.provenance import SampleKind
from elea.ros.counts import METRICS, OTHER, Counts
from elea.ros.formats.attachment import Attachment
from elea.ros.formats.library import Library, MessageType
from elea.ros.formats.messages import info_from, info_of, plain
from elea.ros.formats.shapes import SPANS_COUNT_MAX, shape_of
from elea.ros.formats.shipped import shipped
from elea.ros.receive import MISSES_MAX, PUBLISHERS_COUNT_MAX, Received, Receiver, Track
from elea.sample import Sample
from elea.zbytes import ZBytes

line = pytest.mark.line
GID = bytes(range(16))
KEY = "0/imu/sensor_msgs::msg::dds_::Imu_/RIHS01_x"
HEADER = {"stamp": {"sec": 7, "nanosec": 8}, "frame_id": "base"}
MIXED = (
    "bool ok\nstring name\nfloat64 x\nbool[] flags\nstring[] names\nint16[] numbers\n"
    "a/Inner[] inner\nwstring wide\nuint8[3] three\nuint64 last\n"
    + "=" * 80
    + "\nMSG: a/Inner\nstring<=5 text\nbool is_it\nfloat32[] values"
)


class Heard:
    """A receiver and all that it was told to do."""

    def __init__(self, kind: MessageType | None, *, raw: bool = False, good: bool = True) -> None:
        self.messages: list[Any] = []
        self.refused: list[tuple[str, str]] = []
        self.failures = 0
        self.ahead: list[tuple[str, bytes]] = []
        self.nodes: dict[bytes, tuple[str, bool]] = {}
        self.track = Track("/imu", "t", "h", kind, "no definition" if kind is None else "")
        self.receiver = Receiver(
            lambda key: self.track,
            lambda gid: self.nodes.get(gid, (None, False)),
            self.deliver,
            self.make_raw,
            lambda key, reason: self.refused.append((key, reason)),
            self.failed,
            lambda key, gid: self.ahead.append((key, gid)),
            raw=raw,
            good_only=good,
        )

    def deliver(self, message: Any) -> None:
        self.messages.append(message)

    def make_raw(self, received: Received, reason: str) -> Any:
        return received[0], info_from(*received[1:]), reason

    def failed(self) -> None:
        self.failures += 1

    def take(self, payload: bytes, number: int | None = None, gid: bytes = GID) -> Any:
        attachment = None if number is None else Attachment(number, 5, gid).to_bytes()
        return self.take_raw(payload, attachment)

    def take_raw(self, payload: bytes, attachment: bytes | None) -> Any:
        count = len(self.messages)
        attached = None if attachment is None else ZBytes(attachment)
        self.receiver.heard(Sample(key_expr=KEY, payload=ZBytes(payload), attachment=attached))
        return self.messages[-1] if len(self.messages) > count else None


@pytest.fixture
def imu() -> MessageType:
    return shipped().message("sensor_msgs/msg/Imu")


def mixed() -> tuple[MessageType, bytes]:
    kind = Library.of_text(MIXED, "a/msg/Mixed").message("a/msg/Mixed")
    inner = [{"text": "ab", "is_it": True, "values": [1, 2]}, {"text": ""}]
    value = {"ok": True, "name": "n", "x": 1.5, "flags": [True, False], "names": ["p", "qrs"]}
    rest = {"numbers": [1, 2, 3], "inner": inner, "wide": "w", "last": 9}
    return kind, kind.encode({**value, **rest})


def is_decoded(message: Any) -> bool:
    """Whether the members of a message are set already."""
    try:
        object.__getattribute__(message, message._type.attributes[0])
    except AttributeError:
        return False
    return True


@line("R2-902", "R2-602")
def test_a_known_shape_is_decoded_when_a_member_is_read(imu: MessageType) -> None:
    heard = Heard(imu)
    payloads = [imu.encode({"header": HEADER, "orientation": {"x": n}}) for n in range(4)]
    messages = [heard.take(one, number) for number, one in enumerate(payloads, 1)]
    assert [is_decoded(one) for one in messages] == [True, False, False, False]
    late = messages[2]
    assert late.orientation.x == 2.0
    assert late.orientation is late.orientation
    assert not is_decoded(late)  # one member alone
    assert late.angular_velocity.x == 0.0
    assert is_decoded(late)  # with the second all
    assert late == imu.decode(payloads[2])
    assert messages[3] == imu.decode(payloads[3])
    assert info_of(late) == ("/imu", "t", "h", 5, 3, GID, None, 0)
    assert late.info is late.info


def all_faces() -> Iterator[Any]:
    yield repr
    yield lambda message: pickle.loads(pickle.dumps(message))
    yield copy.copy
    yield copy.deepcopy
    yield lambda message: dataclasses.asdict(message)["header"]
    yield lambda message: dataclasses.replace(message).header
    yield lambda message: message._type.encode(message)


@pytest.mark.parametrize("face", list(all_faces()))
def test_a_late_message_has_the_face_of_any_other(imu: MessageType, face: Any) -> None:
    heard = Heard(imu)
    payload = imu.encode({"header": HEADER})
    heard.take(payload)
    late = heard.take(payload)
    assert not is_decoded(late)
    assert face(late) == face(imu.decode(payload))


def test_what_is_assigned_before_reading_stays(imu: MessageType) -> None:
    heard = Heard(imu)
    payload = imu.encode({"header": HEADER, "orientation": {"x": 1}})
    heard.take(payload)
    late = heard.take(payload)
    late.header = None
    assert (late.orientation.x, late.header) == (1.0, None)
    with pytest.raises(AttributeError, match="has no member 'colour'"):
        late.colour  # noqa: B018
    with pytest.raises(AttributeError, match="is not set"):
        object.__new__(imu.cls).header  # noqa: B018


def test_every_member_can_be_read_alone() -> None:
    kind, payload = mixed()
    other = kind.encode({"name": "longer", "names": ["x"], "last": 3})
    heard = Heard(kind)
    for one in (payload, other, payload):
        whole = kind.decode(one)
        for name in kind.attributes:
            heard.take(one)
            late = heard.take(one)
            assert not is_decoded(late)
            assert plain(getattr(late, name)) == plain(getattr(whole, name))
            assert late == whole
    for number in range(100):  # shapes that always differ: members are no longer read alone
        heard.track.hits = 0
        one = kind.encode({"name": "n" * number})
        heard.take(one)
        assert heard.take(one).name == "n" * number


def test_a_shape_never_takes_what_cannot_be_decoded() -> None:
    kind, payload = mixed()
    heard = Heard(kind)
    heard.take(payload)
    assert heard.track.fits(payload)
    taken = 0
    for at in range(len(payload)):
        for octet in (0, 1, 2, 127, 255):
            changed = payload[:at] + bytes([octet]) + payload[at + 1 :]
            if heard.track.fits(changed):
                kind.decode(changed)  # raises if the shape were wrong
                taken += 1
        assert not heard.track.fits(payload[:at])
    assert taken > len(payload)  # numbers may be anything
    assert not heard.track.fits(payload + b"\0")


def test_both_byte_orders_have_shapes_and_others_none(imu: MessageType) -> None:
    big = b"\x00\x00\x00\x00" + bytes(8) + b"\x00\x00\x00\x02a\x00" + bytes(298)
    assert shape_of(imu.name, imu.definitions, big) is not None
    assert shape_of(imu.name, imu.definitions, b"\x00\x07\x00\x00" + big[4:]) is None
    long = Library.of_text("string text", "a/msg/Long").message("a/msg/Long")
    assert long.shape(long.encode({"text": "x" * 5_000})) is None
    many = Library.of_text("string[] texts\n", "a/msg/Many").message("a/msg/Many")
    assert many.shape(many.encode({"texts": ["x"] * 200})) is not None  # they are one span
    text = "a/Item[] items\n" + "=" * 80 + "\nMSG: a/Item\nfloat64 x\nstring name"
    rows = Library.of_text(text, "a/msg/Rows").message("a/msg/Rows")
    assert rows.shape(rows.encode({"items": [{}] * (SPANS_COUNT_MAX + 1)})) is None


def test_shapes_that_always_differ_are_no_longer_made() -> None:
    kind = shipped().message("std_msgs/msg/String")
    heard = Heard(kind)
    for number in range(3 * MISSES_MAX):
        assert heard.take(kind.encode({"data": f"{number}"})).data == f"{number}"
    assert heard.track.length == -1
    assert heard.receiver.received == 3 * MISSES_MAX


@line("R2-205", "R2-254")
def test_losses_and_duplicates_are_told_by_numbers(imu: MessageType) -> None:
    heard = Heard(imu)
    heard.nodes[GID] = ("/robot/base", False)
    payload = imu.encode({})
    lost = [
        None if (message := heard.take(payload, number)) is None else message.info.lost
        for number in (1, 2, 2, 5, 4, 4, 6, 1)
    ]
    assert lost == [0, 0, None, 2, 0, None, 0, None]
    assert (heard.receiver.lost, heard.receiver.duplicates) == (2, 3)
    assert heard.messages[-1].info.node == "/robot/base"
    other = bytes(reversed(GID))
    heard.nodes[other] = ("/robot/camera", True)  # which numbers each group of receivers
    assert heard.take(payload, 1, other).info.lost == 0
    assert heard.take(payload, 9, other).info.lost == 0


def test_publishers_without_end_are_forgotten_one_by_one(imu: MessageType) -> None:
    heard = Heard(imu)
    payload = imu.encode({})
    for number in range(PUBLISHERS_COUNT_MAX + 10):
        heard.take(payload, 1, number.to_bytes(16, "little"))
    assert len(heard.messages) == PUBLISHERS_COUNT_MAX + 10
    assert heard.take(payload, 1, (PUBLISHERS_COUNT_MAX + 9).to_bytes(16, "little")) is None


@line("R2-206")
def test_clocks_ahead_are_counted_and_told_and_the_message_comes(imu: MessageType) -> None:
    heard = Heard(imu)
    payload = imu.encode({})
    now_ns = time.time_ns()
    hour_ns = 3_600_000_000_000
    for number, ahead_ns in enumerate((0, hour_ns, -hour_ns, 10**18), 1):
        attached = Attachment(number, now_ns + ahead_ns, bytes(16)).to_bytes()
        assert heard.take_raw(payload, attached) is not None
    assert heard.receiver.clocks_ahead == 2
    assert heard.ahead == [(KEY, bytes(16))] * 2
    assert len(heard.messages) == 4


@line("R2-202")
@pytest.mark.parametrize("attachment", [b"", b"short", bytes(33), bytes(34)])
def test_attachments_that_cannot_be_read_are_counted(imu: MessageType, attachment: bytes) -> None:
    heard = Heard(imu)
    message = heard.take_raw(imu.encode({}), attachment)
    assert message.info == ("/imu", "t", "h", None, None, None, None, 0)
    assert heard.receiver.attachments_bad == 1
    assert heard.refused == [(KEY, f"attachment of {len(attachment)} bytes")]


def test_what_cannot_be_decoded_is_counted_and_not_handed_to_callbacks(imu: MessageType) -> None:
    heard = Heard(imu)
    payload = imu.encode({"header": HEADER})
    heard.take(payload)
    for wrong in (payload[:-1], payload + bytes(8), b"", b"\x00\x55" + payload[2:]):
        with pytest.raises(DecodeError):
            imu.decode(wrong)
        assert heard.take(wrong) is None
    assert (heard.receiver.received, heard.receiver.undecodable) == (5, 4)
    assert [key for key, _ in heard.refused] == [KEY] * 4
    assert heard.take(payload) is not None  # the next one comes
    queue = Heard(imu, good=False)
    payload_back, info, reason = queue.take(payload[:-1], 4)
    assert (payload_back, info.sequence_number) == (payload[:-1], 4)
    assert "ends in linear_acceleration_covariance" in reason
    unknown = Heard(None, good=False)
    assert unknown.take(payload)[2] == "no definition"
    assert unknown.receiver.undecodable == 1
    everything = Heard(imu, raw=True)
    assert everything.take(b"x", 1)[0] == b"x"
    assert everything.receiver.undecodable == 0


@line("R2-226", "R2-603")
def test_deletes_are_no_messages_and_failing_callbacks_are_told(imu: MessageType) -> None:
    heard = Heard(imu)
    heard.receiver.heard(Sample(key_expr=KEY, kind=SampleKind.DELETE))
    assert (heard.messages, heard.receiver.deletes) == ([], 1)
    heard.messages = None  # type: ignore[assignment]  # deliver raises
    heard.receiver.heard(Sample(key_expr=KEY, payload=ZBytes(imu.encode({}))))
    assert heard.failures == 1


@line("R2-817")
def test_metrics_are_by_topic_and_outlive_subscriptions(imu: MessageType) -> None:
    counts = Counts()
    first, second = Heard(imu), Heard(imu)
    counts.join("/imu", first.receiver)
    counts.join("/imu", second.receiver)
    payload = imu.encode({})
    for number in (1, 3):
        first.take(payload, number)
    second.take(payload[:-1], 1)
    second.take_raw(payload, b"short")
    found = {(name, topic): value for name, topic, value in counts.counted(7, 2)}
    assert found == {
        ("elea_ros2_messages", "/imu"): 4,
        ("elea_ros2_lost", "/imu"): 1,
        ("elea_ros2_decode_errors", "/imu"): 1,
        ("elea_ros2_tokens", ""): 7,
        ("elea_ros2_tokens_bad", ""): 2,
        ("elea_ros2_attachments_bad", ""): 1,
        ("elea_ros2_clocks_ahead", ""): 0,
    }
    assert {name for name, _ in found} == METRICS.keys()
    counts.leave(second.receiver)
    counts.leave(second.receiver)
    assert {(name, topic): value for name, topic, value in counts.counted(7, 2)} == found
    for number in range(1_100):
        other = Heard(imu)
        counts.join(f"/t{number}", other.receiver)
        other.take(payload)
        counts.leave(other.receiver)
    topics = counts.topics()
    assert len(topics) == 1_001
    assert sum(one.messages for one in topics.values()) == 1_104
    assert topics[OTHER].messages > 0


def test_a_refusal_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    counts = Counts(clock=lambda: now[0])
    with caplog.at_level(logging.WARNING, "elea.ros"):
        for _ in range(3):
            counts.refuse("0/a\x1b[31m", "ends in x")
        counts.refuse("0/a", "ends in y")
        assert len(caplog.records) == 2
        assert "\x1b" not in caplog.text
        now[0] = 61.0
        counts.refuse("0/a", "ends in y")
    assert len(caplog.records) == 3
