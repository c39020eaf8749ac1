"""What the verbs for operators share: whom they ask, and how patiently."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from elea.cli.connection import note
from elea.cli.payloads import seconds

if TYPE_CHECKING:
    from elea.operate.admin_space import AdminSpace
    from elea.session.session import Session

TIMEOUT_S: Final = 3.0  # nodes that went away without a word must not hold up the rest


def add_timeout_option(parser: argparse.ArgumentParser) -> None:
    """How patient a command is with nodes."""
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT_S,
        metavar="S",
        help=f"how long to wait for nodes that do not answer (default: {TIMEOUT_S:g})",
    )


def add_ids_option(parser: argparse.ArgumentParser) -> None:
    """Ids beside names."""
    parser.add_argument(
        "--ids", action="store_true", help="print whole ids beside the names of nodes"
    )


def admin_space(session: Session, args: argparse.Namespace) -> AdminSpace:
    """The admin space as a session sees it; a malformed answer is told on stderr."""
    from elea.operate.admin_space import AdminSpace

    return AdminSpace(session, args.timeout, _tell_malformed)


def _tell_malformed(key: str) -> None:
    note(f"an answer that is none of an admin space is left out: {key!a}")
