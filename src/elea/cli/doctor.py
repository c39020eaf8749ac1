"""`elea doctor`: why nothing arrives. Each check is one line: what was found, and what to do."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea import version
from elea.cli.connection import add_connection_options, config_of, has_endpoints, listens
from elea.cli.output import Json, Painter, Style, add_output_options, escape, painter
from elea.cli.payloads import seconds
from elea.errors import EleaError
from elea.ids import WhatAmI, ZenohId

if TYPE_CHECKING:
    from elea.config.config import Config
    from elea.link.scouting_socket import ScoutingSockets
    from elea.locator import Endpoint
    from elea.node.ports import Teller
    from elea.sample import Sample
    from elea.session.session import Session

NAME: Final = "doctor"
SUMMARY: Final = "find out why nothing arrives"

_SKEW_NS_MAX: Final = 500_000_000  # a clock further ahead has its timestamps replaced by others
_POLL_S: Final = 0.01
_ANSWERS_S: Final = 0.5  # on one network they come within milliseconds
_DDS_BUFFER_LEN: Final = 4 * 1024 * 1024  # that Cyclone DDS recommends
_EXTRAS: Final = {"compression": "lz4", "yaml": "yaml", "ws": "websockets"}


class Status(Enum):
    """How a check came out."""

    OK = "ok"
    NOTE = "note"  # not as good as it could be, and perhaps meant so
    PROBLEM = "problem"


_STYLES: Final = {
    Status.OK: Style.GREEN,
    Status.NOTE: Style.YELLOW,
    Status.PROBLEM: Style.RED,
}


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what was found, and what to do about it."""

    name: str
    status: Status
    found: str
    advice: str = ""

    def values(self) -> dict[str, Json]:
        """For programs."""
        return {
            "check": self.name,
            "status": self.status.value,
            "found": self.found,
            "advice": self.advice or None,
        }

    def text(self, paint: Painter) -> str:
        """For people."""
        advice = f"; {self.advice}" if self.advice else ""
        status = paint(f"{self.status.value:<7}", _STYLES[self.status])
        return f"{status}  {self.name}: {escape(self.found)}{escape(advice)}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node that scouting found."""

    name: str
    host: str  # that its answer came from
    locators: tuple[str, ...]
    teller: Teller


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = "Exit code 1 if there is a problem."
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=3.0,
        metavar="S",
        help="how long each check waits for others (default: 3)",
    )
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Check; 1 if there is a problem."""
    import logging

    from elea.cli.samples import Printer

    printer, paint = Printer.of(args), painter(args.color, sys.stdout)
    # What is refused or fails is part of a check: no second time on standard error.
    logger, silent = logging.getLogger("elea"), logging.NullHandler()
    logger.addHandler(silent)
    code = 0
    try:
        for check in _checks(args):
            printer.record(check.values(), check.text(paint))
            if check.status is Status.PROBLEM:
                code = 1
    finally:
        logger.removeHandler(silent)
    return code


def _checks(args: argparse.Namespace) -> Iterator[Check]:
    yield _software()
    yield _extras()
    yield _spark()
    yield _dds()
    yield _interfaces()
    try:
        config = config_of(args)
    except EleaError as error:
        yield Check("configuration", Status.PROBLEM, str(error), "correct it")
        return
    yield Check("configuration", Status.OK, f"mode {config.mode}")
    found, nodes = _multicast(config, args.timeout)
    yield found
    reached = [_node(config, node, args.timeout) for node in nodes]
    yield from reached
    for group in config.endpoints("connect"):
        for endpoint in group:
            yield from _endpoint(config, endpoint, args.timeout)
    if listens(config):
        yield _listening(config)
    if reached and not has_endpoints(config) and all(one.status is Status.NOTE for one in reached):
        yield Check(
            "endpoints",
            Status.PROBLEM,
            "none is configured, and no node that was found can be connected to",
            "give --connect ENDPOINT",
        )
    if not has_endpoints(config) and found.status is not Status.OK:
        yield Check(
            "endpoints",
            Status.NOTE,
            "none is configured, and others are not found by multicast",
            "give --connect ENDPOINT on one side and --listen ENDPOINT on the other",
        )


def _software() -> Check:
    import platform

    compiled = "compiled" if version.COMPILED else "interpreted"
    found = (
        f"elea {version.VERSION}, wire version {version.WIRE_VERSION}, {compiled},"
        f" Python {platform.python_version()}"
    )
    if version.COMPILED:
        return Check("software", Status.OK, found)
    return Check("software", Status.NOTE, found, version.why_interpreted())


def _extras() -> Check:
    missing = [extra for extra, module in _EXTRAS.items() if find_spec(module) is None]
    if not missing:
        return Check("extras", Status.OK, f"{', '.join(_EXTRAS)} are installed")
    return Check(
        "extras",
        Status.NOTE,
        f"{', '.join(missing)} not installed",
        f"if you need them: pip install 'elea[{','.join(missing)}]'",
    )


def _spark() -> Check:
    """Which Java would run Spark, and how soon it starts; `elea spark doctor` tells more."""
    if find_spec("pyspark") is None:
        return Check("spark", Status.OK, "not installed, and not needed without tables")
    # Late: other commands do without it.
    from elea.spark.java import find
    from elea.spark.jvm import cache_file

    try:
        java = find()
    except EleaError as error:
        return Check("spark", Status.NOTE, str(error))
    cache = cache_file(java)
    has_cache = cache is not None and cache.exists()
    return Check("spark", Status.OK, f"{java}, start-up cache: {cache if has_cache else 'none'}")


def _dds() -> Check:
    """Whether a DDS domain can be bridged, and how much its sockets may hold."""
    from importlib import metadata

    try:
        version_found = metadata.version("cyclonedds")
    except metadata.PackageNotFoundError:
        return Check("dds", Status.NOTE, "not installed", "pip install 'elea[dds]' to bridge DDS")
    found = f"cyclonedds {version_found}"
    try:
        most = int(Path("/proc/sys/net/core/rmem_max").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Check("dds", Status.OK, found)
    found += f", receive buffers up to {most} bytes"
    if most >= _DDS_BUFFER_LEN:
        return Check("dds", Status.OK, found)
    advice = f"large samples may be lost: sysctl -w net.core.rmem_max={_DDS_BUFFER_LEN}"
    return Check("dds", Status.NOTE, found, advice)


def _interfaces() -> Check:
    from elea.link.interfaces import interface_addresses

    rows = interface_addresses()
    up = [one for one in rows if one.up]
    found = ", ".join(f"{one.name} {one.address}" for one in up) or "none is up"
    if any(not one.address.is_loopback for one in up):
        return Check("interfaces", Status.OK, found)
    if not up:
        advice = "not even this host can be reached; `ip link set lo up` lets programs of it meet"
        return Check("interfaces", Status.PROBLEM, found, advice)
    advice = "only this host can be reached; connect it to a network if that is not meant"
    return Check("interfaces", Status.NOTE, found, advice)


def _multicast(config: Config, timeout_s: float) -> tuple[Check, list[Node]]:
    """Whether what this host sends to the scouting group is heard here, and who else answers."""
    from elea.config_file import NO_SCOUTING_ENV, in_environment
    from elea.link.scouting_socket import ScoutingSockets
    from elea.link.settings import ScoutingSettings

    settings = ScoutingSettings.from_config(in_environment(config))
    address, interface, ttl = settings.address, settings.interface, settings.ttl
    if not settings.enabled:
        advice = f"enable it, or give --connect endpoints; {NO_SCOUTING_ENV}=1 disables it, too"
        return Check("multicast", Status.NOTE, "scouting/multicast is not enabled", advice), []
    try:
        asker = ScoutingSockets(address, interface=interface, ttl=ttl, listen=False)
        try:
            hearer = ScoutingSockets(address, interface=interface, ttl=ttl)
            try:
                return _ask_group(asker, hearer, address, timeout_s)
            finally:
                hearer.close()
        finally:
            asker.close()
    except (EleaError, OSError) as error:
        advice = "give --connect endpoints; they need no multicast"
        return Check("multicast", Status.NOTE, str(error), advice), []


def _ask_group(
    asker: ScoutingSockets, hearer: ScoutingSockets, address: str, timeout_s: float
) -> tuple[Check, list[Node]]:
    from elea.node.ports import Teller
    from elea.transport.scouting import Scouter

    scouter = Scouter(what=0b111, zid=b"\0", now_ns=0)
    question = scouter.handle_timer(0)
    assert question is not None
    taken_count = asker.ask(question)
    heard, nodes = False, dict[bytes, Node]()

    def look() -> bool:
        nonlocal heard
        while (datagram := hearer.receive()) is not None:
            heard = heard or datagram.data == question
        while (datagram := asker.receive()) is not None:
            hello = scouter.receive(datagram.data)
            if hello is not None:
                role, zid = WhatAmI.from_index(hello.whatami), ZenohId.from_bytes(hello.zid)
                teller = Teller.at(datagram.host, own_host=datagram.own_host)
                told = tuple(hello.locators or ())
                nodes[hello.zid] = Node(f"{role} {zid}", datagram.host, told, teller)
        return heard and bool(nodes)

    _eventually(look, min(timeout_s, _ANSWERS_S) if taken_count else 0)
    if not heard:
        found = f"what is sent to {address} on {asker.shown()} does not come back to this host"
        advice = "give --connect endpoints, or allow multicast in the firewall"
        return Check("multicast", Status.NOTE, found, advice), []
    known = sorted(nodes.values(), key=lambda node: node.name)
    answers = ", ".join(f"{node.name} at {node.host}" for node in known)
    found = f"{address} is heard on {asker.shown()}; {answers or 'nobody else answers there'}"
    return Check("multicast", Status.OK, found), known


def _node(config: Config, node: Node, timeout_s: float) -> Check:
    """Whether a node that scouting found can be connected to, where it says that it listens."""
    from elea.link.learned import dialable
    from elea.link.schemes import facts
    from elea.link.settings import LinkSettings
    from elea.locator import Endpoint
    from elea.session.session import open

    name = f"found {node.name}"
    told = ", ".join(node.locators)
    if not told:
        return Check(name, Status.NOTE, "it listens nowhere", "it has to connect to this node")
    allow = LinkSettings.from_config(config).learned_allow
    endpoints = dialable(map(Endpoint.parse, node.locators), node.teller, allow=allow)
    if not endpoints:
        return _not_dialled(name, node)
    problem = "nothing takes connections there"
    for endpoint in endpoints:
        where = str(endpoint.locator())
        over_tcp = facts(endpoint.protocol).is_over_tcp
        if over_tcp and _reach(endpoint, where, timeout_s).status is not Status.OK:
            continue
        try:
            with open(_client_of(config, endpoint, timeout_s)) as session:
                shaken = _who(session, where, timeout_s)
        except EleaError as error:
            problem = str(error)
            continue
        if shaken.status is Status.OK:
            return Check(name, Status.OK, f"{where}: {shaken.found}")
        problem = shaken.found
    advice = "check the firewalls on the way, and its log: it may refuse this node"
    return Check(name, Status.NOTE, f"{told}: {problem}", advice)


def _not_dialled(name: str, node: Node) -> Check:
    """Why no locator of a node that scouting found is tried, and what would help."""
    from elea.daemon.exposure import is_beyond_host
    from elea.locator import Endpoint

    reached = [one for one in node.locators if is_beyond_host(Endpoint.parse(one))]
    if not reached:
        found = f"it listens at {', '.join(node.locators)} alone, which no other host can reach"
        advice = f"start it on {node.host} with --listen at an address of its network"
        return Check(name, Status.NOTE, found, advice)
    found = f"{', '.join(node.locators)} is not dialled: a node of another host told of it"
    return Check(name, Status.NOTE, found, f"give --connect {reached[0]} if it is yours")


def _client_of(config: Config, endpoint: Endpoint, timeout_s: float) -> Config:
    """The configuration of a client that connects to an endpoint and does nothing else."""
    client = config.__copy__()
    for key, value in {
        "mode": "client",
        "connect/endpoints": [str(endpoint)],
        "connect/timeout_ms": 0,
        "listen/endpoints": [],
        "scouting/multicast/enabled": False,
        "transport/unicast/open_timeout": round(timeout_s * 1_000),
    }.items():
        client.insert_json5(key, json.dumps(value))
    return client


def _listening(config: Config) -> Check:
    from elea.session.session import open

    alone = config.__copy__()
    alone.insert_json5("mode", '"peer"')
    alone.insert_json5("connect/endpoints", "[]")
    alone.insert_json5("scouting/multicast/enabled", "false")
    shown = ", ".join(str(one.locator()) for group in config.endpoints("listen") for one in group)
    try:
        open(alone).close()
    except EleaError as error:
        return _refused("listen", error, "correct what it names")
    return Check("listen", Status.OK, f"{shown} can be bound")


def _endpoint(config: Config, endpoint: Endpoint, timeout_s: float) -> Iterator[Check]:
    """Whether an endpoint can be reached, who answers the handshake there, and its clock."""
    from elea.link.schemes import facts
    from elea.session.session import open

    where = str(endpoint.locator())
    if facts(endpoint.protocol).is_over_tcp:
        reached = _reach(endpoint, where, timeout_s)
        yield reached
        if reached.status is Status.PROBLEM:
            return
    client = _client_of(config, endpoint, timeout_s)
    try:
        with open(client) as session, open(client) as second:
            yield _who(session, where, timeout_s)
            yield _clock(session, second, where, timeout_s)
    except EleaError as error:
        yield _refused(f"handshake {where}", error, "the log of the node there tells more")


def _refused(name: str, error: EleaError, advice: str) -> Check:
    """A problem with the advice that its error gives, else with `advice`."""
    found, separator, remedy = str(error).partition("; ")
    return Check(name, Status.PROBLEM, found, remedy if separator else advice)


def _reach(endpoint: Endpoint, where: str, timeout_s: float) -> Check:
    import socket

    name = f"reach {where}"
    start_s = time.perf_counter()
    try:
        socket.create_connection(endpoint.host_port(), timeout=timeout_s).close()
    except (EleaError, OSError) as error:
        advice = "start the other node, check host and port, and the firewalls on the way"
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Check(name, Status.PROBLEM, reason, advice)
    taken_ms = (time.perf_counter() - start_s) * 1_000
    return Check(name, Status.OK, f"connected in {taken_ms:.1f} ms")


def _who(session: Session, where: str, timeout_s: float) -> Check:
    # The version is what both sides agreed on: another one would have ended the handshake.
    for one in session.info.transports():
        found = f"{one.whatami} {one.zid}, wire version {version.WIRE_VERSION}"
        software = _software_of(session, f"@/{one.zid}/{one.whatami}", timeout_s)
        return Check(f"handshake {where}", Status.OK, found + software)
    return Check(f"handshake {where}", Status.PROBLEM, "the link was closed", "its log tells why")


def _software_of(session: Session, key: str, timeout_s: float) -> str:
    """What the admin space of a node says of its version, if it has one."""
    for reply in session.get(key, timeout=min(timeout_s, 1.0)):
        if reply.ok is None:
            continue
        try:
            told = json.loads(reply.ok.payload.to_string())
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict) and isinstance(told.get("version"), str):
            return f", software {told['version'].partition(' ')[0][:80]}"
    return ""


def _clock(session: Session, second: Session, where: str, timeout_s: float) -> Check:
    """Compare clocks: a message that passes the node, from one session of ours to another."""
    from elea.provenance import InterceptionPoint, TimestampInstrumentation

    name = f"clock {where}"
    points = InterceptionPoint.SEND | InterceptionPoint.ROUTE | InterceptionPoint.RECEIVE
    key = f"elea/doctor/{session.zid()}"
    with second.declare_subscriber(key) as subscriber, session.declare_publisher(key) as publisher:
        if not _eventually(lambda: publisher.matching_status.matching, timeout_s):
            refusals = (*session.info.refusals(), *second.info.refusals())
            refused = {one.action for one in refusals if one.key_expr == key}
            if refused:
                found = f"its access rules refuse {' and '.join(sorted(refused))} on {key}"
                return Check(name, Status.NOTE, f"not measured: {found}")
            return Check(name, Status.NOTE, "not measured: the node passes nothing on")
        sent_ns = time.time_ns()
        publisher.put(b"", timestamp_instrumentation=TimestampInstrumentation(points))
        try:
            sample = subscriber.recv(timeout=timeout_s)
        except TimeoutError:
            return Check(name, Status.NOTE, "not measured: the message did not come through")
        received_ns = time.time_ns()
    there_ns = _stamped_ns(sample)
    if there_ns is None:
        return Check(name, Status.NOTE, "not measured: the node does not stamp what passes")
    skew_ns = there_ns - (sent_ns + received_ns) // 2
    error_ns = (received_ns - sent_ns) // 2
    found = f"{skew_ns / 1e6:+.1f} ms from here, +/- {error_ns / 1e6:.1f} ms"
    if abs(skew_ns) - error_ns <= _SKEW_NS_MAX:
        return Check(name, Status.OK, found)
    advice = "set both clocks by NTP: newer values may lose against older ones"
    return Check(name, Status.PROBLEM, found, advice)


def _stamped_ns(sample: Sample) -> int | None:
    """When the node in the middle had a message, by its clock."""
    from elea.provenance import InterceptionPoint

    if sample.timestamp_stack is not None:
        for record in sample.timestamp_stack.records:
            if record.point is InterceptionPoint.ROUTE and not isinstance(record.value, bytes):
                return record.value.time.as_nanos()
    return None if sample.timestamp is None else sample.timestamp.time.as_nanos()


def _eventually(condition: Callable[[], bool], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= end_s:
            return False
        threading.Event().wait(_POLL_S)
    return True
