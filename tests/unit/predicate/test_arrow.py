"""What Arrow does, what is left, and that the rest of the package does without pyarrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from elea.errors import MissingDependencyError, UnsupportedPredicateError
from elea.predicate import STANDARD, Function, parse, split, to_arrow

SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "u": pa.uint64(),
        "x": pa.float32(),
        "b": pa.bool_(),
        "s": pa.dictionary(pa.int32(), pa.string()),
        "l": pa.list_(pa.int64()),
        "m": pa.map_(pa.string(), pa.int64()),
        "c": pa.struct({"s": pa.string()}),
        "t": pa.timestamp("us"),
    }
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "i > 1 AND NOT (x < 1.5 OR s LIKE 'a%')",
        "i BETWEEN 0 AND x",
        "u = 18446744073709551615",
        "b = 1 AND b = TRUE AND b < TRUE",
        "c.s = 'a' AND c.z = 1",
        "missing = 1",
        "exists(l) AND exists(missing)",
        "length(s) = 1 AND abs(x) < 1 AND length(i) = 1 AND length(missing) = 1",
        "1 = 1 OR inRange('1,2', '1,2', 3)",
        "s = 1 AND c = 1",
    ],
)
def test_what_arrow_does(text: str) -> None:
    predicate = parse(text)
    to_arrow(predicate, SCHEMA)
    parts = split(predicate, SCHEMA)
    assert (str(parts.arrow), str(parts.rest)) == (text, "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("l[0] = 1", "subscripts"),
        ("m.a = 1", "maps"),
        ("t = 1", "columns of type timestamp"),
        ("l = 1", "columns of type list"),
        ("u = -1", "does not fit"),
        ("i = 9223372036854775808", "does not fit"),
        ("u = i", "signed and unsigned"),
        ("b = 2", "0 and 1 only"),
        ("b = i", "0 and 1 only"),
        ("x > 1" + "0" * 400, "larger than any float"),
        ("s LIKE c.s", "a pattern that is a column"),
        ("lower(s) = 'a'", "lower"),
        ("abs(i) = 1", "abs"),
        ("length('a') < i", "length"),
        ("inRange(l, '1,2', 3)", "inRange"),
        ("i = %0", "%0 has no value"),
        ("s = '\ud800'", "no UTF-8"),
        ("s LIKE '\ud800'", "no UTF-8"),
    ],
)
def test_what_is_left(text: str, reason: str) -> None:
    predicate = parse(f"i > 1 AND ({text} OR i = 0)")
    with pytest.raises(UnsupportedPredicateError, match=reason):
        to_arrow(predicate, SCHEMA)
    if "%" not in text:
        parts = split(predicate, SCHEMA)
        assert str(parts.arrow) == "i > 1"
        assert parts.rest == parse(f"{text} OR i = 0")


def test_a_function_of_yours_is_left() -> None:
    mine = STANDARD.extended(length=Function(lambda text: 1, 1), exists=Function(lambda x: True, 1))
    for text in ("length(s) = 1", "exists(s)"):
        predicate = parse(text, functions=mine)
        with pytest.raises(UnsupportedPredicateError):
            to_arrow(predicate, SCHEMA, functions=mine)


def test_columns_of_one_name() -> None:
    schema = pa.schema([("a", pa.int64()), ("a", pa.string())])
    with pytest.raises(UnsupportedPredicateError, match="2 columns are named 'a'"):
        to_arrow(parse("a = 1"), schema)


def test_many_terms_are_not_as_many_levels() -> None:
    table = pa.table({"a": [1, 500, 2_000]})
    predicate = parse(" OR ".join(f"a={number}" for number in range(400, 800)))
    assert table.filter(to_arrow(predicate, table.schema))["a"].to_pylist() == [500]


@pytest.mark.parametrize("text", ["i > 85", "k > 85", "x > 85", "x > 85.5", "i > 85.5", "c.i > 85"])
def test_files_are_ruled_out_by_their_statistics(text: str, tmp_path: Path) -> None:
    numbers = range(100)
    table = pa.table(
        {
            "i": numbers,
            "k": pa.array(numbers, pa.int8()),
            "x": pa.array(numbers, pa.float64()),
            "c": [{"i": number} for number in numbers],
        }
    )
    parquet.write_table(table, tmp_path / "file", row_group_size=10)
    [file] = dataset.dataset(tmp_path / "file").get_fragments()
    found = file.split_by_row_group(filter=to_arrow(parse(text), table.schema))
    assert len(found) == 2


def test_predicates_do_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, elea.predicate; sys.exit('pyarrow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"elea\[arrow\]"):
        to_arrow(parse("a = 1"), SCHEMA)
