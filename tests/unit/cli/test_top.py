"""`elea top`: one look, many looks, a terminal, and answers that are none."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import Running
from tests.unit.daemon.rig import client_of, options, running

import elea
from elea.cli.main import main
from elea.daemon.daemon import Daemon

Capture = pytest.CaptureFixture[str]
QUICK = ["--interval", "0.2"]


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with running(options('metadata:{name: "gate"}', id="a1")) as started:
        yield started


def at(daemon: Daemon) -> list[str]:
    return ["--connect", daemon.locators()[0], *QUICK]


def test_one_look(daemon: Daemon, capsys: Capture) -> None:
    with client_of(daemon) as client:
        client.put("nobody/wants/this", b"x")
        assert main(["top", "--once", *at(daemon)]) == 0
        lines = capsys.readouterr().out.splitlines()
        node, nowhere, empty, head, row, *_ = lines
        assert node.startswith("router 'gate'  1 session  up ")
        assert "memory" in node
        assert "cpu" in node
        assert nowhere == "'gate': went nowhere: 1 no_subscriber"
        assert empty == ""
        assert head.split()[:4] == ["drops", "waiting", "node", "session"]
        digits = str(client.zid())[:4]
        assert row.split()[:5] == ["0", "0B", "'gate'", "client", digits]
        assert max(map(len, lines)) <= 80
        assert main(["top", "--once", "--ids", *at(daemon)]) == 0
        assert str(client.zid()) in capsys.readouterr().out
        assert main(["top", "--once", "--color", "always", *at(daemon)]) == 0
        assert "\x1b[1m drops" in capsys.readouterr().out


def test_looks_as_json_have_rates(daemon: Daemon, capsys: Capture) -> None:
    with client_of(daemon) as client, client_of(daemon) as other:
        kept = other.declare_subscriber("a/b", lambda _: None)
        over = threading.Event()

        def publish() -> None:
            while not over.wait(0.005):
                client.put("a/b", b"x" * 100)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            assert Running("top", "--json", "--count", "3", *at(daemon)).code == 0
        finally:
            over.set()
            thread.join()
        looks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(looks) == 3
        [node] = looks[-1]["nodes"]
        rows = {one["zid"]: one for one in node["sessions"]}
        assert rows[str(client.zid())]["received_rate"] > 0
        assert rows[str(other.zid())]["sent_bytes_rate"] > 0
        assert node["resident_bytes"] > 1_000_000
        assert str(kept.key_expr) == "a/b"


@pytest.mark.parametrize("sort", ["traffic", "received", "sent", "drops", "waiting", "zid"])
def test_sorted(sort: str, daemon: Daemon, capsys: Capture) -> None:
    with client_of(daemon) as a, client_of(daemon) as b:
        assert main(["top", "--once", "--json", "--sort", sort, *at(daemon)]) == 0
        [node] = json.loads(capsys.readouterr().out)["nodes"]
        zids = [one["zid"] for one in node["sessions"]]
        assert sorted(zids) == sorted([str(a.zid()), str(b.zid())])
        if sort == "zid":
            assert zids == sorted(zids)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_left_as_it_was(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((40, 4)))
    with client_of(daemon), client_of(daemon), client_of(daemon):
        assert main(["top", "--count", "2", "--color", "never", *at(daemon)]) == 0
    shown = screen.getvalue()
    assert shown.startswith("\x1b[?1049h")
    assert shown.endswith("\x1b[?1049l")
    assert shown.count("\x1b[H") == 2
    drawn = shown.split("\x1b[H")[1].split("\x1b[J")[0].split("\n")
    assert len(drawn) == 4
    assert max(len(line.removesuffix("\x1b[K")) for line in drawn) <= 40
    assert "more" in drawn[-1]


def test_one_node_of_several(daemon: Daemon, capsys: Capture) -> None:
    assert main(["top", "--once", "--node", "ff", *at(daemon)]) == 1
    assert "nobody answers" in capsys.readouterr().err
    assert main(["top", "--once", "--node", "a1", *at(daemon)]) == 0


@pytest.mark.parametrize("arguments", [["--interval", "0.01"], ["--count", "0"], ["--sort", "x"]])
def test_wrong_usage(arguments: list[str]) -> None:
    assert main(["top", *arguments]) == 2


STRANGE = {
    "zid": "b1",
    "sessions": [
        {"peer": "c\x1b[31m", "whatami": "client", "links": [], "stats": {"rx_bytes": "x"}},
        {"peer": "d", "whatami": "client", "stats": {"drops": 3, "rx_n_msgs": {"net": -1}}},
        {"peer": "e", "whatami": "client", "stats": {"drops": {"\x1b": 5}, "user": ["x"]}},
        {"peer": "f", "whatami": "client", "stats": {"tx_n_dropped": 7, "waiting_bytes": 1e9}},
        {"peer": "g", "whatami": "client"},
    ],
    "metadata": {"name": "\x1b[2J"},
    "stats": {"process": {"cpu_seconds": "x", "resident_bytes": []}, "routing_drops": {"\x1b": 1}},
}


@pytest.mark.parametrize(
    "shown", [STRANGE, {"stats": 3, "sessions": {}}, {"stats": {"process": 1}}]
)
def test_answers_that_are_none(hub: Hub, shown: object, capsys: Capture) -> None:
    def answer(query: elea.Query) -> None:
        with query:
            query.reply("@/b1/router", json.dumps(shown))

    with hub.session.declare_queryable("@/b1/**", answer):
        for more in (["--once"], ["--once", "--json"]):
            assert main(["top", *more, *hub.connect, *QUICK]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    if shown is STRANGE:
        assert "7 tx-congestion" in printed.out


def test_nobody_answers(hub: Hub, capsys: Capture) -> None:
    assert main(["top", "--once", "--timeout", "1", *hub.connect, *QUICK]) == 1
    assert "nobody answers" in capsys.readouterr().err
