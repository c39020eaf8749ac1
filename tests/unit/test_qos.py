from __future__ import annotations

import pytest

from elea.errors import InvalidValueError
from elea.qos import (
    QOS_DECLARE,
    QOS_PUSH,
    QOS_REQUEST,
    CongestionControl,
    Locality,
    Priority,
    QoS,
    Reliability,
)


def test_names_and_numbers() -> None:
    assert [int(priority) for priority in Priority] == list(range(8))
    assert Priority["DEFAULT"].name == "DATA"
    assert Priority["MIN"].name == "BACKGROUND"
    assert Priority["MAX"].name == "REAL_TIME"
    assert Priority.NUM == 7
    assert str(Priority.DATA_HIGH) == "Priority.DATA_HIGH"
    assert [int(value) for value in CongestionControl] == [0, 1, 2]
    assert CongestionControl["DEFAULT"].name == "DROP"
    assert [int(value) for value in Reliability] == [0, 1]
    assert Reliability["DEFAULT"].name == "BEST_EFFORT"
    assert [int(value) for value in Locality] == [0, 1, 2]
    assert Locality["DEFAULT"].name == "ANY"


def test_usual_octets() -> None:
    assert (QOS_PUSH.to_octet(), QOS_REQUEST.to_octet(), QOS_DECLARE.to_octet()) == (5, 0x0D, 8)


@pytest.mark.parametrize("octet", range(256))
def test_every_octet_is_read_by_its_bits(octet: int) -> None:
    qos = QoS.from_octet(octet)
    assert int(qos.priority) == octet & 7
    assert qos.express is bool(octet & 0x10)
    expected = {0: "DROP", 0x08: "BLOCK", 0x20: "BLOCK_FIRST", 0x28: "BLOCK"}[octet & 0x28]
    assert qos.congestion_control.name == expected
    assert QoS.from_octet(qos.to_octet()) == qos
    canonical = octet & 0x1F if octet & 0x08 else octet & 0x3F
    assert qos.to_octet() == canonical


@pytest.mark.parametrize("octet", [-1, 256])
def test_what_is_no_octet(octet: int) -> None:
    with pytest.raises(InvalidValueError, match="0 to 255"):
        QoS.from_octet(octet)
