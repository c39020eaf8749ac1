"""`elea ros2 service`, `param` and `action`: what nodes answer."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from elea.choices import ROS_CALL_S, ROS_SERVER_WAIT_S
from elea.cli.exit_codes import reading_arguments
from elea.cli.output import Json, escape, json_line
from elea.cli.payloads import seconds
from elea.cli.ros2_connection import (
    add_fleet_options,
    fleet_graph,
    fleet_node,
    named,
    tell,
    topic_name,
    type_name,
)
from elea.cli.ros2_text import as_yaml, filled, read_yaml
from elea.cli.ros2_topics import endpoint_line, token_json
from elea.errors import InvalidValueError

if TYPE_CHECKING:
    from elea.ros.node import Node


def _verb(verbs: Any, name: str, summary: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=summary, description=summary, allow_abbrev=False
    )
    parser.set_defaults(noun_run=run)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_fleet_options(parser)
    return parser


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=ROS_CALL_S,
        metavar="S",
        help="for the reply (default: 10)",
    )
    parser.add_argument(
        "--wait",
        type=seconds,
        default=ROS_SERVER_WAIT_S,
        metavar="S",
        help="for a server (default: 3)",
    )


def configure_service(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of services."""
    verbs = parser.add_subparsers(dest="service_verb", metavar="VERB", required=True)
    listed = _verb(verbs, "list", "print the services", run_list)
    listed.add_argument("-t", "--show-types", action="store_true", help="with their types")
    listed.add_argument("-a", "--all", action="store_true", help="those of actions too")
    call = _verb(verbs, "call", "call a service", run_call)
    call.add_argument("service", metavar="SERVICE")
    call.add_argument("value", metavar="YAML", nargs="?", default="{}", help="the request")
    call.add_argument("--type", metavar="TYPE", help="(default: that of the server)")
    _add_times(call)


def configure_param(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of parameters."""
    verbs = parser.add_subparsers(dest="param_verb", metavar="VERB", required=True)
    for name, summary, run in (
        ("list", "print the parameters of a node", run_param_list),
        ("get", "print the value of a parameter", run_param_get),
        ("set", "set a parameter", run_param_set),
    ):
        verb = _verb(verbs, name, summary, run)
        verb.add_argument("node", metavar="NODE")
        if name != "list":
            verb.add_argument("name", metavar="NAME")
        if name == "set":
            verb.add_argument("value", metavar="YAML")
        _add_times(verb)


def configure_action(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of actions."""
    verbs = parser.add_subparsers(dest="action_verb", metavar="VERB", required=True)
    listed = _verb(verbs, "list", "print the actions", run_action_list)
    listed.add_argument("-t", "--show-types", action="store_true", help="with their types")
    info = _verb(verbs, "info", "print who serves and calls an action", run_action_info)
    info.add_argument("action", metavar="ACTION")
    goal = _verb(verbs, "send_goal", "send a goal and wait for its result", run_send_goal)
    goal.add_argument("action", metavar="ACTION")
    goal.add_argument("type", metavar="TYPE")
    goal.add_argument("value", metavar="YAML", nargs="?", default="{}", help="the goal")
    goal.add_argument("--feedback", action="store_true", help="print what is told meanwhile")
    _add_times(goal)


def run_list(args: argparse.Namespace) -> int:
    """The services there are."""
    with fleet_graph(args) as graph:
        for service in graph.services(hidden=args.all):
            if args.json:
                told: dict[str, Json] = {"name": service.name, "types": service.types}
                told["servers"] = len(graph.servers(service.name))
                print(json_line({**told, "via": service.via}))
            else:
                shown = f" [{', '.join(service.types)}]" if args.show_types else ""
                print(escape(service.name + shown))
    return 0


def run_call(args: argparse.Namespace) -> int:
    """Call a service, and print the response."""
    from elea.ros.formats.messages import plain

    name, given = topic_name(args.service), read_yaml(args.value)
    if args.type is not None:
        type_name(args.type)
    with fleet_node(args) as node:
        type = args.type or _type_of(node, name, args.wait)
        if type is None:
            clients = len(node.graph.clients(name))
            others = f" ({clients} clients wait too)" if clients else ""
            tell(f"no server for {name}{others}")
            return 1
        via = "bridge" if node.graph.servers(name)[0:1] and _is_bridged(node, name) else "rmw"
        client = node.create_client(type, name, via=via)
        request = filled(given, client.kind.request)
        answer = client.call(request, args.timeout, wait=args.wait)
        _print(args, plain(answer))
    return 0


def _is_bridged(node: Node, name: str) -> bool:
    return all(one.via != "rmw_zenoh" for one in node.graph.servers(name))


def _type_of(node: Node, name: str, wait: float) -> str | None:
    node.graph.wait_until(lambda: node.graph.servers(name), wait)
    types = {one.type for one in node.graph.servers(name)}
    if len(types) > 1:
        raise InvalidValueError("service", f"{name} has several types; give --type")
    return types.pop() if types else None


def _print(args: argparse.Namespace, value: Any) -> None:
    print(json_line(value) if args.json else as_yaml(value))


def _ask_node(node: Node, args: argparse.Namespace, service: str, request: Any) -> Any:
    from elea.ros.parameters import service_type

    client = node.create_client(service_type(service), f"{args.node}/{service}")
    return client.call(request, args.timeout, wait=args.wait)


def run_param_list(args: argparse.Namespace) -> int:
    """The parameters of a node."""
    args.node = topic_name(args.node)
    with fleet_node(args) as node:
        names = _ask_node(node, args, "list_parameters", {}).result.names
        for name in sorted(names):
            print(json_line({"name": name}) if args.json else escape(name))
    return 0


def run_param_get(args: argparse.Namespace) -> int:
    """The value of a parameter; 1 if it is not set."""
    from elea.ros.parameters import value_of

    args.node = topic_name(args.node)
    with fleet_node(args) as node:
        [value] = _ask_node(node, args, "get_parameters", {"names": [args.name]}).values
        if value.type == 0:
            tell(f"{args.node} has no parameter {args.name}")
            return 1
        _print(args, value_of(value))
    return 0


def run_param_set(args: argparse.Namespace) -> int:
    """Set a parameter; 1 if the node refuses."""
    from elea.config import yaml_text
    from elea.ros.parameters import as_value

    with reading_arguments():
        parameter = {"name": args.name, "value": as_value(yaml_text.loads(args.value))}
    args.node = topic_name(args.node)
    with fleet_node(args) as node:
        answer = _ask_node(node, args, "set_parameters", {"parameters": [parameter]})
        [result] = answer.results
        if not result.successful:
            tell(f"{args.node} refused {args.name}: {result.reason}")
            return 1
    return 0


def run_action_list(args: argparse.Namespace) -> int:
    """The actions there are."""
    with fleet_graph(args) as graph:
        for action in graph.actions():
            types = [one.removesuffix("_SendGoal") for one in action.types]
            if args.json:
                print(json_line({"name": action.name, "types": types, "via": action.via}))
            else:
                print(escape(action.name + (f" [{', '.join(types)}]" if args.show_types else "")))
    return 0


def run_action_info(args: argparse.Namespace) -> int:
    """Who serves and calls an action."""
    name = named(args.action)
    with fleet_graph(args) as graph:
        found = [one for one in graph.actions() if one.name == name]
        if not found:
            tell(f"no action {name}")
            return 1
        for action in found:
            for token in action.endpoints:
                print(json_line(token_json(token)) if args.json else escape(endpoint_line(token)))
    return 0


def feedback_printer(uuid: bytes) -> Callable[[Any], None]:
    """Return what prints the feedback of one goal; all goals of an action share its topic."""
    from elea.ros.formats.messages import plain

    def heard(message: Any) -> None:
        if bytes(message.goal_id.uuid) == uuid:
            print(as_yaml(plain(message.feedback)) + "\n---", flush=True)

    return heard


def run_send_goal(args: argparse.Namespace) -> int:
    """Send a goal, and wait for its result without a limit; 1 if it is not accepted."""
    from elea.ros.formats.messages import plain
    from elea.ros.formats.names import HIDDEN
    from elea.ros.services import FOREVER_S

    name, given = topic_name(args.action), read_yaml(args.value)
    type_ = type_name(args.type)
    with fleet_node(args) as node:
        kind = node.types.action(type_)
        uuid = os.urandom(16)
        goal_id = {"uuid": list(uuid)}
        goal_kind = kind.send_goal.request
        value = filled({"goal": given}, goal_kind)["goal"]
        if args.feedback:
            told = f"{name}{HIDDEN}feedback"
            node.create_subscription(kind.feedback.name, told, feedback_printer(uuid))
        sender = node.create_client(kind.send_goal.name, f"{name}{HIDDEN}send_goal")
        goal = {"goal_id": goal_id, "goal": value}
        if not sender.call(goal, args.timeout, wait=args.wait).accepted:
            tell(f"{name}: the goal was rejected")
            return 1
        asker = node.create_client(kind.get_result.name, f"{name}{HIDDEN}get_result")
        answer = asker.call({"goal_id": goal_id}, FOREVER_S, wait=args.wait)
        _print(args, {"status": answer.status, "result": plain(answer.result)})
    return 0
