from __future__ import annotations

import pickle

import pytest

from elea.encoding import Encoding
from elea.errors import InvalidValueError
from elea.ids import EntityGlobalId, EntityId, WhatAmI, ZenohId
from elea.keyexpr import KeyExpr
from elea.qos import CongestionControl, Priority
from elea.query import ConsolidationMode, QueryConsolidation, QueryTarget, ReplyKeyExpr
from elea.sample import (
    Hello,
    InterceptionPoint,
    Reply,
    ReplyError,
    Sample,
    SampleKind,
    SourceInfo,
    TimestampInstrumentation,
    TimestampStack,
    TimestampStackRecord,
)
from elea.timestamp import NTP64, Timestamp
from elea.zbytes import ZBytes

ENTITY = EntityGlobalId(ZenohId(b"\x07"), EntityId(3))


def test_a_plain_sample_has_the_defaults_of_the_protocol() -> None:
    sample = Sample(key_expr=KeyExpr("a/b"))
    assert (len(sample.payload), sample.kind) == (0, SampleKind.PUT)
    assert sample.encoding == "zenoh/bytes"
    assert sample.congestion_control is CongestionControl.DROP
    assert sample.priority is Priority.DATA
    assert sample.express is False
    optional = (sample.timestamp, sample.attachment, sample.source_info, sample.timestamp_stack)
    assert optional == (None, None, None, None)


def test_a_sample_is_a_value() -> None:
    sample = Sample(
        key_expr=KeyExpr("a/b"),
        payload=ZBytes(b"1"),
        timestamp=Timestamp(NTP64(1, 0), b"\x01"),
        source_info=SourceInfo(ENTITY, 9),
        attachment=ZBytes("x"),
    )
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert len({sample, pickle.loads(pickle.dumps(sample))}) == 1
    with pytest.raises(AttributeError):
        sample.express = True  # type: ignore[misc]


def test_a_reply_is_a_sample_or_an_error() -> None:
    good = Reply(result=Sample(key_expr=KeyExpr("a")), replier_id=ENTITY)
    assert (good.ok, good.err) == (good.result, None)
    bad = Reply(result=ReplyError(payload=ZBytes("no"), encoding=Encoding.ZENOH_STRING))
    assert (bad.ok, bad.err) == (None, bad.result)


@pytest.mark.parametrize("sn", [-1, 2**32])
def test_source_numbers_have_32_bits(sn: int) -> None:
    with pytest.raises(InvalidValueError, match="32 bits"):
        SourceInfo(ENTITY, sn)


def test_timestamp_stack() -> None:
    points = InterceptionPoint.SEND | InterceptionPoint.RECEIVE
    instrumentation = TimestampInstrumentation(points)
    assert instrumentation.is_instrumented(InterceptionPoint.SEND)
    assert not instrumentation.is_instrumented(InterceptionPoint.ROUTE)
    stamp = Timestamp(NTP64(1, 0), b"\x01")
    records = [
        TimestampStackRecord(InterceptionPoint.SEND, stamp),
        TimestampStackRecord(InterceptionPoint.RECEIVE, b"mine"),
    ]
    stack = TimestampStack(instrumentation, records)
    assert [record.is_custom for record in stack.records] == [False, True]
    assert [record.timestamp() for record in stack.records] == [stamp, b"mine"]
    with pytest.raises(InvalidValueError, match="no point"):
        TimestampInstrumentation(InterceptionPoint(0))


def test_numbers_that_travel() -> None:
    assert [int(kind) for kind in SampleKind] == [0, 1]
    assert [int(target) for target in QueryTarget] == [0, 1, 2]
    assert [int(mode) for mode in ConsolidationMode] == [0, 1, 2, 3]
    assert [int(keys) for keys in ReplyKeyExpr] == [0, 1]
    assert QueryConsolidation(ConsolidationMode.AUTO) == QueryConsolidation.DEFAULT
    assert QueryConsolidation(ConsolidationMode.NONE).mode is ConsolidationMode.NONE


def test_hello() -> None:
    hello = Hello(whatami=WhatAmI.PEER, zid=ZenohId(b"\x01"), locators=("tcp/a:1",))
    assert pickle.loads(pickle.dumps(hello)) == hello
