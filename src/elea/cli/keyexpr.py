"""`elea keyexpr`: canonical form and relations of key expressions, for people and for programs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO, Final

from elea.cli.output import printable
from elea.errors import EleaError, KeyExprError

if TYPE_CHECKING:
    from elea.keyexpr.keyexpr import KeyExpr

NAME: Final = "keyexpr"
SUMMARY: Final = "canonical form and relations of key expressions"

_EPILOG: Final = """\
exit status:
  0  done; the answer is true
  1  failed, or the answer of intersects or includes is false
  2  wrong usage

records of --json, one object per line, printed again with their answers:
  {"kind": "string", "s": S}            valid, canonical
  {"kind": "pair", "a": A, "b": B}      intersects, includes, relation
  {"kind": "join", "a": A, "b": B}      result: A/B made canonical, or null
  {"kind": "concat", "a": A, "b": B}    result: AB as it is, or null
a record that cannot be answered gives {"error": {"line", "offset", "reason"}}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.description = "Canonical form and relations of key expressions."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="answer the records of FILE, or of standard input",
    )
    verbs = parser.add_subparsers(dest="keyexpr_verb", metavar="VERB")
    canon = verbs.add_parser("canon", help="print the canonical form of S")
    canon.add_argument("s", metavar="S")
    for verb, summary in (
        ("intersects", "do A and B have a key in common? prints true or false"),
        ("includes", "is every key of B a key of A? prints true or false"),
        ("relation", "print equals, includes, intersects or disjoint, seen from A"),
    ):
        pair = verbs.add_parser(verb, help=summary)
        pair.add_argument("a", metavar="A")
        pair.add_argument("b", metavar="B")
    parser.set_defaults(keyexpr_usage=parser.format_usage)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    if (args.json is None) == (args.keyexpr_verb is None):
        message = "give either a verb or --json"
        print(f"{args.keyexpr_usage()}elea keyexpr: error: {message}", file=sys.stderr)
        return 2
    return _run_verb(args) if args.json is None else _run_json(args.json)


def _run_verb(args: argparse.Namespace) -> int:
    from elea.keyexpr.keyexpr import KeyExpr

    verb: str = args.keyexpr_verb
    if verb == "canon":
        print(printable(str(KeyExpr.autocanonize(args.s))))
        return 0
    a, b = KeyExpr(args.a), KeyExpr(args.b)
    if verb == "relation":
        print(a.relation_to(b).name.lower())
        return 0
    answer = a.intersects(b) if verb == "intersects" else a.includes(b)
    print("true" if answer else "false")
    return 0 if answer else 1


def _run_json(path: str) -> int:
    if path == "-":
        return _answer_lines(sys.stdin.buffer, sys.stdout.buffer)
    with open(path, "rb") as lines:
        return _answer_lines(lines, sys.stdout.buffer)


def _answer_lines(lines: Iterable[bytes], output: BinaryIO) -> int:
    status = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            answered = _answer(_read_record(line))
        except (EleaError, _RecordError) as error:
            status = 1
            offset = error.offset if isinstance(error, KeyExprError) else None
            reason = error.reason if isinstance(error, KeyExprError) else str(error)
            answered = {"error": {"line": number, "offset": offset, "reason": reason}}
        output.write(_dump(answered) + b"\n")
    output.flush()
    return status


class _RecordError(Exception):
    """A line that is no record of the four kinds."""


def _read_record(line: bytes) -> dict[str, object]:
    try:
        record: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _RecordError(f"the line is no JSON: {error}") from None
    if not isinstance(record, dict):
        raise _RecordError("the line is no JSON object")
    return record


def _answer(record: dict[str, object]) -> dict[str, object]:
    """The record with its answers, in place of any it came with."""
    from elea.keyexpr.keyexpr import KeyExpr

    kind = record.get("kind")
    if kind == "string":
        s = _text(record, "s")
        canonical = _or_none(KeyExpr.autocanonize, s)
        return {**record, "valid": _or_none(KeyExpr, s) is not None, "canonical": canonical}
    if kind == "pair":
        a, b = KeyExpr(_text(record, "a")), KeyExpr(_text(record, "b"))
        return {
            **record,
            "intersects": a.intersects(b),
            "includes": a.includes(b),
            "relation": a.relation_to(b).name.lower(),
        }
    if kind in ("join", "concat"):
        a = KeyExpr(_text(record, "a"))
        combine = a.join if kind == "join" else a.concat
        return {**record, "result": _or_none(combine, _text(record, "b"))}
    raise _RecordError(f"kind is {kind!a}; it is one of string, pair, join, concat")


def _text(record: dict[str, object], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        raise _RecordError(f"{name!r} of a {record['kind']} record is a string")
    return value


def _or_none(make: Callable[[str], KeyExpr], text: str) -> str | None:
    try:
        return str(make(text))
    except KeyExprError:
        return None


def _dump(record: dict[str, object]) -> bytes:
    # JSON lines are UTF-8 whatever the locale is; a lone surrogate has no UTF-8 and stays escaped.
    try:
        return json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(record).encode()
