"""`elea predicate`: what a predicate means, and what it says of a payload."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from elea.cli.output import Json, json_line, printable

if TYPE_CHECKING:
    from elea.predicate.evaluate import Fields, Verdict
    from elea.predicate.model import Predicate

NAME: Final = "predicate"
SUMMARY: Final = "explain a predicate, and try it on a payload"

_EPILOG: Final = """\
a predicate is a condition like: temp > 20 AND room LIKE 'mu%' AND exists(loc.lat)
the verdict is true, false or unknown; a sample is selected only if it is true

exit status:
  0  done; the predicate is true, or no payload was given
  1  the predicate is refused, false or unknown
  2  wrong usage
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.description = "Explain a predicate, and try it on a payload."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("predicate", metavar="PREDICATE", help="the text of the predicate")
    parser.add_argument(
        "parameters", nargs="*", metavar="VALUE", help="values of %%0, %%1, ..., each a literal"
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--payload", metavar="TEXT", help="a payload to try it on")
    source.add_argument("--file", metavar="FILE", help="the same, from a file; - is standard input")
    parser.add_argument(
        "--encoding",
        default="application/json",
        help="what the payload is (default: application/json)",
    )
    parser.add_argument(
        "--layout", metavar="TYPE", help="its type, as {temp: f32, room: string}; CDR needs one"
    )
    parser.add_argument("--key", default="", help="the key of the sample")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    from elea.encoding import Encoding
    from elea.predicate import PayloadFields, check, compile_predicate, parse, parse_layout
    from elea.predicate.model import Field, walk

    predicate = parse(args.predicate, args.parameters)
    layout = None if args.layout is None else parse_layout(args.layout)
    remarks = check(predicate, layout, text=args.predicate)
    payload = _payload(args)
    fields = None
    verdict: Verdict = None
    if payload is not None:
        fields = PayloadFields(payload, Encoding(args.encoding), key=args.key, layout=layout)
        verdict = compile_predicate(predicate)(fields)
    if args.json:
        shown: dict[str, Json] = {
            "predicate": str(predicate),
            "fields": sorted({str(node) for node in walk(predicate) if isinstance(node, Field)}),
            "remarks": [{"part": one.part, "reason": one.reason} for one in remarks],
        }
        if fields is not None:
            shown |= {"verdict": verdict, "failure": fields.failure}
        print(json_line(shown))
    else:
        for line in _tree(predicate, fields, 0):
            print(printable(line))
        for one in remarks:
            print(printable(f"always unknown: {one.part}: {one.reason}"))
        if fields is not None and fields.failure is not None:
            print(printable(f"the payload cannot be decoded: {fields.failure}"))
    return 0 if fields is None or verdict else 1


def _payload(args: argparse.Namespace) -> bytes | None:
    if args.file == "-":
        return sys.stdin.buffer.read()
    if args.file is not None:
        with open(args.file, "rb") as file:
            return file.read()
    return None if args.payload is None else str(args.payload).encode("utf-8", "surrogateescape")


def _tree(predicate: Predicate, fields: Fields | None, depth: int) -> Iterator[str]:
    """One line per part, and what it says of the payload."""
    from elea.predicate import compile_predicate
    from elea.predicate.model import And, Not, Or

    terms: tuple[Predicate, ...] = ()
    if isinstance(predicate, Not):
        terms = (predicate.term,)
    elif isinstance(predicate, (And, Or)):
        terms = predicate.terms
    name = type(predicate).__name__.upper() if terms else str(predicate) or "(empty)"
    verdict = "" if fields is None else f": {_shown(compile_predicate(predicate)(fields))}"
    yield "  " * depth + name + verdict
    for term in terms:
        yield from _tree(term, fields, depth + 1)


def _shown(verdict: Verdict) -> str:
    return "unknown" if verdict is None else str(verdict).lower()
