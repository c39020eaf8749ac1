"""Fuzz predicates: any text is a predicate that reads back, or an error; any payload has a verdict.

The input is text, a line break, and a payload. The payload is read in every encoding, with a layout
where one is needed.
"""

from __future__ import annotations

import contextlib

from elea.encoding import Encoding
from elea.errors import LimitError, PredicateError
from elea.predicate import PayloadFields, compile_predicate, parse, parse_layout, parse_projection

LAYOUT = parse_layout(
    "{a: i32, b: bool, s: string, c: appendable {x: f64, m: map(string, u8)}, l: [string],"
    " e: enum {OFF, ON}, t: (char, bytes, [i16; 2])}"
)
ENCODINGS = [
    (Encoding("application/json"), None),
    (Encoding("application/cbor"), None),
    (Encoding("text/plain"), None),
    (Encoding("application/cdr"), LAYOUT),
    (Encoding("zenoh/serialized"), LAYOUT),
]
SEEDS = [
    b'a > 1 AND NOT (s LIKE \'mu%_c*\' OR l[1] = \'b\')\n{"a": 2, "s": "music", "l": ["a", "b"]}',
    b'inRange(c, \'48.0,2.01\', 800) OR c.m.k BETWEEN 0x1 AND 2.5e3\n{"c": {"lat": 48, "lon": 2}}',
    b'value[0] <> TRUE AND exists("odd ""name""".x)\n\x82\xf5\xa1\x61x\xfb\x7f\xf0\0\0\0\0\0\0',
    b"value >= -1.5\n 21.5 ",
    b"key LIKE 'lab/*' AND length(lower(s)) = abs(a)\n{}",
    b"s LIKE '%a_a_a_a_a_a%'\n" + b'{"s": "' + b"a" * 2_000 + b'"}',
    b"a = 1 OR e = 'ON'\n\0\1\0\0\1\0\0\0\1\0\0\0\2\0\0\0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"t[2][1] != 7\n\1\0\0\0\1\1a",
    b"{a: [(u8, {b: enum {A = 1, B}}); 3]}\n",
    b'loc.lat AS lat, "x y"[3], room\n',
    b"(" * 33 + b"a = 1" + b")" * 33 + b"\n",
    b"a = 1" + b" OR a = 1" * 40 + b"\n" + b"[" * 200,
    b"SELECT * FROM t\n",
]

# What does not grow with the input: compiled expressions of LIKE, tables of JSON. What grows
# faster: "a=1" is three octets and four objects, and a token is one more while it is looked at.
MEMORY_ALLOWANCE = 256 * 1024


def one_input(data: bytes) -> None:
    line, _, payload = data.partition(b"\n")
    text = line.decode("utf-8", "replace")
    with contextlib.suppress(PredicateError, LimitError):
        parse_layout(text)
    with contextlib.suppress(PredicateError, LimitError):
        projection = parse_projection(text)
        assert str(parse_projection(str(projection))) == str(projection)
    try:
        predicate = parse(text, ["1", "'a'"])
    except (PredicateError, LimitError):
        return
    # The canonical text has more blanks, and may be too long to be read.
    with contextlib.suppress(LimitError):
        assert parse(str(predicate)) == predicate
    test = compile_predicate(predicate)
    for encoding, layout in ENCODINGS:
        assert test(PayloadFields(payload, encoding, key="lab/a", layout=layout)) in (
            True,
            False,
            None,
        )
