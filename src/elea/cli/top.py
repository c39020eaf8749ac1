"""`elea top`: nodes and their sessions, with what goes through and what is dropped."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from elea.choices import TRAFFIC_SORTS
from elea.cli.connection import add_connection_options, note, open_session, require_neighbour
from elea.cli.operators import add_ids_option, add_timeout_option, admin_space
from elea.cli.output import (
    Json,
    Painter,
    Style,
    add_color_option,
    counted,
    escape,
    json_line,
    painter,
)
from elea.cli.payloads import count, seconds

if TYPE_CHECKING:
    from elea.operate.admin_space import Node
    from elea.operate.labels import Labels
    from elea.operate.traffic import Look, Row

NAME: Final = "top"
SUMMARY: Final = "show nodes and their sessions: rates, drops, queues, memory"

INTERVAL_MIN_S: Final = 0.2  # what is looked at should not be busy with being looked at
_ALTERNATE: Final = "\x1b[?1049h\x1b[?25l"  # another screen, without a cursor
_NORMAL: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST_OF_SCREEN: Final = "\x1b[J"
# 80 columns; what needs attention stands first, because a narrow terminal cuts the rest.
_COLUMNS: Final = (
    *(("drops", 6), ("waiting", 7), ("node", -12), ("session", -17)),
    *(("in/s", 6), ("in B/s", 6), ("out/s", 6), ("out B/s", 7), ("link", -5)),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = (
        "Asks the admin space of every node that can be reached. Elea nodes tell counters; zenohd"
        " tells them if it was built with its feature `stats`, and is shown without them otherwise."
        " A session is called by the identity it proved, else its own name in quotes, else `on` the"
        " keys it declares, else digits of its id. Ctrl-C ends it. Exit code 1 if nobody answers."
    )
    parser.add_argument(
        "--interval",
        type=_interval,
        default=2.0,
        metavar="S",
        help=f"how often to look, and what rates are taken over; at least {INTERVAL_MIN_S:g}"
        " (default: 2)",
    )
    parser.add_argument("--count", type=count, metavar="N", help="end after N looks")
    parser.add_argument(
        "--once", action="store_true", help="print one look, taken over one interval, and end"
    )
    parser.add_argument(
        "--sort",
        choices=TRAFFIC_SORTS,
        default="traffic",
        help="what the sessions are sorted by, greatest first (default: traffic)",
    )
    parser.add_argument("--node", metavar="ZID", help="show the sessions of this node only")
    add_ids_option(parser)
    add_timeout_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per look")
    add_color_option(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Show it until it is interrupted, or as often as it was said; 1 if nobody answers."""
    from elea.operate.admin_space import SILENCE
    from elea.operate.labels import Labels
    from elea.operate.traffic import look, rank

    stream = sys.stdout
    live = stream.isatty() and not (args.json or args.once)
    most = 1 if args.once else args.count
    paint = painter(args.color, stream)
    answered = False
    with open_session(args) as session, _screen(stream, live=live):
        require_neighbour(session)
        space = admin_space(session, args)
        labels = Labels(space)
        before = look(space.nodes(stats=True), args.node)
        shown = 0
        while most is None or shown < most:
            time.sleep(max(0.0, before.at_s + args.interval - time.monotonic()))
            now = look(space.nodes(stats=True), args.node)
            now.compare(before)
            now.rows.sort(key=lambda row: rank(row, args.sort))
            answered = answered or bool(now.nodes)
            labels.learn(now.nodes)
            _print(now, labels, args, paint, stream, live=live)
            before = now
            shown += 1
        if not answered:
            note(SILENCE)
    return 0 if answered else 1


def _interval(text: str) -> float:
    value = seconds(text)
    if value < INTERVAL_MIN_S:
        raise argparse.ArgumentTypeError(
            f"expected a number of seconds, {INTERVAL_MIN_S:g} or more, got {text!r}"
        )
    return value


@contextmanager
def _screen(stream: TextIO, *, live: bool) -> Iterator[None]:
    """A screen of its own, and the old one back whatever happens."""
    if not live:
        yield
        return
    stream.write(_ALTERNATE)
    try:
        yield
    finally:
        stream.write(_NORMAL)
        stream.flush()


# What is printed.


def _print(
    now: Look,
    labels: Labels,
    args: argparse.Namespace,
    paint: Painter,
    stream: TextIO,
    *,
    live: bool,
) -> None:
    if args.json:
        stream.write(json_line(_values(now, labels)) + "\n")
    elif live:
        size = shutil.get_terminal_size()
        lines = [line[: size.columns] for line in _lines(now, labels, ids=args.ids)]
        over = len(lines) - size.lines
        if over > 0:
            lines = [*lines[: size.lines - 1], f"{over + 1} more"]
        painted = [_painted(line, paint) + _REST_OF_LINE for line in lines]
        stream.write(_HOME + "\n".join(painted) + _REST_OF_SCREEN)
    else:
        stream.writelines(
            _painted(line.rstrip(), paint) + "\n" for line in _lines(now, labels, ids=args.ids)
        )
    stream.flush()


def _painted(line: str, paint: Painter) -> str:
    head = _row([name for name, _ in _COLUMNS]).rstrip()
    return paint(line, Style.BOLD) if line.startswith(head) else line


def _lines(now: Look, labels: Labels, *, ids: bool) -> Iterator[str]:
    for node in now.nodes:
        title = f"{node.role} {labels.name(node.zid)}" + (f" {node.zid}" if ids else "")
        yield escape("  ".join((title, *_node_parts(node, now.cpu_shares.get(node.zid)))))
    for node in now.nodes:
        if lost := _nowhere(node):
            yield escape(f"{labels.label(node.zid)}: {lost}")
    yield ""
    yield _row([name for name, _ in _COLUMNS]) + (" id" if ids else "")
    for row in now.rows:
        yield _row(_cells(row, labels)) + (f" {escape(row.session.zid)}" if ids else "")
    if reasons := now.drop_reasons():
        yield ""
        yield escape("drops: " + ", ".join(f"{count} {reason}" for reason, count in reasons))


def _row(cells: Sequence[str]) -> str:
    """A line of the table: text to the left, numbers to the right."""
    return " ".join(
        escape(text)[:-width].ljust(-width) if width < 0 else escape(text)[:width].rjust(width)
        for text, (_, width) in zip(cells, _COLUMNS, strict=True)
    )


def _node_parts(node: Node, cpu_share: float | None) -> Iterator[str]:
    from elea.operate.traffic import number

    stats = node.stats or {}
    yield counted(len(node.neighbours), "session")
    uptime, process = stats.get("uptime_seconds"), stats.get("process")
    if isinstance(uptime, (int, float)):
        yield f"up {_span(uptime)}"
    if isinstance(process, dict):
        yield f"memory {_short(number(process.get('resident_bytes')))}B"
    if cpu_share is not None:
        yield f"cpu {cpu_share:.0%}"
    yield f"answered in {node.answered_s * 1e3:.1f} ms"


def _nowhere(node: Node) -> str:
    from elea.operate.traffic import number

    routing = (node.stats or {}).get("routing_drops")
    if not isinstance(routing, dict) or not routing:
        return ""
    told = sorted(((str(name), number(routing[name])) for name in routing), key=lambda a: -a[1])
    return "went nowhere: " + ", ".join(f"{count} {name}" for name, count in told[:3])


def _cells(row: Row, labels: Labels) -> tuple[str, ...]:
    counters = row.counters
    return (
        "-" if counters is None else _short(counters.dropped),
        "-" if counters is None else f"{_short(counters.waiting_octets)}B",
        labels.label(row.node.zid),
        labels.label(row.session.zid),
        _rate(row.received_rate),
        _rate(row.received_octets_rate),
        _rate(row.sent_rate),
        _rate(row.sent_octets_rate),
        row.protocol or "-",
    )


def _values(now: Look, labels: Labels) -> dict[str, Json]:
    from elea.operate.traffic import number

    shown: list[Json] = []
    for node in now.nodes:
        stats = node.stats or {}
        process = stats.get("process")
        shown.append(
            {
                "zid": node.zid,
                "whatami": node.role,
                "name": node.name,
                "label": labels.label(node.zid),
                "version": node.version,
                "answered_ms": round(node.answered_s * 1e3, 3),
                "cpu_share": _rounded(now.cpu_shares.get(node.zid)),
                "resident_bytes": None
                if not isinstance(process, dict)
                else number(process.get("resident_bytes")),
                "sessions": [_session(row, labels) for row in now.rows if row.node is node],
            }
        )
    return {"nodes": shown}


def _session(row: Row, labels: Labels) -> dict[str, Json]:
    counters = row.counters
    shown: dict[str, Json] = {
        "zid": row.session.zid,
        "whatami": row.session.role,
        "label": labels.label(row.session.zid),
        "region": row.session.region,
        "identity": row.identity or None,
        "links": [{"src": src, "dst": dst} for src, dst in row.session.links],
    }
    if counters is not None:
        shown |= {
            "received_messages": counters.received_messages,
            "received_bytes": counters.received_octets,
            "sent_messages": counters.sent_messages,
            "sent_bytes": counters.sent_octets,
            "drops": counters.drops,
            "waiting_bytes": counters.waiting_octets,
            "received_rate": _rounded(row.received_rate),
            "received_bytes_rate": _rounded(row.received_octets_rate),
            "sent_rate": _rounded(row.sent_rate),
            "sent_bytes_rate": _rounded(row.sent_octets_rate),
        }
    return shown


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)


def _rate(rate: float | None) -> str:
    return "-" if rate is None else _short(rate)


def _short(value: float) -> str:
    """A number in at most six characters.

    Example:
        >>> _short(7), _short(1_234), _short(98_765_432)
        ('7', '1.2k', '98.8M')
    """
    for unit in ("", "k", "M", "G"):
        if value < 999.95:
            return f"{value:.1f}{unit}" if unit else f"{value:.0f}"
        value /= 1_000
    return f"{value:.1f}T"


def _span(value: float) -> str:
    """A time in words of two units.

    Example:
        >>> _span(42), _span(3_700), _span(200_000)
        ('42 s', '1 h 1 min', '2 d 7 h')
    """
    minutes, hours, days = int(value // 60), int(value // 3_600), int(value // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {int(value % 60)} s" if minutes else f"{int(value)} s"
