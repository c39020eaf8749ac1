"""`_filter` and `_project`."""

from __future__ import annotations

import pytest

from elea.errors import LimitError, PredicateError, UnsupportedPredicateError
from elea.parameters import Parameters
from elea.predicate import MappingFields, filter_of, parse, parse_projection, projection_of
from elea.predicate.projection import value_of


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        ("_filter=a=1", "a=1"),
        ("x=1;_filter=a='b;c' AND d=\"e;f\";y=2", "a='b;c' AND d=\"e;f\""),
        ("_filter=a='it''s;'", "a='it''s;'"),
        ("_filter=a='open;x=1", "a='open"),
        ("_filters=1;x_filter=2;_filter=3;_filter=4", "3"),
        ("_filter", None),
        ("", None),
        ("_filter=", None),  # Zenoh drops what ends in `=`
        ("x=_filter=1", None),
    ],
)
def test_the_value_of_a_parameter(parameters: str, value: str | None) -> None:
    assert value_of(Parameters(parameters), "_filter") == value


def test_filter() -> None:
    assert filter_of(Parameters("_time=[now(-1h)..]")) is None
    assert filter_of(Parameters("_filter=t > 20")) == parse("t > 20")
    assert filter_of(Parameters("_filter=t > %0"), ["20"]) == parse("t > 20")
    with pytest.raises(PredicateError, match="%0 has no value"):
        filter_of(Parameters("_filter=t > %0"))
    with pytest.raises(UnsupportedPredicateError):
        filter_of(Parameters("_filter=nope(1)"))


def test_projection() -> None:
    assert projection_of(Parameters("a=b")) is None
    projection = projection_of(Parameters('_project=loc.lat as lat, tags[0],"a b" AS "x;y",n'))
    assert projection is not None
    assert str(projection) == 'loc.lat AS lat, tags[0], "a b" AS "x;y", n'
    assert parse_projection(str(projection)) == projection
    row = {"loc": {"lat": 48}, "tags": ["t"], "a b": 1}
    assert projection.apply(MappingFields(row)) == {"lat": 48, "tags[0]": "t", "x;y": 1, "n": None}


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("", 0, "expected a field, found the end"),
        ("a,", 2, "expected a field"),
        ("a b", 2, "expected AS, ',' or the end, found 'b'"),
        ("a AS", 4, "expected a name"),
        ("a AS 1", 5, "expected a name"),
        ("a, b AS a", 2, "two fields are named 'a'"),
        ("a[", 2, "a position"),
        ("*", 0, "expected a field"),
        ("a AS b c", 7, "expected AS"),
    ],
)
def test_projections_that_are_none(text: str, offset: int, reason: str) -> None:
    with pytest.raises(PredicateError, match=reason) as caught:
        parse_projection(text)
    assert caught.value.offset == offset


def test_projections_are_bounded() -> None:
    parse_projection(",".join(f"a{n}" for n in range(256)))
    with pytest.raises(LimitError, match="projection_count allows 256, got 257"):
        parse_projection(",".join(f"a{n}" for n in range(257)))
    with pytest.raises(LimitError, match="predicate_len"):
        parse_projection("a" * 5_000)
