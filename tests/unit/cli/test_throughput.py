from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import Running, eventually

from elea.cli.main import main


def test_one_side_sends_and_the_other_counts(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    publisher = hub.session.declare_publisher("test/thr")
    options = ["--interval", "0.05", "--json", *hub.connect]
    receiver = Running("throughput", "receive", "--timeout", "20", "--count", "1", *options)
    assert eventually(lambda: publisher.matching_status.matching)
    assert main(["throughput", "send", "--size", "16", "--count", "3", *options]) == 0
    assert receiver.code == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 4
    for line in lines:
        assert line["octets"] == 16 * line["messages"]
        assert line["seconds"] >= 0.05
        assert line["messages_per_s"] == pytest.approx(line["messages"] / line["seconds"])
        assert line["octets_per_s"] == pytest.approx(line["octets"] / line["seconds"])


def test_people_see_rates(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    subscriber = hub.session.declare_subscriber("k", lambda sample: None)
    options = ["--key", "k", "--interval", "0", "--count", "1"]
    assert main(["throughput", "send", *options, *hub.connect]) == 0
    assert " messages/s, " in capsys.readouterr().out
    subscriber.undeclare()


@pytest.mark.parametrize(
    ("verb", "words"),
    [("send", "no subscriber for test/thr"), ("receive", "nothing came on test/thr")],
)
def test_nobody_is_there(
    verb: str, words: str, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["throughput", verb, "--timeout", "0", *hub.connect]) == 1
    assert words in capsys.readouterr().err
