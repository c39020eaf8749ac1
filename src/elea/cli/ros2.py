"""`elea ros2`: fleets of ROS 2 on Zenoh, without ROS."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elea.cli import ros2_calls, ros2_logs, ros2_topics
from elea.cli.output import escape, json_line
from elea.cli.ros2_connection import (
    add_fleet_options,
    fleet_graph,
    named,
    settle,
    tell,
    type_name,
    types_of,
)
from elea.cli.ros2_topics import short_hash, token_json
from elea.errors import UnknownTypeError

if TYPE_CHECKING:
    from elea.ros.formats.tokens import Token
    from elea.ros.graph import Graph, NodeEntry

NAME: Final = "ros2"
SUMMARY: Final = "fleets of ROS 2 on Zenoh: topics, nodes, services, without ROS"

_EPILOG: Final = """\
Nodes use rmw_zenoh, or are behind zenoh-bridge-ros2dds. Without options the variables
ROS_DOMAIN_ID, ZENOH_SESSION_CONFIG_URI and ZENOH_CONFIG_OVERRIDE are read, and the router is at
tcp/localhost:7447.

examples:
  elea ros2 topic list -t --connect tcp/10.0.0.7:7447
  elea ros2 topic echo /robot1/chatter --once
  elea ros2 topic pub -1 /robot1/cmd_vel geometry_msgs/msg/Twist '{linear: {x: 0.5}}'
  elea ros2 service call /add_two_ints '{a: 40, b: 2}'
  elea ros2 record -a --to drive.mcap --duration 60
"""
_NODE_PARTS: Final = (  # with the name of a kind of token
    ("Publishers", "PUBLISHER"),
    ("Subscriptions", "SUBSCRIPTION"),
    ("Service servers", "SERVER"),
    ("Service clients", "CLIENT"),
    ("Action servers", "ACTION_SERVER"),
    ("Action clients", "ACTION_CLIENT"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    nouns = parser.add_subparsers(dest="ros2_noun", metavar="NOUN", required=True)
    for name, summary, configure_noun in (
        ("topic", "topics: list, info, echo, hz, pub", ros2_topics.configure),
        ("node", "nodes: list, info", _configure_node),
        ("service", "services: list, call", ros2_calls.configure_service),
        ("param", "parameters of nodes: list, get, set", ros2_calls.configure_param),
        ("action", "actions: list, info, send_goal", ros2_calls.configure_action),
        ("interface", "types: show, hash", _configure_interface),
        ("type", "definitions against the fleet: check", _configure_type),
    ):
        configure_noun(nouns.add_parser(name, help=summary, description=summary))
    for name, summary, configure_verb in (
        ("record", "record topics into a log or an MCAP file", ros2_logs.configure_record),
        ("replay", "publish the messages of a log again", ros2_logs.configure_replay),
    ):
        configure_verb(nouns.add_parser(name, help=summary, description=summary))
    doctor = nouns.add_parser(
        "doctor", help="what is odd in a fleet", description="What is odd in a fleet, with advice."
    )
    doctor.set_defaults(noun_run=run_doctor)
    doctor.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_fleet_options(doctor)


def run(args: argparse.Namespace) -> int:
    """Run the verb of the noun."""
    code: int = args.noun_run(args)
    return code


def _configure_node(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="node_verb", metavar="VERB", required=True)
    listed = _verb(verbs, "list", "print the nodes", run_node_list)
    listed.add_argument("--json", action="store_true", help="print one JSON object per line")
    info = _verb(verbs, "info", "print the endpoints of a node", run_node_info)
    info.add_argument("node", metavar="NODE")
    info.add_argument("--json", action="store_true", help="print one JSON object per line")


def _configure_interface(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="interface_verb", metavar="VERB", required=True)
    show = _verb(verbs, "show", "print a definition", run_show)
    show.add_argument("type", metavar="TYPE")
    hashed = _verb(verbs, "hash", "print the hash of each type of files", run_hash)
    hashed.add_argument("path", metavar="PATH", nargs="+", type=Path)


def _configure_type(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="type_verb", metavar="VERB", required=True)
    _verb(verbs, "check", "compare the hashes of --types with those in the fleet", run_check)


def _verb(verbs: Any, name: str, summary: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=summary, description=summary, allow_abbrev=False
    )
    parser.set_defaults(noun_run=run)
    add_fleet_options(parser)
    return parser


def run_node_list(args: argparse.Namespace) -> int:
    """The nodes there are; those of one name are told."""
    with fleet_graph(args) as graph:
        nodes = graph.nodes()
        for node in nodes:
            if args.json:
                print(json_line(_node_json(node)))
            else:
                print(escape(node.name))
        names = [node.name for node in nodes if node.nid >= 0]
        for name in sorted({one for one in names if names.count(one) > 1}):
            tell(f"{names.count(name)} nodes have the name {name}")
        if any(node.nid < 0 for node in nodes):
            tell("nodes behind a bridge are not named by it; `node info` shows its interfaces")
    return 0


def _node_json(node: NodeEntry) -> dict[str, Any]:
    return {
        "name": node.name,
        "zid": node.zid,
        "domain": node.domain,
        "via": node.via,
        "endpoints": len(node.endpoints),
    }


def run_node_info(args: argparse.Namespace) -> int:
    """The endpoints of nodes of a name; 1 if there is none."""
    from elea.ros.formats.tokens import Kind

    name = args.node if args.node.startswith("bridge ") else named(args.node)
    with fleet_graph(args) as graph:
        found = [node for node in graph.nodes() if node.name == name]
        if not found:
            tell(f"no node {name}")
            return 1
        for node in found:
            if args.json:
                for token in node.endpoints:
                    print(json_line(token_json(token)))
                continue
            print(escape(f"{node.name}  zid {node.zid}  domain {node.domain}  via {node.via}"))
            for title, kind in _NODE_PARTS:
                endpoints = [one for one in node.endpoints if one.kind is Kind[kind]]
                if endpoints:
                    print(f"  {title}:")
                for one in sorted(endpoints, key=lambda token: token.name):
                    print(escape(f"    {one.name}: {one.type}"))
    return 0


def run_show(args: argparse.Namespace) -> int:
    """A definition with all it uses."""
    type_name(args.type)
    types = types_of(args)
    if "/srv/" in args.type:
        service = types.service(args.type)
        print(escape_lines(service.request.definition.text()))
        print("---")
        print(escape_lines(service.response.definition.text()))
        print(f"# {service.hash}")
        return 0
    kind = types.message(args.type)
    print(escape_lines(kind.text))
    print(escape(f"# {kind.hash}, {kind.source}"))
    return 0


def escape_lines(text: str) -> str:
    """Several lines, each escaped."""
    return "\n".join(escape(line) for line in text.splitlines())


def run_hash(args: argparse.Namespace) -> int:
    """The hashes of what files define."""
    from elea.ros.catalog import Types

    types = Types(args.path, release=args.distro)
    for name, library in types.given():
        print(escape(f"{library.hash(name)}  {name}"))
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Own definitions against those in the graph; 1 if one differs."""
    from elea.ros.formats.keys import NO_HASH

    types = types_of(args)
    differ = 0
    own = {name: library.hash(name) for name, library in types.given()}
    with fleet_graph(args) as graph:
        seen = {(one.type, one.hash) for one in graph.tokens() if one.type}
    for type, hash in sorted(seen):
        if type not in own or hash == NO_HASH:
            continue
        is_same = own[type] == hash
        differ += not is_same
        verdict = "same" if is_same else f"differs: fleet {short_hash(hash)}"
        print(escape(f"{type}  {short_hash(own[type])}  {verdict}"))
    return 1 if differ else 0


def run_doctor(args: argparse.Namespace) -> int:
    """What is odd; 1 if something is."""
    with fleet_graph(args, all_domains=True) as graph:
        problems = list(_problems(graph, args))
        counted = len(graph.nodes())
    for place, reason in problems:
        line = json_line({"place": place, "reason": reason})
        print(line if args.json else escape(f"{place}: {reason}"))
    if not problems and not args.json:
        print(f"{counted} nodes, nothing is odd")
    return 1 if problems else 0


def _problems(graph: Graph, args: argparse.Namespace) -> Any:
    from elea.ros.context import domain_of
    from elea.ros.formats.keys import NO_HASH
    from elea.ros.formats.tokens import Kind, Token

    domain, domains = domain_of(args.domain), graph.domains()
    if settle(args).read_only:
        yield "plugins/ros2/read_only", "is true: publishing, calls and replays are refused"
    if not graph.tokens():
        yield "fleet", "no node is seen; is this the fleet's router, and is the prefix right?"
    elif domain not in domains and domains:
        yield f"domain {domain}", f"no node; there are some in {domains}, see --domain"
    if graph.bad_count:
        yield "tokens", f"{graph.bad_count} could not be read: nodes of an older rmw_zenoh?"
    tokens = [one for one in graph.tokens() if isinstance(one, Token)]
    for one in domains:
        hashes = {token.hash == NO_HASH for token in tokens if token.domain == one and token.type}
        if len(hashes) > 1:
            yield f"domain {one}", "Humble and later releases: they exchange no data"
    for entry in (*graph.topics(hidden=True), *graph.services(hidden=True)):
        if len(entry.types) > 1:
            yield entry.name, f"several types: {', '.join(entry.types)}"
        elif len({token.hash for token in entry.endpoints if token.hash != NO_HASH}) > 1:
            yield entry.name, f"several hashes of {entry.types[0]}: endpoints do not meet"
    for token in tokens:
        if token.kind is Kind.PUBLISHER and token.backends is not None:
            yield token.name, "buffers of Lyrical: passive subscribers (`elea sub`) may get nothing"
    yield from _unknown_types(tokens, args)


def _unknown_types(tokens: list[Token], args: argparse.Namespace) -> Any:

    types = types_of(args)
    for type, hash in sorted({(one.type, one.hash) for one in tokens if "/msg/" in one.type}):
        try:
            types.message(type, hash)
        except UnknownTypeError as error:
            yield type, error.reason
