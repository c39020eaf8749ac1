"""`elea graph`: the nodes, and who is connected to whom."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from elea.cli.connection import add_connection_options, note, open_session, require_neighbour
from elea.cli.operators import add_ids_option, add_timeout_option, admin_space
from elea.cli.output import escape, json_line

if TYPE_CHECKING:
    from elea.operate.admin_space import Node
    from elea.operate.labels import Labels

NAME: Final = "graph"
SUMMARY: Final = "print the nodes, and who is connected to whom"

_SHAPES: Final = {"router": "box", "peer": "ellipse", "client": "plain"}
_FILLS: Final = {"router": "#f3c27b", "peer": "#9ecae1", "client": "#dddddd"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.epilog = (
        "Asks the admin space of every node that can be reached: `elea router` has one, and zenohd."
        " Nodes without one are seen through their neighbours. A node is called by the identity it"
        " proved, else its own name in quotes, else `on` the keys it declares, else digits of its"
        " id. Exit code 1 if nobody answers."
    )
    parser.add_argument(
        "--format",
        choices=("text", "dot", "svg", "json"),
        default="text",
        help="how to print it: text, the DOT language, a picture, or JSON lines (default: text)",
    )
    add_ids_option(parser)
    add_timeout_option(parser)
    add_connection_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the graph; 1 if there is none."""
    from elea.operate.admin_space import SILENCE
    from elea.operate.labels import Labels

    with open_session(args) as session:
        require_neighbour(session)
        space = admin_space(session, args)
        found = space.nodes(stats=True)  # these tell identities
        labels = Labels(space)
        labels.learn(found)
        if not found:
            note(SILENCE)
    writer = {"text": _text, "dot": _dot, "svg": _svg, "json": _json}[args.format]
    for line in writer(found, labels, args.ids):
        print(line)
    return 0 if found else 1


def _text(found: list[Node], labels: Labels, ids: bool) -> Iterator[str]:
    for node in found:
        where = " ".join(node.locators) or "listens nowhere"
        yield escape(f"{node.role} {_called(node.zid, labels.name(node.zid), ids)}, {where}")
        for one in sorted(node.neighbours, key=lambda one: (one.role, labels.name(one.zid))):
            links = ", ".join(f"{src} to {dst}" for src, dst in one.links) or "no link"
            yield escape(f"  {one.role} {_called(one.zid, labels.name(one.zid), ids)}, {links}")


def _called(zid: str, name: str, ids: bool) -> str:
    return f"{name} ({zid})" if ids and name != zid else name


def _dot(found: list[Node], labels: Labels, ids: bool) -> Iterator[str]:
    from elea.operate.topology import edges, everybody

    yield "graph {"
    for zid, (role, label) in everybody(found, labels).items():
        shape = _SHAPES.get(role, "plain")
        title = _quoted(f"{role} {_called(zid, label, ids)}")
        yield f"    {_quoted(zid)} [ label = {title}, shape = {shape} ]"
    for a, b in edges(found):
        yield f"    {_quoted(a)} -- {_quoted(b)}"
    yield "}"


def _quoted(text: str) -> str:
    """A text of the DOT language; whatever is not printable is shown escaped."""
    return '"' + escape(text).replace('"', '\\"') + '"'


def _svg(found: list[Node], labels: Labels, ids: bool) -> Iterator[str]:
    from xml.sax.saxutils import escape as xml  # late: it imports HTTP and TLS

    """A circle of nodes: no layout engine, and readable up to some dozens."""
    from elea.operate.topology import edges, everybody

    nodes = everybody(found, labels)
    radius = max(120, 14 * len(nodes))
    size = 2 * (radius + 80)
    places = {
        zid: (
            size / 2 + radius * math.sin(2 * math.pi * index / len(nodes)),
            size / 2 - radius * math.cos(2 * math.pi * index / len(nodes)),
        )
        for index, zid in enumerate(nodes)
    }
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}">'
    for pair in edges(found):
        (x1, y1), (x2, y2) = (places[zid] for zid in pair)
        yield (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#888888"/>')
    for zid, (role, label) in nodes.items():
        x, y = places[zid]
        fill = _FILLS.get(role, "#ffffff")
        yield (
            f"<g><title>{xml(escape(f'{role} {zid}'))}</title>"
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="{fill}" stroke="#444444"/>'
            f'<text x="{x:.1f}" y="{y + 26:.1f}" font-family="sans-serif" font-size="11"'
            f' text-anchor="middle">{xml(escape(_called(zid, label, ids)))}</text></g>'
        )
    yield "</svg>"


def _json(found: list[Node], labels: Labels, ids: bool) -> Iterator[str]:
    for node in found:
        yield json_line(
            {
                "zid": node.zid,
                "whatami": node.role,
                "name": node.name,
                "label": labels.label(node.zid),
                "version": node.version,
                "locators": node.locators,
                "sessions": [
                    {
                        "zid": one.zid,
                        "whatami": one.role,
                        "label": labels.label(one.zid),
                        "links": [{"src": src, "dst": dst} for src, dst in one.links],
                    }
                    for one in node.neighbours
                ],
            }
        )
