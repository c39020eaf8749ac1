"""The file of a pipeline: what it becomes, and that every mistake is told with its place."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from elea.cli.main import build_parser, main
from elea.errors import ConfigError
from elea.spark import pipelines as dp
from elea.spark.pipelines import graph
from elea.spark.pipelines.definition import Archive, Decoded, Gold, Publish, View
from elea.spark.pipelines.template import text

HEAD = "pipeline: fleet\nlog: ./log\nstorage: ./lake\nconnect: tcp/127.0.0.1:7447\n"


def written(folder: Path, tables: str, head: str = HEAD) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(f"{head}tables:\n" + "".join(f"  {line}\n" for line in tables.splitlines()))
    return file


def problems(folder: Path, tables: str, head: str = HEAD) -> list[str]:
    return [str(one) for one in dp.check(written(folder, tables, head))]


def test_a_file_becomes_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "gps.schema").write_text("{lat: f64, lon: f64}\n")
    made = dp.load(
        written(
            tmp_path,
            'bronze: {archive: "**"}\n'
            'imu: {decode: json, key: "fleet/{robot}/imu", schema: {ax: double, p: {x: f32}}}\n'
            "gps: {decode: cdr, keyexpr: [fleet/*/gps, b/gps], schema: gps.schema, drift: ignore}\n"
            "w: {from: imu, window: {every: 1 second, by: robot, values: {ax: avg}},"
            ' publish: {key: "gold/{robot}", encoding: cbor}}\n'
            "v: {sql: \"select * from imu join w where x = 'gps' -- bronze\"}\n",
            HEAD + "trigger: available-now\noptions: {maxRowsPerTrigger: 10}\n",
        )
    )
    bronze, imu, gps, window, view = made.tables
    assert bronze == Archive("bronze")
    assert isinstance(imu, Decoded)
    assert (imu.key_exprs, imu.fields) == (("fleet/*/imu",), ("robot",))
    assert imu.plan.rules[0].layout == "{ax: f64, p: {x: f32}}"
    assert isinstance(gps, Decoded)
    assert (gps.key_exprs, gps.drift) == (("fleet/*/gps", "b/gps"), "ignore")
    assert gps.plan.schema.names == ["lat", "lon"]
    assert isinstance(window, Gold)
    assert (window.kind, window.options["every"]) == ("window", 1_000_000)
    assert window.publish == Publish("gold/{robot}", "cbor")
    assert isinstance(view, View)
    assert graph.sources_of(made, view) == ("imu", "w")
    assert (made.storage, made.log) == (str(tmp_path / "lake"), str(tmp_path / "log"))
    assert (made.trigger_s, made.options) == (None, {"maxRowsPerTrigger": "10"})


@pytest.mark.parametrize(
    ("tables", "place", "told"),
    [
        ('a: {archive: "x//y"}', "tables.a.archive", "a chunk is empty"),
        ("a: {archive: x, decode: json}", "tables.a", "legal is one of archive, decode"),
        ("a: {}", "tables.a", "saw nothing; legal is one of"),
        ("a: 7", "tables.a", "saw 7; legal is one of"),
        ("a: {archive: x, publsh: y}", "tables.a.publsh", "is unknown"),
        ("1a: {archive: x}", "tables.1a", "a letter, then"),
        ("a: {decode: jsn, keyexpr: x}", "tables.a.decode", 'saw "jsn"; legal are auto, json'),
        ("a: {decode: json}", "tables.a.keyexpr", "is missing"),
        ("a: {decode: json, keyexpr: x, schema: {b: f6}}", "tables.a.schema", "one of bool, i8"),
        ("a: {decode: json, keyexpr: x, schema: {b: f6}}", "tables.a.schema", "type '{b: f6}'"),
        ("a: {decode: json, keyexpr: x, schema: none}", "tables.a.schema", "No such file"),
        ("a: {decode: json, keyexpr: x, schema: 7}", "tables.a.schema", "saw '7'"),
        ('a: {decode: json, key: "x/{key}"}', "tables.a.key", "rows have such a column"),
        ('a: {decode: json, key: "x/{"}', "tables.a.key", "saw"),
        ("a: {decode: json, keyexpr: x, drift: 7}", "tables.a.drift", "one of add, ignore"),
        ("a: {decode: json, keyexpr: x, deletes: 7}", "tables.a.deletes", "true, false"),
        ("a: {decode: cdr, keyexpr: x}", "tables.a.schema", "CDR does not say"),
        (
            'a: {decode: json, keyexpr: x, publish: "y/{z}"}',
            "tables.a.publish",
            "{z}: rows have no such column; legal are attachment",
        ),
        (
            'a: {decode: json, keyexpr: x, publish: {key: "y", encoding: xml}}',
            "tables.a.publish.encoding",
            'saw "xml"; legal is one of json, cbor',
        ),
        ("a: {sql: x, publish: 7}", "tables.a.publish", "saw 7"),
        (
            "i: {archive: x}\nw: {from: i, window: {every: 1 parsec, values: {a: avg}}}",
            "tables.w.window.every",
            "saw '1 parsec'; legal is a duration",
        ),
        ("w: {window: {every: 1 s}}", "tables.w.from", "window takes"),
        (
            "w: {from: i, window: {every: 1 s, values: {a: avg}}}",
            "tables.w.from",
            'saw "i"; legal are none',
        ),
        ("a: {sql: select * from b}\nb: {sql: select 1 from A}", "tables.a", "a from b from a"),
        (
            "a: {decode: json, keyexpr: x}\na_bad: {archive: x}",
            "tables.a_bad",
            "makes a table of that name",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(
    tmp_path: Path, tables: str, place: str, told: str
) -> None:
    found = problems(tmp_path, tables)
    assert any(one.startswith(f"{place}: ") and told in one for one in found), found


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("log: a\nstorage: b\n", "pipeline: is missing"),
        (HEAD + "trigger: 2 parsecs\n", 'trigger: saw "2 parsecs"; legal is a duration'),
        (HEAD + "formt: delta\n", "formt: is unknown; did you mean format?"),
        (HEAD + "format: csv\n", 'format: saw "csv"; legal is one of delta'),
        (HEAD + "options: {maxRows: 1}\n", "options.maxrows: is unknown"),
        (HEAD + "options: {consumer: x}\n", "options.consumer: is not for here"),
        ("pipeline: a b\nlog: a\nstorage: b\n", 'pipeline: saw "a b"'),
        ("pipeline: f\nlog: zenoh:x\nstorage: b\n", "connect: is missing"),
        ("pipeline: f\nlog: a\nstorage: b\nconnect: quic/h:1\n", "connect: no scheme 'quic'"),
        ("pipeline: f\nlog: a\nstorage: b\nconnect: [tpc/h:1]\n", "connect: no scheme 'tpc'"),
        ("pipeline: f\nlog: flight:x\nstorage: b\n", "connect: is missing"),
        (HEAD + "options: {flight: 'grpc://h:1'}\n", "options.flight: is for a log by flight:"),
        (HEAD + "python: none.py\n", "none.py"),
    ],
)
def test_what_is_wrong_above_tables_is_told(tmp_path: Path, head: str, told: str) -> None:
    found = problems(tmp_path, "a: {archive: x}", head)
    assert any(told in one for one in found), found


def test_a_log_may_be_read_over_flight(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "pipeline: f\nlog: ./log,flight:fleet\nconnect: tcp/127.0.0.1:7447\nstorage: ./lake\n"
        "options: {flight: 'grpc://127.0.0.1:8815'}\ntables:\n  a: {archive: x}\n"
    )
    assert dp.check(file) == []
    assert dp.load(file).log == f"{tmp_path / 'log'},flight:fleet"


def test_results_need_somewhere_to_go(tmp_path: Path) -> None:
    head = "pipeline: fleet\nlog: ./log\nstorage: ./lake\n"
    found = problems(tmp_path, "a: {decode: json, keyexpr: x, publish: y}", head)
    assert found == ["tables.a.publish: needs `connect`: where results are published"]


@pytest.mark.parametrize("content", ["", "- 1\n", "a: [\n", "\0"])
def test_what_is_no_pipeline_is_one_problem(tmp_path: Path, content: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(content)
    assert len(dp.check(file)) == 1
    with pytest.raises(ConfigError):
        dp.load(file)


def test_only_some_tables_with_what_they_are_made_of(tmp_path: Path) -> None:
    made = dp.load(
        written(
            tmp_path,
            "c: {sql: select * from b}\nb: {sql: select * from a}\n"
            "a: {archive: x}\nd: {archive: y}\n",
        )
    )
    assert [one.name for one in graph.ordered(made)] == ["a", "b", "c", "d"]
    assert [one.name for one in graph.only(made, ["c"]).tables] == ["c", "b", "a"]
    with pytest.raises(ConfigError, match='saw "e"; legal are c, b, a, d'):
        graph.only(made, ["e"])


def test_the_first_file_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipeline.yaml"
    assert main(["pipeline", "init", str(file), "--name", "mine"]) == 0
    assert file.read_text() == text("mine")
    [command] = re.findall(r"`(elea record .+?)`", file.read_text())
    build_parser(["record"]).parse_args(shlex.split(command)[1:])
    assert main(["pipeline", "init", str(file)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main(["pipeline", "check", str(file), "--json", "--quick"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"table": "imu_1s", "kind": "gold", "from": ["imu"]} in told


def test_check_tells_all_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "a: {}\nb: {}")
    assert main(["pipeline", "check", str(file), "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["place"] for one in told[:2]] == ["tables.a", "tables.b"]


def test_check_tells_everything_in_one_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also what is wrong beside something wrong, and not who is made of it."""
    tables = (
        'imu: {decode: json, key: "fleet/{robot}/imu", schema: {ax: f64, n: int65}}\n'
        "a: {from: imu, latest: {by: [robot]}}\n"
        "b: {from: imuu, latest: {by: [robot]}}\n"
        "c: {from: [imu, a, b], window: {every: 1 parsec, late: soon, x: 1}}\n"
        "d: {decode: jsonn, keyexpr: x, schema: {n: int65}, drift: no, drift_max: -1}\n"
    )
    head = (
        "pipeline: a b\nlog: /nope/log\nstorage: ./lake\nformat: deltaa\ntrigger: fast\n"
        "options: {maxRowsPerTrigger: -3, startingOffsets: yesterday, failOnDataLoss: perhaps}\n"
    )
    file = written(tmp_path, tables, head)
    assert main(["pipeline", "check", str(file), "--json"]) == 1
    places = [json.loads(line)["place"] for line in capsys.readouterr().out.splitlines()]
    assert sorted(places) == sorted(
        [
            *("pipeline", "format", "trigger", "log"),
            *(f"options.{name}" for name in ("maxRowsPerTrigger", "startingOffsets")),
            *("options.failOnDataLoss", "tables.imu.schema", "tables.b.from", "tables.c.from"),
            *("tables.c.window.x", "tables.c.window.every", "tables.c.window.late"),
            *("tables.d.drift", "tables.d.drift_max", "tables.d.decode", "tables.d.schema"),
        ]
    )


@pytest.mark.parametrize("storage", ["/proc/x", "/dev/null/x", "{file}"])
def test_a_storage_that_cannot_be_made_fails_the_check(
    storage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It passed, and the pipeline failed at its start."""
    head = f"pipeline: a\nlog: ./log\nstorage: {storage.format(file=tmp_path / 'pipeline.yaml')}\n"
    file = written(tmp_path, 'raw: {archive: "**"}', head)
    assert main(["pipeline", "check", str(file), "--quick", "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    problems = {one["place"]: one["problem"] for one in told}
    assert problems.keys() == {"storage", "log"}, "beside the log that is not there yet"
    assert "nothing can be written below" in problems["storage"]


def test_a_storage_is_left_as_it_is_by_the_check(tmp_path: Path) -> None:
    file = written(tmp_path, 'raw: {archive: "**"}', "pipeline: a\nlog: ./log\nstorage: ./lake\n")
    before = sorted(tmp_path.rglob("*"))
    assert main(["pipeline", "check", str(file), "--quick"]) == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_what_hid_behind_another_mistake_is_told_in_the_same_pass(tmp_path: Path) -> None:
    """`publish` beside a wrong schema, and options of the source beside a wrong endpoint."""
    publish = 'publish: {key: "g//{x}", ack: perhaps, kee: 1}'
    tables = f'imu: {{decode: json, keyexpr: "a/*", schema: {{n: int65}}, deletes: 3, {publish}}}'
    head = (
        "pipeline: a\nlog: ./log\nstorage: ./lake\nconnect: tpc/x\n"
        "options: {maxRowsPerTrigger: -3, nosuch: 1}\n"
    )
    places = {one.place for one in dp.check(written(tmp_path, tables, head))}
    assert places == {
        *("connect", "options.maxRowsPerTrigger", "options.nosuch", "tables.imu.schema"),
        *("tables.imu.deletes", "tables.imu.publish.key", "tables.imu.publish.ack"),
        "tables.imu.publish.kee",
    }


def test_a_log_that_is_not_there_yet_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "a: {archive: x}")
    assert main(["pipeline", "check", str(file)]) == 0
    assert f"log: {tmp_path / 'log'}: there is no log" in capsys.readouterr().err
    (tmp_path / "log").mkdir()
    assert main(["pipeline", "check", str(file)]) == 0
    assert capsys.readouterr().err == ""


def test_a_pipeline_has_so_many_tables(tmp_path: Path) -> None:
    tables = "".join(f"t{number}: {{archive: x}}\n" for number in range(257))
    assert problems(tmp_path, tables) == ["tables: saw 257 tables; legal are 256 at most"]


def test_a_wrong_key_was_told_as_a_missing_keyexpr_too(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, 'imu: {decode: json, key: "fleet//{robot}/imu"}')
    assert problem.startswith("tables.imu.key: ")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("empty.yaml", "is empty; `elea pipeline init`"),
        ("none.yaml", "No such file or directory; `elea pipeline init "),
    ],
)
def test_a_file_without_a_pipeline_was_told_in_words_of_python(
    tmp_path: Path, name: str, complaint: str
) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    [problem] = dp.check(tmp_path / name)
    assert complaint in str(problem)
    assert "None" not in str(problem)
    assert "Errno" not in str(problem)
