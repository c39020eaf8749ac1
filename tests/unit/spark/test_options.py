"""Options: what is unknown or wrong is refused with the legal ones, whatever its case."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from elea.errors import ConfigError
from elea.spark.options import OPTIONS, Flight, History, Live, Options
from elea.spark.schema import LIVE_COLUMNS
from elea.spark.source import ZenohSource
from elea.store.log.location import Location
from elea.store.log.ranges import COLUMNS

ENDPOINT = "tcp/127.0.0.1:7447"
BY_FLIGHT = {"log": "flight:fleet", "connect": ENDPOINT}


def _parse(given: dict[str, str]) -> None:
    Options(given).decoding()
    Options(given).stream()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"lgo": "x"}, "option lgo: is unknown; did you mean log\\? legal are log, connect"),
        ({"maxrowspertriger": "1"}, "did you mean maxRowsPerTrigger"),
        # Of Kafka's source: there was no hint, or that of the nearest word.
        ({"kafka.bootstrap.servers": "h:9092"}, "is unknown; here it is connect, as tcp/host"),
        ({"endingOffsets": "latest"}, "is unknown; here it is until, a time, or offsets"),
        ({"subscribe": "imu"}, "is unknown; here log names the log, and keyexpr the keys"),
        ({"path": "/x"}, "path: is refused in load and save"),
        ({}, "option log: is missing"),
        ({"log": "/x", "selector": "a"}, "option selector: is for spark.read: answers .* record"),
        ({"log": "/x", "prefix": "a"}, "option prefix: is not for readStream; legal are log"),
        ({"log": "/x", "columns": "key,nix"}, "saw key, nix; legal are key, kind"),
        ({"log": "/x", "columns": "key,key"}, "each once"),
        ({"log": "/x", "keyexpr": "a//b"}, "option keyexpr: .*a//b"),
        ({"log": "/x", "keyexpr": "[1]"}, "an array of texts"),
        ({"log": "/x", "keyexpr": "["}, "which is no JSON"),
        ({"log": "/x", "maxRowsPerTrigger": "0"}, "saw '0'; legal is a number above 0"),
        ({"log": "/x", "maxRowsPerTrigger": "many"}, "saw 'many'"),
        ({"log": "/x", "failOnDataLoss": "maybe"}, "legal are true, false"),
        (
            {"log": "/x", "startingOffsets": "begin"},
            "expected earliest, latest, committed, an",
        ),
        ({"log": "/x", "startingOffsets": "committed"}, "needs the option consumer"),
        ({"log": "/x", "startingOffsets": "{}"}, 'legal is {"v": 1'),
        ({"log": "/x", "startingOffsets": '{"v":2,"log":"","s":{}}'}, "saw version 2"),
        ({"log": "zenoh:fleet"}, "option connect: is missing"),
        ({"log": "/x,flight:fleet"}, "a log by zenoh or flight needs the endpoint"),
        ({"log": "/x", "flight": "grpc://h:1"}, "option flight: is for a log by flight:NAME"),
        ({"log": "/x", "flightRoots": "/r"}, "option flightRoots: is for a log by flight:NAME"),
        ({**BY_FLIGHT, "flight": "h:1"}, "saw 'h:1'; legal are grpc://HOST:PORT"),
        ({**BY_FLIGHT, "flightToken": "x"}, "did you mean flightTokenFile"),
        ({"log": "/x", "consumer": "a/b"}, "option consumer: .*saw 'a/b'; legal are letters"),
        ({"log": "zenoh:f", "connect": "127.0.0.1:7447"}, "option connect: .*127.0.0.1:7447"),
        ({"log": "/x", "connect": "quic/h:1"}, "option connect: no scheme 'quic'; there are"),
        ({"log": "/x", "connect": "tcp/h"}, "option connect: .*expected host:port"),
        ({"log": "/x", "connect": "tcp/h:1#foo=1"}, "option connect: .*unknown option 'foo'"),
        ({"log": "/x", "mode": "router"}, "legal are client, peer"),
        ({"log": "/x", "timeout": "-1"}, "legal are seconds"),
        ({"log": "/x", "schemas": "x"}, "is for decode"),
        ({"log": "/x", "decode": "auto", "columns": "key"}, "option columns: is not for decode"),
    ],
)
def test_a_wrong_option_of_a_stream_is_told(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        _parse(given)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"selector": "a", "startingOffsets": "latest"},
            "option startingOffsets: is for readStream alone, and selector for read",
        ),
        (
            {"log": "/x", "consumer": "c", "from": "now(-1h)"},
            "option consumer: is for readStream alone, and from for read",
        ),
        ({"log": "/x", "prefix": "a"}, "option prefix: is for write, not for readStream or read"),
    ],
)
def test_options_that_no_use_takes_together_are_told_at_load(
    given: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Options(given).check_values()


def test_a_schema_with_other_types_failed_in_each_task() -> None:
    """Four attempts of a task, and a mismatch in words of Spark's own."""
    source = ZenohSource({"log": "/x", "columns": "key,payload"})
    schema = StructType([StructField("key", StringType()), StructField("payload", StringType())])
    with pytest.raises(ConfigError, match="column payload is BINARY, not STRING; CAST it after"):
        source.reader(schema)


def test_a_table_of_the_catalog_was_refused_for_an_option_of_spark() -> None:
    """`CREATE TABLE t USING zenoh` told that `owner` is unknown; Spark adds it."""
    of_spark = {"owner": "root", "provider": "zenoh", "option.log": "/x"}
    assert Options(of_spark).batch() == Options({"log": "/x"}).batch()


def test_a_stream_of_answers_is_refused_in_one_line() -> None:
    """An error of Spark's own, an unbound variable, came after it."""
    source = ZenohSource({"selector": "a", "connect": ENDPOINT})
    schema = StructType([StructField(name, StringType()) for name in LIVE_COLUMNS])
    reader = source.streamReader(schema)
    with pytest.raises(ConfigError, match=r"option selector: is for spark\.read: answers"):
        reader.initialOffset()
    reader.stop()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"selector": "a", "log": "/x"}, "option log: is for a log"),
        ({"selector": "a", "flight": "grpc://h:1"}, "option flight: is for a log"),
        ({"selector": "a", "connect": ENDPOINT, "columns": "seq"}, "answers have no seq"),
        ({"selector": "a//b", "connect": ENDPOINT}, "option selector"),
        ({"selector": "a"}, "option connect: is missing: selector needs the endpoint"),
        (
            {"log": "/x", "from": "now()", "until": "now(-1h)"},
            "option until: saw .now.-1h.., which is before from",
        ),
        ({"log": "/x", "from": "yesterday"}, "option from: expected a time such as 2026-"),
        ({"log": "/x", "offsets": "[1]"}, "legal is \\[offset, offset\\]"),
        ({"log": "/x", "consumer": "c"}, "is not for read;"),
    ],
)
def test_a_wrong_option_of_a_read_is_told(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Options(given).batch()


def test_a_wrong_option_of_a_sink_is_told() -> None:
    for given, complaint in (
        ({"log": "/x"}, "is not for write; legal are connect"),
        ({"prefix": "a//b"}, "option prefix"),
        ({}, "option connect: is missing: write needs the endpoint of a router, such as tcp/"),
        ({"connect": ENDPOINT, "express": "1"}, "legal are true, false"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            Options(given).sink()


def test_what_spark_puts_there_itself_is_no_error() -> None:
    # Declarative Pipelines give a sink the name of its flow.
    sink = Options(
        {"connect": ENDPOINT, "prefix": "a", "queryName": "flow", "checkpointLocation": "/x"}
    ).sink()
    assert sink.prefix == "a/"


def test_options_have_no_case_as_in_spark() -> None:
    options = Options({"LOG": "/x", "MAXROWSPERTRIGGER": " 7 ", "failondataloss": "FALSE"})
    stream = options.stream()
    assert stream.rows_max == 7
    assert stream.source.places == ("/x",)
    assert not stream.source.fail_on_data_loss
    assert stream.source.columns == COLUMNS


def test_lists() -> None:
    given = {"log": "/x, zenoh:fleet", "connect": ENDPOINT, "keyexpr": '["a,b", "c/**/**"]'}
    source = Options(given).stream().source
    assert source.places == ("/x", "zenoh:fleet")
    assert source.key_exprs == ("a,b", "c/**")
    assert Options({"log": "/x", "keyexpr": "a,**"}).stream().source.key_exprs == ()
    live = Options({"connect": ENDPOINT, "selector": '["a/*", "b?x=1,2"]'}).batch()
    assert isinstance(live, Live)
    assert live.selectors == ("a/*", "b?x=1,2")


def test_flight() -> None:
    assert Options({"log": "/x"}).stream().source.flight == Flight()
    files = {"flightTokenFile": "/token", "flightRoots": "/roots.pem"}
    found = Options({**BY_FLIGHT, "flight": "grpc+tls://h:1", **files}).stream().source
    assert found.places == ("flight:fleet",)
    assert found.flight == Flight(Location("grpc+tls", "h", 1), "/token", "/roots.pem")
    assert isinstance(hash(found), int)  # a key of what is open in a process


def test_times() -> None:
    history = Options({"log": "/x", "from": "1970-01-01T00:00:01Z", "until": "now()"}).batch()
    assert isinstance(history, History)
    assert history.span[0] == 1 << 32
    assert history.span[1] > 1_700_000_000 << 32


def test_every_option_says_what_it_is() -> None:
    assert all(option.uses and option.meaning for option in OPTIONS)
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
