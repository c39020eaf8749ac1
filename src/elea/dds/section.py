"""The keys of the section `plugins/dds`, what they are read into, and its page (dds.md 20)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from elea.config.kinds import Bool, Choice, Either, Free, Integer, Kind, ListOf, Text, Value
from elea.config.section import (
    FOREIGN,
    Bounded,
    ByName,
    Converted,
    Own,
    Section,
    Setting,
    Several,
)
from elea.config.shapes import KEY_EXPR
from elea.dds.declared_types import declared_type
from elea.dds.mapping import checked_key
from elea.dds.qos import Qos, override
from elea.dds.ros import Interface
from elea.dds.routes import Direction
from elea.errors import ConfigError, InvalidValueError
from elea.ros.formats.keys import DOMAIN_MAX

WITHOUT_EFFECT: Final = (
    *("work_thread_num", "max_block_thread_num", "generalise_subs", "generalise_pubs"),
)
CHANGEABLE: Final = (
    *("allow", "deny", "max_frequencies", "qos", "pub_priorities", "queries_timeout"),
    "direction",
)
_ACTION_PARTS: Final = ("send_goal", "cancel_goal", "get_result")
_HERTZ_MAX: Final = 1_000_000.0
_SECONDS_MAX: Final = 86_400.0
_NO_NAME: Final = re.compile(r"(?!)")
_DIRECTIONS: Final = {
    "both": frozenset(Direction),  # services pass both ways, or not at all
    "from_dds": frozenset({Direction.FROM_DDS}),
    "to_dds": frozenset({Direction.TO_DDS}),
}


@dataclass(frozen=True, slots=True)
class QosRule:
    """Policies of mirrors of some keys (D-364)."""

    match: re.Pattern[str]
    reader: Mapping[str, object] = field(default_factory=dict)
    writer: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeclaredRoute:
    """A route that exists without a discovered endpoint (D-311)."""

    topic: str
    type_name: str
    partition: str = ""
    key: str = ""
    direction: Direction = Direction.TO_DDS
    qos: Qos = field(default_factory=Qos)


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidValueError("regular expression", str(error)) from None


def _any_of(texts: tuple[str, ...]) -> re.Pattern[str] | None:
    return _expression("|".join(texts)) if texts else None


def _entries(legal: str, read: Callable[[str], object], suffix: str | None = None) -> Kind:
    """Texts `REGEX=VALUE`; with a suffix, what it stands behind is the whole expression."""

    def entry(text: str) -> tuple[re.Pattern[str], object]:
        said, sign, value = text.rpartition("=")
        if not sign:
            raise InvalidValueError("entry", "there is no = in it")
        match = _expression(said)
        return match if suffix is None else _expression(f"(?:{said}){suffix}"), read(value)

    return Several(Converted(Text(legal), entry), may_be_empty=True)


def _positive(most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise InvalidValueError("number", f"{text[:40]!a} is no number") from None
        if not 0 < number <= most:
            raise InvalidValueError("number", f"{text[:40]} is not above 0, up to {most:.0f}")
        return number

    return read


def _of_names(suffix: str) -> Kind:
    return _entries("a text REGEX=SECONDS", _positive(_SECONDS_MAX), suffix)


def _priority(text: str) -> tuple[int, bool]:
    number, _, express = text.partition(":")
    if express not in ("", "express") or not re.fullmatch("0*[1-7]", number):
        raise InvalidValueError("priority", f"{text[:40]!a} is not 1 to 7, and :express or nothing")
    return int(number), bool(express)


def _no_shared_memory(wanted: bool) -> bool:
    if wanted:
        reason = "the DDS library has no shared memory exchange"
        raise InvalidValueError("setting", reason)
    return wanted


def _scope(text: str) -> str:
    return _key(text.strip("/"))


def _namespace(text: str) -> str:
    _scope(text)
    return text


def _key(text: str) -> str:
    return checked_key(text) if text else ""


def _filled(text: str) -> str:
    if not text:
        raise InvalidValueError("name", "it is empty")
    return text


def _address(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.:%\[\]-]+", text):
        raise InvalidValueError("address", "it has other characters than addresses and names")
    return text


def _xml(config: str) -> str:
    """The XML of Cyclone DDS, which itself accepts a text that ends in the middle (F-26)."""
    text = config
    if config.startswith("file://"):
        try:
            text = Path(config.removeprefix("file://")).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InvalidValueError("file", str(error)) from None
    if "<!" in text:  # no entities: nothing in it may grow
        raise InvalidValueError("XML", "declarations and comments are not accepted")
    try:
        ElementTree.fromstring(f"<all>{text}</all>")  # noqa: S314  # without entities, and bounded
    except ElementTree.ParseError as error:
        raise InvalidValueError("XML", str(error)) from None
    return text


def _timeouts(found: dict[str, Any]) -> dict[str, Any]:
    found.pop("transient_local_subscribers", None)
    parts, services = found.pop("actions", {}), found.pop("services", ())
    return {**found, "service_timeouts": tuple(chain(*parts.values(), services))}


def _instances(value: Value, path: str) -> object:
    return () if value == "topic" else _EACH.read(value, path)


def _policies(given: dict[str, object]) -> dict[str, object]:
    override(Qos(), given)
    return given


def _route(found: dict[str, Any]) -> DeclaredRoute:
    partition = found.get("partition")
    qos = Qos(partitions=(partition,) if partition else ())
    return DeclaredRoute(**{**found, "qos": override(qos, found.get("qos", {}))})


def _one_domain(_: Value, path: str) -> object:
    raise ConfigError(path, "expected the keys of one domain, got several domains")


_FLAG: Final = Bool()
_KEY_EXPRS: Final = Several(KEY_EXPR, may_be_empty=True)
_SECONDS: Final = Converted(Bounded(0, _SECONDS_MAX), float)
_EXPRESSION: Final = Text("a regular expression")
_EXPRESSIONS: Final = Several(_EXPRESSION, may_be_empty=True)
_EACH: Final = Several(Converted(_EXPRESSION, _expression), may_be_empty=True)
_NAMES: Final = Converted(_EXPRESSIONS, lambda texts: _any_of(texts) or _NO_NAME)
_INTERFACES: Final = Section(tuple(Setting(kind.value, _NAMES, "which") for kind in Interface))
_FILTER: Final = Either(
    (
        Converted(_EXPRESSIONS, _any_of),
        Converted(
            _INTERFACES,
            lambda found: {Interface(name): match for name, match in found.items()},
        ),
    )
)
_ACTIONS: Final = Section(
    tuple(Setting(part, _of_names(f"/_action/{part}"), "by action") for part in _ACTION_PARTS)
)
_TIMEOUTS: Final = Section(  # as zenoh-bridge-ros2dds has them
    (
        Setting("default", _SECONDS, "of all others", field="queries_timeout_s"),
        Setting("transient_local_subscribers", Free(), "accepted without effect"),
        Setting("services", _of_names(""), "by name"),
        Setting("actions", _ACTIONS, "by their parts"),
    )
)
_QUERIES_TIMEOUT: Final = Either(
    (
        Converted(_SECONDS, lambda seconds: {"queries_timeout_s": seconds}),
        Converted(_TIMEOUTS, _timeouts),
    )
)
_POLICIES: Final = Converted(Free("an object of policies", object_only=True), _policies)
_NAME: Final = Text("a name", _filled)
_ROUTE: Final = Section(
    (
        Setting("topic", _NAME, "of DDS", needed=True),
        Setting("type", _NAME, "of the topic", needed=True, field="type_name"),
        Setting("key", Text("a key", _key), "of Zenoh; as the topic says"),
        Setting("partition", Text(), "of DDS; none"),
        Setting(
            "direction",
            Converted(Choice((Direction.FROM_DDS.value, Direction.TO_DDS.value)), Direction),
            "which way samples pass; `to_dds`",
        ),
        Setting("qos", _POLICIES, "other policies than those of DDS"),
    )
)
_QOS_RULE: Final = Section(
    (
        Setting("match", Converted(_EXPRESSION, _expression), "keys", needed=True),
        Setting("reader", _POLICIES, "of mirror readers"),
        Setting("writer", _POLICIES, "of mirror writers"),
    )
)
_ADDRESSES: Final = Several(Text("an address or a name", _address), may_be_empty=True)
_DISCOVERY: Final = Section(
    (
        Setting("peers", _ADDRESSES, "participants that are asked by unicast; none"),
        Setting(
            "interfaces",
            _ADDRESSES,
            "where DDS is used; loopback, or all if `localhost_only` is false",
        ),
        Setting(
            "participant_index",
            Converted(Either((Choice(("auto", "none", "default")), Integer(0, 120))), str),
            "by which ports are chosen; auto",
        ),
        Setting("ttl", Integer(0, 255), "of multicast; 1"),
        Setting(
            "config",
            Text("XML of Cyclone DDS, or file://PATH of it", _xml),
            "what that library is told last; none",
        ),
    )
)
SECTION: Final = Section(
    (
        Setting("scope", Text("a key", _scope), "prefix of all keys; none"),
        Setting("domain", Integer(0, DOMAIN_MAX), "the DDS domain; `ROS_DOMAIN_ID`, else 0"),
        Setting("localhost_only", _FLAG, "whether DDS is used on loopback alone; true"),
        Setting(
            "allow",
            _FILTER,
            "keys or ROS interfaces; all",
            legal="regular expressions, or `{publishers, ...}`",
        ),
        Setting(
            "deny",
            _FILTER,
            "what is not bridged; none",
            legal="regular expressions, or `{publishers, ...}`",
        ),
        Setting(
            "direction",
            Converted(Choice(tuple(_DIRECTIONS)), _DIRECTIONS.__getitem__),
            "which way samples pass; `both`",
        ),
        Setting(
            "max_frequencies",
            _entries("a text REGEX=HERTZ", _positive(_HERTZ_MAX)),
            "at most so many samples a second and instance",
            legal="texts `REGEX=HERTZ`",
        ),
        Setting(
            "pub_priorities",
            _entries("a text REGEX=1..7[:express]", _priority),
            "Zenoh priority of what comes from DDS",
            legal="texts `REGEX=1..7[:express]`",
        ),
        Setting("generalise_subs", _KEY_EXPRS, "accepted without effect; the log says so"),
        Setting("generalise_pubs", _KEY_EXPRS, "accepted without effect; the log says so"),
        Setting("forward_discovery", _FLAG, "mirror endpoints of other Elea bridges; false"),
        Setting("reliable_routes_blocking", _FLAG, "RELIABLE writers wait for room; true"),
        Setting(
            "queries_timeout",
            _QUERIES_TIMEOUT,
            "of history queries and services; 5.0, results of actions 300",
            legal="seconds, or `{default, services, actions}`",
        ),
        Setting(
            "shm_enabled",
            Converted(Bool("false"), _no_shared_memory),
            "the library has no shared memory exchange; false",
        ),
        Setting("work_thread_num", Free("a number"), "accepted without effect"),
        Setting("max_block_thread_num", Free("a number"), "accepted without effect"),
        Setting(
            "names",
            Converted(Choice(("dds", "ros2")), "ros2".__eq__),
            "how topics become keys; `dds`",
            field="ros",
        ),
        Setting(
            "namespace",
            Text("a ROS namespace", _namespace),
            "prefix of ROS names, with `names: ros2`; `/`",
        ),
        Setting("partition_separator", Text(), "what stands for `/` in partitions; none"),
        Setting("pattern_writers", _FLAG, "whether writers in pattern partitions pass; false"),
        Setting(
            "instances",
            Own("`topic`, or regular expressions", _instances),
            "keys with a key per instance; `topic`",
        ),
        Setting(
            "types",
            ByName(Own("a type", declared_type), "types by name"),
            "types of endpoints that send none: `{layout, keys}` or `{ros, definitions}`",
        ),
        Setting(
            "type_timeout",
            _SECONDS,
            "until a type that is not answered is unresolved; 2.0",
            legal="seconds",
            field="type_timeout_s",
        ),
        Setting(
            "routes",
            Converted(ListOf(Converted(_ROUTE, _route)), tuple),
            "routes that exist without an endpoint; none",
            legal="`[{topic, type, key, partition, direction, qos}]`",
        ),
        Setting(
            "qos",
            Converted(ListOf(Converted(_QOS_RULE, lambda found: QosRule(**found))), tuple),
            "policies of mirrors by key; none",
            legal="`[{match, reader, writer}]`",
        ),
        Setting("on_demand", _FLAG, "read topics only while a subscriber exists; true"),
        Setting(
            "linger",
            _SECONDS,
            "a route outlives its last endpoint by; 5.0",
            legal="seconds",
            field="linger_s",
        ),
        Setting(
            "timestamps",
            Converted(Choice(("dds", "zenoh")), "dds".__eq__),
            "whose time samples are stamped with; `dds`",
            field="source_stamps",
        ),
        Setting("numbering", _FLAG, "number the samples of each writer; true"),
        Setting("advanced", _FLAG, "ask advanced publishers for history; true"),
        Setting(
            "transient_local_cache_multiplier",
            Integer(1, 1_000),
            "with `names: ros2`, so many times the depth is kept; 10",
            field="cache_multiplier",
        ),
        Setting("ownership_strength", Integer(0, 2**31 - 1), "of mirror writers; 0"),
        Setting("tokens", _FLAG, "declare a liveliness token per endpoint; true"),
        Setting("standby", _FLAG, "one of several equal bridges is active; true"),
        Setting(
            "foreign_bridges",
            Converted(Choice(("ignore", "accept")), "ignore".__eq__),
            "samples of Eclipse bridges in DDS; `ignore`",
            field="ignore_foreign",
        ),
        Setting("check_encoding", _FLAG, "write only samples encoded as CDR to DDS; false"),
        Setting("rmw_zenoh", _FLAG, "serve the keys of rmw_zenoh, too; with ROS names; false"),
        Setting("deletes", _FLAG, "carry dispose and unregister as deletes; true"),
        Setting(
            "discovery",
            _DISCOVERY,
            "how participants are found; loopback",
            legal="`{peers, interfaces, participant_index, ttl, config}`",
        ),
        Setting(
            "ros_distro", Text(), "whose messages the ROS graph has; `ROS_DISTRO`, else as seen"
        ),
        Setting(
            "domains",
            Own("a list of sections like this one", _one_domain),
            "several domains in one router; none",
        ),
    ),
    FOREIGN,
)


def markdown() -> str:
    """The section as a part of `docs/reference/config.md`."""
    return (
        "\n## `plugins/dds`\n\nBridges a DDS domain ([dds-bridge.md](../howto/dds-bridge.md))."
        "\n\n| key | meaning and default | legal |\n| --- | --- | --- |\n"
    ) + SECTION.rows()
