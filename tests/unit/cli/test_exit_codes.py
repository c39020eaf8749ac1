"""The exit codes of the table: signals, empty answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests.unit.cli.ends import WAIT_S, eventually, free_endpoint

import elea
from elea.cli.exit_codes import MEANINGS, markdown, summary
from elea.cli.main import VERBS, build_parser


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("arguments", "last"),
    [(["sub", "k/**"], "elea: 1 sample in "), (["queryable", "q", "v"], "elea: 1 query in ")],
    ids=lambda one: one[0],
)
def test_a_signal_ends_a_verb_with_its_summary(
    number: signal.Signals, arguments: list[str], last: str
) -> None:
    """SIGTERM was 143 without a word, SIGHUP 129."""
    endpoint = free_endpoint()
    child = subprocess.Popen(
        [sys.executable, "-m", "elea", *arguments, "-l", endpoint, "--no-multicast-scouting"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # not as under nohup
    )
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        with eventually_open(endpoint) as session:
            publisher = session.declare_publisher("k/a")
            if arguments[0] == "sub":
                assert eventually(lambda: publisher.matching_status.matching)
                publisher.put(b"1")
                assert child.stdout.readline() == "PUT k/a: 1\n"
            else:  # it summarises once it can answer
                assert eventually(lambda: any(reply.ok for reply in session.get("q")))
            child.send_signal(number)
            assert child.wait(WAIT_S) == 128 + number
    finally:
        child.kill()
        child.wait()
        told = child.stderr.read().splitlines()
        child.stdout.close()
        child.stderr.close()
    assert any(line.startswith(last) for line in told), told
    assert not any("Traceback" in line for line in told)


def eventually_open(endpoint: str) -> elea.Session:
    opened: list[elea.Session] = []

    def try_it() -> bool:
        try:
            opened.append(elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}}))
        except elea.ZError:
            return False
        return True

    assert eventually(try_it)
    return opened[0]


def test_the_table_is_about_verbs_that_there_are() -> None:
    from elea.cli.exit_codes import BY_VERB

    for verbs in BY_VERB:
        for verb in verbs.split(", "):
            assert verb.split()[0] in VERBS
    assert all(len(line.split("|")) == len(MEANINGS) + 3 for line in markdown().splitlines())
    assert summary() in " ".join(build_parser([]).format_help().split())
