"""Every verb of the command with a session of Eclipse Zenoh at the other end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import zenoh
from tests.interop.ends import replies_to
from tests.unit.cli.ends import Running, eventually, free_endpoint

from elea.cli.main import main


@dataclass
class Eclipse:
    session: Any
    endpoint: str

    @property
    def connect(self) -> tuple[str, str]:
        return ("--connect", self.endpoint)


@pytest.fixture(params=["router", "peer"])
def eclipse(request: pytest.FixtureRequest) -> Iterator[Eclipse]:
    endpoint = free_endpoint()
    config = zenoh.Config()
    for key, value in {
        "mode": request.param,
        "listen/endpoints": [endpoint],
        "scouting/multicast/enabled": False,
        "adminspace/enabled": True,
    }.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config) as session:
        yield Eclipse(session, endpoint)


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def received(got: list[Any], count: int) -> list[tuple[str, bytes, str, str]]:
    assert eventually(lambda: len(got) >= count), got
    return [
        (str(one.key_expr), bytes(one.payload), str(one.encoding), str(one.kind).rpartition(".")[2])
        for one in got
    ]


@pytest.mark.line("K28")
def test_put_delete_and_pub(eclipse: Eclipse) -> None:
    got: list[Any] = []
    subscriber = eclipse.session.declare_subscriber("demo/**", got.append)
    assert main(["put", "demo/a", "1", "--encoding", "text/plain", *eclipse.connect]) == 0
    assert received(got, 1) == [("demo/a", b"1", "text/plain", "PUT")]
    assert main(["delete", "demo/a", *eclipse.connect]) == 0
    assert received(got, 2)[1] == ("demo/a", b"", "zenoh/bytes", "DELETE")
    options = ["--count", "3", "--interval", "0", "--congestion-control", "block"]
    assert main(["pub", "demo/p", "x", *options, *eclipse.connect]) == 0
    assert received(got, 5)[2:] == [("demo/p", b"x", "zenoh/bytes", "PUT")] * 3
    subscriber.undeclare()


@pytest.mark.line("K28")
def test_sub(eclipse: Eclipse, capsys: pytest.CaptureFixture[str]) -> None:
    publisher = eclipse.session.declare_publisher("demo/a", encoding="application/json")
    command = Running("sub", "demo/**", "--count", "2", "--json", *eclipse.connect)
    assert eventually(lambda: publisher.matching_status.matching)
    publisher.put(b'{"t": 1}', attachment=b"note")
    publisher.delete()
    assert command.code == 0
    put, deletion = printed(capsys)
    assert (put["key_expr"], put["kind"], put["value"]) == ("demo/a", "put", {"t": 1})
    assert (put["encoding"], put["attachment"]) == ("application/json", "note")
    assert deletion["kind"] == "delete"


@pytest.mark.line("K28")
@pytest.mark.parametrize("verb", [["get"], ["querier", "--count", "1"]], ids=["get", "querier"])
def test_get_and_querier(
    verb: list[str], eclipse: Eclipse, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(query: Any) -> None:
        with query:
            if str(query.parameters) == "x=1":
                query.reply("demo/a", b"[1]", encoding="application/json")
            else:
                query.reply_err(b"no", encoding="text/plain")

    queryable = eclipse.session.declare_queryable("demo/*", answer)
    assert main([*verb, "demo/a?x=1", "--json", *eclipse.connect]) == 0
    (line,) = printed(capsys)
    assert (line["key_expr"], line["value"]) == ("demo/a", [1])
    assert main([*verb, "demo/a", "--json", *eclipse.connect]) == 1
    (line,) = printed(capsys)
    assert line["error"] == {"payload": "no", "encoding": "text/plain"}
    queryable.undeclare()


@pytest.mark.line("K28")
def test_queryable(eclipse: Eclipse, capsys: pytest.CaptureFixture[str]) -> None:
    command = Running("queryable", "demo/a", "warm", "--count", "1", "--json", *eclipse.connect)
    querier = eclipse.session.declare_querier("demo/a")
    assert eventually(lambda: querier.matching_status.matching)
    (reply,) = list(replies_to(querier.get, parameters="x=1", payload=b"why"))
    assert (str(reply.ok.key_expr), bytes(reply.ok.payload)) == ("demo/a", b"warm")
    assert command.code == 0
    (line,) = printed(capsys)
    assert (line["key_expr"], line["parameters"], line["payload"]) == ("demo/a", "x=1", "why")


@pytest.mark.line("K28")
def test_liveliness(eclipse: Eclipse, capsys: pytest.CaptureFixture[str]) -> None:
    liveliness = eclipse.session.liveliness()
    token = liveliness.declare_token("group/eclipse")
    assert main(["liveliness", "get", "group/*", "--json", *eclipse.connect]) == 0
    assert printed(capsys) == [{"key_expr": "group/eclipse", "alive": True}]

    options = ["--history", "--count", "2", "--json"]
    command = Running("liveliness", "sub", "group/*", *options, *eclipse.connect)
    lines: list[dict[str, Any]] = []

    def saw_one() -> bool:
        lines.extend(printed(capsys))
        return bool(lines)

    assert eventually(saw_one)
    token.undeclare()
    assert command.code == 0
    lines.extend(printed(capsys))
    assert [line["alive"] for line in lines] == [True, False]

    got: list[Any] = []
    watcher = liveliness.declare_subscriber("group/*", got.append)
    command = Running("liveliness", "token", "group/elea", "--timeout", "0.2", *eclipse.connect)
    assert [kind for _, _, _, kind in received(got, 2)] == ["PUT", "DELETE"]
    assert command.code == 0
    watcher.undeclare()


@pytest.mark.line("K28")
def test_info(eclipse: Eclipse, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json", *eclipse.connect]) == 0
    (line,) = printed(capsys)
    assert [one["zid"] for one in line["transports"]] == [str(eclipse.session.zid())]


@pytest.mark.line("K28")
def test_ping(eclipse: Eclipse, capsys: pytest.CaptureFixture[str]) -> None:
    publisher = eclipse.session.declare_publisher("test/pong", express=True)
    pong = eclipse.session.declare_subscriber("test/ping", lambda one: publisher.put(one.payload))
    assert main(["ping", "--count", "3", "--interval", "0", "--json", *eclipse.connect]) == 0
    assert [line.get("seq") for line in printed(capsys)] == [0, 1, 2, None]
    pong.undeclare()


@pytest.mark.line("K28")
def test_pong(eclipse: Eclipse) -> None:
    got: list[Any] = []
    subscriber = eclipse.session.declare_subscriber("test/pong", got.append)
    publisher = eclipse.session.declare_publisher("test/ping")
    command = Running("pong", "--count", "1", *eclipse.connect)
    assert eventually(lambda: publisher.matching_status.matching)
    publisher.put(b"ball")
    assert [payload for _, payload, _, _ in received(got, 1)] == [b"ball"]
    assert command.code == 0
    subscriber.undeclare()


@pytest.mark.line("K28")
def test_throughput(eclipse: Eclipse, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--count", "1", "--interval", "0.05", "--json", *eclipse.connect]
    got: list[Any] = []
    subscriber = eclipse.session.declare_subscriber("test/thr", got.append)
    assert main(["throughput", "send", *options]) == 0
    (sent,) = printed(capsys)
    assert eventually(lambda: len(got) == sent["messages"])
    subscriber.undeclare()

    publisher = eclipse.session.declare_publisher("test/thr")
    command = Running("throughput", "receive", "--timeout", "20", *options)
    assert eventually(lambda: publisher.matching_status.matching)
    for _ in range(100):
        publisher.put(b"12345678")
    assert command.code == 0
    (line,) = printed(capsys)
    assert line["octets"] == 8 * line["messages"]


# Tests speak to this host alone: the multicast check asks on loopback.
LOOPBACK = 'scouting/multicast/interface:"lo"'


@pytest.mark.line("K28")
def test_doctor(eclipse: Eclipse, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--cfg", LOOPBACK, *eclipse.connect]) == 0
    lines = {line["check"]: line for line in printed(capsys)}
    handshake = lines[f"handshake {eclipse.endpoint}"]["found"]
    assert str(eclipse.session.zid()) in handshake
    assert "wire version 9, software v1." in handshake
    clock = lines[f"clock {eclipse.endpoint}"]
    assert clock["status"] == "ok"  # it is the clock of this host
    assert " ms from here" in clock["found"]
