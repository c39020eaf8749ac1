"""The language of messages: what parses, what is refused, and where."""

from __future__ import annotations

import pytest

from elea.errors import SchemaError
from elea.limits import XRCE_SCHEMA_DEPTH_MAX, XRCE_SCHEMA_LEN_MAX
from elea.xrce.dsl import model
from elea.xrce.dsl.check import check
from elea.xrce.dsl.parser import parse
from elea.xrce.schema.load import text


def record(members: str) -> str:
    return f"Message = record {{ {members} }}"


@pytest.mark.line("X-001")
def test_the_schema_of_the_messages_parses_and_passes_every_check() -> None:
    checked = check(text())
    message = checked.resolve(checked.definitions["Message"].type)
    assert isinstance(message, model.Record)
    body = message.members[1].type
    assert isinstance(body, model.Case)
    assert len(body.alternatives) == 17
    assert {"S", "M", "P", "L", "Declaration", "BatchedData"} <= checked.definitions.keys()


def test_every_construct_becomes_its_node() -> None:
    [definition] = parse(
        "-- a comment\nx = record { a: header 5 enum { u = 1 }, b: flag 5,"
        " c: case b of { true -> [nat], false -> byte }, d: if F then y }"
    )
    assert isinstance(definition.type, model.Record)
    a, b, c, d = [member.type for member in definition.type.members]
    assert isinstance(a, model.Header)
    assert isinstance(a.value, model.Enumeration)
    assert [(symbol.name, symbol.value) for symbol in a.value.symbols] == [("u", 1)]
    assert isinstance(b, model.Flag)
    assert isinstance(c, model.Case)
    assert [label.first for one in c.alternatives for label in one.labels] == ["true", "false"]
    assert isinstance(c.alternatives[0].type, model.Sequence)
    assert isinstance(d, model.Option)
    assert definition.at == len("-- a comment\n")


def test_names_share_a_type_and_ranges_are_labels() -> None:
    source = "A, B = flag 5 Message = record { s: byte, v: case s of { 1 ... 255, 0 -> nat } }"
    definitions = parse(source)
    assert [definition.name for definition in definitions] == ["A", "B", "Message"]
    message = check(source).resolve(definitions[2].type)
    assert isinstance(message, model.Record)
    case = message.members[1].type
    assert isinstance(case, model.Case)
    for value in (0, 1, 255):
        assert model.selected(case, model.Byte(0), value) is case.alternatives[0]


@pytest.mark.parametrize(
    ("source", "line", "column", "words"),
    [
        ("", 1, 1, "expected a definition's name, found the end"),
        ("a", 1, 2, "expected `=`"),
        ("a = \n  ;", 2, 3, "';' means nothing here"),
        ("a = of", 1, 5, "expected a type, found 'of'"),
        ("a = [nat", 1, 9, "expected `]`"),
        ("a = flag x", 1, 10, "expected the bit of the flag, a number"),
        ("a = enum { }", 1, 12, "expected a symbol"),
        ("a = enum { x = 1, }", 1, 19, "expected a symbol"),
        ("a = record { x nat }", 1, 16, "expected `:`"),
        ("a = record { x: nat y: nat }", 1, 21, "expected `}` or `,`"),
        ("a = case x { }", 1, 12, "expected `of`"),
        ("a = case x of { 1 ... -> nat }", 1, 23, "expected the end of the range"),
        ("a = if S nat", 1, 10, "expected `then`"),
        ("nat = byte", 1, 1, "expected a definition's name, found 'nat'"),
        ("a = flag " + "9" * 21, 1, 10, "a number of 21 digits"),
        ("a = " + "[" * 40, 1, 5 + XRCE_SCHEMA_DEPTH_MAX, "nested deeper"),
        (" " * (XRCE_SCHEMA_LEN_MAX + 1), 1, 1, "a schema has at most"),
    ],
)
def test_a_text_that_does_not_parse_is_refused_at_its_place(
    source: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(source)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in caught.value.reason
    assert str(caught.value).startswith(f"line {line}, column {column}: ")


HEADED = "Message = record {\n k: header 5 byte,\n "

RULES = [
    # 1: names
    ("a = nat\na = byte", 2, 1, "defined already, in line 1"),
    ("Message = [a]", 1, 12, "a is not defined"),
    ("a = nat", 1, 1, "no definition of Message"),
    ("Message = [a] a = record { b: Message }", 1, 31, "Message -> a -> Message"),
    ("Message = Message", 1, 11, "contains itself"),
    # 2: headers
    (record("a: header 0 byte"), 1, 23, "a header of 0 bits; legal are 1 to 8"),
    (record("a: header 9 byte"), 1, 23, "a header of 9 bits"),
    (record("a: header 5 nat"), 1, 32, "a header holds a byte or an enum"),
    (record("a: header 2 enum { x = 4 }"), 1, 23, "x = 4 does not fit 2 bits"),
    # 3: flags
    (record("a: flag 5"), 1, 23, "no header before it"),
    (HEADED + "a: flag 4 }", 3, 5, "the header keeps bits 0 to 4"),
    (HEADED + "a: flag 8 }", 3, 5, "flags have 5 to 7"),
    (HEADED + "a: flag 5, b: flag 5 }", 3, 16, "flag 5 is used twice"),
    (record("a: header 8 byte, b: flag 7"), 1, 41, "keeps bits 0 to 7 for its value, all of it"),
    (
        HEADED + "a: flag 5, b: case a of { true -> flag 6 }, c: flag 6 }",
        3,
        49,
        "flag 6 is used twice",
    ),
    (record("a: record { h: header 5 byte }, b: flag 5"), 1, 55, "belongs to another record"),
    (HEADED + "a: record { h: header 6 byte }, b: flag 6 }", 3, 37, "belongs to another record"),
    # 4: sequences
    (HEADED + "a: [flag 5] }", 3, 6, "no header before it"),
    (
        HEADED + "a: [record { h: header 5 byte }],\n b: flag 5 }",
        4,
        5,
        "belongs to another record",
    ),
    # 5: enums
    (record("a: enum { x = 1, x = 2 }"), 1, 37, "the symbol x is there already"),
    (record("a: enum { x = 1, y = 1 }"), 1, 37, "1 is the value of x already"),
    (record("a: enum { true = 1 }"), 1, 30, "true is the label of a flag"),
    (record(f"a: enum {{ x = {2**64} }}"), 1, 30, "legal is below 2^64"),
    # 6: cases
    (record("a: case b of { 1 -> nat }, b: nat"), 1, 23, "no earlier member"),
    (record("b: nat, a: record { c: case b of { 1 -> nat } }"), 1, 43, "no earlier member"),
    (record("b: nat, a: [case b of { 1 -> nat }]"), 1, 32, "no earlier member"),
    (record("b: enum { x = 1 }, a: case b of { y -> nat }"), 1, 54, "y is no symbol of b"),
    (HEADED + "b: flag 5, a: case b of { 1 -> nat } }", 3, 28, "labels are true and false"),
    (record("b: nat, a: case b of { x -> nat }"), 1, 43, "b is a number"),
    (record("b: byte, a: case b of { 256 -> nat }"), 1, 44, "below 2^8"),
    (record("b: [nat], a: case b of { 1 -> nat }"), 1, 45, "b cannot select"),
    (record("b: nat, a: case b of { 1 ... 5, 5 -> nat }"), 1, 52, "5 overlaps 1 ... 5"),
    (record("b: nat, a: case b of { 5 ... 1 -> nat }"), 1, 43, "a range goes upwards"),
    (record("b: nat, a: if b then nat"), 1, 34, "b is not defined"),
    (record("b: nat, a: if nat then nat"), 1, 34, "`if` needs a flag"),
    # 7: members
    (record("a: nat, a: byte"), 1, 28, "the member a is there already"),
]


@pytest.mark.line("X-002")
@pytest.mark.parametrize(("source", "line", "column", "words"), RULES)
def test_each_rule_refuses_what_breaks_it_at_its_place(
    source: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        check(source)
    assert words in caught.value.reason
    assert (caught.value.line, caught.value.column) == (line, column)


def test_alternatives_may_use_the_same_flag() -> None:
    check(HEADED + "a: flag 5, b: case a of { true -> flag 6, false -> flag 6 } }")


def test_a_flag_may_stand_in_a_record_inside() -> None:
    check(HEADED + "a: record { b: record { c: flag 5 } }, d: flag 6 }")


def test_sizes_of_what_names_lead_to_are_bounded() -> None:
    deep = "Message = record { a: a0 }\n" + "".join(
        f"a{n} = record {{ a: a{n + 1} }}\n" for n in range(28)
    )
    with pytest.raises(SchemaError, match="nested deeper"):
        check(deep + "a28 = [[[[[[nat]]]]]]")
    with pytest.raises(SchemaError, match="names lead to names deeper"):
        check("Message = a0\n" + "".join(f"a{n} = a{n + 1}\n" for n in range(40)) + "a40 = nat")
    wide = "Message = record { a: a0 }\n" + "".join(
        f"a{n} = record {{ a: a{n + 1}, b: a{n + 1} }}\n" for n in range(20)
    )
    with pytest.raises(SchemaError, match="more than 100000 parts"):
        check(wide + "a20 = nat")
