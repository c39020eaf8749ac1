"""`elea router`: a router as a process, with the options of zenohd."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from elea.choices import PERMISSIONS
from elea.cli.exit_codes import Terminated
from elea.cli.log_options import add_log_options, log_settings_of
from elea.cli.output import printable
from elea.cli.parsing import (
    dds_domain,
    endpoint,
    identity,
    rest_address,
    setting,
    xrce_endpoint,
)
from elea.errors import LinkError
from elea.ids import WhatAmI

if TYPE_CHECKING:
    from elea.config.config import Config
    from elea.daemon.daemon import Daemon
    from elea.daemon.effective import Options
    from elea.daemon.services import Paged
    from elea.session.session import Session

NAME: Final = "router"
_THRESHOLDS: Final = (20_000, 20, 20)  # a router makes many objects and next to no cycles
SUMMARY: Final = "run a router until SIGTERM; SIGHUP reads the configuration again"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_daemon_options(parser)
    parser.add_argument(
        "--config-check",
        action="store_true",
        help="check the configuration, name what in it has no effect, and end; exit code 1 if it"
        " cannot be used",
    )
    parser.add_argument(
        "--ensure",
        action="store_true",
        help="if a router answers where this one would listen, end with exit code 0; run otherwise",
    )
    parser.add_argument("-V", "--version", action="store_true", help="as `elea --version`")
    add_log_options(parser, default="info")


def add_daemon_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that make the configuration of a daemon."""
    parser.add_argument("-c", "--config", metavar="FILE", help="JSON5, YAML or TOML, by its ending")
    for flags, what in (
        (("-l", "--listen"), "where to be connected to (default: tcp/127.0.0.1:7447)"),
        (("-e", "--connect"), "where to connect to"),
    ):
        told = f"{what}; may be repeated"
        parser.add_argument(
            *flags, action="append", default=[], type=endpoint, metavar="ENDPOINT", help=told
        )
    parser.add_argument(
        "-i", "--id", type=identity, help="identity, as hexadecimal (default: a random one)"
    )
    parser.add_argument(
        "--cfg",
        action="append",
        default=[],
        type=setting,
        metavar="KEY:VALUE",
        help="set one key of the configuration to a JSON5 value; may be repeated, and wins over"
        " everything else",
    )
    parser.add_argument(
        "--allow-plain",
        action="store_true",
        help="listen without encryption where other hosts can connect; refused otherwise",
    )
    parser.add_argument(
        "--adminspace-permissions",
        choices=tuple(PERMISSIONS),
        help="whether the admin space may be read and written (default: r)",
    )
    _add_service_options(parser)
    parser.add_argument(
        "--no-multicast-scouting", action="store_true", help="do not be found by multicast"
    )
    parser.add_argument(
        "--no-timestamp", action="store_true", help="give no timestamps to samples without one"
    )


def _add_service_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that start services."""
    parser.add_argument(
        "--rest-http-port",
        type=rest_address,
        metavar="[IP:]PORT",
        help="serve REST, /metrics and /health over HTTP at this port of loopback, or at IP:PORT;"
        " none: do not",
    )
    parser.add_argument(
        "--ui",
        action="store_true",
        help="serve the page that shows the data space, and print its address; at a free port of"
        " loopback unless --rest-http-port names one; needs elea[web]",
    )
    parser.add_argument(
        "--xrce",
        type=xrce_endpoint,
        action="append",
        default=[],
        metavar="ENDPOINT",
        help="serve XRCE devices there, such as udp/0.0.0.0:7447 or tcp/127.0.0.1:7448; may be"
        " repeated. They are served at --listen tcp/... as well",
    )
    parser.add_argument(
        "--dds",
        nargs="?",
        const=0,
        type=dds_domain,
        metavar="DOMAIN",
        help="bridge this DDS domain (default: 0) on loopback; needs elea[dds]",
    )
    parser.add_argument(
        "-P",
        "--plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="a service that must run; may be repeated",
    )


def options_of(args: argparse.Namespace) -> Options:
    """What the options of `add_daemon_options` were set to."""
    from elea.daemon.effective import Options

    return Options(
        config=args.config,
        listen=tuple(args.listen),
        connect=tuple(args.connect),
        id=args.id,
        cfg=tuple(args.cfg),
        plugin=tuple(args.plugin),
        adminspace_permissions=args.adminspace_permissions,
        rest_http_port=args.rest_http_port,
        ui=args.ui,
        xrce=tuple(args.xrce),
        dds=args.dds,
        no_multicast_scouting=args.no_multicast_scouting,
        no_timestamp=args.no_timestamp,
        allow_plain=args.allow_plain,
    )


def run(args: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    from elea.daemon.daemon import Daemon
    from elea.daemon.logs import check_logging, start_logging

    daemon = Daemon(options_of(args))
    if args.config_check:
        daemon.check_all()
        check_logging(log_settings_of(args))
        for line in daemon.notes():
            print(f"without effect: {printable(line)}")
        print("the configuration can be used")
        return 0
    if args.ensure and _is_there(daemon.config):
        return 0
    start_logging(log_settings_of(args))
    return run_daemon(daemon, ensure=args.ensure)


def run_daemon(
    daemon: Daemon, *, ensure: bool = False, beside: Callable[[Session], None] | None = None
) -> int:
    """Start a daemon and run it until a signal ends it.

    Args:
        beside: Called with its session when it is started.
    """
    with _Signals(daemon) as signals:
        try:
            daemon.start()
            signals.started()
        except Terminated:
            daemon.close()
            return 0
        except LinkError:
            # Another one may have been as quick, and have the port now.
            if ensure and _is_there(daemon.config):
                return 0
            raise
        try:
            # What is there now stays: a collection that looks at it again holds all sessions up.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_THRESHOLDS)
            if beside is not None:
                beside(daemon.session)
            mode, zid = daemon.config.mode, daemon.session.zid()
            words = ("ready:", str(mode), str(zid), *daemon.locators())
            print(printable(" ".join(words)), flush=True)
            if daemon.page is not None:
                print_page(daemon.page)
            daemon.run()
        finally:
            daemon.close()
    return 0


def print_page(page: Paged) -> None:
    """Tell where the page is; and on a terminal, which no log keeps, how to publish by it."""
    print(printable(f"page: {page.page_url}"), flush=True)
    if page.operate_url is not None and sys.stdout.isatty():
        print(printable(f"to publish as well: {page.operate_url}"), flush=True)


def _is_there(config: Config) -> bool:
    """Whether a router answers at one of the endpoints that this one would listen at; told.

    Raises:
        LinkError: somebody else answers there.
    """
    from elea.cli.presence import ask_who_listens

    for place in (one for group in config.endpoints("listen") for one in group):
        found = ask_who_listens(config, place)
        if found is None:
            continue
        role, zid = found
        if role is not WhatAmI.ROUTER:
            raise LinkError(f"a {role}, {zid}, listens at {place}; give --listen another port")
        print(printable(f"running: {role} {zid} {place.locator()}"), flush=True)
        return True
    return False


def elead() -> int:
    """The command `elead`: `elea router` under the name of a daemon."""
    from elea.cli.main import main  # which imports the verbs when they are used

    return main([NAME, *sys.argv[1:]], prog="elead")


class _Signals:
    """What signals mean while it is entered. Only the main thread hears any.

    Raises:
        Terminated: from `start` of the daemon, which may wait for a neighbour or an address for
            ever: no loop runs yet that could be asked to end.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._is_starting = True
        self._meaning: dict[int, Callable[[], None]] = {
            signal.SIGTERM: daemon.stop,
            signal.SIGINT: daemon.stop,
        }
        if hasattr(signal, "SIGHUP"):
            self._meaning[signal.SIGHUP] = daemon.reload
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self._meaning:
                self._before[number] = signal.signal(number, self._heard)
        return self

    def started(self) -> None:
        """From now on the daemon is asked to end."""
        self._is_starting = False

    def __exit__(self, *_args: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]  # what `signal` gave

    def _heard(self, number: int, _frame: object) -> None:
        if self._is_starting and number in (signal.SIGTERM, signal.SIGINT):
            raise Terminated(number)
        self._meaning[number]()
