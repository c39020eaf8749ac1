from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import Running, eventually

import elea
from elea.cli.main import main


def test_round_trips_between_ping_and_pong(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    publisher = hub.session.declare_publisher("test/ping")
    pong = Running("pong", "--count", "5", *hub.connect)
    assert eventually(lambda: publisher.matching_status.matching)
    options = ["--count", "5", "--interval", "0", "--size", "100", "--json"]
    assert main(["ping", *options, *hub.connect]) == 0
    assert pong.code == 0
    out, err = capsys.readouterr()
    *lines, summary = [json.loads(line) for line in out.splitlines()]
    assert [(line["seq"], line["octets"]) for line in lines] == [(n, 100) for n in range(5)]
    assert all(line["rtt_us"] > 0 for line in lines)
    assert (summary["answers"], summary["lost"]) == (5, 0)
    assert summary["min_us"] <= summary["p50_us"] <= summary["p99_us"] <= summary["max_us"]
    assert "5 answers, 0 lost" in err
    assert "5 pings in " in err


def test_late_and_missing_answers(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    def answer_all_but_the_first(sample: elea.Sample) -> None:
        if sample.payload.to_bytes()[0] != 0:
            hub.session.put("b", b"an answer to something else")
            hub.session.put("b", sample.payload)

    subscriber = hub.session.declare_subscriber("a", answer_all_but_the_first)
    options = ["--key", "a", "--reply-key", "b", "--count", "2", "--timeout", "2"]
    assert main(["ping", *options, *hub.connect]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "64 octets: seq=0 rtt=no answer"
    assert second.startswith("64 octets: seq=1 rtt=")
    assert second.endswith(" us")
    subscriber.undeclare()


def test_nobody_answers(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", "--timeout", "0", *hub.connect]) == 1
    assert "no subscriber for test/ping: start `elea pong`" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["7", "many"])
def test_a_ping_holds_its_number(size: str) -> None:
    assert main(["ping", "--size", size]) == 2
