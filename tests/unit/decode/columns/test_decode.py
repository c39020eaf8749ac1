"""Batches with payloads to batches with columns: plans, rules, dead letters, drift."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from elea.errors import ConfigError, LimitError
from elea.limits import DEFAULT_LIMITS
from elea.spark.decode import (
    Plan,
    Rule,
    decode,
    decoder_for,
    plan_of_options,
    plan_of_samples,
    read_schemas,
)
from elea.store.log.schema import POSITION, SCHEMA, RowKind

JSON, CBOR, TEXT = "application/json", "application/cbor", "text/plain"


def batch_of(*rows: tuple[str, str, bytes], kind: int = RowKind.PUT) -> pa.RecordBatch:
    """Rows of a log, with their places, as a source reads them."""
    filled = [
        {"key": key, "kind": kind, "payload": payload, "encoding": encoding, "qos": 0, "recv_ts": 0}
        for key, encoding, payload in rows
    ]
    batch = pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in SCHEMA.names} for row in filled], schema=SCHEMA
    )
    count = batch.num_rows
    batch = batch.append_column(POSITION[0], pa.array([0] * count, pa.int32()))
    return batch.append_column(POSITION[1], pa.array(range(count), pa.int64()))


ROWS = (
    ("fleet/r1/temp", JSON, b'{"t": 21.5, "unit": "C"}'),
    ("fleet/r1/name", TEXT, b"robot one"),
    ("fleet/r2/temp", JSON, b'{"t": "warm"}'),
    ("fleet/r2/image", "image/png", b"\x89PNG"),
    ("fleet/r2/temp", JSON, b'{"t": -3}'),
)
PLAN = Plan(
    (
        Rule(decoder="json", key_expr="fleet/*/temp", layout="{t: f64, unit: string}"),
        Rule(decoder="text", encoding=TEXT),
    )
)


def test_rows_and_dead_letters() -> None:
    batch = batch_of(*ROWS)
    found = decode(batch, PLAN)
    assert found.rows.schema.names[-3:] == ["t", "unit", "value"]
    assert "payload" not in found.rows.schema.names
    assert found.rows.select(["seq", "t", "unit", "value"]).to_pylist() == [
        {"seq": 0, "t": 21.5, "unit": "C", "value": None},
        {"seq": 1, "t": None, "unit": None, "value": "robot one"},
        {"seq": 3, "t": None, "unit": None, "value": None},
        {"seq": 4, "t": -3.0, "unit": None, "value": None},
    ]
    assert found.unmatched == {"image/png": 1}
    assert found.dead is not None
    assert found.dead.select(["key", "payload", "seq", "decoder", "reason"]).to_pylist() == [
        {
            "key": "fleet/r2/temp",
            "payload": b'{"t": "warm"}',
            "seq": 2,
            "decoder": "json",
            "reason": "t: saw 'warm', legal is a number",
        }
    ]


def test_nothing_is_lost_whatever_the_rows_are() -> None:
    batch = batch_of(*ROWS)
    found = decode(batch, PLAN)
    assert found.dead is not None
    seen = found.rows["seq"].to_pylist() + found.dead["seq"].to_pylist()
    assert sorted(seen) == list(range(batch.num_rows))
    empty = decode(batch.slice(0, 0), PLAN)
    assert (empty.rows.num_rows, empty.dead) == (0, None)
    assert empty.rows.schema == found.rows.schema


def test_rows_for_spark_carry_a_payload_only_where_it_failed() -> None:
    rows = PLAN.rows(batch_of(*ROWS))
    assert rows.schema.names == [
        *(name for name in PLAN.columns if name != "payload"),
        *("t", "unit", "value", "payload", "decode_error"),
    ]
    assert rows["seq"].to_pylist() == [0, 1, 2, 3, 4]
    assert [payload is not None for payload in rows["payload"].to_pylist()] == [0, 0, 1, 0, 0]
    assert rows["decode_error"].null_count == 4
    assert not any(pa.types.is_dictionary(column.type) for column in rows.schema)
    good = PLAN.rows(batch_of(ROWS[0]))
    assert good.schema == rows.schema
    assert "`t` DOUBLE, `unit` STRING, `value` STRING, `payload` BINARY" in PLAN.sql_schema()


def test_only_puts_have_payloads() -> None:
    found = decode(batch_of(("fleet/r1/temp", JSON, b"no json"), kind=RowKind.DELETE), PLAN)
    assert found.rows["t"].to_pylist() == [None]
    assert found.dead is None
    assert found.unmatched == {}


def test_samples_without_a_rule_may_be_dead_letters() -> None:
    found = decode(batch_of(*ROWS), Plan(PLAN.rules, unmatched="dead"))
    assert found.dead is not None
    assert found.dead["reason"].to_pylist()[1] == "no decoder for image/png"


def test_a_payload_that_is_too_long_is_a_dead_letter() -> None:
    long = b'"' + b"a" * DEFAULT_LIMITS.decode_len + b'"'
    found = decode(batch_of(("a", JSON, long), ("a", JSON, b'"b"')), Plan((Rule(decoder="json"),)))
    assert found.rows["value"].to_pylist() == ['"b"']
    assert found.dead is not None
    assert "at most" in found.dead["reason"][0].as_py()


def test_python_objects_are_never_loaded(tmp_path: Path) -> None:
    """An encoding may promise one; whoever loads it runs it."""
    mark = tmp_path / "ran"

    class Canary:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (str(mark),)

    payload = b"\x80\x04" + f"cpathlib\nPath.touch\n(V{mark}\ntR.".encode()
    encoding = "application/python-serialized-object"
    assert decoder_for(encoding, "a") is None
    batch = batch_of(("a", encoding, payload), ("a", encoding, pickle.dumps(Canary())))
    found = decode(batch, plan_of_options({"decode": "auto"}))
    assert found.unmatched == {encoding: 2}
    for name in ("json", "cbor", "text"):
        decode(batch, Plan((Rule(decoder=name),)))
    assert not mark.exists()


def test_drift_is_told_and_widens_a_plan() -> None:
    batch = batch_of(
        ("fleet/r1/temp", JSON, b'{"t": 1, "pressure": 5, "at": {"x": 1}}'),
        ("fleet/r1/temp", JSON, b'{"t": 1, "pressure": 5.5, "void": null}'),
    )
    found = decode(batch, PLAN)
    assert [(one.rule, one.name, one.layout) for one in found.drift] == [
        (0, "pressure", "f64"),
        (0, "at", "{x: i64}"),
    ]
    wide = PLAN.widened(found.drift)
    again = decode(batch, wide)
    assert again.drift == ()
    assert again.rows["pressure"].to_pylist() == [5.0, 5.5]
    assert wide.widened(found.drift) == wide


def test_a_source_tells_of_drift_once(caplog: pytest.LogCaptureFixture) -> None:
    batch = batch_of(("fleet/r1/temp", JSON, b'{"t": 1, "told\\n": 5}'))
    for _ in range(3):
        PLAN.rows(batch)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "payloads of fleet/*/temp hold 'told\\n', i64, which no rule declares: it is left out"
    ]


def test_a_flood_of_names_is_bounded() -> None:
    many = {f"n{number}": 1 for number in range(3 * DEFAULT_LIMITS.decode_columns_count)}
    batch = batch_of(("fleet/r1/temp", JSON, json.dumps(many).encode()))
    found = decode(batch, PLAN)
    assert len(found.drift) == DEFAULT_LIMITS.decode_columns_count
    with pytest.raises((LimitError, ConfigError)):
        PLAN.widened(found.drift)


def test_a_plan_travels() -> None:
    assert pickle.loads(pickle.dumps(PLAN)) == PLAN


def test_columns_that_collide_are_refused() -> None:
    with pytest.raises(ConfigError, match="the row has such a column"):
        Plan((Rule(decoder="json", layout="{Key: string}"),))
    one, two = Rule(decoder="json", layout="{a: f64}"), Rule(decoder="json", layout="{A: string}")
    with pytest.raises(ConfigError, match="another"):
        Plan((one, two))
    apart = Plan((one, Rule(decoder="json", layout="{A: string}", into="two")))
    assert apart.schema.names == ["a", "two"]
    with pytest.raises(ConfigError, match="legal are keep, dead"):
        Plan((), "drop")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"decoder": "xml"}, "legal are json"),
        ({"decoder": "json", "layout": "{a: f65}"}, "layout"),
        ({"decoder": "json", "layout": "{a: f64, A: f64}"}, "twice"),
        ({"decoder": "cdr"}, "give one"),
        ({"decoder": "serialized"}, "give one"),
        ({"decoder": "protobuf"}, "descriptor set"),
        ({"decoder": "protobuf", "message": "a.B", "definitions": b"\xff"}, "no message"),
        ({"decoder": "arrow", "layout": "f64"}, "tables have columns"),
        ({"decoder": "cdr", "message": "a/B", "definitions": b"c/D d"}, "not defined"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_at_once(
    rule: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Rule(**rule)  # type: ignore[arg-type]


def test_rules_by_encodings() -> None:
    assert decoder_for("application/vnd.x+json", "a") == Rule(
        decoder="json", encoding="application/vnd.x+json"
    )
    declared = decoder_for("zenoh/serialized;(i32, string)", "a")
    assert declared is not None
    assert declared.columns().names == ["_0", "_1"]
    assert decoder_for("zenoh/serialized", "a") is None
    definitions = {"pkg/msg/P": b"float64 x\nfloat64 y"}
    by_name = decoder_for("application/cdr;pkg/msg/P", "a", definitions)
    assert by_name is not None
    assert by_name.columns().names == ["x", "y"]
    assert decoder_for("application/cdr;pkg/msg/Q", "a", definitions) is None
    assert decoder_for("image/png", "a") is None
    with pytest.raises(ConfigError, match=r"fleet/r1 .*layout"):
        decoder_for("application/json;{a", "fleet/r1")


def test_a_plan_from_samples() -> None:
    batch = batch_of(
        ("a", JSON, b'{"t": 1, "tags": ["x"]}'),
        ("a", JSON, b'{"t": 1.5, "on": true, "t2": null}'),
        ("a", JSON, b"broken"),
        ("b", CBOR, bytes.fromhex("a16174 6178")),  # {"t": "x"}: a text where JSON has a number
        ("c", TEXT, b"hello"),
        ("d", "application/cdr;{x: f64}", b"\0\1\0\0" + bytes(8)),
        ("e", "image/png", b""),
    )
    plan = plan_of_samples([batch])
    assert [rule.layout for rule in plan.rules] == [
        '{t: f64, tags: [string], "on": bool}'.replace('"on"', _name("on")),
        "{t: string}",
        None,
        "{x: f64}",
    ]
    assert plan.rules[1].into == "application_cbor"
    found = decode(batch, plan)
    assert found.dead is not None
    assert found.dead["seq"].to_pylist() == [2]
    assert found.rows["t"].to_pylist()[:2] == [1.0, 1.5]
    assert found.unmatched == {"image/png": 1}


def _name(name: str) -> str:
    from elea.decode.paths import name_text

    return name_text(name)


def test_a_file_of_schemas(tmp_path: Path) -> None:
    (tmp_path / "pose.msg").write_text("float64 x\nfloat64 y\n")
    file = tmp_path / "schemas.toml"
    file.write_text(
        'unmatched = "dead"\n'
        '[[schema]]\nkey = "fleet/*/pose"\nencoding = "application/cdr"\n'
        'message = "pkg/msg/Pose"\ndefinitions = "pose.msg"\ninto = "pose"\n'
        '[[schema]]\nencoding = "application/json"\nlayout = "{t: f64}"\n'
    )
    plan = read_schemas(file)
    assert [rule.decoder for rule in plan.rules] == ["cdr", "json"]
    assert plan.schema.names == ["pose", "t"]
    assert plan.unmatched == "dead"
    assert plan_of_options({"decode": "auto", "schemas": str(file)}).rules[:2] == plan.rules
    assert plan_of_options({"decode": "text"}).schema.names == ["value"]
    with pytest.raises(ConfigError, match="legal are auto, json"):
        plan_of_options({"decode": "xml"})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a = 1", "no such key; legal are schema, unmatched"),
        ("[[schema]]\nkeys = 'a'", "no such key; legal are key, encoding"),
        ("[[schema]]\nlayout = 'f64'", "says for what"),
        ("[[schema]]\nkey = 'a'", "decoder"),
        ("[[schema]]\nkey = 5", "legal is a text"),
        ("[[schema]]\nkey = 'a//b'\ndecoder = 'json'", "schema 1"),
        ("[[schema]]\nkey = 'a'\ndecoder = 'cdr'\nmessage = 'a/B'\ndefinitions = 'no'", "no"),
        ("[schema]\nkey = 'a'", "once for each"),
        ("[[schema", "schemas.toml"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "schemas.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_schemas(file)
    with pytest.raises(ConfigError, match="No such file"):
        read_schemas(tmp_path / "none.toml")
