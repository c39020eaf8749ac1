"""DDS peers, sessions and bridges for tests, each bridge on a domain of its own (D-931)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

from tests.meta.tree import ROOT
from tests.ports import free_port

import elea
from elea.config.config import Config
from elea.dds.bridge import Bridge
from elea.dds.cyclone import CycloneDomain
from elea.dds.presence import marker
from elea.dds.routes import Direction
from elea.dds.settings import DdsSettings
from elea.dds.to_dds import ToDds
from elea.limits import DEFAULT_LIMITS, Limits
from elea.session.session import Session

LIMIT_S: Final = float(os.environ.get("ELEA_TEST_LIMIT_S", "60"))  # the machine may be busy
_FIRST: Final = 20  # below are those of people; from 93 on those of the demo
_BLOCK: Final = 8  # domains of a process: each test takes the next one
_BLOCKS: Final = 9
_RESERVE_S: Final = 600.0
_used = 0
_kept: Final[set[int]] = set()
_reserved: Final[list[socket.socket]] = []


def next_domain() -> int:
    """A domain that no other process of this host tests with at the same time."""
    global _used
    while True:
        _used += 1
        domain = _FIRST + _block() * _BLOCK + _used % _BLOCK
        if domain not in _kept:
            return domain


@contextmanager
def kept_domain() -> Iterator[int]:
    """A domain that more than one test uses: `next_domain` leaves it out until the end."""
    domain = next_domain()
    _kept.add(domain)
    assert len(_kept) < _BLOCK, f"expected fewer than {_BLOCK} domains to be kept"
    try:
        yield domain
    finally:
        _kept.remove(domain)


def block_of(domain: int) -> int:
    """The block that a domain is in: one process reserves it."""
    return (domain - _FIRST) // _BLOCK


@cache
def _block() -> int:
    """Reserve domains until this process ends.

    By an address without a file: every process of this network has the same ones, whatever its
    TMPDIR, and one in another network namespace, which cannot disturb, has its own.
    """
    end = time.monotonic() + _RESERVE_S
    while time.monotonic() < end:
        for number in range(_BLOCKS):
            reserved = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                reserved.bind(f"\0elea-test-domains-{number}")
            except OSError:
                reserved.close()
            else:
                _reserved.append(reserved)
                return number
        time.sleep(0.1)
    raise AssertionError(f"{_BLOCKS} processes of this host reserve DDS domains")


def until(condition: Callable[[], Any], what: str = "", limit_s: float = LIMIT_S) -> Any:
    """Wait for a condition and return what it gave."""
    end = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"timed out: {what or condition}")
        time.sleep(0.01)
    return found


class Peer:
    """A Cyclone DDS participant in a child process; methods are those of `peer_main.Peer`."""

    def __init__(
        self, domain: int, *, lease: str = "10s", name: str = "peer", program: str = ""
    ) -> None:
        # A program that is called otherwise does not find its packages by its name.
        places = [ROOT, ROOT / "src", *(sys.path if program else ())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
        environment.pop("CYCLONEDDS_URI", None)
        self._process = subprocess.Popen(
            [program or sys.executable, "-m", "tests.dds.peer_main", str(domain), lease, name],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        self.guid = self._answer()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if args:
                options = {**dict(zip(_POSITIONAL[name], args, strict=False)), **options}
            self.send(name, **options)
            return self._answer()

        return call

    def send(self, name: str, /, **options: Any) -> None:
        """Call without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": name, **options}) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the peer ended"
        answer = json.loads(line)
        assert "error" not in answer, answer
        return answer["result"]

    answer = _answer

    def taken(self, name: str, count: int, limit_s: float = LIMIT_S) -> list[dict[str, Any]]:
        """Take samples until there are so many."""
        found: list[dict[str, Any]] = []

        def enough() -> bool:
            found.extend(self.take(name))
            return len(found) >= count

        until(enough, f"{count} samples at {name}, got {found[:5]}...", limit_s)
        return found

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


_POSITIONAL: Final = {
    "writer": ("name", "topic", "type"),
    "reader": ("name", "topic", "type"),
    "write": ("name", "values", "ns"),
    "burst": ("name", "count", "size", "rate"),
    "dispose": ("name", "value"),
    "unregister": ("name", "value"),
    "write_dispose": ("name", "value"),
    "take": ("name", "count"),
    "matched": ("name",),
    "matched_guids": ("name",),
    "liveliness": ("name",),
    "missed": ("name",),
    "acknowledged": ("name",),
    "delete": ("name",),
    "sink": ("name", "count", "limit_s"),
    "raw_burst": ("name", "count", "size"),
    "raw_write": ("name", "octets"),
    "pings": ("name", "count", "period_s"),
    "latencies": ("name", "count", "limit_s"),
    "bare_writer": ("name", "topic"),
    "bare_reader": ("name", "topic"),
    "bare_matched": ("name",),
    "bare_write": ("name", "number", "text"),
    "bare_take": ("name",),
    "many": ("prefix", "type", "count", "side"),
}


@contextmanager
def peer(domain: int, **options: Any) -> Iterator[Peer]:
    """A peer that ends with the block."""
    found = Peer(domain, **options)
    try:
        yield found
    finally:
        found.close()


def config_of(*, listen: str = "", connect: str = "", mode: str = "peer") -> Config:
    """A configuration on loopback without scouting."""
    config = Config()
    config.insert_json5("mode", json.dumps(mode))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("timestamping/enabled", "true")
    config.insert_json5("listen/endpoints", json.dumps([listen] if listen else []))
    if connect:
        config.insert_json5("connect/endpoints", json.dumps([connect]))
    return config


@contextmanager
def session_pair() -> Iterator[tuple[Session, Session]]:
    """Two Elea sessions with a link: the first for a bridge, the second for a user."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with (
        elea.open(config_of(listen=endpoint)) as first,
        elea.open(config_of(connect=endpoint)) as second,
    ):
        until(lambda: first.info.peers_zid() and second.info.peers_zid(), "a link")
        yield first, second


def subscribed(session: Session, key: str) -> None:
    """Wait until a session knows a subscriber of a key: before, what it sends goes nowhere."""
    with session.declare_publisher(key) as publisher:
        until(lambda: publisher.matching_status.matching, f"a subscriber of {key}")


def served(session: Session, key: str) -> None:
    """Wait until a session knows a queryable of a key: before, its queries get no reply."""
    with session.declare_querier(key) as querier:
        until(lambda: querier.matching_status.matching, f"a queryable of {key}")


def put(session: Session, key: str, payload: Any, **options: Any) -> None:
    """Put once a subscriber of the key is known.

    The match in DDS tells nothing of it: the declaration has a way of its own.
    """
    subscribed(session, key)
    session.put(key, payload, **options)


def delete(session: Session, key: str, **options: Any) -> None:
    """Delete once a subscriber of the key is known."""
    subscribed(session, key)
    session.delete(key, **options)


def matched_here(made: Bridge, key: str, count: int) -> None:
    """Wait until the mirrors of a key have matched so many endpoints, in all.

    Each side of a match learns of it by itself. A best-effort sample is lost if the reader does
    not know the writer yet, whatever the writer knows.
    """

    def enough() -> bool:
        found = 0
        for id_, route in list(made.routes.items()):
            if id_.key == key:
                is_writer = id_.direction is Direction.TO_DDS
                for mirror in route.mirrors:
                    found += len(made.dds.unmatched(mirror, is_writer=is_writer).matched)
        return found >= count

    until(enough, f"{count} matches of {key}")


def writes_to(made: Bridge, guid: str) -> None:
    """Wait until a mirror writer knows a reader: what it writes before does not reach it."""

    def known() -> bool:
        reader = made.table.endpoints.get(bytes.fromhex(guid))
        return reader is not None and any(
            reader.handle in route.readers_matched()
            for route in list(made.routes.values())
            if isinstance(route, ToDds)
        )

    until(known, f"a mirror writer that knows the reader {guid}")


def matched_there(other: Peer, name: str, made: Bridge) -> None:
    """Wait until an endpoint of a peer has matched a mirror of this bridge, and nothing else."""
    prefix = made.dds.guid[:12].hex()

    def alone() -> bool:
        found = other.matched_guids(name)
        return bool(found) and all(one.startswith(prefix) for one in found)

    until(alone, f"match of {name} with the bridge alone")


@contextmanager
def bridge(
    session: Session, domain: int, limits: Limits = DEFAULT_LIMITS, **section: Any
) -> Iterator[Bridge]:
    """A bridge of this process."""
    settings = DdsSettings.read({"domain": domain, **section})
    dds = CycloneDomain(settings, marker(str(session.zid()), ros=settings.ros))
    made = Bridge(session, dds, settings, limits)
    made.start()
    try:
        yield made
    finally:
        made.stop()
