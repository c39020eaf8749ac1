"""The exit codes of every verb, and the page about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from elea.errors import EleaError

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
HUNG_UP: Final = 129  # 128 and the number of SIGHUP, as shells count
INTERRUPTED: Final = 130  # the same for SIGINT
TERMINATED: Final = 143  # and for SIGTERM

MEANINGS: Final = {
    DONE: "done",
    FAILED: "failed, or there was nothing to be found",
    WRONG_USAGE: "wrong usage",
    HUNG_UP: "ended as its terminal was closed (SIGHUP; `nohup` prevents it)",
    INTERRUPTED: "ended by Ctrl-C (SIGINT)",
    TERMINATED: "ended by SIGTERM",
}

# What a code means for one verb, where that has to be said.
BY_VERB: Final = {
    "put, delete": {
        DONE: "handled by every router this node is connected to; with `--ack`: on disk",
        FAILED: "refused by the access rules of a router of Elea, or no connection",
    },
    "get, liveliness get": {
        DONE: "at least one reply, and none is an error",
        FAILED: "no reply, a reply that is an error, refused by access rules, or no connection",
    },
    "querier": {
        DONE: "as many questions as `--count`, and no reply is an error",
        FAILED: "a reply was an error, refused by access rules, or no connection",
    },
    "sub, pub, queryable, liveliness sub, liveliness token": {
        DONE: "ended by `--count`, or by `--timeout` without `--count`",
        FAILED: "`--timeout` was over before `--count`, refused by access rules, or connected to no"
        " node all the time (`pub --spool` needs no connection)",
        HUNG_UP: "the summary is printed",
        INTERRUPTED: "the summary is printed",
        TERMINATED: "the summary is printed",
    },
    "pong, historian": {
        DONE: "ended by `--count`, or by `--timeout` without `--count`",
        FAILED: "`--timeout` was over before `--count`, or connected to no node all the time",
    },
    "record": {
        DONE: "ended by `--count`, or by `--duration` without `--count`",
        FAILED: "failed, `--duration` was over before `--count`, samples were dropped (a full disk,"
        " `--quota`), refused by access rules, or connected to no node all the time",
        HUNG_UP: "what was received is on disk",
        INTERRUPTED: "what was received is on disk, and the summary tells what was dropped",
        TERMINATED: "what was received is on disk, and the summary tells what was dropped",
    },
    "pipeline run": {
        INTERRUPTED: "before the run began; once it runs, Ctrl-C ends it in order, with 0",
        TERMINATED: "before the run began; once it runs, SIGTERM ends it in order, with 0",
    },
    "pipeline status, pipeline stop": {
        DONE: "it runs; it stopped",
        FAILED: "it does not run; it did not stop in time",
    },
    "log ls, log cat": {FAILED: "no row was found, or the log cannot be read"},
    "ls, graph, top, trace, scout": {FAILED: "nothing was found, or nobody answers"},
    "router, up": {
        HUNG_UP: "not used: SIGHUP reads the configuration again",
        INTERRUPTED: "not used: Ctrl-C is 0",
        TERMINATED: "not used: SIGTERM is 0",
    },
    "router --config-check, config explain, doctor, acl explain": {
        FAILED: "a problem was found; `acl explain`: denied",
        WRONG_USAGE: "`acl explain`: also rules that cannot be read",
    },
}


class UsageError(EleaError):
    """A mistake in the command line itself, whatever files and nodes there are."""


@contextmanager
def reading_arguments() -> Iterator[None]:
    """Have what is refused within count as wrong usage."""
    try:
        yield
    except EleaError as error:
        raise UsageError(str(error)) from error


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived: like Ctrl-C, but for the exit code."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number


def summary() -> str:
    """All codes in one line, for `--help`."""
    return ", ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items())


def markdown() -> str:
    """The table of the reference."""
    lines = [
        "| verb | " + " | ".join(map(str, MEANINGS)) + " |",
        "| --- " * (len(MEANINGS) + 1) + "|",
    ]
    lines.append("| any | " + " | ".join(MEANINGS.values()) + " |")
    for verbs, meanings in BY_VERB.items():
        names = ", ".join(f"`{one}`" for one in verbs.split(", "))
        lines.append(f"| {names} | " + " | ".join(meanings.get(one, "") for one in MEANINGS) + " |")
    return "\n".join(lines) + "\n"
