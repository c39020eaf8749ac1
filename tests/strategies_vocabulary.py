"""Hypothesis strategies for the values of the vocabulary."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from elea.encoding import Encoding
from elea.ids import EntityGlobalId, EntityId, WhatAmI, ZenohId
from elea.json5 import Json
from elea.locator import Endpoint, Locator
from elea.parameters import Parameters
from elea.qos import CongestionControl, Priority, QoS
from elea.sample import SourceInfo
from elea.timerange import TimeExpr, TimeRange
from elea.timestamp import NTP64, Timestamp

U32_MAX = 0xFFFF_FFFF
U64_MAX = 0xFFFF_FFFF_FFFF_FFFF


def texts(*, exclude: str = "", min_size: int = 0, max_size: int = 20) -> st.SearchStrategy[str]:
    """UTF-8 texts without the characters of `exclude`."""
    characters = st.characters(codec="utf-8", exclude_characters=exclude)
    return st.text(characters, min_size=min_size, max_size=max_size)


def zenoh_ids() -> st.SearchStrategy[ZenohId]:
    """Ids of every length."""
    return st.integers(1, 2**128 - 1).map(lambda n: ZenohId(n.to_bytes(16, "little")))


def whatamis() -> st.SearchStrategy[WhatAmI]:
    """The three roles."""
    return st.sampled_from(WhatAmI)


def entity_global_ids() -> st.SearchStrategy[EntityGlobalId]:
    """Entities anywhere."""
    return st.builds(EntityGlobalId, zenoh_ids(), st.integers(0, U32_MAX).map(EntityId))


def source_infos() -> st.SearchStrategy[SourceInfo]:
    """Sources with their sequence numbers."""
    return st.builds(SourceInfo, entity_global_ids(), st.integers(0, U32_MAX))


def qos_values() -> st.SearchStrategy[QoS]:
    """Every legal QoS."""
    return st.builds(
        QoS, st.sampled_from(Priority), st.sampled_from(CongestionControl), st.booleans()
    )


def encodings() -> st.SearchStrategy[Encoding]:
    """Encodings as the wire can bring them, schemas that are no UTF-8 included."""
    return st.builds(
        Encoding.from_parts, st.integers(0, 0xFFFF), st.none() | st.binary(max_size=255)
    )


def ntp64s() -> st.SearchStrategy[NTP64]:
    """Times over the whole range."""
    return st.integers(0, U64_MAX).map(NTP64.from_value)


def timestamps() -> st.SearchStrategy[Timestamp]:
    """Timestamps of any clock."""
    return st.builds(Timestamp, ntp64s(), zenoh_ids())


def datetimes() -> st.SearchStrategy[datetime]:
    """Instants that NTP64 can hold."""
    return st.datetimes(
        datetime(1970, 1, 1), datetime(2106, 2, 7, 6, 28, 15), timezones=st.just(UTC)
    )


def parameter_pairs() -> st.SearchStrategy[tuple[str, str]]:
    """Names and values that survive their text."""
    return st.tuples(texts(exclude=";=", min_size=1), texts(exclude=";"))


def parameters() -> st.SearchStrategy[Parameters]:
    """Parameter lists, sloppy ones included."""
    return texts(max_size=60).map(Parameters)


def _places() -> st.SearchStrategy[str]:
    protocol = texts(exclude="/?#", min_size=1, max_size=8)
    return st.builds("{}/{}".format, protocol, texts(exclude="?#", min_size=1))


def _lists(exclude: str) -> st.SearchStrategy[str]:
    name = texts(exclude=f";={exclude}", min_size=1, max_size=6)
    pair = st.builds("{}={}".format, name, texts(exclude=f";{exclude}", max_size=6)) | name
    return st.lists(pair, min_size=1, max_size=4).map(";".join)


def locator_texts() -> st.SearchStrategy[str]:
    """Texts a person could write for a locator."""
    return _places() | st.builds("{}?{}".format, _places(), _lists("#"))


def locators() -> st.SearchStrategy[Locator]:
    """Canonical locators."""
    return locator_texts().map(Locator.parse)


def endpoints() -> st.SearchStrategy[Endpoint]:
    """Endpoints with and without config."""
    config = _lists("?") | st.just("listen_private_key_base64=QUJD")
    return st.builds("{}#{}".format, locator_texts(), config).map(Endpoint.parse) | (
        locator_texts().map(Endpoint.parse)
    )


def time_exprs() -> st.SearchStrategy[TimeExpr]:
    """Fixed and relative instants."""
    fixed = st.integers(0, U32_MAX * 10**9).map(TimeExpr)
    year_ns = 365 * 86_400 * 10**9
    offset = st.integers(-100 * year_ns, 100 * year_ns)
    return fixed | offset.map(lambda ns: TimeExpr(ns, relative=True))


def time_ranges() -> st.SearchStrategy[TimeRange]:
    """Ranges with every kind of bound."""
    bound = st.none() | time_exprs()
    return st.builds(TimeRange, bound, bound, st.booleans(), st.booleans())


def json_values() -> st.SearchStrategy[Json]:
    """Plain values as JSON holds them."""
    leaves: st.SearchStrategy[Json] = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts()
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(), inner, max_size=4),
        max_leaves=20,
    )
