"""`elea scout`: who is there, found by multicast."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_config_options, note, written_config
from elea.cli.output import Json, add_output_options, counted, escape
from elea.cli.payloads import count, seconds
from elea.cli.progress import Progress, Span
from elea.errors import ConfigError, InvalidValueError
from elea.ids import WhatAmIMatcher, ZenohId

if TYPE_CHECKING:
    from elea.config.config import Config
    from elea.sample import Hello

NAME: Final = "scout"
SUMMARY: Final = "print the nodes that answer a multicast question"

_ENABLED: Final = "scouting/multicast/enabled"
_POLL_S: Final = 0.5  # how often the line of progress is written again


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = "Exit code 1 if nobody answers, or fewer than --count."
    parser.add_argument(
        "--what",
        type=_roles,
        default=WhatAmIMatcher("router|peer"),
        metavar="ROLES",
        help="the roles to look for, such as router or 'peer|client' (default: 'router|peer')",
    )
    parser.add_argument("--count", type=count, metavar="N", help="end after N nodes")
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=3.0,
        metavar="S",
        help="how long to look, in seconds; 0 until it is interrupted (default: 3)",
    )
    add_output_options(parser)
    group = parser.add_argument_group("connection", "Where to ask: scouting/multicast.")
    add_config_options(group)


def run(args: argparse.Namespace) -> int:
    """Print every node once, and again when it listens elsewhere; 1 if there is none."""
    from elea.cli.samples import Printer
    from elea.session.scouting import scout

    config = written_config(args)
    _require_scouting(config)
    printer, progress = Printer.of(args), Progress()
    span = Span(args.count, args.timeout or None)
    told: dict[ZenohId, list[str]] = {}
    with scout(what=args.what, config=config) as search:
        try:
            while not span.is_over:
                left_s = _POLL_S if span.left_s is None else min(_POLL_S, span.left_s)
                try:
                    hello = search.recv(left_s)
                except TimeoutError:
                    progress.update(len(told), f", {span.elapsed_s:.0f} s")
                    continue
                if told.get(hello.zid) != hello.locators:
                    told[hello.zid] = hello.locators
                    span.count = len(told)
                    printer.record(_values(hello), _line(hello))
        finally:
            progress.end()
            note(f"{counted(len(told), 'node')} in {span.elapsed_s:.1f} s, {_where(config)}")
    return span.code if told else 1


def _require_scouting(config: Config) -> None:
    """Refuse to send to the network where the environment asks for silence.

    Raises:
        ConfigError: `ELEA_NO_SCOUTING` is set, and the configuration does not enable scouting.
    """
    from elea.config_file import NO_SCOUTING_ENV, in_environment

    if in_environment(config) is not config:
        raise ConfigError(
            _ENABLED,
            f"disabled by {NO_SCOUTING_ENV}={os.environ[NO_SCOUTING_ENV]} in the environment;"
            f" unset it, or give --cfg {_ENABLED}:true",
        )


def _values(hello: Hello) -> dict[str, Json]:
    return {
        "whatami": str(hello.whatami),
        "zid": str(hello.zid),
        "locators": list(hello.locators),
    }


def _line(hello: Hello) -> str:
    listens = " ".join(map(escape, hello.locators)) or "listens nowhere"
    return f"{hello.whatami} {hello.zid} {listens}"


def _where(config: Config) -> str:
    """What was asked, for those who found too few."""
    from elea.link.scouting_socket import ScoutingSockets
    from elea.link.settings import ScoutingSettings

    settings = ScoutingSettings.from_config(config)
    sockets = ScoutingSockets(
        settings.address, interface=settings.interface, ttl=settings.ttl, listen=False
    )
    sockets.close()
    return f"asked {settings.address} on {sockets.shown()}"


def _roles(text: str) -> WhatAmIMatcher:
    try:
        matcher = WhatAmIMatcher(text)
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(error.reason) from None
    if not matcher.bits:
        raise argparse.ArgumentTypeError("no role; legal are router, peer, client")
    return matcher
