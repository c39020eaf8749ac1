"""`elea ros2 topic`: list, info, echo, hz, pub."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from elea.cli.exit_codes import UsageError, reading_arguments
from elea.cli.output import Json, escape, json_line, octets_json
from elea.cli.payloads import count, seconds
from elea.cli.progress import Span
from elea.cli.ros2_connection import (
    add_fleet_options,
    add_via_option,
    fleet_graph,
    fleet_node,
    named,
    tell,
    topic_name,
    type_name,
    types_of,
)
from elea.cli.ros2_text import (
    as_csv,
    as_yaml,
    check_path,
    field_of,
    filled,
    read_yaml,
    reduced,
)
from elea.errors import UnknownTypeError

if TYPE_CHECKING:
    from elea.ros.endpoints import RawMessage, Subscription
    from elea.ros.formats.messages import MessageInfo
    from elea.ros.formats.tokens import AnyToken
    from elea.ros.graph import NameEntry
    from elea.ros.node import Node

_WINDOW_COUNT: Final = 10_000
_TURN_S: Final = 1.0
_NS: Final = 1_000_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = parser.add_subparsers(dest="topic_verb", metavar="VERB", required=True)
    listed = _verb(verbs, "list", "print the topics", run_list)
    listed.add_argument("-t", "--show-types", action="store_true", help="with their types")
    listed.add_argument("-a", "--all", action="store_true", help="those of actions too")
    add_via_option(listed)
    listed.add_argument("--json", action="store_true", help="print one JSON object per line")
    info = _verb(verbs, "info", "print who publishes and subscribes", run_info)
    info.add_argument("topic", metavar="TOPIC")
    info.add_argument("-v", "--verbose", action="store_true", help="every endpoint, with its QoS")
    info.add_argument("--json", action="store_true", help="print one JSON object per line")
    _configure_echo(_verb(verbs, "echo", "print messages as YAML", run_echo))
    hz = _verb(verbs, "hz", "print rate, losses, delay and bandwidth", run_hz)
    hz.add_argument("topic", metavar="TOPIC")
    hz.add_argument("--window", type=count, default=_WINDOW_COUNT, help="messages looked at")
    hz.add_argument("-n", "--count", type=count, metavar="N", help="end after N messages")
    hz.add_argument("--timeout", type=seconds, metavar="S", help="end after S seconds")
    hz.add_argument("--json", action="store_true", help="print one JSON object per line")
    _add_listening_options(hz)
    _configure_pub(_verb(verbs, "pub", "publish messages written as YAML", run_pub))


def _verb(verbs: Any, name: str, summary: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=summary, description=summary, allow_abbrev=False
    )
    parser.set_defaults(noun_run=run)
    add_fleet_options(parser)
    return parser


def _add_listening_options(parser: argparse.ArgumentParser) -> None:
    add_via_option(parser)
    parser.add_argument(
        "--hidden", action="store_true", help="be no node that others see; may miss images"
    )
    parser.add_argument("--type", metavar="TYPE", help="of the topic, if nobody has it yet")
    parser.add_argument(
        "--wait", type=seconds, default=3.0, metavar="S", help="for the topic (default: 3)"
    )


def _configure_echo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--once", action="store_true", help="end after one message")
    parser.add_argument("-n", "--count", type=count, metavar="N", help="end after N messages")
    parser.add_argument("--timeout", type=seconds, metavar="S", help="end after S seconds")
    parser.add_argument("--field", metavar="PATH", help="print one member, as a.b[0]")
    parser.add_argument("--csv", action="store_true", help="print scalars, separated by commas")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--raw", action="store_true", help="print bytes in hex")
    parser.add_argument("--no-arr", action="store_true", help="do not print arrays")
    parser.add_argument("--no-str", action="store_true", help="do not print texts")
    parser.add_argument("-f", "--full-length", action="store_true", help="do not cut long lists")
    parser.add_argument(
        "--filter", metavar="PREDICATE", help="only messages of which it holds, as 'header.x > 3'"
    )
    parser.add_argument(
        "--since", metavar="TIME", help="first what a historian has since then: 10m (ago)"
    )
    _add_listening_options(parser)


def _configure_pub(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("type", metavar="TYPE", help="as std_msgs/msg/String")
    parser.add_argument("value", metavar="YAML", nargs="?", default="{}", help="the message")
    parser.add_argument("-r", "--rate", type=float, default=1.0, metavar="HZ", help="(default: 1)")
    parser.add_argument("-1", "--once", action="store_true", help="one message")
    parser.add_argument("-n", "--count", type=count, metavar="N", help="N messages")
    parser.add_argument(
        "-w",
        "--wait-subscriptions",
        type=int,
        default=None,
        metavar="N",
        help="wait for N subscriptions (default: 1 with --once, else 0)",
    )
    parser.add_argument(
        "--wait", type=seconds, default=3.0, metavar="S", help="for these (default: 3)"
    )
    parser.add_argument(
        "--qos-reliability", choices=["reliable", "best_effort"], default="reliable"
    )
    parser.add_argument(
        "--qos-durability", choices=["volatile", "transient_local"], default="volatile"
    )
    parser.add_argument("--qos-history", choices=["keep_last", "keep_all"], default="keep_last")
    parser.add_argument("--qos-depth", type=count, default=10, metavar="N")
    parser.add_argument(
        "--via", choices=["rmw", "bridge"], default="rmw", help="whom to reach (default: rmw)"
    )


def run_list(args: argparse.Namespace) -> int:
    """The topics there are."""
    with fleet_graph(args) as graph:
        for topic in graph.topics(hidden=args.all):
            if not _is_via(topic.endpoints[0], args.via):
                continue
            if args.json:
                print(json_line(_named_json(topic)))
                continue
            shown = f" [{', '.join(topic.types)}]" if args.show_types else ""
            conflict = "  (several types or hashes)" if topic.has_conflict else ""
            via = "" if topic.via == "rmw_zenoh" else f"  via {topic.via}"
            print(escape(f"{topic.name}{shown}{via}{conflict}"))
    return 0


def _named_json(entry: NameEntry) -> dict[str, Json]:
    from elea.ros.formats.tokens import Kind

    return {
        "name": entry.name,
        "types": entry.types,
        "hashes": entry.hashes,
        "via": entry.via,
        "publishers": len(entry.of(Kind.PUBLISHER)),
        "subscriptions": len(entry.of(Kind.SUBSCRIPTION)),
    }


def run_info(args: argparse.Namespace) -> int:
    """Who has a topic."""
    name = named(args.topic)
    with fleet_graph(args) as graph:
        tokens = graph.topic(name)
        if not tokens:
            tell(f"no topic {name}{_elsewhere(args)}")
            return 1
        if args.json:
            for token in tokens:
                print(json_line(token_json(token)))
            return 0
        types = types_of(args)
        for type, hash in sorted({(one.type, one.hash) for one in tokens}):
            try:
                defined = types.message(type, hash).source
            except UnknownTypeError as error:
                defined = f"not known ({error.reason})"
            print(escape(f"Type: {type}   {short_hash(hash)}   defined: {defined}"))
        publishers, subscriptions = graph.publishers(name), graph.subscriptions(name)
        print(f"Publishers: {len(publishers)}   Subscriptions: {len(subscriptions)}")
        if args.verbose:
            for token in (*publishers, *subscriptions):
                print(escape(endpoint_line(token)))
            for warning in _warnings(publishers, subscriptions):
                print(escape(f"  warning: {warning}"))
    return 0


def endpoint_line(token: AnyToken) -> str:
    """One endpoint for people."""
    gid = f"  gid {token.gid.hex()[:4]}…{token.gid.hex()[-4:]}" if token.gid else ""
    return (
        f"  {token.node_name}  {token.kind.value}  zid {token.zid[:8]}{gid}"
        f"  {token.qos.words()}  via {token.via}"
    )


def token_json(token: AnyToken) -> dict[str, Json]:
    """One endpoint for programs."""
    return {
        "node": token.node_name,
        "kind": token.kind.value,
        "name": token.name,
        "type": token.type,
        "hash": token.hash,
        "zid": token.zid,
        "gid": token.gid.hex(),
        "qos": token.qos.words(),
        "via": token.via,
    }


def short_hash(hash: str) -> str:
    """A hash for people."""
    return f"{hash[:11]}…{hash[-4:]}" if hash.startswith("RIHS01_") else hash


def _warnings(publishers: list[AnyToken], subscriptions: list[AnyToken]) -> Iterator[str]:
    from elea.ros.formats.qos import mismatches

    for publisher in publishers:
        for subscription in subscriptions:
            for reason in mismatches(publisher.qos, subscription.qos):
                pair = f"{publisher.node_name} to {subscription.node_name}"
                yield f"{pair}: {reason}; DDS would refuse"


def _elsewhere(args: argparse.Namespace) -> str:
    with fleet_graph(args, all_domains=True) as graph:
        domains = graph.domains()
    return f" here; there are nodes in the domains {domains}" if domains else ""


def _is_via(token: AnyToken, via: str) -> bool:
    from elea.ros.formats.tokens import Token

    return via == "any" or isinstance(token, Token) == (via == "rmw")


def run_echo(args: argparse.Namespace) -> int:
    """Messages, until it is enough; 1 if the time was over before."""
    from elea.predicate import compile_predicate, parse

    args.topic = topic_name(args.topic)
    with reading_arguments():
        predicate = None if args.filter is None else compile_predicate(parse(args.filter))
    if args.field:
        check_path(args.field)
    span = Span(1 if args.once else args.count, args.timeout)
    with fleet_node(args) as node:
        subscription = listening(node, args, raw=args.raw)
        if args.since is not None:
            for message in _history(node, subscription, args.since):
                if _shown(message, args, predicate):
                    span.count += 1
        while not span.is_over:
            try:
                message = subscription.take(_patience(span))
            except TimeoutError:
                continue
            if _shown(message, args, predicate):
                span.count += 1
                sys.stdout.flush()
    return span.code


def _patience(span: Span) -> float:
    return _TURN_S if span.left_s is None else min(_TURN_S, span.left_s)


def listening(node: Node, args: argparse.Namespace, *, raw: bool) -> Subscription:
    """A subscription as the options say.

    Raises:
        InvalidValueError: nobody has the topic, and its type is not given.
    """
    from elea.ros.formats.qos import QoS
    from elea.ros.formats.tokens import Token

    name = named(args.topic)
    options: dict[str, Any] = {"raw": raw, "hidden": args.hidden}
    if args.type is None:
        node.graph.wait_until(lambda: node.graph.topic(name), args.wait)
    if args.via != "any":
        options["via"] = args.via
    depth = max((one.qos.depth for one in node.graph.publishers(name)), default=10)
    options["qos"] = QoS(depth=max(depth, 1_000))
    has_buffers = any(
        isinstance(one, Token) and one.backends is not None for one in node.graph.publishers(name)
    )
    if args.hidden and has_buffers:
        tell(f"{name}: its publisher sends to subscriptions that it sees; leave --hidden out")
    return node.subscribe(name, args.type, timeout=0, **options)


def _history(node: Node, subscription: Subscription, since: str) -> Iterator[Any]:
    key = node.context.key(subscription.topic_name, subscription.token.type, "*")
    start = since.removeprefix("-")
    selector = f"{key}?_time=[now(-{start})..]"
    for reply in node.context.session.get(selector):
        if reply.ok is not None:
            subscription.heard(reply.ok)
    while True:
        try:
            yield subscription.take(0)
        except TimeoutError:
            return


def _shown(message: Any, args: argparse.Namespace, predicate: Any) -> bool:
    """Print a message, if the predicate holds; whether it was printed."""
    from elea.predicate.evaluate import MappingFields
    from elea.ros.endpoints import RawMessage
    from elea.ros.formats.messages import info_of, plain

    if isinstance(message, RawMessage):
        if message.reason and not args.raw:
            length = len(message.payload)
            tell(f"warning: {message.reason} ({length} bytes follow in hex)")
        if args.json:
            told = _info_json(message.info)
            print(json_line({**told, **octets_json("payload", message.payload)}))
        else:
            print(message.payload.hex(" "))
        return True
    value = plain(message)
    if predicate is not None and predicate(MappingFields(value)) is not True:
        return False
    value = reduced(value, no_arrays=args.no_arr, no_texts=args.no_str)
    if args.field:
        value = field_of(value, args.field)
    if args.json:
        info = info_of(message)
        assert info is not None
        print(json_line({**_info_json(info), "message": _finite(value)}))
    elif args.csv:
        print(as_csv(value))
    else:
        print(as_yaml(value, full=args.full_length))
        print("---")
    return True


def _info_json(info: MessageInfo) -> dict[str, Json]:
    return {
        "topic": info.topic,
        "type": info.type,
        "node": info.node,
        "source_time": info.source_time,
        "sequence_number": info.sequence_number,
        "gid": None if info.gid is None else info.gid.hex(),
        "lost": info.lost,
    }


def _finite(value: Any) -> Any:
    """JSON has no numbers for what is not finite."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def run_hz(args: argparse.Namespace) -> int:
    """A line each second."""
    args.topic = topic_name(args.topic)
    span = Span(args.count, args.timeout)
    with fleet_node(args) as node:
        subscription = listening(node, args, raw=True)
        window = _Window(args.window)
        told_s = time.monotonic()
        while not span.is_over:
            try:
                window.add(subscription.take(min(_TURN_S, _patience(span))))
                span.count += 1
            except TimeoutError:
                pass
            if time.monotonic() - told_s >= _TURN_S or span.is_over:
                told_s = time.monotonic()
                told = window.told(subscription.lost)
                print(json_line(told) if args.json else _hz_line(told), flush=True)
    return span.code


class _Window:
    """The last messages: when each came, how long it was under way, how long it is."""

    def __init__(self, most: int) -> None:
        self._came: deque[tuple[float, float | None, int]] = deque(maxlen=most)

    def add(self, message: RawMessage) -> None:
        source = message.info.source_time
        delay = None if source is None else (time.time_ns() - source) / _NS
        self._came.append((time.monotonic(), delay, len(message.payload)))

    def told(self, lost: int) -> dict[str, Json]:
        import statistics  # late: it brings fractions and decimals

        times = [one[0] for one in self._came]
        gaps = [b - a for a, b in itertools.pairwise(times)]
        whole = times[-1] - times[0] if len(times) > 1 else 0.0
        delays = [one[1] for one in self._came if one[1] is not None]
        size = sum(one[2] for one in self._came)
        return {
            "rate_hz": len(gaps) / whole if whole else None,
            "min_ms": min(gaps) * 1e3 if gaps else None,
            "max_ms": max(gaps) * 1e3 if gaps else None,
            "sd_ms": statistics.pstdev(gaps) * 1e3 if gaps else None,
            "window": len(times),
            "lost": lost,
            "delay_ms": statistics.fmean(delays) * 1e3 if delays else None,
            "bytes_per_s": size / whole if whole else None,
        }


def _hz_line(told: dict[str, Json]) -> str:
    if told["rate_hz"] is None:
        return f"no rate yet  window {told['window']}"
    delay = "" if told["delay_ms"] is None else f"  delay {told['delay_ms']:.1f} ms"
    return (
        f"{told['rate_hz']:.1f} Hz  min {told['min_ms']:.1f} ms  max {told['max_ms']:.1f} ms"
        f"  sd {told['sd_ms']:.1f} ms  window {told['window']}  lost {told['lost']}{delay}"
        f"  {float(str(told['bytes_per_s'])) / 1e3:.1f} kB/s"
    )


def run_pub(args: argparse.Namespace) -> int:
    """Publish; 1 if the subscriptions did not come."""
    from elea.ros.formats.qos import Durability, History, QoS, Reliability

    if not 0 < args.rate < math.inf:
        raise UsageError(f"no rate: expected more than 0 Hz, got {args.rate:g}")
    topic, type_, given = topic_name(args.topic), type_name(args.type), read_yaml(args.value)
    qos = QoS(
        Reliability(args.qos_reliability),
        Durability(args.qos_durability),
        History(args.qos_history),
        args.qos_depth,
    )
    with fleet_node(args) as node:
        publisher = node.create_publisher(type_, topic, qos, via=args.via)
        kind = publisher.kind
        assert kind is not None
        kind.encode(filled(given, kind))  # raises before anybody waits
        wanted = int(args.once) if args.wait_subscriptions is None else args.wait_subscriptions
        if wanted and not publisher.wait_for_subscriptions(wanted, args.wait):
            found = publisher.get_subscription_count()
            tell(f"{publisher.topic_name}: expected {wanted} subscriptions, got {found}")
            return 1
        for number in Span(1 if args.once else args.count, None).paced(1 / args.rate):
            value = filled(given, kind)
            publisher.publish(value)
            print(escape(f"published #{number + 1}: {json_line(_finite(value))}"), flush=True)
    return 0
