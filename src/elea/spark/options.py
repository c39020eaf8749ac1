"""Options of `format("zenoh")`: all of them, parsed once, on the driver.

Spark hands them over as texts and without their case. What is unknown or cannot be is an error that
names the legal ones. Nothing secret is among them: passwords and keys are in the file that `config`
names, which is read where it is used.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elea.errors import ConfigError, EleaError
from elea.keyexpr.keyexpr import KeyExpr
from elea.selector import Selector
from elea.spark.identity import CONTENT, POSITION
from elea.spark.offsets import Offset
from elea.spark.schema import LIVE_COLUMNS
from elea.store.log.consumers import check_name
from elea.store.log.location import Location
from elea.store.log.ranges import ALL_TIME, COLUMNS, Span, checked_columns
from elea.timerange import TimeRange
from elea.timestamp import NTP64

STREAM: Final = "readStream"
BATCH: Final = "read"
SINK: Final = "write"
ZENOH: Final = "zenoh:"  # before the name of a log that is served
FLIGHT: Final = "flight:"
_READS: Final = (STREAM, BATCH)
_ALL: Final = (STREAM, BATCH, SINK)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: where it is legal, what it is without being said, what it means."""

    name: str
    uses: tuple[str, ...]
    default: str
    meaning: str


OPTIONS: Final = (
    Option(
        "log",
        _READS,
        "",
        "where the log is: a directory, or of one that somebody serves `zenoh:NAME`, or"
        " `flight:NAME` (rows over Arrow Flight, the rest over Zenoh); several, separated by"
        " commas, are tried in this order, on each host",
    ),
    Option(
        "connect",
        _ALL,
        "",
        "endpoints of routers, separated by commas: `tcp/host:7447`. Needed by `write`, `selector`"
        " and a log that is served, unless `config` says it: nothing is looked for by multicast",
    ),
    Option("mode", _ALL, "client", "`client` or `peer`"),
    Option(
        "config",
        _ALL,
        "",
        "the path of a configuration file, on each host; what needs a password or a key is there",
    ),
    Option(
        "flight",
        _READS,
        "as the recorder says",
        "where rows of `flight:NAME` are: `grpc://host:8815`, `grpc+tls://host:8815`",
    ),
    Option(
        "flightTokenFile",
        _READS,
        "the variable `ELEA_FLIGHT_TOKEN`",
        "the path of a file with the token for Flight, on each host",
    ),
    Option(
        "flightRoots",
        _READS,
        "those of the system",
        "the path of a file with certificates of authorities for Flight, on each host",
    ),
    Option(
        "timeout",
        _ALL,
        "30",
        "request timeout in seconds; a connection that is refused when a read, a new stream, one"
        " with `availableNow` or a write begins fails at once",
    ),
    Option("columns", _READS, "all", "the columns that are wanted, separated by commas"),
    Option(
        "keyexpr",
        _READS,
        "**",
        "rows of keys that one of these matches; separated by commas, or a JSON array",
    ),
    Option("decode", _READS, "", "turn payloads into columns: the name of a decoder, or `auto`"),
    Option("schemas", _READS, "", "the path of a file that says which payloads are of which type"),
    Option(
        "minPartitions",
        _READS,
        "one per shard",
        "in how many parts rows are read at least, the longest ranges in more than one; more parts"
        " than shards lose the order of keys",
    ),
    Option(
        "failOnDataLoss",
        _READS,
        "true",
        "whether rows that were trimmed or are damaged end the query; they are logged if not",
    ),
    Option(
        "failOnLogChange",
        (STREAM,),
        "true",
        "whether another log in place of the one of the checkpoint ends the query; it is read from"
        " its beginning if not",
    ),
    Option(
        "startingOffsets",
        (STREAM,),
        "earliest",
        "where a new query begins: `earliest`, `latest`, `committed` (what the consumer has done,"
        " else earliest), a time (`2026-11-15T00:00:00Z`, `now(-1h)`), or an offset as JSON",
    ),
    Option("maxRowsPerTrigger", (STREAM,), "", "rows of one batch at most, over all shards"),
    Option("maxBytesPerTrigger", (STREAM,), "", "octets of one batch at most, as they are on disk"),
    Option("consumer", (STREAM,), "", "the name under which the log keeps rows for this query"),
    Option(
        "leaseSeconds", (STREAM,), "604800", "how long rows are kept for it after its last word"
    ),
    Option(
        "selector",
        (BATCH,),
        "",
        "ask the data space instead of a log: one row per answer; a JSON array of selectors is"
        " asked in parallel",
    ),
    Option("failOnError", (BATCH,), "true", "whether an answer that is an error ends the query"),
    Option(
        "from", (BATCH,), "", "rows from this time on: `2026-11-15T00:00:00Z` (UTC), or `now(-1h)`"
    ),
    Option("until", (BATCH,), "", "rows before this time, in the same form"),
    Option("offsets", (BATCH,), "all", "a JSON array of two offsets: from the first to the second"),
    Option("prefix", (SINK,), "", "put before each key, with a `/`"),
    Option("encoding", (SINK,), "", "of rows without a column `encoding`"),
    Option("express", (SINK,), "false", "whether each sample is sent at once, not with others"),
    Option(
        "ack",
        (SINK,),
        "router",
        "when a row is sent: `router`, once the router has it; `stored`, once a recorder has it on"
        " disk. Without `stored` it is at most once past the router",
    ),
    Option(
        "numbering",
        (SINK,),
        "content",
        "how rows are identified in every attempt: `content`, by what they are; `position`, where"
        " their order is the same in every attempt",
    ),
)
_NO_STREAM: Final = (
    "is for spark.read: answers to a query cannot be read again, which a stream needs; record the"
    " keys (elea record) and give the option log"
)
_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
# What readers of Kafka's source look for, and where it is here.
_OF_KAFKA: Final = {
    "kafka.bootstrap.servers": "here it is connect, as tcp/host:7447; a directory needs none",
    "subscribe": "here log names the log, and keyexpr the keys in it",
    "subscribepattern": "here it is keyexpr, a key expression",
    "assign": "here log names the log, and keyexpr the keys in it",
    "topic": "here a topic is a key: keyexpr for reading, prefix and the column key for writing",
    "kafka.group.id": "here it is consumer",
    "groupidprefix": "here it is consumer",
    "endingoffsets": "here it is until, a time, or offsets, an array of two",
    "endingtimestamp": "here it is until, a time",
    "startingtimestamp": "here it is from, or startingOffsets of a stream, a time",
    "maxoffsetspertrigger": "here it is maxRowsPerTrigger",
    "includeheaders": "here the columns attachment and encoding are there anyway",
}
_OF_FLIGHT: Final = ("flight", "flightTokenFile", "flightRoots")
_OF_SPARK: Final = {"path", "checkpointlocation", "name", "queryname"}  # Spark puts them there
# Spark adds these for a table of its catalog, and options as `option.NAME`.
_OF_CATALOG: Final = {"owner", "provider", "location", "external", "is_managed_location", "comment"}


@dataclass(frozen=True, slots=True)
class Reach:
    """How the data space is reached; holds no secret."""

    connect: tuple[str, ...] = ()
    mode: str = "client"
    config: str | None = None
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Flight:
    """How rows are reached over Arrow Flight; holds no secret."""

    location: Location | None = None
    token_file: str | None = None
    roots_file: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """What is read of a log, and from where."""

    places: tuple[str, ...]
    reach: Reach
    columns: tuple[str, ...]
    key_exprs: tuple[str, ...]
    min_partitions: int
    fail_on_data_loss: bool
    flight: Flight = Flight()


@dataclass(frozen=True, slots=True)
class Start:
    """Where a query begins: one of three words, an offset, or a time as 64 bits."""

    word: str = "earliest"
    offset: Offset | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """Options of `readStream`."""

    source: Source
    start: Start
    rows_max: int | None
    octets_max: int | None
    consumer: str | None
    lease_s: int
    fail_on_log_change: bool


@dataclass(frozen=True, slots=True)
class History:
    """Options of `read` with a log."""

    source: Source
    span: Span
    offsets: tuple[Offset, Offset] | None


@dataclass(frozen=True, slots=True)
class Live:
    """Options of `read` with a selector."""

    reach: Reach
    selectors: tuple[str, ...]
    columns: tuple[str, ...]
    key_exprs: tuple[str, ...]
    fail_on_error: bool


@dataclass(frozen=True, slots=True)
class Sink:
    """Options of `write` and `writeStream`."""

    reach: Reach
    prefix: str
    encoding: str | None
    express: bool
    ack: str = "router"
    numbering: str = CONTENT
    checkpoint: str | None = None


class Options:
    """The options of one source or sink, as Spark gave them.

    Raises:
        ConfigError: one is unknown; it names the nearest, and all legal ones.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {
            name.lower().removeprefix("option."): value
            for name, value in given.items()
            if name.lower() not in _OF_CATALOG
        }
        for name in self._given:
            if name not in _BY_NAME and name not in _OF_SPARK:
                raise ConfigError(f"option {name}", _unknown(name, OPTIONS))
        if "path" in self._given:
            raise ConfigError(
                "path", "is refused in load and save; give the option log, selector or connect"
            )

    def only(self, use: str) -> None:
        """Refuse what is for another use."""
        legal = tuple(option for option in OPTIONS if use in option.uses)
        if use == STREAM and self.is_live():
            raise ConfigError("option selector", _NO_STREAM)
        for name in self._given:
            if name not in _OF_SPARK and _BY_NAME[name] not in legal:
                reason = f"is not for {use}; legal are {_names(legal)}"
                raise ConfigError(f"option {_BY_NAME[name].name}", reason)

    def text(self, name: str) -> str | None:
        """An option that was given and is not empty."""
        return (self._given.get(name.lower()) or "").strip() or None

    def is_live(self) -> bool:
        """Whether the data space is asked, not a log."""
        return self.text("selector") is not None

    def columns(self) -> tuple[str, ...]:
        """The columns that are wanted."""
        legal = LIVE_COLUMNS if self.is_live() else COLUMNS
        text = self.text("columns")
        if text is None:
            return legal
        try:
            columns = checked_columns([one.strip() for one in text.split(",")])
        except EleaError as error:
            raise ConfigError("option columns", str(error)) from error
        missing = [name for name in columns if name not in legal]
        if missing:
            reason = f"answers have no {', '.join(missing)}; legal are {', '.join(legal)}"
            raise ConfigError("option columns", reason)
        return columns

    def check_values(self) -> None:
        """Refuse values that cannot be, before it is known whether it is a stream.

        Raises:
            ConfigError: one is not legal.
        """
        uses = [
            use
            for use in (STREAM, BATCH)
            if all(use in _BY_NAME[name].uses for name in self._given if name not in _OF_SPARK)
        ]
        if not uses:
            self._refuse_mixture()
        if uses == [STREAM]:
            self.stream()
        elif BATCH in uses:
            self.batch()

    def _refuse_mixture(self) -> None:
        """Name two options of which one is for streams alone and one for batches, or a sink."""
        given = [_BY_NAME[name] for name in self._given if name not in _OF_SPARK]
        for use in _READS:
            alone = next((one for one in given if one.uses == (use,)), None)
            other = next((one for one in given if use not in one.uses), None)
            if alone is not None and other is not None:
                reason = f"is for {use} alone, and {other.name} for {' and '.join(other.uses)}"
                raise ConfigError(f"option {alone.name}", reason)
        sink = next(one for one in given if not set(one.uses) & set(_READS))
        raise ConfigError(f"option {sink.name}", f"is for {SINK}, not for {' or '.join(_READS)}")

    def stream(self) -> Stream:
        """For `readStream`."""
        self.only(STREAM)
        start = self._start()
        consumer = self.text("consumer")
        if start.word == "committed" and consumer is None:
            raise ConfigError("option startingOffsets", "committed needs the option consumer")
        if consumer is not None:
            try:
                check_name(consumer)
            except EleaError as error:
                raise ConfigError("option consumer", str(error)) from error
        return Stream(
            source=self._source(),
            start=start,
            rows_max=self._count("maxRowsPerTrigger"),
            octets_max=self._count("maxBytesPerTrigger"),
            consumer=consumer,
            lease_s=self._count("leaseSeconds") or 604_800,
            fail_on_log_change=self._flag("failOnLogChange", default=True),
        )

    def batch(self) -> History | Live:
        """For `read`."""
        self.only(BATCH)
        if not self.is_live():
            return History(self._source(), self._span(), self._offsets())
        for name in ("log", "from", "until", "offsets", "minPartitions", *_OF_FLIGHT):
            if self.text(name) is not None:
                raise ConfigError(f"option {name}", "is for a log; selector asks the data space")
        return Live(
            reach=self._reach(needed_by="selector"),
            selectors=self._selectors(),
            columns=self.columns(),
            key_exprs=self._key_exprs(),
            fail_on_error=self._flag("failOnError", default=True),
        )

    def sink(self) -> Sink:
        """For `write` and `writeStream`."""
        self.only(SINK)
        prefix = self.text("prefix") or ""
        if prefix:
            try:
                prefix = f"{KeyExpr(prefix.rstrip('/'))}/"
            except EleaError as error:
                raise ConfigError("option prefix", str(error)) from error
        encoding = self.text("encoding")
        return Sink(
            self._reach(needed_by="write"),
            prefix,
            encoding,
            self._flag("express", default=False),
            self._choice("ack", "router", "stored"),
            self._choice("numbering", CONTENT, POSITION),
            self.text("checkpointLocation"),
        )

    def decoding(self) -> dict[str, str]:
        """What is for the decoders of payloads; nothing if there are to be none."""
        decode = self.text("decode")
        schemas = self.text("schemas")
        if decode is None:
            if schemas is not None:
                raise ConfigError("option schemas", "is for decode, which is not given")
            return {}
        if self.text("columns") is not None:
            raise ConfigError("option columns", "is not for decode: the schema of payloads is used")
        found = {"decode": decode} | ({} if schemas is None else {"schemas": schemas})
        # Schemas of types may be in the log, or be asked for where it is served.
        places = {name: self.text(name) for name in ("log", "connect")}
        return found | {name: text for name, text in places.items() if text is not None}

    def _source(self) -> Source:
        text = self.text("log")
        if text is None:
            reason = "is missing: a directory, zenoh:NAME or flight:NAME; for live values, selector"
            raise ConfigError("option log", reason)
        places = tuple(one.strip() for one in text.split(",") if one.strip())
        is_served = any(one.startswith((ZENOH, FLIGHT)) for one in places)
        reach = self._reach(needed_by="a log by zenoh or flight" if is_served else "")
        return Source(
            places=places,
            reach=reach,
            columns=self.columns(),
            key_exprs=self._key_exprs(),
            min_partitions=self._count("minPartitions") or 1,
            fail_on_data_loss=self._flag("failOnDataLoss", default=True),
            flight=self._flight(places),
        )

    def _flight(self, places: tuple[str, ...]) -> Flight:
        given = {name: text for name in _OF_FLIGHT if (text := self.text(name)) is not None}
        if given and not any(one.startswith(FLIGHT) for one in places):
            reason = "is for a log by flight:NAME, and none is named"
            raise ConfigError(f"option {next(iter(given))}", reason)
        location = None
        if "flight" in given:
            try:
                location = Location.parse(given["flight"])
            except EleaError as error:
                raise ConfigError("option flight", str(error)) from error
        return Flight(location, given.get("flightTokenFile"), given.get("flightRoots"))

    def _reach(self, needed_by: str) -> Reach:
        """How the data space is reached; an endpoint has to be said if something needs it."""
        if needed_by and not (self.text("connect") or self.text("config")):
            reason = (
                f"is missing: {needed_by} needs the endpoint of a router, such as"
                " tcp/127.0.0.1:7447, or the option config; routers are not looked for by multicast"
            )
            raise ConfigError("option connect", reason)
        mode = self.text("mode") or "client"
        if mode not in ("client", "peer"):
            raise ConfigError("option mode", f"saw {mode!a}; legal are client, peer")
        connect = tuple(one.strip() for one in (self.text("connect") or "").split(",") if one)
        if connect:
            from elea.session.endpoints import check_endpoint  # late: reading files needs no links
        for endpoint in connect:
            try:
                check_endpoint(endpoint)
            except EleaError as error:
                raise ConfigError("option connect", str(error)) from error
            # Spark writes options to its event log and sends them to every executor.
            if re.search(r"(private_key|password|secret)\w*=", endpoint):
                reason = "holds a secret; put it into the file of the option config"
                raise ConfigError("option connect", reason)
        text = self.text("timeout") or "30"
        try:
            timeout_s = float(text)
        except ValueError:
            timeout_s = 0.0
        if not 0 < timeout_s <= 3_600:
            raise ConfigError("option timeout", f"saw {text!a}; legal are seconds, 3600 at most")
        return Reach(connect, mode, self.text("config"), timeout_s)

    def _key_exprs(self) -> tuple[str, ...]:
        found = []
        for text in self._list("keyexpr"):
            try:
                found.append(str(KeyExpr.autocanonize(text)))
            except EleaError as error:
                raise ConfigError("option keyexpr", str(error)) from error
        return () if "**" in found else tuple(found)

    def _selectors(self) -> tuple[str, ...]:
        text = self.text("selector") or ""
        found = self._list("selector") if text.startswith("[") else [text]
        for one in found:
            try:
                Selector(one)
            except EleaError as error:
                raise ConfigError("option selector", str(error)) from error
        return tuple(found)

    def _list(self, name: str) -> list[str]:
        text = self.text(name) or ""
        if not text.startswith("["):
            return [one.strip() for one in text.split(",") if one.strip()]
        found = _json(name, text)
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise ConfigError(f"option {name}", f"saw {text[:80]!a}; legal is an array of texts")
        return found

    def _start(self) -> Start:
        text = self.text("startingOffsets") or "earliest"
        if text in ("earliest", "latest", "committed"):
            return Start(text)
        if text.startswith("{"):
            return Start(
                "offset", offset=_offset("startingOffsets", _json("startingOffsets", text))
            )
        return Start(
            "time",
            time=_time("startingOffsets", text, "earliest, latest, committed, an offset as JSON, "),
        )

    def _span(self) -> Span:
        since, until = self.text("from"), self.text("until")
        span = (
            ALL_TIME[0] if since is None else _time("from", since),
            ALL_TIME[1] if until is None else _time("until", until),
        )
        if span[0] > span[1]:
            raise ConfigError("option until", f"saw {until!a}, which is before from, {since!a}")
        return span

    def _offsets(self) -> tuple[Offset, Offset] | None:
        text = self.text("offsets")
        if text is None:
            return None
        found = _json("offsets", text)
        if not isinstance(found, list) or len(found) != 2:
            raise ConfigError("option offsets", f"saw {text[:80]!a}; legal is [offset, offset]")
        first, end = (_offset("offsets", one) for one in found)
        if first.log_id != end.log_id:
            raise ConfigError("option offsets", f"saw logs {first.log_id} and {end.log_id}")
        return first, end

    def _count(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isdecimal() or not 0 < int(text) < 2**63:
            raise ConfigError(f"option {name}", f"saw {text!a}; legal is a number above 0")
        return int(text)

    def _flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"option {name}", f"saw {text!a}; legal are true, false")
        return text.lower() == "true"

    def _choice(self, name: str, *legal: str) -> str:
        """One of some words; the first, if none is given."""
        text = self.text(name)
        if text is None:
            return legal[0]
        if text.lower() not in legal:
            raise ConfigError(f"option {name}", f"saw {text!a}; legal are {', '.join(legal)}")
        return text.lower()


def _names(options: tuple[Option, ...]) -> str:
    return ", ".join(option.name for option in options)


def _unknown(name: str, options: tuple[Option, ...]) -> str:
    near = difflib.get_close_matches(name, [option.name.lower() for option in options], n=1)
    hint = f"did you mean {_BY_NAME[near[0]].name}? " if near else ""
    if name in _OF_KAFKA:
        hint = f"{_OF_KAFKA[name]}; "
    return f"is unknown; {hint}legal are {_names(options)}"


def _json(name: str, text: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"option {name}", f"saw {text[:80]!a}, which is no JSON") from error
    return found


def _offset(name: str, value: object) -> Offset:
    try:
        return Offset.from_json(value)
    except EleaError as error:
        raise ConfigError(f"option {name}", str(error)) from error


def _time(name: str, text: str, others: str = "") -> int:
    """The 64 bits of a time; `now` is that of the driver. `others` are legal instead of it."""
    try:
        start = TimeRange.parse(f"[{text}..]").start
        if start is not None:
            return NTP64.from_nanos(start.resolve(time.time_ns())).value
    except EleaError:
        pass
    form = "a time such as 2026-11-15T00:00:00Z or now(-1h)"
    raise ConfigError(f"option {name}", f"expected {others}{form}; got {text[:80]!a}")
