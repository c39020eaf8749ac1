"""How `elea ros2` reaches a fleet: its options, its context, its node."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from elea.choices import ROS_RELEASES, ROS_VIA
from elea.cli.connection import add_connection_options, config_of, note
from elea.cli.exit_codes import reading_arguments
from elea.cli.output import escape

if TYPE_CHECKING:
    from elea.config.config import Config
    from elea.ros.catalog import Types
    from elea.ros.graph import Graph
    from elea.ros.node import Node
    from elea.ros.settings import RosSettings
    from elea.session.session import Session

_SETTLE_S: Final = 3.0


def add_fleet_options(parser: argparse.ArgumentParser) -> None:
    """Add what all verbs take."""
    group = parser.add_argument_group("fleet")
    group.add_argument(
        "--domain",
        type=int,
        metavar="N",
        help="the ROS domain, 0 to 232 (default: ROS_DOMAIN_ID, else 0)",
    )
    group.add_argument("--prefix", metavar="KEY", help="what stands before all keys")
    group.add_argument(
        "--types",
        action="append",
        metavar="PATH",
        help="definitions: a directory, or a file of .msg, .srv, .action or .mcap; may be repeated",
    )
    group.add_argument(
        "--distro",
        choices=ROS_RELEASES,
        help="whose definitions are taken for a name alone (default: ROS_DISTRO, else jazzy)",
    )
    group.add_argument(
        "--no-ask", action="store_true", help="do not ask nodes for definitions that are not known"
    )
    add_connection_options(parser)


def add_via_option(parser: argparse.ArgumentParser) -> None:
    """Add `--via`."""
    parser.add_argument(
        "--via",
        choices=ROS_VIA,
        help="nodes on rmw_zenoh, those behind a bridge, or any (default)",
    )


def types_of(args: argparse.Namespace) -> Types:
    """The definitions that the options name.

    Raises:
        ConfigError: a path cannot be used.
    """
    from elea.ros.catalog import Types

    settings = settle(args)
    return Types(args.types, release=args.distro, trust_names=settings.trust_names)


def settle(args: argparse.Namespace) -> RosSettings:
    """What the section of the configuration says; options that are not given take it.

    Raises:
        UsageError: an option has a value that it cannot have.
    """
    from elea.keyexpr.keyexpr import KeyExpr
    from elea.ros.formats.keys import checked_domain
    from elea.ros.settings import RosSettings

    with reading_arguments():
        if args.domain is not None:
            checked_domain(args.domain)
        if args.prefix and args.prefix.strip("/"):
            KeyExpr(args.prefix.strip("/"))
    settings = RosSettings.read(fleet_config(args))
    if args.domain is None:
        args.domain = settings.domain
    args.prefix = settings.prefix if args.prefix is None else args.prefix.strip("/")
    args.types = [
        *(args.types or ()),
        *(one for one in settings.types if one not in (args.types or ())),
    ]
    args.distro = args.distro or settings.distro
    args.no_ask = args.no_ask or not settings.ask_fleet
    if getattr(args, "via", "rmw") is None:
        args.via = settings.via
    if hasattr(args, "hidden"):
        args.hidden = args.hidden or settings.hidden
    return settings


def fleet_config(args: argparse.Namespace) -> Config:
    """The configuration of the options; without any, of rmw_zenoh's variables (R2-803)."""
    from elea.ros.context import ENDPOINT, session_config

    if not any((args.connect, args.listen, args.mode, args.config, args.cfg)):
        return session_config()
    if not (args.connect or args.listen or args.mode or args.config):  # --cfg alone
        args.connect = [ENDPOINT]
    config = config_of(args)
    config.insert_json5("timestamping/enabled", "true")
    return config


def open_fleet(args: argparse.Namespace) -> Session:
    """A session as the options say."""
    from elea.session.session import open

    return open(fleet_config(args))


@contextmanager
def fleet_graph(args: argparse.Namespace, *, all_domains: bool = False) -> Iterator[Graph]:
    """The graph, all of it; nothing is declared (R2-157)."""
    from elea.ros.context import domain_of
    from elea.ros.graph import Graph

    settle(args)
    domain = None if all_domains else domain_of(args.domain)
    with open_fleet(args) as session:
        graph = Graph(session, domain, prefix=args.prefix)
        graph.settle(_SETTLE_S)
        if graph.bad_count:
            note(f"{graph.bad_count} tokens could not be read")
        yield graph
        graph.close()


@contextmanager
def fleet_node(args: argparse.Namespace, name: str | None = None) -> Iterator[Node]:
    """A node that others see, `elea_` and the beginning of its session's id if it has no name."""
    from elea.ros.context import Context
    from elea.ros.node import Node

    settings, types = settle(args), types_of(args)
    with (
        open_fleet(args) as session,
        Context(
            session,
            domain=args.domain,
            prefix=args.prefix,
            types=types,
            ask_fleet=not args.no_ask,
            read_only=settings.read_only,
        ) as context,
    ):
        context.graph.settle(_SETTLE_S)
        name = name or settings.node or f"elea_{context.zid[:8]}"
        with Node(name, context=context, rosout=False, describe=False) as node:
            yield node


def named(name: str) -> str:
    """A name as users write it: without `/` it gets one."""
    return name if name.startswith("/") else f"/{name}"


def topic_name(text: str) -> str:
    """The name of a topic, service or action on the command line, with `/`.

    Raises:
        UsageError: ROS has no such names.
    """
    from elea.ros.formats.names import full_name

    with reading_arguments():
        return full_name(named(text))


def type_name(text: str) -> str:
    """The name of a type on the command line, as it is.

    Raises:
        UsageError: ROS has no such names.
    """
    from elea.ros.formats.names import long_type

    with reading_arguments():
        long_type(text)
    return text


def tell(text: str) -> None:
    """A line for people, in which strangers' text is escaped."""
    note(escape(text))
