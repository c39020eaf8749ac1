"""The same snippet of values, run with Elea and with zenoh-python: the same value or error."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
import zenoh
import zenoh.ext
from tests.interop.outcomes import outcome, same

import elea

UTC = datetime.timezone.utc  # noqa: UP017  # a name that the snippets use

KEYS = ["a", "a/*", "a/**/b", "a/**/**", "a//b", "/a", "a/", "", "a#", "a?b", "a$b", "a/b$*", "é"]
KEYS += ["$*", "a/**/*", "a/*/**", "@a/**", "a/*b", "$*$*", "a/$*b$*/c"]
PAIRS = [
    ("a/*", "a/b"),
    ("a/**", "a"),
    ("**", "@x"),
    ("a/b$*", "a/bcd"),
    ("*/b", "a/*"),
    ("a", "b"),
]
LISTS = ["", "a", "a=1;b=2", "a=1;a=2", "a=1|2", "=1", "a==", ";;a=1;;", "a=|1", "ü=é", "a b=c d"]
ENCODINGS = ["", "text/plain", "text/plain;utf-8", "text/plain;", "foo/bar;a;b", ";x", "TEXT/PLAIN"]
TIMES = ["2024-07-01T13:51:12.129693000Z", "2024-07-01T13:51:12Z", "2024-07-01", "", "x"]
TIMES += ["1970-01-01T00:00:00Z", "2024-02-30T00:00:00Z", "2024-07-01T13:51:12.1234567891Z"]
SERIALS = ["1", "-1", "2**31", "True", "1.5", "'é'", "b'ab'", "bytearray(b'ab')", "[]", "[1, 2]"]
SERIALS += ["(1, 'a')", "()", "{'a': [1, 2]}", "{1, 2}", "frozenset({1})", "None", "[1, 'a']"]
SERIALS += ["x.Int8(-128)", "x.UInt8(256)", "x.Int128(2**100)", "x.Float32(1.5)", "{(1, 2): 'a'}"]
TYPES = ["int", "bool", "float", "str", "bytes", "list[int]", "tuple[int, int]", "dict[int, str]"]
TYPES += ["set[int]", "x.Int8", "x.UInt128", "x.Float32", "list", "None", "object", "1"]
OCTETS = [b"", b"\x01", b"\x01\0\0\0", b"\x02ab", b"\x02a\xff", b"\x02\x01\0\0\0\x02\0\0\0"]
PATHS = ["mode", "connect/endpoints", "listen", "scouting/multicast/ttl", "nope", "mode/x"]
PATHS += ["timestamping/enabled", "transport/link/tx/queue/size", "metadata", "namespace", "id"]
SETTINGS = [("mode", '"client"'), ("mode", '"x"'), ("mode", "peer"), ("mode", ""), ("mode", "{")]
SETTINGS += [("mode", "/*c*/ 'peer' // d"), ("nope", "1"), ("id", '"a1"'), ("id", '"A1"')]
SETTINGS += [("connect/endpoints", '["tcp/127.0.0.1:1"]'), ("connect/endpoints", '["x"]')]
SETTINGS += [("connect/timeout_ms", "{router: -1, peer: 1}"), ("timestamping/enabled", "true")]
SETTINGS += [("scouting", "{multicast: {enabled: false}}"), ("queries_default_timeout", '"a"')]
ENUMS = ["CongestionControl.BLOCK_FIRST", "ConsolidationMode.DEFAULT", "Priority.DEFAULT"]
ENUMS += ["QueryTarget.ALL_COMPLETE", "ReplyKeyExpr.ANY", "Reliability.DEFAULT", "Locality.ANY"]
ENUMS += ["SampleKind.DELETE", "WhatAmI.PEER", "InterceptionPoint.RECEIVE", "Priority.MIN"]

SNIPPETS = [
    *(f"z.KeyExpr({key!r})" for key in KEYS),
    *(f"z.KeyExpr.autocanonize({key!r})" for key in KEYS),
    *(f"z.KeyExpr('x').join({key!r})" for key in KEYS),
    *(f"z.KeyExpr('x').concat({key!r})" for key in KEYS),
    *(
        f"z.KeyExpr({one!r}).{verb}({other!r})"
        for one, other in PAIRS
        for verb in ("intersects", "includes", "relation_to")
    ),
    *(f"z.Selector('k?' + {text!r})" for text in LISTS),
    *(f"list(z.Parameters({text!r}))" for text in LISTS),
    *(f"z.Parameters({text!r}).values('a')" for text in LISTS),
    *(f"z.Parameters({text!r}).get('b', 'd')" for text in LISTS),
    *(f"z.Parameters({text!r}).insert('a', '9')" for text in LISTS),
    *(f"z.Parameters({text!r}).remove('a')" for text in LISTS),
    *(f"z.Encoding({text!r})" for text in ENCODINGS),
    *(f"z.Encoding({text!r}).with_schema('s')" for text in ENCODINGS),
    *(f"z.Encoding({text!r}) == 'text/plain'" for text in ENCODINGS),
    *(f"z.NTP64.parse_rfc3339({text!r}).as_nanos()" for text in TIMES),
    *(f"z.Timestamp.parse_rfc3339({text!r} + '/33')" for text in TIMES),
    *(f"bytes(x.z_serialize({value}))" for value in SERIALS),
    *(f"x.z_deserialize(type({value}), x.z_serialize({value}))" for value in SERIALS),
    *(f"x.z_deserialize({kind}, z.ZBytes({data!r}))" for kind in TYPES for data in OCTETS),
    *(f"json.loads(z.Config().get_json({path!r}))" for path in PATHS),
    *(f"z.Config().insert_json5({path!r}, {value!r})" for path, value in SETTINGS),
    *(f"str(z.{member})" for member in ENUMS),
    *(f"int(z.{member})" for member in ENUMS),
    "z.KeyExpr('a') == 'a'",
    "z.KeyExpr('a') == z.KeyExpr('a')",
    "hash(z.KeyExpr('a')) == hash(z.KeyExpr('a'))",
    "z.KeyExpr('a') < z.KeyExpr('b')",
    "z.KeyExpr('a') / 'b'",
    "z.KeyExpr(1)",
    "z.KeyExpr()",
    "z.KeyExpr('a').intersects('a//b')",
    "z.Selector('a', {'x': '1'})",
    "z.Selector('a?x=1', 'y=2')",
    "z.Selector(z.KeyExpr('a'), z.Parameters('x=1'))",
    "z.Selector('a').parameters.is_empty()",
    "z.Parameters('a=1')['zz']",
    "'a' in z.Parameters('a=1')",
    "bool(z.Parameters(''))",
    "z.Parameters(1)",
    "len(z.ZBytes('é'))",
    "z.ZBytes(b'\\xff').to_string()",
    "z.ZBytes(b'a') == b'a'",
    "z.ZBytes(b'a') == 'a'",
    "z.ZBytes(1)",
    "hash(z.ZBytes(b'a')) == hash(z.ZBytes('a'))",
    "z.ZBytes(b'abc')[0]",
    "list(z.ZBytes(b'abc'))",
    "z.Encoding(1)",
    "z.Encoding.TEXT_PLAIN.with_schema(1)",
    "z.Encoding('a') == 1",
    "{z.Encoding.TEXT_PLAIN: 1}[z.Encoding('text/plain')]",
    "z.NTP64(1, 500_000_000).as_secs_f64()",
    "z.NTP64(1_700_000_000, 123_456_789).to_datetime()",
    "str(z.NTP64(1, 999_999_999))",
    "z.Timestamp(datetime.datetime(2024, 7, 1, tzinfo=UTC), b'\\x33')",
    "z.Timestamp(z.NTP64(5, 6), bytearray(b'ab')).get_time()",
    "z.Timestamp(z.NTP64(5, 6), b'')",
    "z.Timestamp(z.NTP64(5, 6), 1)",
    "z.Timestamp(1, b'a')",
    "z.Timestamp(z.NTP64(9, 0), b'a').get_diff_duration(z.Timestamp(z.NTP64(5, 0), b'b'))",
    "bytes(z.TimestampId(b'\\x01\\x02'))",
    "z.WhatAmI.ROUTER | z.WhatAmI.PEER",
    "z.WhatAmI.ROUTER | 1",
    "z.WhatAmI('peer')",
    "z.WhatAmI('x')",
    "z.WhatAmIMatcher('peer|router').matches(z.WhatAmI.CLIENT)",
    "z.WhatAmIMatcher('peer').matches('peer')",
    "z.WhatAmIMatcher('peer|x')",
    "z.WhatAmIMatcher(1)",
    "z.WhatAmIMatcher.empty().router().peer()",
    "z.QueryConsolidation(z.ConsolidationMode.NONE).mode()",
    "z.QueryConsolidation(1)",
    "z.TimestampInstrumentationBuilder().build()",
    "z.TimestampInstrumentationBuilder().set_send(True).build()"
    ".is_instrumented(z.InterceptionPoint.ROUTE)",
    "z.Config.from_json5('{mode: 1}')",
    "z.Config.from_json5('{nope: 1}')",
    "json.loads(z.Config.from_json5('{mode: \"client\"}').get_json('mode'))",
    "z.Config.from_file('/nonexistent.json5')",
    "z.Config().get_json(1)",
    "z.handlers.FifoChannel(-1)",
    "z.handlers.RingChannel()",
    "z.handlers.Callback(len)(b'abc')",
    "z.handlers.Callback(print).drop",
    "z.handlers.Callback(print, indirect=False).indirect",
    "x.HistoryConfig(max_samples=-1)",
    "x.CacheConfig('a')",
    "z.open(1)",
    "issubclass(z.ZError, Exception)",
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_values(snippet: str) -> None:
    code = compile(snippet, snippet, "eval")
    names = {"json": json, "datetime": datetime, "UTC": UTC}

    def run(module: Any) -> Any:
        return eval(code, {"z": module, "x": module.ext, **names})

    theirs, ours = outcome(lambda: run(zenoh)), outcome(lambda: run(elea))
    assert same(theirs, ours), f"zenoh-python: {theirs}\nElea: {ours}"
