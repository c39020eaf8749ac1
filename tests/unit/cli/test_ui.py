"""`elea ui`: the page beside a network, as a client of it, and for logs without any network."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import client_of, options, running
from tests.unit.store.historian.rig import sample, written
from tests.unit.web.ui.rig import UI, Browser

from elea.cli.main import main

HTML = {"accept": "text/html"}


@contextmanager
def shown(*arguments: str) -> Iterator[str]:
    """The command as a process, and where its page is."""
    command = [sys.executable, "-m", "elea", "ui", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines: list[str] = []
            while not (
                found := re.fullmatch(r"page: (http://127\.0\.0\.1:\d+)/\n", "".join(lines[-1:]))
            ):
                line = process.stdout.readline()
                assert line, lines
                lines.append(line)
            yield found[1]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 0
            assert process.stdout.read() == ""  # no link with a token, which a log would keep


def post(url: str, what: str, body: Any) -> Any:
    answer = httpx.post(f"{url}{UI}/{what}", json=body, trust_env=False, timeout=WAIT_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_network_is_shown_by_a_client_of_it() -> None:
    with running(options('metadata:{name:"edge-a"}')) as daemon, client_of(daemon) as sender:
        publisher = sender.declare_publisher("f/a")
        with shown("--connect", daemon.locators()[0]) as url, Browser(url) as browser:
            assert httpx.get(url, headers=HTML, trust_env=False).status_code == 200
            browser.say(want={"id": 1, "kind": "nodes"})
            part = browser.until(lambda part: part.get("nodes"))
            assert [one["name"] for one in part["nodes"]] == ["'edge-a'"]
            browser.say(want={"id": 3, "kind": "status"})
            part = browser.until(lambda part: part.get("traffic") is not None)
            assert part["name"] == "'edge-a'"  # the router that it is connected to
            browser.say(drop=3)
            browser.say(want={"id": 2, "kind": "value", "keys": ["f/a"]})
            browser.frame()
            assert eventually(lambda: publisher.matching_status.matching)
            publisher.put("41")
            assert browser.until(lambda part: part.get("value"))["value"]["lines"] == ["41"]
            body = {"key": "f/a", "payload": "1"}
            answer = httpx.post(f"{url}{UI}/put", json=body, trust_env=False)
            assert answer.status_code == 401


def test_a_log_is_shown_without_a_network(tmp_path: Path) -> None:
    samples = [sample("fleet/r1/imu", n / 10, {"temp": n}) for n in range(100)]
    log = written(tmp_path / "field test", samples)
    with shown(str(log)) as url, Browser(url) as browser:
        browser.say(want={"id": 1, "kind": "tree", "words": "imu", "limit": 10})
        part = browser.until(lambda part: part.get("v"))
        assert [row[2] for row in part["v"]] == ["fleet/r1/imu"]
        assert part["v"][0][4] == "l"  # recorded, and declared by none
        body = {"selector": "fleet/r1/imu"}
        assert post(url, "query", body)["rows"][0]["lines"] == ["{", '  "temp": 99', "}"]
        told = post(url, "series", {"key": "fleet/r1/imu", "since": 1.7e9, "until": 1.7e9 + 20})
        browser.say(want={"id": 2, "kind": "log"})
        part = browser.until(lambda part: part.get("density"))
        assert sum(part["density"]["field_test"]["rows"]) == 100
        assert (told["rows"], told["fields"]) == (100, ["temp"])


def test_what_cannot_be_shown_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", str(tmp_path / "none")]) == 1
    assert "is not a directory" in capsys.readouterr().err
    assert main(["ui", str(tmp_path), "--connect", "tcp/127.0.0.1:1"]) == 2
    assert "without a network" in capsys.readouterr().err
