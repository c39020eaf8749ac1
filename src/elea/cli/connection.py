"""How a verb reaches the data space: its options, its configuration, its session."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from elea.cli.collector import settle
from elea.cli.exit_codes import UsageError, reading_arguments
from elea.cli.output import escape
from elea.cli.parsing import endpoint, setting
from elea.errors import ConfigError, LinkError
from elea.ids import WhatAmI

if TYPE_CHECKING:
    from elea.config.config import Config
    from elea.session.neighbours import TransportEvent
    from elea.session.publisher import Publisher
    from elea.session.session import Session

RUST_LOG: Final = "RUST_LOG"  # as in elea.session.logs, which `--help` does not need
WAIT_S: Final = 5.0  # for the first neighbour, and for the first match

_ADVICE: Final = "`elea doctor` with the same options tells more"
_ALONE: Final = (
    "connected to no node: give --connect ENDPOINT, or --listen ENDPOINT and connect the other side"
    f" to it; {_ADVICE}"
)


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add `--mode`, `--connect`, `--listen`, `--config`, `--cfg` and `--no-multicast-scouting`."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-m",
        "--mode",
        choices=[str(WhatAmI.CLIENT), str(WhatAmI.PEER)],
        help="the role (default: the configuration's, else client with --connect alone, else peer)",
    )
    group.add_argument(
        "-e",
        "--connect",
        action="append",
        type=endpoint,
        metavar="ENDPOINT",
        help="where to connect to, such as tcp/192.168.1.7:7447; may be repeated",
    )
    group.add_argument(
        "-l",
        "--listen",
        action="append",
        type=endpoint,
        metavar="ENDPOINT",
        help="where to be connected to, such as tcp/0.0.0.0:7447; may be repeated",
    )
    group.add_argument(
        "--no-multicast-scouting",
        action="store_true",
        help="neither look for others by multicast nor be found",
    )
    add_config_options(group)


def add_config_options(group: argparse._ActionsContainer) -> None:
    """Add `--config` and `--cfg`."""
    group.add_argument(
        "-c", "--config", metavar="FILE", help="a configuration: JSON5, YAML or TOML, by its ending"
    )
    group.add_argument(
        "--cfg",
        action="append",
        type=setting,
        metavar="KEY:VALUE",
        help="set one key of the configuration to a JSON5 value; may be repeated",
    )


def config_of(args: argparse.Namespace) -> Config:
    """The configuration that the options describe.

    Raises:
        ConfigError: for a key that is unknown, naming the nearest, or a value that is not legal.
    """
    config = written_config(args)
    for side in ("connect", "listen"):
        endpoints = getattr(args, side)
        if endpoints:
            config.insert_json5(f"{side}/endpoints", json.dumps(endpoints))
    if args.no_multicast_scouting:
        config.insert_json5("scouting/multicast/enabled", "false")
    if args.mode:
        config.insert_json5("mode", json.dumps(args.mode))
    elif config.get_json("mode") == "null" and args.connect and not args.listen:
        config.insert_json5("mode", '"client"')
    if config.mode is WhatAmI.CLIENT and not (config.endpoints("connect") or scouts(config)):
        reason = "a client needs one; give --connect ENDPOINT"
        if args.config:
            raise ConfigError("connect/endpoints", reason)
        raise UsageError(f"connect/endpoints: {reason}")
    return config


def written_config(args: argparse.Namespace) -> Config:
    """The configuration of `--config` and `--cfg` alone; raises as `config_of`."""
    from elea.config.config import Config

    config = Config.from_file(args.config) if args.config else Config()
    for text in args.cfg or ():
        key, _, value = text.partition(":")
        config.insert_json5(key, value)
    return config


def open_session(args: argparse.Namespace) -> Session:
    """A session as the options describe it.

    Args:
        args: What the options of `add_connection_options` were set to.

    Raises:
        ConfigError: as `config_of`.
        UsageError: the key or selector of the command line is invalid.
        LinkError: a client that reaches nobody, or a listener that cannot be bound.
    """
    from elea.session.session import open

    log_to_stderr()
    config = config_of(args)
    _check_keys(args)
    session = open(config)
    settle()
    return session


@contextmanager
def open_watched(args: argparse.Namespace) -> Iterator[tuple[Session, Neighbours]]:
    """The same for a verb that goes on: neighbours that come and go are told on stderr."""
    from elea.session.handlers import Callback

    with open_session(args) as session:
        neighbours = Neighbours()
        # By the thread that brings the news, so that those there are now are told before the rest.
        tell = Callback(neighbours.tell, indirect=False)
        session.info.declare_transport_events_listener(tell, history=True)
        if not (has_endpoints(session.config) or scouts(session.config)):
            note("no endpoint is configured: give --connect ENDPOINT or --listen ENDPOINT")
            yield session, neighbours
            return
        reminder = threading.Timer(WAIT_S, neighbours.remind)
        reminder.daemon = True
        reminder.start()
        try:
            yield session, neighbours
        finally:
            reminder.cancel()


class Neighbours:
    """Whether a verb that goes on was connected to anything."""

    def __init__(self) -> None:
        self._were_there = False

    def tell(self, event: TransportEvent) -> None:
        """Tell of a neighbour that came or went."""
        from elea.provenance import SampleKind

        came = event.kind is SampleKind.PUT
        self._were_there = self._were_there or came
        verb = "connected to" if came else "lost"
        note(escape(f"{verb} {event.transport.whatami} {event.transport.zid}"))

    def remind(self) -> None:
        """Tell that there was no neighbour so far: a verb that waits for ever would be silent."""
        if not self._were_there:
            note(f"still waiting: {_ALONE}")

    def require(self) -> None:
        """Check, at the end, that there was a neighbour: else nothing could come or go.

        Raises:
            LinkError: there was none.
        """
        if not self._were_there:
            raise LinkError(_ALONE)


def has_endpoints(config: Config) -> bool:
    """Whether somebody could be found: there is an endpoint beyond the defaults."""
    return bool(config.endpoints("connect")) or listens(config)


def scouts(config: Config) -> bool:
    """Whether others are looked for by multicast."""
    from elea.config_file import in_environment

    return in_environment(config).value("scouting/multicast/enabled", bool)


def listens(config: Config) -> bool:
    """Whether it was said where to listen; a free port that nobody was told does not count."""
    from elea.config.config import Config

    said = config.get_json("listen/endpoints")
    return said != Config().get_json("listen/endpoints") and bool(config.endpoints("listen"))


def require_neighbour(session: Session, wait_s: float = WAIT_S) -> None:
    """Wait until somebody is connected, so that what is sent next goes somewhere.

    Raises:
        LinkError: nobody is.
    """
    from elea.provenance import SampleKind

    wait_s = wait_s if has_endpoints(session.config) or scouts(session.config) else 0
    with session.info.declare_transport_events_listener(history=True) as events:
        try:
            while events.recv(wait_s).kind is not SampleKind.PUT:
                pass
        except TimeoutError:
            raise LinkError(_ALONE) from None


def is_accepted(session: Session, key: str, *actions: str) -> bool:
    """Wait until the routers have handled what was sent; False if one refused `actions` on `key`.

    A refusal is logged, so that the user reads it. Routers of Eclipse refuse in silence.
    """
    from elea.session.refusals import wait_decided

    if not wait_decided(session._context, key, WAIT_S):
        note(f"no router confirmed within {WAIT_S:g} s that it handled {escape(key)}")
    return not is_refused(session, key, *actions)


def is_refused(session: Session, key: str, *actions: str) -> bool:
    """Whether a neighbour told that its access rules do not allow one of `actions` on `key`."""
    refusals = session.info.refusals()
    return any(one.action in actions and one.key_expr == key for one in refusals)


def require_allowed(session: Session, *, put: str | None = None, sub: str | None = None) -> None:
    """Check that no router refuses a put or a subscription: both fail in silence else.

    Raises:
        LinkError: the access rules of a router refuse one of them.
    """
    refused: list[str] = []
    if put is not None:
        session.put(put, b"")
        if not is_accepted(session, put, "put"):
            refused.append(f"put on {escape(put)}")
    if sub is not None and is_refused(session, sub, "declare_subscriber"):
        refused.append(f"declare_subscriber on {escape(sub)}")
    if refused:
        raise LinkError(
            f"the access rules of a router refuse {' and '.join(refused)}: have them allow it;"
            " `elea acl explain` on the router tells which rule it is"
        )


def require_match(
    session: Session,
    writer: Publisher,
    advice: str,
    wait_s: float = WAIT_S,
    *,
    answers: str | None = None,
) -> None:
    """Wait for a subscriber of what a publisher sends; without one, undeclare the publisher.

    `answers` is the key of this side's own subscriber.

    Raises:
        LinkError: there is none, or the access rules of a router refuse one of the keys.
    """
    with writer.declare_matching_listener() as listener:
        try:
            while not writer.matching_status.matching:
                listener.recv(wait_s)
            return
        except TimeoutError:
            key = str(writer.key_expr)
    # With a publisher nothing is sent without a subscriber, so no router would decide.
    writer.undeclare()
    require_allowed(session, put=key, sub=answers)
    raise LinkError(f"no subscriber for {key}: {advice}; {_ADVICE}")


def note(text: str) -> None:
    """A line for people, beside the output."""
    print(f"elea: {text}", file=sys.stderr, flush=True)


def _check_keys(args: argparse.Namespace) -> None:
    """Refuse an invalid key before a connection is tried: that may fail for another reason."""
    from elea.selector import Selector
    from elea.session.convert import key_text, selector_parts

    key, selector = getattr(args, "key", None), getattr(args, "selector", None)
    with reading_arguments():
        for one in key if isinstance(key, list) else [key]:
            if isinstance(one, str):
                key_text(one)
        if isinstance(selector, str):
            selector_parts(selector)
            if "_time=" in selector:  # replies to a range that is none would say nothing of it
                Selector(selector).time_range()


def log_to_stderr() -> None:
    """Print warnings as a verb prints its own lines, and what `RUST_LOG` asks for beside them.

    Nothing changes if logging was set up before.
    """
    import logging

    logger = logging.getLogger("elea")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("elea: %(message)s"))
    logger.addHandler(handler)
    text = os.environ.get(RUST_LOG)
    if text is None:
        handler.setLevel(logging.WARNING)
        return
    from elea.session.logs import LEVELS, Directives

    said = Directives.parse(text)
    said.apply(LEVELS["warn"])
    said.complain(RUST_LOG)
