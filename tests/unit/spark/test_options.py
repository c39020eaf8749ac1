"""Options: what is unknown or wrong is refused with the legal ones, whatever its case."""

from __future__ import annotations

import pytest

from elea.errors import ConfigError
from elea.spark.options import OPTIONS, Flight, History, Live, Options
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
        ({"path": "/x"}, "takes no path"),
        ({}, "option log: is missing"),
        ({"log": "/x", "selector": "a"}, "option selector: is not for readStream; legal are log"),
        ({"log": "/x", "columns": "key,nix"}, "saw key, nix; legal are key, kind"),
        ({"log": "/x", "columns": "key,key"}, "each once"),
        ({"log": "/x", "keyexpr": "a//b"}, "option keyexpr: .*a//b"),
        ({"log": "/x", "keyexpr": "[1]"}, "an array of texts"),
        ({"log": "/x", "keyexpr": "["}, "which is no JSON"),
        ({"log": "/x", "maxRowsPerTrigger": "0"}, "saw '0'; legal is a number above 0"),
        ({"log": "/x", "maxRowsPerTrigger": "many"}, "saw 'many'"),
        ({"log": "/x", "failOnDataLoss": "maybe"}, "legal are true, false"),
        ({"log": "/x", "startingOffsets": "begin"}, "legal are earliest, latest, committed"),
        ({"log": "/x", "startingOffsets": "committed"}, "needs the option consumer"),
        ({"log": "/x", "startingOffsets": "{}"}, 'legal is {"v": 1'),
        ({"log": "/x", "startingOffsets": '{"v":2,"log":"","s":{}}'}, "saw version 2"),
        ({"log": "zenoh:fleet"}, "option connect: is missing"),
        ({"log": "/x,flight:fleet"}, "a log by zenoh or flight needs it, or config"),
        ({"log": "/x", "flight": "grpc://h:1"}, "option flight: is for a log by flight:NAME"),
        ({"log": "/x", "flightRoots": "/r"}, "option flightRoots: is for a log by flight:NAME"),
        ({**BY_FLIGHT, "flight": "h:1"}, "saw 'h:1'; legal are grpc://HOST:PORT"),
        ({**BY_FLIGHT, "flightToken": "x"}, "did you mean flightTokenFile"),
        ({"log": "/x", "consumer": "a/b"}, "option consumer: .*saw 'a/b'; legal are letters"),
        ({"log": "zenoh:f", "connect": "127.0.0.1:7447"}, "option connect: .*127.0.0.1:7447"),
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
        ({"selector": "a", "log": "/x"}, "option log: is for a log"),
        ({"selector": "a", "flight": "grpc://h:1"}, "option flight: is for a log"),
        ({"selector": "a", "columns": "seq"}, "answers have no seq"),
        ({"selector": "a//b"}, "option selector"),
        ({"log": "/x", "from": "yesterday"}, "option from: saw 'yesterday'"),
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
        ({"express": "1"}, "legal are true, false"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            Options(given).sink()


def test_what_spark_puts_there_itself_is_no_error() -> None:
    # Declarative Pipelines give a sink the name of its flow.
    sink = Options({"prefix": "a", "queryName": "flow", "checkpointLocation": "/x"}).sink()
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
    live = Options({"selector": '["a/*", "b?x=1,2"]'}).batch()
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
