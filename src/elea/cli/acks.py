"""Acknowledged puts on the command line: their options, and what is told of them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from elea.cli.connection import note
from elea.cli.output import Json, escape

if TYPE_CHECKING:  # few puts are acknowledged
    from elea.session.ack import StoredAck
    from elea.session.session import Session
    from elea.session.spool import Spool

FORWARD_S: Final = 2.0  # what waits may take so long before the command ends


def add_ack_options(parser: argparse.ArgumentParser) -> None:
    """Add `--ack` and `--spool`."""
    parser.add_argument(
        "--ack",
        action="store_true",
        help="wait until a recorder has it on disk; exit code 1 if none has",
    )
    parser.add_argument(
        "--spool",
        metavar="DIR",
        help="the same; while no recorder is there, keep it in DIR until a later run forwards it",
    )


def wants_ack(args: argparse.Namespace) -> bool:
    """Whether what is put is to be acknowledged."""
    return args.ack or args.spool is not None


def declare_spool(session: Session, args: argparse.Namespace) -> Spool | None:
    """The spool of a command, which forwards what earlier ones left there."""
    return None if args.spool is None else session.declare_spool(args.spool)


def forward(spool: Spool | None) -> None:
    """Before the command ends: give what waits a while, and say what is left."""
    if spool is None:
        return
    if not spool.drain(FORWARD_S):
        note(f"{spool_text(spool)}; a later run forwards them")
    stats = spool.stats()
    given_up = {
        "too old": stats.expired_count,
        "refused for good": stats.invalid_count,
        "damaged": stats.lost_count,
    }
    if any(given_up.values()):
        told = ", ".join(f"{count} {why}" for why, count in given_up.items() if count)
        note(f"given up: {told}")


def spool_text(spool: Spool) -> str:
    """What waits in a spool, for people."""
    stats = spool.stats()
    age_s = stats.oldest_age_ns / 1e9
    return (
        f"{stats.waiting_count} wait for a recorder"
        f" ({stats.waiting_len:,} octets, the oldest for {age_s:,.0f} s)"
    )


def ack_json(ack: StoredAck) -> dict[str, Json]:
    """Where a sample is, for programs."""
    return {
        "log": None if ack.log is None else str(ack.log),
        "name": ack.name,
        "shard": ack.shard,
        "seq": ack.seq,
        "duplicate": ack.duplicate,
        "spooled": ack.spooled,
    }


def ack_text(ack: StoredAck, key: str) -> str:
    """The same for people."""
    place = "waits in the spool" if ack.spooled else f"stored in {escape(ack.name)}"
    return f"{escape(key)} {place}: shard {ack.shard}, row {ack.seq}"
