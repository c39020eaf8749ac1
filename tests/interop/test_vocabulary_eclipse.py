"""The vocabulary against Eclipse Zenoh's Python package: same texts in, same results out.

Where Elea differs on purpose, the test says so: negative durations are negative, text that cannot
travel is refused at once, secrets do not print, numbers below zero are no timeouts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
import zenoh
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies_vocabulary import datetimes, locator_texts, texts, zenoh_ids

from elea import (
    encoding,
    errors,
    ids,
    locator,
    parameters,
    qos,
    query,
    sample,
    selector,
    timestamp,
    zbytes,
)
from elea.config import Config
from elea.config.schema import CHILDREN
from elea.json5 import Json

ENUMS: list[tuple[type, type]] = [
    (qos.CongestionControl, zenoh.CongestionControl),
    (qos.Reliability, zenoh.Reliability),
    (qos.Locality, zenoh.Locality),
    (sample.SampleKind, zenoh.SampleKind),
    (query.QueryTarget, zenoh.QueryTarget),
    (query.ConsolidationMode, zenoh.ConsolidationMode),
    (query.ReplyKeyExpr, zenoh.ReplyKeyExpr),
    (ids.WhatAmI, zenoh.WhatAmI),
    (qos.Priority, zenoh.Priority),
]


def outcome(call: Callable[[], object]) -> object:
    """The result, or that it was refused."""
    try:
        return call()
    except (zenoh.ZError, errors.EleaError):
        return "refused"


@pytest.mark.parametrize(("ours", "theirs"), ENUMS)
def test_enums_have_the_same_names_and_numbers(ours: type, theirs: type) -> None:
    names = [name for name in dir(theirs) if name.isupper()]
    assert names
    for name in names:
        assert int(getattr(ours, name)) == int(getattr(theirs, name))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ids.ZenohId, zenoh.ZenohId),
        (ids.WhatAmIMatcher, zenoh.WhatAmIMatcher),
        (ids.EntityGlobalId, zenoh.EntityGlobalId),
        (encoding.Encoding, zenoh.Encoding),
        (timestamp.NTP64, zenoh.NTP64),
        (timestamp.Timestamp, zenoh.Timestamp),
        (timestamp.TimestampId, zenoh.TimestampId),
        (zbytes.ZBytes, zenoh.ZBytes),
        (selector.Selector, zenoh.Selector),
        (parameters.Parameters, zenoh.Parameters),
        (sample.Sample, zenoh.Sample),
        (sample.Reply, zenoh.Reply),
        (sample.ReplyError, zenoh.ReplyError),
        (sample.SourceInfo, zenoh.SourceInfo),
        (sample.Hello, zenoh.Hello),
        (sample.TimestampStack, zenoh.TimestampStack),
        (sample.TimestampStackRecord, zenoh.TimestampStackRecord),
        (sample.TimestampInstrumentation, zenoh.TimestampInstrumentation),
        (query.QueryConsolidation, zenoh.QueryConsolidation),
        (Config, zenoh.Config),
    ],
)
def test_every_name_of_theirs_exists_here(ours: type, theirs: type) -> None:
    names = {name for name in dir(theirs) if not name.startswith("_")}
    operators = {"__bytes__", "__bool__", "__len__", "__contains__", "__getitem__", "__iter__"}
    names |= operators & set(dir(theirs))
    assert names - set(dir(ours)) == set()


@given(st.sampled_from(encoding.NAMES) | texts(max_size=40), st.none() | texts(max_size=40))
def test_encodings(name: str, schema: str | None) -> None:
    text = name if schema is None else f"{name};{schema}"
    ours, theirs = encoding.Encoding(text), zenoh.Encoding(text)
    assert str(ours) == str(theirs)
    assert hash(ours) == hash(theirs)
    assert str(ours.with_schema("new")) == str(theirs.with_schema("new"))
    assert str(ours.with_schema("")) == str(theirs.with_schema(""))
    assert (ours == name) is (theirs == name)


def test_encoding_constants() -> None:
    names = [name for name in dir(zenoh.Encoding) if name.isupper()]
    assert len(names) == len(encoding.NAMES)
    for name in names:
        assert str(getattr(encoding.Encoding, name)) == str(getattr(zenoh.Encoding, name))


@given(zenoh_ids(), zenoh_ids())
def test_ids_are_ordered_alike(one: ids.ZenohId, other: ids.ZenohId) -> None:
    theirs = [zenoh.TimestampId(bytes(zid)) for zid in (one, other)]
    assert str(theirs[0]) == str(one)
    assert bytes(theirs[0]) == bytes(one)
    assert (one >= other) is (theirs[0] >= theirs[1])


@given(datetimes(), zenoh_ids(), datetimes())
def test_timestamps(time: datetime, zid: ids.ZenohId, earlier: datetime) -> None:
    ours, theirs = (
        timestamp.Timestamp(time, bytes(zid)),
        zenoh.Timestamp(time, bytes(zid)),
    )
    assert str(ours) == str(theirs)
    assert ours.to_string_rfc3339_lossy() == theirs.to_string_rfc3339_lossy()
    assert ours.get_time() == theirs.get_time()
    ntp64, their_ntp64 = ours.get_time_as_ntp64(), theirs.get_time_as_ntp64()
    assert ntp64.as_nanos() == their_ntp64.as_nanos()
    assert ntp64.subsec_nanos() == their_ntp64.subsec_nanos()
    assert ntp64.as_secs() == their_ntp64.as_secs()
    if earlier <= time:  # the other way theirs wraps around
        before, their_before = timestamp.Timestamp(earlier, b"\1"), zenoh.Timestamp(earlier, b"\1")
        assert ours.get_diff_duration(before) == theirs.get_diff_duration(their_before)


@pytest.mark.parametrize(
    "text",
    [
        "2024-07-01T13:51:12.129693000Z/33",
        "2024-07-01T13:51:12.1Z/aBc",
        "2024-06-30T23:59:60.5Z/1",
        "2024-07-01T13:51:12.1234567899Z/1",
        "2024-07-01T13:51:12Z",
        "2024-07-01T13:51:12Z/",
        "2024-07-01T13:51:12Z/0",
        "2024-07-01T13:51:12Z/00ab",
        "2024-07-01T13:51:12Z/1112131415161718191a1b1c1d1e1f2021",
        "2024-07-01T13:51:12+02:00/1",
        "2024-07-01 13:51:12Z/1",
        "2024-02-30T00:00:00Z/1",
        "1969-12-31T23:59:59Z/1",
        "7386690599959157260/33",
        "",
    ],
)
def test_rfc3339_timestamps(text: str) -> None:
    ours = outcome(lambda: str(timestamp.Timestamp.parse_rfc3339(text)))
    assert ours == outcome(lambda: str(zenoh.Timestamp.parse_rfc3339(text)))


def test_time_zones() -> None:
    east = datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    ours, theirs = timestamp.Timestamp(east, b"\1"), zenoh.Timestamp(east, b"\1")
    assert str(ours) == str(theirs)
    for make in (timestamp.Timestamp, zenoh.Timestamp):
        with pytest.raises(TypeError):
            make(east.replace(tzinfo=None), b"\1")


@pytest.mark.parametrize("octets", [b"", b"\0", b"\1\0", b"\0\1", b"x" * 16, b"x" * 17])
def test_timestamp_ids(octets: bytes) -> None:
    ours = outcome(lambda: bytes(timestamp.TimestampId(octets)))
    assert ours == outcome(lambda: bytes(zenoh.TimestampId(octets)))


@given(st.lists(st.sampled_from(["router", "peer", "client", "", " peer ", "x"]), max_size=4))
def test_matchers(names: list[str]) -> None:
    text = "|".join(names)
    ours = outcome(lambda: str(ids.WhatAmIMatcher(text)))
    assert ours == outcome(lambda: str(zenoh.WhatAmIMatcher(text)))


PARAMETER_TEXTS = st.text(st.sampled_from("abé;=|&? "), max_size=12)


@given(PARAMETER_TEXTS, st.sampled_from(["a", "b", "ab"]), texts(exclude=";", max_size=4))
def test_parameters(text: str, name: str, value: str) -> None:
    ours, theirs = parameters.Parameters(text), zenoh.Parameters(text)
    for _ in range(2):  # as given, then after a change
        assert str(ours) == str(theirs)
        assert list(ours) == list(iter(theirs.__iter__()))
        assert (ours.is_empty(), bool(ours)) == (theirs.is_empty(), bool(theirs))
        assert ours.is_ordered() == theirs.is_ordered()
        assert (ours.get(name), ours[name], ours.get(name, "d")) == (
            theirs.get(name),
            theirs[name],
            theirs.get(name, "d"),
        )
        assert (name in ours, ours.values(name)) == (name in theirs, theirs.values(name))
        assert ours.insert(name, value) == theirs.insert(name, value)
    assert str(ours) == str(theirs)
    assert ours.remove("a") == theirs.remove("a")
    ours.extend("a=7;b;b=8")
    theirs.extend("a=7;b;b=8")
    assert str(ours) == str(theirs)


@given(st.text(st.sampled_from("ab/?;=*"), max_size=8))
def test_selectors(text: str) -> None:
    def shown(made: selector.Selector | zenoh.Selector) -> tuple[str, str, str]:
        return str(made), str(made.key_expr), str(made.parameters)

    ours = outcome(lambda: shown(selector.Selector(text)))
    assert ours == outcome(lambda: shown(zenoh.Selector(text)))


@given(st.binary(max_size=20) | texts())
def test_payloads(given_octets: bytes | str) -> None:
    ours, theirs = zbytes.ZBytes(given_octets), zenoh.ZBytes(given_octets)
    assert ours.to_bytes() == theirs.to_bytes()
    assert (len(ours), bool(ours), hash(ours)) == (len(theirs), bool(theirs), hash(theirs))
    assert (ours == given_octets) is (theirs == given_octets) is True


def their_endpoint(text: str) -> str:
    config = zenoh.Config()
    # Not as escapes: theirs joins the two halves of a character wrongly.
    config.insert_json5("connect/endpoints", json.dumps([text], ensure_ascii=False))
    (endpoint,) = json.loads(config.get_json("connect/endpoints"))
    return str(endpoint)


@given(
    locator_texts()
    | st.text(st.sampled_from("ab/?#;=:"), max_size=12)
    | st.builds("tcp/a{}".format, st.text(st.sampled_from("ab?#;="), max_size=10))
)
def test_endpoints(text: str) -> None:
    ours = outcome(lambda: str(locator.Endpoint.parse(text)))
    theirs = outcome(lambda: their_endpoint(text))
    if re.match(r"[^/?#]+/[?#]", text):  # theirs takes an empty address, which nothing can dial
        assert ours == "refused"
    else:
        assert ours == theirs


def without_nulls(value: Json) -> Json:
    """Theirs writes out what a record does not set; here it is absent."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def test_an_empty_configuration_is_theirs() -> None:
    ours, theirs = json.loads(str(Config())), json.loads(str(zenoh.Config()))
    for tree in (ours, theirs):
        tree["plugins_loading"] = without_nulls(tree["plugins_loading"])
    assert ours == theirs


OWN = "elea"  # what Eclipse does not know


@pytest.mark.parametrize(
    "path", [path for path in CHILDREN if path != "gateway" and path.split("/")[0] != OWN]
)
def test_every_object_has_the_same_names(path: str) -> None:
    text = "{__bogus__: 1}"
    for name in reversed(path.split("/") if path else []):
        text = f"{{{name}: {text}}}"
    with pytest.raises(zenoh.ZError) as caught:
        zenoh.Config.from_json5(text)
    legal = re.findall(r"`(\w+)`", str(caught.value))[1:]
    assert set(legal) == set(CHILDREN[path]) - {OWN}


ACCEPTED = [
    ("mode", "'router'"),
    ("mode", "null"),
    ("id", "'ab'"),
    ("metadata", "{a: [1, null, {b: 'x'}]}"),
    ("region_name", "'r'"),
    ("namespace", "'a/b'"),
    ("connect/endpoints", "['tcp/a:1?rel=1;prio=2#z;y']"),
    ("connect/endpoints", "{router: ['tcp/a:1'], client: []}"),
    ("connect/endpoints", "[{strategy: 'allOf', locators: ['tcp/a:1']}, 'tcp/b:2']"),
    ("connect/timeout_ms", "-1"),
    ("connect/timeout_ms", "{router: -1, peer: 5}"),
    ("connect/exit_on_failure", "{client: true}"),
    ("connect/retry", "{period_init_ms: 1000, period_increase_factor: 1.5}"),
    ("listen/endpoints", "['tcp/[::]:7447#iface=eth0']"),
    ("listen/timeout_ms", "{router: 1}"),
    ("open/return_conditions", "{connect_scouted: true, declares: false}"),
    ("scouting/timeout", "0x10"),
    ("scouting", "{delay: 7, multicast: {listen: {router: true}}}"),
    ("scouting/multicast/address", "'[ff02::1]:7446'"),
    ("scouting/multicast/autoconnect", "['peer', 'router', 'peer']"),
    ("scouting/multicast/autoconnect", "{router: [], peer: ['router']}"),
    ("scouting/multicast/autoconnect_strategy", "{peer: {to_router: 'always'}}"),
    ("scouting/gossip/autoconnect_strategy", "'greater-zid'"),
    ("scouting/gossip/target", "{router: ['router']}"),
    ("timestamping/enabled", "{router: true, peer: false}"),
    ("routing/router/linkstate/transport_weights", "[{dst_zid: '1', weight: 10}]"),
    ("aggregation/publishers", "['a/**']"),
    ("transport/link/protocols", "['tcp', 'new']"),
    ("transport/link/tx/sequence_number_resolution", "'16bit'"),
    ("transport/link/tx/queue/size/control", "16"),
    ("transport/link/unixpipe/file_access_mask", "438"),
    ("transport/shared_memory/transport_optimization/messages", "['delete']"),
    ("adminspace", "{enabled: true}"),
    ("plugins", "{rest: {http_port: 8000}}"),
    ("plugins_loading/search_dirs", "['a', {kind: 'path', value: 'b'}]"),
    ("stats/filters", "[{key: 'a/**'}]"),
    ("downsampling", "[{messages: ['put'], rules: [{key_expr: 'a', freq: 1}], flows: ['egress']}]"),
    ("low_pass_filter", "[{messages: ['query'], key_exprs: ['a'], size_limit: 10}]"),
    ("qos/publication", "[{key_exprs: ['b', 'a'], config: {priority: 'data', express: true}}]"),
    ("qos/network", "[{messages: ['put'], overwrite: {priority: 'data'}, payload_size: '1..2'}]"),
    ("access_control/policies", "[{rules: ['r'], subjects: ['s']}]"),
    ("access_control/subjects", "[{id: 's', link_protocols: ['tls'], zids: ['1']}]"),
    (
        "access_control/rules",
        "[{id: 'r', messages: ['put', 'liveliness_token'], permission: 'allow', key_exprs: ['a']}]",
    ),
]


@pytest.mark.parametrize(("path", "value"), ACCEPTED)
def test_values_that_both_accept(path: str, value: str) -> None:
    ours, theirs = Config(), zenoh.Config()
    ours.insert_json5(path, value)
    theirs.insert_json5(path, value)
    shown = json.loads(theirs.get_json(path))
    assert without_nulls(json.loads(ours.get_json(path))) == without_nulls(shown)


REFUSED = [
    *(("id", f"'{text}'") for text in ("", "0", "00ab", "AB", "a" * 33)),
    ("mode", "'x'"),
    ("mode", "router"),
    ("bogus", "1"),
    ("connect/endpoints", "['tcp']"),
    ("connect/endpoints", "'tcp/a:1'"),
    ("connect/endpoints", "[['tcp/a:1']]"),
    ("connect/endpoints", "{router: 'tcp/a:1'}"),
    ("connect/timeout_ms", "{router: -1, foo: 0}"),
    ("connect/timeout_ms", "1.5"),
    ("connect/timeout_ms", "'1'"),
    ("connect", "null"),
    ("namespace", "'a/*'"),
    ("aggregation/subscribers", "['a//b']"),
    ("region_name", f"'{'x' * 33}'"),
    ("region_name", "''"),
    ("scouting/multicast/autoconnect", "'router|peer'"),
    ("scouting/multicast/address", "'foo'"),
    ("scouting/multicast/enabled", "{router: true}"),
    ("timestamping/enabled", "'yes'"),
    ("timestamping", "{enabled: true, enabled: false}"),
    ("queries_default_timeout", "{router: 1}"),
    ("routing/router/linkstate/transport_weights", "[{dst_zid: '1', weight: 0}]"),
    ("transport/link/tx/sequence_number_resolution", "'7bit'"),
    ("transport/link/tls", "{client_auth: true}"),
    ("transport/link/tx/lease", "null"),
    ("transport/shared_memory/mode", "'x'"),
    ("stats/filters", "['a']"),
    ("downsampling", "[{rules: [{key_expr: 'a', freq: 0.1}]}]"),
    ("downsampling", "[{messages: ['push'], rules: [{key_expr: 'a', freq: 0.1}]}]"),
    ("downsampling", "[{messages: ['put'], rules: []}]"),
    ("low_pass_filter", "[{messages: ['put'], key_exprs: ['a'], size_limit: 10, zids: ['1']}]"),
    ("qos/publication", "[{key_exprs: ['a']}]"),
    ("qos/publication", "[{key_exprs: ['a'], config: {priority: 'control'}}]"),
    ("qos/network", "[{messages: ['reply'], key_exprs: ['a'], overwrite: {}}]"),
    (
        "access_control/rules",
        "[{id: 'r', messages: ['get'], permission: 'deny', key_exprs: ['a']}]",
    ),
    ("access_control/subjects", "[{id: 's', foo: 1}]"),
    ("plugins_loading/search_dirs", "[{kind: 'x', value: 'a'}]"),
]


@pytest.mark.parametrize(("path", "value"), REFUSED)
def test_values_that_both_refuse(path: str, value: str) -> None:
    with pytest.raises(zenoh.ZError):
        zenoh.Config().insert_json5(path, value)
    with pytest.raises(errors.ConfigError):
        Config().insert_json5(path, value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("scouting/timeout", "-1"),  # theirs reads a very long time
        ("connect/retry", "{foo: 1}"),  # theirs ignores it
        ("qos/publication", "[{key_exprs: ['a'], config: {foo: true}}]"),  # theirs ignores it
        ("transport/link/tx/batch_size", "70000"),  # theirs keeps 16 bits of it
        ("plugins", "1"),
    ],
)
def test_values_that_only_we_refuse(path: str, value: str) -> None:
    zenoh.Config().insert_json5(path, value)
    with pytest.raises(errors.ConfigError):
        Config().insert_json5(path, value)


def test_secrets_do_not_print_here() -> None:
    text = "{transport: {auth: {usrpwd: {user: 'u', password: 'canary'}}}}"
    assert "canary" in str(zenoh.Config.from_json5(text))
    assert "canary" not in str(Config.from_json5(text))
