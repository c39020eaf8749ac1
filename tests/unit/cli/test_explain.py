"""`elea explain`: every kind of input, both outputs, never a traceback."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from tests.unit.cli import captures
from tests.unit.cli.captures import CLIENT, ROUTER, Talk, udp

from elea.cli.main import main
from elea.wire.framing import frame

VECTORS = Path(__file__).parents[2] / "vectors"
INIT_SYN = "c10902010ac8ff812701"
U_SUBSCRIBER_ECLIPSE = "9e2108830 05f0403012f2a".replace(" ", "")
U_SUBSCRIBER_SPEC = "9e210883005f050301022f2a"


def explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["explain", *arguments])
    return code, capsys.readouterr().out


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_hex_is_dumped_with_offset_octets_field_and_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out = explain(capsys, INIT_SYN)
    assert code == 0
    assert "0000  c1 " in out
    assert "INIT_SYN  Z=1 S=1 A=0 id=0x01" in out
    assert "0005  c8 ff" in out
    assert "batch size = 65480 (0xffc8)" in out
    assert "1 octet(s), client" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    "words",
    [
        [INIT_SYN],
        ["0x" + INIT_SYN],
        [" ".join([INIT_SYN[:6], INIT_SYN[6:]])],
        ["c1:09", "02 01", INIT_SYN[8:]],
    ],
)
def test_hex_may_be_written_as_people_do(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = explain(capsys, "--json", *words)
    assert code == 0
    assert objects(out)[0]["reencoded"] == INIT_SYN


@pytest.mark.parametrize(
    ("octets", "form", "name"),
    [
        ("01000402000300", "stream", "KEEP_ALIVE"),
        ("0300", "batch", "CLOSE"),
        ("1a4d", "network", "RESPONSE_FINAL"),
        ("010907", "scouting", "SCOUT"),
        ("2209000101077463702f613a31", "scouting", "HELLO"),
        ("22090a01ffffff", "batch", "OPEN_ACK"),
    ],
)
def test_loose_octets_are_recognised(
    octets: str, form: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = explain(capsys, octets)
    assert code == 0
    assert out.startswith(f"== {form}")
    assert name in out


def test_a_form_can_be_insisted_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(capsys, "--as", "batch", "1a4d")[0] == 1
    code, out = explain(capsys, "--as", "network", "1a4d")
    assert code == 0
    assert "request id = 77" in out


def test_a_fault_shows_what_came_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = explain(capsys, "c10903010a")
    assert code == 1
    assert "version = 9" in out
    assert "error: at byte 2: role index 3 is reserved, legal are 0 to 2" in out
    code, out = explain(capsys, "--json", "c10903010a")
    assert code == 1
    assert objects(out) == [
        {"error": {"offset": 2, "reason": "role index 3 is reserved, legal are 0 to 2"}}
    ]


def test_remote_text_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = explain(capsys, "--as", "network", "7d00041b5b324a0100")
    assert code == 0
    assert "\x1b" not in out
    assert r"\x1b[2J" in out


def test_colour_is_for_those_who_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b[36mCLOSE\x1b[0m" in explain(capsys, "--color", "always", "0300")[1]


def test_both_dialects(capsys: pytest.CaptureFixture[str]) -> None:
    for dialect, octets in (
        ("eclipse", U_SUBSCRIBER_ECLIPSE),
        ("specification", U_SUBSCRIBER_SPEC),
    ):
        code, out = explain(capsys, "--dialect", dialect, "--as", "network", octets)
        assert code == 0
        assert 'key suffix = "/*"' in out
        code, out = explain(capsys, "--json", "--dialect", dialect, "--as", "network", octets)
        assert objects(out)[0]["reencoded"] == octets
    assert explain(capsys, "--dialect", "eclipse", "--as", "network", U_SUBSCRIBER_SPEC)[0] == 0
    assert (
        explain(capsys, "--dialect", "specification", "--as", "network", U_SUBSCRIBER_ECLIPSE)[0]
        == 1
    )


def test_records_give_the_recorded_trees(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("compression_pubsub", "lowlatency_pubsub", "batch_size_small", "scouting_router"):
        path = VECTORS / f"{name}.jsonl"
        code, out = explain(capsys, "--json", str(path))
        expected = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert code == 0
        for got, record in zip(objects(out), expected, strict=True):
            assert got["decoded"] == record["decoded"]
            assert got["reencoded"] == record["hex"]


def test_records_are_dumped_for_people_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = explain(capsys, str(VECTORS / "compression_pubsub.jsonl"))
    assert code == 0
    assert "== compression_pubsub a#0 i2a 0 u16, 12 octets" in out
    assert "compression header = 1  LZ4 block; offsets below count in" in out
    code, out = explain(capsys, str(VECTORS / "fragment_two_priorities.jsonl.gz"))
    assert code == 0
    assert 'reassembled {"msg": "PUSH"' in out


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ('{"x": ' + "[" * 100_000, "not JSON"),
        ('{"hex": "0"}', "even number of hex digits"),
        ('{"hex": "0g"}', "even number of hex digits"),
        ('{"conn": "a"}', "needs `hex`"),
        ('{"hex": "04", "dir": "up"}', "`dir` is 'up', legal are i2a, a2i"),
        ('{"hex": "04", "framing": 7}', "`framing` is 7"),
        ('{"hex": "1f"}', "outside a FRAME"),
    ],
)
def test_a_bad_record_is_one_error_line_and_the_rest_goes_on(
    line: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(f'{{"hex": "04"}}\n{line}\n{{"hex": "0300"}}\n', "utf-8")
    code, out = explain(capsys, "--json", str(path))
    first, bad, last = objects(out)
    assert code == 1
    assert first["reencoded"] == "04"
    assert last["reencoded"] == "0300"
    error = bad["error"]
    assert isinstance(error, dict)
    assert reason in str(error["reason"])
    assert isinstance(error["offset"], int)


def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (b"0300\n", bytes.fromhex("0300"), gzip.compress(b'{"hex": "0300"}\n')):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        code, out = explain(capsys, "--json", "-")
        assert code == 0
        assert objects(out)[0]["reencoded"] == "0300"


@pytest.mark.parametrize("words", [["no such file"], ["123"], ["--port", "0", "04"]])
def test_wrong_usage_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_a_damaged_gzip_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b'{"hex": "04"}')[:-9])
    assert main(["explain", str(path)]) == 1
    assert "gzip file is damaged" in capsys.readouterr().err


# Captures.


def test_a_real_capture_of_eclipse_zenoh(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(VECTORS / "eclipse_session.pcap")
    code, out = explain(capsys, "--json", path)
    records = objects(out)
    assert code == 0
    assert len({record["conn"] for record in records}) == 2
    assert all(record["reencoded"] == record["hex"] for record in records)
    assert {"PUSH", "REQUEST", "RESPONSE"} <= set(out.replace('"', " ").split())
    code, out = explain(capsys, path)
    assert code == 0
    assert "> 127.0.0.1:7447 u16" in out


def vector_talk(name: str) -> tuple[Talk, list[dict[str, object]]]:
    """The records of one connection, as packets that cut batches at awkward places."""
    talk = Talk()
    talk.open()
    records = []
    for line in (VECTORS / f"{name}.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["conn"] != "a#0":
            continue
        records.append(record)
        source = CLIENT if record["dir"] == "i2a" else ROUTER
        data = frame(bytes.fromhex(record["hex"]), low_latency=record["framing"] == "u32")
        cut = len(data) // 3
        talk.say(source, data[:cut])
        talk.say(source, data[cut:])
    return talk, records


@pytest.mark.parametrize("name", ["compression_pubsub", "batch_size_small", "priorities"])
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_both_directions_of_a_connection_are_followed(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk, records = vector_talk(name)
    build = captures.pcap if kind == "pcap" else captures.pcapng
    path = tmp_path / "capture"
    path.write_bytes(build(talk.packets))
    code, out = explain(capsys, "--json", str(path))
    assert code == 0
    for got, record in zip(objects(out), records, strict=True):
        assert got["dir"] == record["dir"]
        assert got["decoded"] == record["decoded"]


def test_a_hole_is_reported_and_the_other_direction_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk, _ = vector_talk("priorities")
    del talk.packets[2]  # the first data of the client
    path = tmp_path / "capture.pcap"
    path.write_bytes(captures.pcap(talk.packets))
    code, out = explain(capsys, "--json", str(path))
    records = objects(out)
    assert code == 1
    assert {record["dir"] for record in records if "dir" in record} == {"a2i"}
    assert "packets are missing" in str(records[-1]["problem"])
    code, out = explain(capsys, str(path))
    assert "! 10.0.0.1:40000-10.0.0.2:7447#0 i2a: packets are missing" in out


def test_scouting_and_datagrams_in_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scout, group = ("10.0.0.1", 50_000), ("224.0.0.224", 7446)
    packets = [
        udp(scout, group, bytes.fromhex("010907")),
        udp(("10.0.0.2", 51_000), scout, bytes.fromhex("2209000101077463702f613a31")),
        udp(CLIENT, ROUTER, bytes.fromhex("04")),
        udp(("10.0.0.3", 53), ("10.0.0.4", 53), b"not ours"),
    ]
    path = tmp_path / "capture.pcap"
    path.write_bytes(captures.pcap(packets))
    code, out = explain(capsys, "--json", str(path))
    assert code == 0
    assert [record["framing"] for record in objects(out)] == ["scouting", "scouting", "datagram"]


def test_another_port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Talk(far=("10.0.0.2", 9_999))
    talk.open()
    talk.say(CLIENT, frame(bytes.fromhex(INIT_SYN)))
    path = tmp_path / "capture.pcap"
    path.write_bytes(captures.pcap(talk.packets))
    assert main(["explain", str(path)]) == 1
    assert "`--port` names the port" in capsys.readouterr().err
    code, out = explain(capsys, "--port", "9999", str(path))
    assert code == 0
    assert "INIT_SYN" in out


def test_an_undecodable_stream_ends_that_direction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = Talk()
    talk.open()
    talk.say(CLIENT, b"\x05\0GET /")
    talk.say(ROUTER, frame(b"\x04"))
    path = tmp_path / "capture.pcap"
    path.write_bytes(captures.pcap(talk.packets))
    code, out = explain(capsys, "--json", str(path))
    assert code == 1
    bad, good = objects(out)
    assert "error" in bad
    assert good["reencoded"] == "04"
