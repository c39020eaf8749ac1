"""Options of verbs that run a router: what it logs, how, and where to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from elea.choices import LOG_FILE_LEN, LOG_FILES_COUNT, LOG_FORMATS
from elea.cli.exit_codes import UsageError
from elea.cli.payloads import count
from elea.errors import InvalidValueError

if TYPE_CHECKING:
    from elea.daemon.logs import LogSettings


def add_log_options(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Add the options that say how a router logs."""
    group = parser.add_argument_group("log")
    group.add_argument(
        "--log",
        type=_directives,
        default=default,
        metavar="LEVEL[,AREA=LEVEL...]",
        help="what is logged: error, warn, info, debug or off, and areas with a level of their own,"
        f" as in info,elea.link=debug; RUST_LOG wins (default: {default})",
    )
    group.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        default=LOG_FORMATS[0],
        help="one line, or one JSON object, per event (default: text)",
    )
    group.add_argument(
        "--log-file",
        metavar="FILE",
        help="log there instead of to standard error; under systemd, standard error is the journal",
    )
    group.add_argument(
        "--log-file-size",
        type=count,
        metavar="BYTES",
        help=f"begin a new file beyond that; the old one becomes FILE.1 (default: {LOG_FILE_LEN})",
    )
    group.add_argument(
        "--log-file-count",
        type=count,
        metavar="N",
        help=f"keep N old files (default: {LOG_FILES_COUNT})",
    )


def _directives(text: str) -> str:
    """What to log, for argparse."""
    from elea.session.logs import Directives

    try:
        Directives.strictly(text).check_areas()
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def log_settings_of(args: argparse.Namespace) -> LogSettings:
    """Return what the options of `add_log_options` were set to.

    Raises:
        UsageError: an option about files is given, but no file.
    """
    from elea.daemon.logs import LogSettings

    if args.log_file is None:
        for option in ("log_file_size", "log_file_count"):
            if getattr(args, option) is not None:
                name = "--" + option.replace("_", "-")
                raise UsageError(
                    f"{name} needs --log-file FILE: without it, the log goes to standard error"
                )
    return LogSettings(
        directives=args.log,
        format=args.log_format,
        file=args.log_file,
        file_len=LOG_FILE_LEN if args.log_file_size is None else args.log_file_size,
        files_count=LOG_FILES_COUNT if args.log_file_count is None else args.log_file_count,
    )
