"""Laws of the vocabulary: round trips, total orders, clocks that never go back."""

from __future__ import annotations

import contextlib
import json
import pickle
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies_vocabulary import (
    datetimes,
    encodings,
    endpoints,
    json_values,
    locator_texts,
    locators,
    ntp64s,
    parameter_pairs,
    parameters,
    qos_values,
    texts,
    time_ranges,
    timestamps,
    zenoh_ids,
)

from elea.config import Config
from elea.config.yaml_text import loads as yaml_loads
from elea.encoding import Encoding
from elea.errors import (
    ConfigError,
    InvalidValueError,
    LimitError,
    LocatorError,
    SelectorError,
)
from elea.ids import ZenohId
from elea.json5 import Json, loads
from elea.locator import Endpoint, Locator
from elea.parameters import Pair, Parameters
from elea.qos import QoS
from elea.timerange import TimeRange
from elea.timestamp import COUNTER_MASK, NTP64, HybridClock, Timestamp

WALL_NS = st.integers(0, 4_000_000_000 * 10**9)
DRIFT_NS = 500_000_000


@given(zenoh_ids(), zenoh_ids())
def test_ids_read_back_and_order_like_padded_octets(one: ZenohId, other: ZenohId) -> None:
    assert ZenohId.parse(str(one)) == ZenohId(one.to_bytes()) == one
    assert int(str(one), 16) == int(one)
    padded = [zid.to_bytes().ljust(16, b"\0") for zid in (one, other)]
    assert (one < other) is (padded[0] < padded[1])
    assert (one == other) is (padded[0] == padded[1])


@given(qos_values())
def test_qos_survives_its_octet(qos: QoS) -> None:
    assert QoS.from_octet(qos.to_octet()) == qos


@given(encodings())
def test_encodings_are_values(encoding: Encoding) -> None:
    assert pickle.loads(pickle.dumps(encoding)) == encoding
    assert Encoding.from_parts(encoding.id, encoding.schema) == encoding


@given(texts(max_size=80))
def test_an_encoding_equals_its_text(text: str) -> None:
    encoding = Encoding(text)
    assert encoding == text
    assert Encoding(str(encoding)) == encoding
    assert hash(Encoding(str(encoding))) == hash(str(encoding))


@given(timestamps(), timestamps())
def test_timestamps_read_back_and_order_by_time_then_id(one: Timestamp, other: Timestamp) -> None:
    assert Timestamp.parse(str(one)) == one
    keys = [(stamp.time.value, bytes(stamp.id).ljust(16, b"\0")) for stamp in (one, other)]
    assert (one < other) is (keys[0] < keys[1])
    assert one.get_diff_duration(other) == -other.get_diff_duration(one)


@given(st.integers(0, 0xFFFF_FFFF * 10**9))
def test_nanoseconds_survive_ntp64(nanoseconds: int) -> None:
    time = NTP64.from_nanos(nanoseconds)
    assert time.as_nanos() == nanoseconds
    assert NTP64.parse_rfc3339(time.to_string_rfc3339_lossy()) == time


@given(datetimes())
def test_datetimes_survive_ntp64(time: datetime) -> None:
    assert NTP64.from_datetime(time).to_datetime() == time


@given(ntp64s())
def test_every_time_prints_and_reads_back_within_a_nanosecond(time: NTP64) -> None:
    with contextlib.suppress(InvalidValueError):  # the very last fraction rounds past 2106
        again = NTP64.parse_rfc3339(time.to_string_rfc3339_lossy())
        assert 0 <= again.as_nanos() - time.as_nanos() <= 1


@given(st.lists(st.tuples(WALL_NS, st.none() | timestamps()), max_size=30))
def test_a_clock_never_repeats_and_never_goes_back(
    steps: list[tuple[int, Timestamp | None]],
) -> None:
    clock = HybridClock(ZenohId(b"\x01"))
    last: Timestamp | None = None
    accepted = NTP64.from_value(0)
    for wall_ns, remote in steps:
        if remote is not None:
            ahead_ns = remote.time.as_nanos() - wall_ns
            believed = clock.update(wall_ns, remote)
            assert believed or ahead_ns > DRIFT_NS - 1
            assert not believed or ahead_ns <= DRIFT_NS + 1
            accepted = max(accepted, remote.time) if believed else accepted
        try:
            stamp = clock.now(wall_ns)
        except InvalidValueError:  # a neighbour's last instant of 2106 was believed
            return
        assert last is None or stamp > last
        assert stamp.time > accepted or stamp.time == NTP64.from_value(0)
        assert stamp.time.as_nanos() >= wall_ns - 4
        last = stamp


@given(WALL_NS, st.integers(2, 40))
def test_a_standing_wall_clock_makes_the_counter_run(wall_ns: int, count: int) -> None:
    clock = HybridClock(ZenohId(b"\x01"))
    stamps = [clock.now(wall_ns).time.value for _ in range(count)]
    assert stamps == list(range(stamps[0], stamps[0] + count))
    assert stamps[0] & COUNTER_MASK == 0


@given(WALL_NS, st.lists(timestamps(), max_size=20))
def test_a_clock_is_never_dragged_beyond_the_drift(wall_ns: int, remotes: list[Timestamp]) -> None:
    clock = HybridClock(ZenohId(b"\x01"))
    for remote in remotes:
        clock.update(wall_ns, remote)
    assert clock.now(wall_ns).time.as_nanos() <= wall_ns + DRIFT_NS + 1


@given(locator_texts())
def test_locators_are_canonical_after_one_reading(text: str) -> None:
    locator = Locator.parse(text)
    assert Locator(str(locator)) == Locator.parse(str(locator)) == locator
    assert f"{locator.protocol}/{locator.address}" == text.partition("?")[0]


@given(endpoints())
def test_endpoints_read_back(endpoint: Endpoint) -> None:
    assert Endpoint.parse(endpoint.reveal()) == endpoint
    assert Locator(str(endpoint.locator())) == endpoint.locator()


@given(locators(), locators())
def test_locators_are_ordered_by_text(one: Locator, other: Locator) -> None:
    assert (one < other) is (str(one) < str(other))


@given(texts(max_size=60))
def test_any_text_is_a_locator_or_refused_with_an_offset(text: str) -> None:
    for parse in (Locator, Locator.parse, Endpoint.parse):
        offset = 0
        try:
            parse(text)
        except LocatorError as error:
            offset = error.offset
        assert 0 <= offset <= len(text)


@given(parameters())
def test_parameters_read_back(given_parameters: Parameters) -> None:
    assert str(Parameters(str(given_parameters))) == str(given_parameters)
    assert Parameters(str(given_parameters)) == given_parameters


@given(st.lists(parameter_pairs(), max_size=8), parameter_pairs())
def test_inserted_parameters_are_found(pairs: list[Pair], added: Pair) -> None:
    given_parameters = Parameters()
    given_parameters.extend(pairs)
    name, value = added
    before = given_parameters.get(name)
    assert given_parameters.insert(name, value) == before
    assert given_parameters.get(name) == value
    assert [pair for pair in given_parameters if pair[0] == name] == [added]
    assert given_parameters.remove(name) == value
    assert name not in given_parameters
    assert list(given_parameters) == [pair for pair in pairs if pair[0] != name]


@given(time_ranges(), WALL_NS, ntp64s())
def test_time_ranges_read_back_and_resolve(time_range: TimeRange, now_ns: int, time: NTP64) -> None:
    assert TimeRange.parse(str(time_range)) == time_range
    fixed = time_range.resolve(now_ns)
    assert fixed.contains(time, 0) is time_range.contains(time, now_ns)
    assert fixed.resolve(0) == fixed


@given(st.text("[]().;-+0123456789nowmsuhdTZ: ", max_size=40))
def test_any_text_is_a_time_range_or_refused_with_an_offset(text: str) -> None:
    offset = 0
    try:
        time_range = TimeRange.parse(text)
        assert TimeRange.parse(str(time_range)) == time_range
    except SelectorError as error:
        offset = error.offset
    assert 0 <= offset <= len(text)


@given(json_values())
def test_json5_reads_json(value: Json) -> None:
    assert loads(json.dumps(value)) == value
    assert loads(json.dumps(value, ensure_ascii=False, indent=1)) == value


@given(st.text("{}[]:,'\"\\/*\n +-.0x1eEaInfinityNaNtrueu$_é\u2028", max_size=40))
def test_any_text_is_json5_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError, LimitError):
        loads(text)


@given(json_values())
def test_yaml_reads_json(value: Json) -> None:
    # YAML forbids some control characters that JSON allows raw; escaped, both agree.
    assert yaml_loads(json.dumps(value)) == value


@given(st.dictionaries(texts(), json_values(), max_size=4))
def test_free_subtrees_survive(metadata: dict[str, Json]) -> None:
    config = Config.from_mapping({"metadata": metadata})
    if not config.has_secrets():
        again = Config.from_json5(str(config))
        assert json.loads(again.get_json("metadata")) == metadata
    assert pickle.loads(pickle.dumps(config)).mode is config.mode


@given(json_values())
def test_any_value_is_a_configuration_or_refused(value: Json) -> None:
    with contextlib.suppress(ConfigError, LimitError):
        Config.from_json5(json.dumps(value))
