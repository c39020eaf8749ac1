"""`elea info`: who this node is, and who it is connected to."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, open_session
from elea.cli.output import Json, add_output_options, escape

if TYPE_CHECKING:
    from elea.session.session import Session

NAME: Final = "info"
SUMMARY: Final = "print who this node is, and who it is connected to"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    add_output_options(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the identity, the transports and the links of a session."""
    from elea.cli.samples import Printer

    printer = Printer.of(args)
    with open_session(args) as session:
        printer.record(_values(session), "\n".join(_lines(session)))
    return 0


def _values(session: Session) -> dict[str, Json]:
    info = session.info
    return {
        "zid": str(info.zid()),
        "mode": str(session.config.mode),
        "routers": [str(zid) for zid in info.routers_zid()],
        "peers": [str(zid) for zid in info.peers_zid()],
        "transports": [
            {"zid": str(one.zid), "whatami": str(one.whatami), "is_qos": one.is_qos}
            for one in info.transports()
        ],
        "links": [
            {
                "zid": str(one.zid),
                "src": one.src,
                "dst": one.dst,
                "mtu": one.mtu,
                "is_streamed": one.is_streamed,
                "interfaces": one.interfaces,
                "auth_identifier": one.auth_identifier,
            }
            for one in info.links()
        ],
    }


def _lines(session: Session) -> Iterator[str]:
    info = session.info
    yield f"zid: {info.zid()}"
    yield f"mode: {session.config.mode}"
    for transport in info.transports():
        yield f"{transport.whatami}: {transport.zid}"
    for link in info.links():
        interfaces = ", ".join(link.interfaces) or "unknown"
        yield escape(f"link: {link.src} to {link.dst}, mtu {link.mtu}, interface {interfaces}")
    if not info.transports():
        yield "connected to no node"
