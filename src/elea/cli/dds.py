"""`elea dds`: bridge a DDS domain, or look at one."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, open_session, require_neighbour
from elea.cli.log_options import add_log_options, log_settings_of
from elea.cli.output import Json, escape, json_line
from elea.cli.payloads import seconds
from elea.cli.router import run_daemon
from elea.errors import ConfigError, EleaError
from elea.query import QueryTarget

if TYPE_CHECKING:
    from elea.daemon.effective import Options
    from elea.dds.observe import Observer
    from elea.dds.port import Endpoint
    from elea.dds.schema import Schema

NAME: Final = "dds"
SUMMARY: Final = "bridge a DDS domain, or look at one"
_LOOK_S: Final = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.description = (
        "Bridge a DDS domain: topics and keys see each other, without IDL. Without a verb it runs"
        " until SIGTERM, with the options of zenoh-bridge-dds; a verb looks at a domain and bridges"
        " nothing. DDS is used on loopback unless --allow-plain permits more."
    )
    _add_bridge_options(parser)
    verbs = parser.add_subparsers(dest="dds_verb", metavar="VERB")
    listed = _verb(verbs, "ls", "list participants, writers and readers of a domain")
    listed.set_defaults(dds_run=_ls)
    typeof = _verb(verbs, "typeof", "show the layout and the IDL of a topic's type", topic=True)
    typeof.set_defaults(dds_run=_typeof)
    sub = _verb(verbs, "sub", "print the samples of a topic as JSON lines", topic=True)
    sub.add_argument("--count", type=int, metavar="N", help="end after so many samples")
    sub.set_defaults(dds_run=_sub)
    pub = _verb(verbs, "pub", "write one sample to the readers of a topic", topic=True)
    pub.add_argument("value", metavar="JSON", help="the value, as a JSON object")
    pub.set_defaults(dds_run=_pub)
    match = _verb(
        verbs, "match", "tell which endpoints of a topic do not match, and why", topic=True
    )
    match.set_defaults(dds_run=_match)
    schemas = _verb(verbs, "schemas", "show the types of a domain, or write them to a file")
    schemas.add_argument("--output", metavar="FILE", help="write a schemas.toml for the pipeline")
    schemas.set_defaults(dds_run=_schemas)
    routes = verbs.add_parser(
        "routes", help="list the routes of bridges", description="List the routes of bridges."
    )
    add_connection_options(routes)
    routes.add_argument("--timeout", type=seconds, default=_LOOK_S, metavar="SECONDS", help="limit")
    routes.add_argument("--json", action="store_true", help="print one JSON object per line")
    routes.set_defaults(dds_run=_routes)


def _add_bridge_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-c", "--config", metavar="FILE", help="JSON5, YAML or TOML, by its ending")
    add("-m", "--mode", choices=("router", "peer", "client"), help="the role (default: router)")
    add("-l", "--listen", action="append", default=[], metavar="ENDPOINT", help="where to listen")
    add("-e", "--connect", action="append", default=[], metavar="ENDPOINT", help="where to connect")
    add("-i", "--id", help="identity, as hexadecimal (default: a random one)")
    add("--no-multicast-scouting", action="store_true", help="do not be found by multicast")
    add("--rest-http-port", metavar="[IP:]PORT", help="serve REST at this port of loopback")
    add(
        "-d", "--domain", type=_domain, metavar="N", help="DDS domain (default: ROS_DOMAIN_ID or 0)"
    )
    add("--dds-localhost-only", action="store_true", help="use DDS on loopback alone; the default")
    add(
        "--allow-plain",
        action="store_true",
        help="use DDS, and listen without encryption, where other hosts can connect",
    )
    add("-f", "--fwd-discovery", action="store_true", help="mirror endpoints of other bridges")
    add("-s", "--scope", metavar="KEY", help="prefix of all keys")
    add("-a", "--allow", metavar="REGEX", help="bridge the keys that match")
    add("--deny", metavar="REGEX", help="do not bridge the keys that match")
    add(
        "--max-frequency",
        action="append",
        default=[],
        metavar="REGEX=HERTZ",
        help="at most so many samples a second; may be repeated",
    )
    add(
        "--queries-timeout", type=seconds, metavar="SECONDS", help="of history queries (default: 5)"
    )
    add("-w", "--generalise-pub", action="append", default=[], metavar="KEYEXPR", help="aggregate")
    add("-r", "--generalise-sub", action="append", default=[], metavar="KEYEXPR", help="aggregate")
    add("--names", choices=("dds", "ros2"), help="how topics become keys (default: dds)")
    add_log_options(parser, default="info")


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    what: str,
    *,
    topic: bool = False,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    if topic:
        parser.add_argument("topic", metavar="TOPIC", help="the name of the DDS topic")
    parser.add_argument(
        "-d", "--domain", type=_domain, metavar="N", help="DDS domain (default: ROS_DOMAIN_ID or 0)"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=_LOOK_S,
        metavar="SECONDS",
        help=f"how long to look (default: {_LOOK_S:g})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    return parser


def _domain(text: str) -> int:
    from elea.ros.formats.keys import DOMAIN_MAX

    if not text.isdigit() or int(text) > DOMAIN_MAX:
        raise argparse.ArgumentTypeError(f"expected 0 to {DOMAIN_MAX}, got {text!a}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    from elea.daemon.daemon import Daemon
    from elea.daemon.logs import start_logging

    if args.dds_verb is not None:
        status: int = args.dds_run(args)
        return status
    daemon = Daemon(options_of(args))
    start_logging(log_settings_of(args))
    return run_daemon(daemon)


def options_of(args: argparse.Namespace) -> Options:
    """What the options of the bridge were set to."""
    from elea.daemon.effective import Options

    section: dict[str, Json] = {}
    for name, value in (
        ("domain", args.domain),
        ("scope", args.scope),
        ("allow", args.allow),
        ("deny", args.deny),
        ("max_frequencies", args.max_frequency or None),
        ("queries_timeout", args.queries_timeout),
        ("generalise_pubs", args.generalise_pub or None),
        ("generalise_subs", args.generalise_sub or None),
        ("names", args.names),
        ("forward_discovery", args.fwd_discovery or None),
        ("localhost_only", args.dds_localhost_only or None),
        ("__required__", True),
    ):
        if value is not None:
            section[name] = value
    settings = [f"plugins/dds/{name}:{json.dumps(value)}" for name, value in section.items()]
    if args.mode:
        settings.append(f"mode:{json.dumps(args.mode)}")
    return Options(
        config=args.config,
        listen=tuple(args.listen),
        connect=tuple(args.connect),
        id=args.id,
        cfg=tuple(settings),
        rest_http_port=args.rest_http_port,
        no_multicast_scouting=args.no_multicast_scouting,
        allow_plain=args.allow_plain,
    )


def _observer(args: argparse.Namespace) -> Observer:
    from elea.dds.observe import Observer
    from elea.dds.settings import DdsSettings

    section: dict[str, int] = {} if args.domain is None else {"domain": args.domain}
    if os.environ.get("CYCLONEDDS_URI"):
        raise ConfigError("CYCLONEDDS_URI", "is set; `elea dds VERB` looks on loopback alone")
    return Observer(DdsSettings.read({**section}))


def _endpoint_json(one: Endpoint) -> dict[str, Json]:
    from elea.dds.describe import qos_json

    return {
        "kind": "writer" if one.is_writer else "reader",
        "guid": one.guid.hex(),
        "topic": one.topic,
        "type": one.type_name,
        "type_hash": one.type_hash.hex() or None,
        "key": one.has_key,
        "qos": qos_json(one.qos),
    }


def _ls(args: argparse.Namespace) -> int:
    with _observer(args) as observer:
        observer.look(args.timeout)
        participants = sorted(observer.participants.values(), key=lambda one: one.guid)
        endpoints = sorted(observer.endpoints.values(), key=lambda one: (one.topic, one.guid))
    if args.json:
        for participant in participants:
            properties: dict[str, Json] = {**participant.properties}
            print(
                json_line(
                    {
                        "kind": "participant",
                        "guid": participant.guid.hex(),
                        "name": participant.name,
                        "properties": properties,
                    }
                )
            )
        for endpoint in endpoints:
            print(json_line(_endpoint_json(endpoint)))
        return 0
    for participant in participants:
        process = participant.properties.get("__ProcessName", "")
        print(escape(f"participant {participant.guid.hex()} {participant.name} {process}".rstrip()))
    for endpoint in endpoints:
        qos = endpoint.qos
        kind = "writer" if endpoint.is_writer else "reader"
        partitions = f" partitions {','.join(qos.partitions)}" if qos.partitions else ""
        print(
            escape(
                f"{kind} {endpoint.topic} {endpoint.type_name} {qos.reliability.name.lower()}"
                f" {qos.durability.name.lower()}{partitions}"
            )
        )
    if not participants:
        print("no participant was found on loopback", file=sys.stderr)
    return 0


def _schema_json(schema: Schema) -> Json:
    found: Json = json.loads(schema.to_json())
    return found


def _typeof(args: argparse.Namespace) -> int:
    from elea.decode.layout import layout_text

    with _observer(args) as observer:
        observer.look(args.timeout, args.topic)
        schema = observer.schema_of(args.topic)
    if args.json:
        print(json.dumps(_schema_json(schema)))
        return 0
    layout = "none: layouts cannot say this type" if schema.layout is None else None
    print(escape(f"type: {schema.name}"))
    print(
        escape(f"layout: {layout or layout_text(schema.layout)}" if schema.layout else layout or "")
    )
    print(escape(f"keys: {', '.join('.'.join(path) for path in schema.keys) or 'none'}"))
    for line in schema.idl.splitlines():
        print(escape(line))
    return 0


def _plain(value: object) -> object:
    """A decoded value as JSON can write it."""
    from elea.decode.values import Enumerator

    if isinstance(value, Enumerator):
        names = {number: name for name, number in value.members.items()}
        return names.get(value.number, value.number)
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else value


def _sub(args: argparse.Namespace) -> int:
    with _observer(args) as observer:
        observer.look(args.timeout, args.topic)
        samples = observer.samples(args.topic, args.timeout)
        for sample in itertools.islice(samples, args.count):
            print(json.dumps(_plain(sample)), flush=True)
    return 0


def _pub(args: argparse.Namespace) -> int:
    try:
        value: object = json.loads(args.value)
    except ValueError as error:
        raise EleaError(f"invalid JSON: {error}") from None
    with _observer(args) as observer:
        observer.look(args.timeout, args.topic)
        matched = observer.publish(args.topic, value, args.timeout)
    print(json_line({"readers": matched}) if args.json else f"written to {matched} reader(s)")
    return 0


def _match(args: argparse.Namespace) -> int:
    from elea.dds.observe import mismatch

    with _observer(args) as observer:
        observer.look(args.timeout)
        endpoints = observer.of_topic(args.topic)
    writers = [one for one in endpoints if one.is_writer]
    readers = [one for one in endpoints if not one.is_writer]
    for writer in writers:
        for reader in readers:
            policy = mismatch(writer, reader)
            told: dict[str, Json] = {
                "writer": writer.guid.hex(),
                "reader": reader.guid.hex(),
                "matched": policy is None,
                "policy": policy,
            }
            if args.json:
                print(json_line(told))
            else:
                verdict = "matches" if policy is None else f"does not match: {policy}"
                print(f"writer {told['writer']} reader {told['reader']} {verdict}")
    if not writers or not readers:
        missing = "writer" if not writers else "reader"
        print(escape(f"{args.topic}: no {missing} was found"), file=sys.stderr)
    return 0


def _schemas(args: argparse.Namespace) -> int:
    from elea.decode.layout import layout_text

    with _observer(args) as observer:
        observer.look(args.timeout)
        schemas = sorted(observer.schemas(), key=lambda one: (one.name, one.digest))
    if args.output is not None:
        Path(args.output).write_text(schemas_toml(schemas), encoding="utf-8")
        print(escape(f"{args.output}: {len(schemas)} schema(s)"))
        return 0
    for schema in schemas:
        if args.json:
            print(json.dumps(_schema_json(schema)))
        else:
            layout = "no layout" if schema.layout is None else layout_text(schema.layout)
            print(escape(f"{schema.name} {schema.digest} {layout}"))
    return 0


def schemas_toml(schemas: list[Schema]) -> str:
    """Return a `schemas.toml` of the pipeline, one rule per type (D-876)."""
    from elea.decode.layout import layout_text

    text = 'unmatched = "keep"\n'
    for schema in schemas:
        if schema.layout is not None:
            encoding = f"application/cdr;{schema.name}"
            layout = layout_text(schema.layout)
            text += (
                "\n[[schema]]\n"
                f"encoding = {json.dumps(encoding)}\n"
                'decoder = "cdr"\n'
                f"layout = {json.dumps(layout)}\n"
            )
    return text


def _routes(args: argparse.Namespace) -> int:
    with open_session(args) as session:
        require_neighbour(session)
        replies = session.get("@/*/dds/route/**", target=QueryTarget.ALL, timeout=args.timeout)
        found = sorted(
            (str(reply.ok.key_expr), json.loads(reply.ok.payload.to_string()))
            for reply in replies
            if reply.ok is not None
        )
    for key, route in found:
        if args.json:
            print(json.dumps({"key": key, **route}))
        else:
            counts = route["counts"]
            direction, _, name = key.partition("/route/")[2].partition("/")
            print(
                escape(
                    f"{direction} {name} {route['topic_type']} {route['state']}"
                    f" {counts['samples']} samples"
                )
            )
    return 0
