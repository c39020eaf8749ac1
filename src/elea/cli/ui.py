"""`elea ui`: the page, in a process of its own: for a network that runs, or for logs on a disk."""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from elea.cli.connection import add_connection_options, open_session, require_neighbour
from elea.cli.exit_codes import UsageError
from elea.errors import EleaError, MissingDependencyError

NAME: Final = "ui"
SUMMARY: Final = "show a data space, or logs on a disk, in a browser"

_EPILOG: Final = """\
This command serves the page and is an ordinary client: it works with every Zenoh network, also of
Eclipse Zenoh, and access rules of the routers hold for it. With directories of logs there is no
network at all: what they recorded is shown. Ctrl-C ends it.

What is of one node (traffic by key, refusals, audit, log, devices) is that of the router that it is
connected to.

examples:
  elea ui --connect tcp/192.168.1.7:7447
  elea ui /var/lib/elea/fleet
  elea ui /var/lib/elea/fleet --lake /var/lib/elea/lake
"""
_PACKAGES: Final = ("starlette", "uvicorn", "websockets", "prometheus_client")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "logs", metavar="DIR", nargs="*", type=Path, help="the directory of a log; may be repeated"
    )
    parser.add_argument(
        "--lake", metavar="DIR", type=Path, help="a directory of tables, for questions in SQL"
    )
    parser.add_argument(
        "--http-port",
        metavar="[IP:]PORT",
        default="0",
        help="where the page is: a port of loopback, or IP:PORT (default: a free port)",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="holds a token for viewers; needed where other hosts reach the page",
    )
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the page until it is interrupted."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise MissingDependencyError("elea ui", "web")
    if not (args.logs or args.lake):
        return _show_network(args)
    for directory in filter(None, (*args.logs, args.lake)):
        if not directory.is_dir():
            raise EleaError(f"{directory} is not a directory")
    if args.connect or args.listen or args.config:
        raise UsageError("directories of logs are shown without a network: leave --connect out")
    return _show_logs(args)


def _show_network(args: argparse.Namespace) -> int:
    from elea.cli.router import print_page
    from elea.web.service import Rest
    from elea.web.settings import RestSettings

    section = {"http_port": args.http_port, "operate_link": True}
    if args.token_file is not None:
        section["token_file"] = args.token_file
    settings = RestSettings.read(section)
    with _interrupted() as is_over, open_session(args) as session:
        require_neighbour(session)
        rest = Rest(session, settings)
        try:
            print_page(rest)
            is_over.wait()
        finally:
            rest.stop()
    return 0


def _show_logs(args: argparse.Namespace) -> int:
    """A node without neighbours, with the services that show what is on the disk."""
    from elea.cli.router import run_daemon
    from elea.daemon.daemon import Daemon
    from elea.daemon.effective import Options
    from elea.session.session import Session
    from elea.store.logserver import LogServer

    cfg = ['mode:"peer"', "listen/endpoints:[]", "adminspace/enabled:true"]
    cfg.append(f"metadata:{json.dumps({'name': 'on disk'})}")
    if args.logs:
        cfg.append(f"plugins/historian/logs:{json.dumps([str(one) for one in args.logs])}")
    if args.lake:
        cfg.append(f"plugins/sql/tables:{json.dumps(str(args.lake))}")
    if args.token_file is not None:
        cfg.append(f"plugins/rest/token_file:{json.dumps(args.token_file)}")
    options = Options(
        cfg=(*cfg, *(args.cfg or ())),
        ui=True,
        rest_http_port=args.http_port,
        plugin=("historian",) * bool(args.logs) + ("sql",) * bool(args.lake),
        no_multicast_scouting=True,
    )
    servers: list[LogServer] = []

    def serve(session: Session) -> None:
        for directory in args.logs:
            servers.append(LogServer(session, _chunk(directory), directory))

    try:
        return run_daemon(Daemon(options), beside=serve)
    finally:
        for server in servers:
            with suppress(EleaError):
                server.stop()


def _chunk(directory: Path) -> str:
    """The name of a log: letters, digits and a few signs."""
    name = directory.resolve().name
    return "".join(
        one if one.isascii() and (one.isalnum() or one in "-_.") else "_" for one in name
    )


@contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set. Only the main thread hears signals."""
    is_over = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield is_over
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {one: signal.signal(one, lambda *_: is_over.set()) for one in numbers}
    try:
        yield is_over
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
