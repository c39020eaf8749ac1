"""`elea ls` and `elea graph`, against a daemon and against answers that are none."""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import Running, eventually
from tests.unit.daemon.rig import MODE, ask, client_of, options, root_of, running

import elea
from elea.cli.main import main
from elea.daemon.daemon import Daemon


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with running(options('metadata:{name: "gate"}', id="a1")) as started:
        yield started


def connect(daemon: Daemon) -> list[str]:
    return ["--connect", daemon.locators()[0]]


def test_keys_and_who_uses_them(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    with client_of(daemon) as client:
        zid = str(client.zid())
        declared = [client.declare_subscriber("fleet/*/pose"), client.declare_publisher("fleet/1")]
        declared.append(client.declare_queryable("other"))
        root = root_of(daemon)
        assert eventually(lambda: ask(client, f"{root}/publisher/fleet/1"))
        assert main(["ls", "fleet/**", *connect(daemon)]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"fleet/*/pose  subscriber: client {zid[:4]}",
            f"fleet/1       publisher: client {zid[:4]}",
        ]
        assert main(["ls", "fleet/**", "--ids", *connect(daemon)]) == 0
        assert f"fleet/*/pose  subscriber: {zid}" in capsys.readouterr().out.splitlines()
        assert main(["ls", "--json", *connect(daemon)]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {"key_expr": "other", "queryables": [zid]} in lines
        assert len(declared) == 3


def test_rates(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    with client_of(daemon) as client:
        publisher = client.declare_publisher("a/b")
        command = Running("ls", "a/**", "--rate", "1", "--json", *connect(daemon))
        over = threading.Event()

        def publish() -> None:
            while not over.wait(0.01):
                publisher.put(b"x")

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            assert command.code == 0
        finally:
            over.set()
            thread.join()
        [line] = capsys.readouterr().out.splitlines()
        shown = json.loads(line)
        assert (shown["key_expr"], shown["publishers"]) == ("a/b", [str(client.zid())])
        assert shown["rate"] > 0


def test_no_key_is_a_failure(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "nothing/here", *connect(daemon)]) == 1
    assert "no key" in capsys.readouterr().err
    assert main(["ls", "a//b", *connect(daemon)]) == 2
    assert "a//b" in capsys.readouterr().err


def test_the_graph_as_text(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    with client_of(daemon) as client:
        assert main(["graph", *connect(daemon)]) == 0
        [link] = client.info.links()
        here = daemon.locators()[0]
        assert capsys.readouterr().out.splitlines() == [
            f"{MODE} 'gate', {here}",
            f"  client {str(client.zid())[:4]}, {here} to {link.src}",
        ]
        assert main(["graph", "--ids", *connect(daemon)]) == 0
        assert capsys.readouterr().out.startswith(f"{MODE} 'gate' (a1), {here}\n")


def test_the_graph_as_dot(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    with client_of(daemon) as client:
        zid = str(client.zid())
        assert main(["graph", "--format", "dot", *connect(daemon)]) == 0
        shape = {"peer": "ellipse", "router": "box"}[MODE]
        assert sorted(capsys.readouterr().out.splitlines()) == sorted(
            [
                "graph {",
                f'    "a1" [ label = "{MODE} \'gate\'", shape = {shape} ]',
                f'    "{zid}" [ label = "client {zid[:4]}", shape = plain ]',
                f'    "{min(zid, "a1")}" -- "{max(zid, "a1")}"',
                "}",
            ]
        )


def test_the_graph_as_a_picture(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    with client_of(daemon):
        assert main(["graph", "--format", "svg", *connect(daemon)]) == 0
    picture = ElementTree.fromstring(capsys.readouterr().out)
    tags = [one.tag.rpartition("}")[2] for one in picture.iter()]
    assert (tags.count("circle"), tags.count("line")) == (2, 1)


def test_the_graph_as_json(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "--format", "json", *connect(daemon)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    shown = json.loads(line)
    assert (shown["zid"], shown["whatami"], shown["name"]) == ("a1", MODE, "gate")
    assert shown["sessions"] == []


def test_nobody_with_an_admin_space(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "--timeout", "1", *hub.connect]) == 1
    assert "nobody answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"\xff", b"[" * 100_000, b'{"sessions": [1, {"peer": 2}], "locators": 3}'],
)
def test_answers_that_are_none_are_left_out(
    hub: Hub, payload: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(query: elea.Query) -> None:
        with query:
            for key in ("@/b1/router", "@/b1/router/subscriber/\x1b[31m<&>"):
                if query.key_expr.intersects(key):
                    query.reply(key, payload)

    with hub.session.declare_queryable("@/b1/**", answer):
        for arguments in (["ls"], ["graph"], ["graph", "--format", "svg"]):
            assert main([*arguments, *hub.connect]) in (0, 1)
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "Traceback" not in shown.err
