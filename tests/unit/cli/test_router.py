"""`elea router` as a process, and what it says before it is one."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import WAIT_S, eventually, free_endpoint
from tests.unit.daemon.rig import ANYWHERE, MODE

import elea
from elea.cli import presence
from elea.cli.main import build_parser, main
from elea.cli.router import elead, options_of
from elea.daemon.effective import Options
from elea.locator import Endpoint

ROLE = ("--cfg", f'mode:"{MODE}"')


@contextmanager
def process(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A router in a process of its own, once it is ready; killed if it does not end."""
    with (folder / "log").open("w") as log:
        router = subprocess.Popen(
            [sys.executable, "-m", "elea.cli.main", "router", *ROLE, *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            yield router
        finally:
            router.kill()
            router.communicate()


def ready_line(router: subprocess.Popen[str]) -> str:
    assert router.stdout is not None
    return router.stdout.readline().rstrip("\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path, "--listen", ANYWHERE, "--id", "a1") as router:
        match = re.fullmatch(rf"ready: {MODE} a1 (tcp/127\.0\.0\.1:\d+)", ready_line(router))
        assert match is not None
        config = {"mode": "client", "connect": {"endpoints": [match[1]]}}
        with elea.open(config) as client:
            assert [str(one.zid) for one in client.info.transports()] == ["a1"]
            zid = str(client.zid())
            router.send_signal(number)
            assert router.wait(WAIT_S) == 0
            assert eventually(lambda: not client.info.transports())
    log = (tmp_path / "log").read_text()
    assert log.count(" elea.audit: login ") == 1
    assert log.count(f"zid={zid}") == 2  # one line when it came, and one when it left
    assert " elea.audit: logout " in log
    assert "stopped" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--connect", "tcp/127.0.0.1:1", "--cfg", "connect/exit_on_failure:true"),
            "cannot connect to tcp/127.0.0.1:1",
        ),
        (
            ("--listen", "tcp/192.0.2.1:7447", "--allow-plain", "--cfg", "listen/timeout_ms:-1"),
            "does not listen at tcp/192.0.2.1:7447",
        ),
    ],
)
def test_a_router_that_waits_to_start_could_not_be_ended(
    tmp_path: Path, arguments: tuple[str, ...], line: str, number: signal.Signals
) -> None:
    """It waited for its upstream or its address, as it was told to, and no signal reached it."""
    with process(tmp_path, "--listen", ANYWHERE, *arguments) as router:
        log = tmp_path / "log"
        assert eventually(lambda: line in log.read_text())
        router.send_signal(number)
        assert router.wait(WAIT_S) == 0
        assert ready_line(router) == ""
        assert "Traceback" not in log.read_text()


def test_the_address_of_the_page_is_printed(tmp_path: Path) -> None:
    with process(tmp_path, "--listen", ANYWHERE, "--ui") as router:
        assert ready_line(router).startswith("ready: ")
        match = re.fullmatch(r"page: (http://127\.0\.0\.1:\d+/)", ready_line(router))
        assert match is not None
        with urllib.request.urlopen(
            urllib.request.Request(match[1], headers={"accept": "text/html"}), timeout=WAIT_S
        ) as page:
            assert b"<title>Elea</title>" in page.read()


def test_a_hangup_reads_the_file_again(tmp_path: Path) -> None:
    first, second = free_endpoint(), free_endpoint()
    file = tmp_path / "router.json5"
    file.write_text(f'{{listen: {{endpoints: ["{first}"]}}}}')
    with process(tmp_path, "--config", str(file)) as router:
        assert ready_line(router).endswith(first)
        config = {"mode": "client", "connect": {"endpoints": [first]}}
        with elea.open(config) as client:
            file.write_text(f'{{listen: {{endpoints: ["{second}"]}}}}')
            router.send_signal(signal.SIGHUP)
            log = tmp_path / "log"
            assert eventually(lambda: f"reloaded; listens at {second}" in log.read_text())
            assert len(client.info.transports()) == 1
        router.send_signal(signal.SIGTERM)
        assert router.wait(WAIT_S) == 0


def test_every_option_reaches_the_daemon() -> None:
    long = "--config f --listen tcp/a:1 --connect tcp/b:1 --id c1 --cfg id:null --plugin p"
    long += " --allow-plain --adminspace-permissions rw --rest-http-port 8000 --ui --xrce udp/a:1"
    long += " --no-multicast-scouting"
    short = "-c f -l tcp/a:1 -e tcp/b:1 -i c1 --cfg id:null -P p --allow-plain"
    short += " --adminspace-permissions rw --rest-http-port 8000 --ui --xrce udp/a:1"
    short += " --no-multicast-scouting"
    parser = build_parser(["router"])
    for line in (long, short):
        args = parser.parse_args(["router", *line.split(), "--no-timestamp"])
        assert options_of(args) == Options(
            config="f",
            listen=("tcp/a:1",),
            connect=("tcp/b:1",),
            id="c1",
            cfg=("id:null",),
            plugin=("p",),
            adminspace_permissions="rw",
            rest_http_port="8000",
            ui=True,
            xrce=("udp/a:1",),
            no_multicast_scouting=True,
            no_timestamp=True,
            allow_plain=True,
        )


def test_a_configuration_is_checked_without_running_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["router", "--config-check", "-l", "tcp/127.0.0.1:1"]) == 0
    assert capsys.readouterr().out == "the configuration can be used\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-l", "tcp/0.0.0.0:7447"], "--allow-plain"),
        (["--config", "no-such-file.json5"], "no-such-file.json5"),
        (["--plugin", "no-such-service"], "not installed"),
        (
            ["--log-file", "no-such-directory/x.log"],
            "--log-file: no-such-directory/x.log cannot be",
        ),
        (["--log-file", "."], "--log-file: . is no file that can be written"),
        (["--cfg", "access_control/enabled:true"], "needs rules, subjects and policies"),
    ],
)
def test_what_cannot_be_used_says_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["router", "--config-check", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_permissions_are_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["router", "--adminspace-permissions", "x"]) == 2
    assert "invalid choice" in capsys.readouterr().err


def test_elead_is_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["elead", "--config-check"])
    assert elead() == 0
    assert "can be used" in capsys.readouterr().out


def test_a_port_in_use_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "elea.daemon.logs.start_logging", lambda *_: None
    )  # this process is the tests'
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        assert main(["router", "--log", "error", "--listen", endpoint]) == 1
    assert endpoint in capsys.readouterr().err


# --ensure


@pytest.fixture
def no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of this process stays as it is."""
    monkeypatch.setattr("elea.daemon.logs.start_logging", lambda *_: None)


@pytest.mark.usefixtures("no_log")
def test_a_router_that_runs_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = free_endpoint()
    with process(tmp_path, "--ensure", "--listen", endpoint, "--id", "a1") as router:
        assert ready_line(router) == f"ready: {MODE} a1 {endpoint}"  # nobody was there
        assert main(["router", "--ensure", "--listen", endpoint]) == 0
        assert capsys.readouterr().out == f"running: {MODE} a1 {endpoint}\n"
        everywhere = endpoint.replace("127.0.0.1", "0.0.0.0")
        assert main(["router", "--ensure", "--listen", everywhere, "--allow-plain"]) == 0
        assert main(["router", "--listen", endpoint]) == 1
        assert "in use" in capsys.readouterr().err
        assert router.poll() is None


def test_somebody_else_where_a_router_should_be(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["router", "--ensure", "--listen", hub.endpoint]) == 1
    assert f"a peer, {hub.session.zid()}, listens at" in capsys.readouterr().err


@pytest.mark.usefixtures("no_log")
def test_something_silent_where_a_router_should_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "_TIMEOUT_MS", 200)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"tcp/127.0.0.1:{silent.getsockname()[1]}"
        assert main(["router", "--ensure", "--listen", endpoint]) == 1
    assert "in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("tcp/127.0.0.1:0", None),
        ("tcp/[::]:7447", "tcp/[::1]:7447"),
        ("tls/0.0.0.0:7447#verify_name_on_connect=false", "tls/127.0.0.1:7447"),
        ("unixsock-stream//tmp/x", "unixsock-stream//tmp/x"),
    ],
)
def test_where_to_ask(listen: str, expected: str | None) -> None:
    assert presence._reached(Endpoint.parse(listen)) == expected


@pytest.mark.parametrize("option", ["--log-file-size", "--log-file-count"])
@pytest.mark.parametrize("check", [[], ["--config-check"]])
def test_options_of_a_log_file_without_one_were_ignored(
    option: str, check: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["router", option, "5", *check]) == 2
    assert f"{option} needs --log-file FILE" in capsys.readouterr().err
