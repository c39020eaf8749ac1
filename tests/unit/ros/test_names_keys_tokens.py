"""Keys, tokens, QoS, gids and attachments of rmw_zenoh and of bridges, both ways."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from itertools import product

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import InvalidValueError
from elea.ros.formats import names
from elea.ros.formats.attachment import Attachment, parse_attachment
from elea.ros.formats.keys import NO_HASH, parse_key, topic_key
from elea.ros.formats.qos import (
    LATCHED,
    PARAMETER_EVENTS,
    ROSOUT,
    SENSOR_DATA,
    Durability,
    History,
    Liveliness,
    QoS,
    Reliability,
    mismatches,
    parse_bridge_qos,
    parse_qos,
)
from elea.ros.formats.tokens import (
    BridgeToken,
    Kind,
    Token,
    backends_text,
    parse_backends,
    parse_token,
    watched,
)
from elea.ros.formats.xxh3 import xxh3_128

HASH = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
KEY = f"0/robot1/chatter/std_msgs::msg::dds_::String_/{HASH}"
TOKEN = (
    "@ros2_lv/2/8b20917502ee955ac4476e0266340d5c/0/10/MP/%/%/talker/%chatter"
    f"/std_msgs::msg::dds_::String_/{HASH}/::,7:,:,:,,"
)
line = pytest.mark.line


@line("R2-101", "R2-103")
def test_a_key_is_made_and_read() -> None:
    assert topic_key(0, "/robot1/chatter", "std_msgs/msg/String", HASH) == KEY
    found = parse_key(KEY)
    assert found is not None
    assert (found.domain, found.name, found.type) == (0, "/robot1/chatter", "std_msgs/msg/String")
    assert found.key() == KEY


@line("R2-102")
def test_humble_has_a_text_in_place_of_a_hash() -> None:
    found = parse_key(f"7/a/pkg::msg::dds_::T_/{NO_HASH}")
    assert found is not None
    assert not found.has_hash


@line("R2-103")
@pytest.mark.parametrize(
    "key",
    [
        "fleet/r1/imu",
        f"x/a/pkg::msg::dds_::T_/{HASH}",
        f"0/pkg::msg::dds_::T_/{HASH}",
        f"0/a/pkg.T/{HASH}",
        "0/a/pkg::msg::dds_::T_/RIHS01_12",
        f"999/a/pkg::msg::dds_::T_/{HASH}",
        f"0/a/pkg::msg::dds_::T_/{HASH.upper()}",
        "0//",
        "",
    ],
)
def test_what_does_not_fit_is_no_key_of_ros(key: str) -> None:
    assert parse_key(key) is None


@line("R2-103")
@pytest.mark.parametrize("suffix", ["_buf_cpu", f"_buf/{'a' * 32}", "@adv/pub/ab/1/_"])
def test_suffixes_are_taken_off(suffix: str) -> None:
    found = parse_key(f"{KEY}/{suffix}")
    assert found is not None
    assert (found.suffix, found.key()) == (suffix, KEY)
    assert found.is_device_buffer == suffix.startswith("_buf/")


@line("R2-105")
def test_a_prefix_is_taken_off_first() -> None:
    assert parse_key(f"site/a/{KEY}", "site/a") == parse_key(KEY)
    assert parse_key(KEY, "site/a") is None
    assert parse_token(f"site/{TOKEN}", "site").key == TOKEN
    assert watched(3, "site")[0] == "site/@ros2_lv/3/**"


@line("R2-904")
@pytest.mark.parametrize("name", ["/", "/a/b", "/a", ""])
def test_mangling_is_undone(name: str) -> None:
    assert names.demangled(names.mangled(name)) == (name or "/")


@line("R2-301")
def test_types_in_the_form_of_dds() -> None:
    for name in ("std_msgs/msg/String", "example_interfaces/srv/AddTwoInts", "p/action/A_Goal"):
        assert names.ros_type(names.dds_type(name)) == name
    assert names.ros_type("NotDds") == "NotDds"
    assert names.ros_type("a::b") == "a::b"


@pytest.mark.parametrize(
    ("name", "full"),
    [("chatter", "/r/chatter"), ("/x", "/x"), ("~/y", "/r/n/y"), ("~", "/r/n"), ("a/b", "/r/a/b")],
)
def test_names_are_resolved_as_a_node_means_them(name: str, full: str) -> None:
    assert names.full_name(name, "/r", "n") == full


@pytest.mark.parametrize("name", ["", "a b", "/1", "//a", "/a/", "a//b", "/ä"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidValueError, match="ROS name"):
        names.full_name(name)


KINDS = [
    ("NN", "@ros2_lv/0/ab12/3/3/NN/%/%robot1/talker"),
    ("MP", TOKEN),
    ("MS", f"@ros2_lv/0/ab/0/1/MS/%encl/%r/n/%t/p::msg::dds_::T_/{HASH}/:1:,1:,:,:,,"),
    ("SS", f"@ros2_lv/0/ab/0/2/SS/%/%/n/%add/p::srv::dds_::S_/{HASH}/::,10:,:,:,,"),
    ("SC", f"@ros2_lv/0/ab/0/3/SC/%/%/n/%add/p::srv::dds_::S_/{NO_HASH}/::,10:,:,:,,"),
]


@line("R2-904", "R2-151")
@pytest.mark.parametrize(("kind", "key"), KINDS)
def test_tokens_of_all_kinds_both_ways(kind: str, key: str) -> None:
    token = parse_token(key)
    assert isinstance(token, Token)
    assert token.kind.value == kind
    assert token.key == key


@line("R2-151", "R2-252")
def test_a_14th_chunk_is_backends_or_nothing() -> None:
    with_backends = parse_token(f"{TOKEN}/backends:cpu:;cuda:a%3Bb")
    assert isinstance(with_backends, Token)
    assert with_backends.backends == {"cpu": "", "cuda": "a;b"}
    assert with_backends.key == f"{TOKEN}/backends:cpu:;cuda:a%3Bb"
    for more in (f"{TOKEN}/other", f"{TOKEN}/other/more"):
        other = parse_token(more)
        assert isinstance(other, Token)
        assert other.backends is None


@line("R2-255")
def test_backends_are_sorted_and_escaped() -> None:
    backends = {"z": "", "a%b": "c:d/e;f"}
    assert backends_text(backends) == "a%25b:c%3Ad%2Fe%3Bf;z:"
    assert parse_backends(backends_text(backends)) == backends


BAD = [
    "@ros2_lv",
    "@ros2_lv/0/ab/0/0/NN/%/%",
    "@ros2_lv/x/ab/0/0/NN/%/%/n",
    "@ros2_lv/0/ab/0/0/XX/%/%/n",
    "@ros2_lv/0/zz/0/0/NN/%/%/n",
    "@ros2_lv/0/ab/0//NN/%/%/n",
    f"@ros2_lv/0/ab/0/1/MP/%/%/n/%t/T/{HASH}",
    f"@ros2_lv/0/ab/0/1/MP/%/%/n/%t/T/{HASH}/::,-1:,:,:,,",
    f"@ros2_lv/0/ab/0/1/MP/%/%/n/%t/T/{HASH}/::",
    "@ros2_lv/0/ab/0/1/MP/%/%/n/%t/T/nohash/::,7:,:,:,,",
    "other/0/ab",
    "@/ab/@ros2_lv/QQ/a/b",
    "@/ab/@ros2_lv/MP/a/b/c/d/e",
    f"@ros2_lv/0/ab/0/0/NN/%/%/{'n' * 2000}",
]


@line("R2-151")
@pytest.mark.parametrize("key", BAD)
def test_a_token_that_cannot_be_read_is_refused(key: str) -> None:
    with pytest.raises(InvalidValueError, match="token"):
        parse_token(key)


@line("R2-904", "R2-906")
def test_a_percent_sign_in_a_name_crashes_nothing() -> None:
    token = parse_token("@ros2_lv/0/ab/0/0/NN/%/%/a%25b")
    assert token.node_name.startswith("/")


@line("R2-906")
@given(st.text(max_size=200))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    for key in (text, f"@ros2_lv/{text}", f"{TOKEN[: len(text)]}{text}", f"@/ab/@ros2_lv/{text}"):
        with contextlib.suppress(InvalidValueError):
            parse_token(key)
    parse_key(text)


QOS = [
    ("::,10:,:,:,,", QoS(depth=10)),
    ("2::,5:,:,:,,", SENSOR_DATA),
    (":1:,1:,:,:,,", LATCHED),
    (":1:,1000:,:10,0:,,", ROSOUT),
    ("::,1000:,:,:,,", PARAMETER_EVENTS),
    ("::,:,:,:,,", QoS()),
    ("0:0:0,:,:,:0,,", QoS(Reliability.SYSTEM_DEFAULT, Durability.SYSTEM_DEFAULT,
     History.SYSTEM_DEFAULT, liveliness=Liveliness.SYSTEM_DEFAULT)),
    ("::2,:,:,:,,", QoS(history=History.KEEP_ALL)),
    ("::,:1,500000000:,:,,", QoS(deadline_ns=1_500_000_000)),
    ("::,:,:,:3,2,0", QoS(liveliness=Liveliness.MANUAL_BY_TOPIC, lease_ns=2_000_000_000)),
]  # fmt: skip


@line("R2-171", "R2-904")
@pytest.mark.parametrize(("text", "qos"), QOS)
def test_qos_as_tokens_write_it(text: str, qos: QoS) -> None:
    assert qos.text() == text
    assert parse_qos(text) == qos


@line("R2-171", "R2-904")
def test_qos_of_every_policy_both_ways() -> None:
    count = 0
    for reliability, durability, history in product(Reliability, Durability, History):
        qos = QoS(reliability, durability, history, depth=count)
        assert parse_qos(qos.text()) == qos
        count += 1
    assert count >= 30


@line("R2-172")
@pytest.mark.parametrize(
    "text", ["", ":::", "::,x:,:,:,,", "::,-1:,:,:,,", "9::,1:,:,:,,", "::,1:,:,:,", "::,1:,:,:,,:"]
)
def test_qos_that_does_not_parse_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="QoS"):
        parse_qos(text)


@line("R2-173")
def test_bridges_number_otherwise() -> None:
    assert parse_bridge_qos(":1:0:0,100") == QoS(depth=100)
    assert parse_bridge_qos("K:0::,") == QoS(Reliability.BEST_EFFORT, depth=1)
    assert parse_bridge_qos(":1::") == QoS(depth=1)  # keep last 1 as Eclipse writes it
    assert LATCHED.bridge_text() == ":1:1:,"
    for qos in (QoS(depth=10), SENSOR_DATA, LATCHED, QoS(history=History.KEEP_ALL)):
        assert parse_bridge_qos(qos.bridge_text()) == qos


@line("R2-174")
def test_defaults_are_filled_in_and_unknown_is_refused() -> None:
    assert QoS(Reliability.SYSTEM_DEFAULT, depth=0).resolved() == QoS(depth=42)
    with pytest.raises(InvalidValueError, match="reliability is unknown"):
        QoS(Reliability.UNKNOWN).resolved()


@line("R2-175")
def test_what_dds_would_not_connect_is_told() -> None:
    assert mismatches(QoS(), QoS()) == []
    assert len(mismatches(SENSOR_DATA, LATCHED)) == 2


@line("R2-155", "R2-401")
@pytest.mark.parametrize(
    ("key", "name", "type"),
    [
        ("@/ab12/@ros2_lv/MP/bot1§tf/tf2_msgs§msg§TFMessage/:1:0:0,100", "/bot1/tf",
         "tf2_msgs/msg/TFMessage"),
        ("@/ab12/@ros2_lv/SS/add/example_interfaces§srv§AddTwoInts", "/add",
         "example_interfaces/srv/AddTwoInts"),
        ("@/ab12/@ros2_lv/AS/fib/p§action§Fibonacci", "/fib", "p/action/Fibonacci"),
    ],
)  # fmt: skip
def test_tokens_of_bridges(key: str, name: str, type: str) -> None:
    token = parse_token(key)
    assert isinstance(token, BridgeToken)
    assert (token.name, token.type, token.via) == (name, type, "bridge ab12")
    if token.kind is not Kind.PUBLISHER:
        assert token.key == key
    assert parse_token("@/ab12/@ros2_lv").kind is Kind.NODE


@line("R2-203")
def test_the_gid_of_a_token() -> None:
    token = parse_token(TOKEN)
    assert token.gid.hex() == "ac170f31eadcd9ff0cd86d7a17907d1c"


@line("R2-203")
@pytest.mark.parametrize(
    "end",
    [
        "RIHS01_" + "a" * 64 + "/1:2:1,42:9223372036,854775807:,:1,,",  # defaults, written out
        "RIHS01_" + "a" * 64 + "/::,7:,:,:,,/later:x",  # a chunk that later releases may add
        "RIHS01_" + "a" * 64 + "/::,7:,:,:,,/backends:z:;cpu:",  # not in their order
    ],
)
def test_a_token_that_is_written_otherwise_named_no_publisher(end: str) -> None:
    """A gid is that of the text that a node declared, not of how it would be written here."""
    key = f"@ros2_lv/0/ab/0/1/MP/%/%/talker/%a/std_msgs::msg::dds_::String_/{end}"
    token = parse_token(key)
    assert isinstance(token, Token)
    assert (token.key, token.gid) == (key, xxh3_128(key.encode()))
    assert replace(token, eid=2).key != key


@line("R2-203")
def test_the_hash_of_gids_is_that_of_the_reference() -> None:
    draw = random.Random(3)
    for length in (*range(260), 511, 512, 513, 1023, 1024, 1025, 1088, 2048, 5000):
        data = draw.randbytes(length)
        expected = xxhash.xxh3_128_intdigest(data)
        assert xxh3_128(data) == expected.to_bytes(16, "little"), length


@line("R2-201")
def test_an_attachment_has_33_bytes() -> None:
    made = Attachment(-5, 1_700_000_000_000_000_000, bytes(range(16))).to_bytes()
    assert len(made) == 33
    assert made[16] == 0x10
    assert parse_attachment(made) == (-5, 1_700_000_000_000_000_000, bytes(range(16)))


@line("R2-202", "R2-906")
@given(st.binary(max_size=40))
def test_an_attachment_of_others_is_none(data: bytes) -> None:
    found = parse_attachment(data)
    assert (found is None) == (len(data) != 33 or data[16] != 16)
