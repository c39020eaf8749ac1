"""Property 1: endpoints as parameter lists, both ways, and what is none."""

from __future__ import annotations

import pytest

from elea.dds.parameter_list import Described, read_parameters, write_parameters
from elea.dds.qos import (
    INFINITE,
    KEEP_ALL,
    Durability,
    Liveliness,
    Ownership,
    Qos,
    Reliability,
    Scope,
)

line = pytest.mark.line

EVERY = Qos(
    reliability=Reliability.RELIABLE,
    max_blocking_ns=250_000_000,
    durability=Durability.PERSISTENT,
    depth=KEEP_ALL,
    service_depth=7,
    deadline_ns=1_500_000_000,
    latency_ns=1,
    liveliness=Liveliness.MANUAL_BY_TOPIC,
    lease_ns=3_000_000_000,
    ownership=Ownership.EXCLUSIVE,
    strength=-4,
    by_source_time=True,
    scope=Scope.GROUP,
    coherent=True,
    ordered=True,
    lifespan_ns=10_000_000_000,
    partitions=("a.b", "", "ü"),
    representations=(0, 2),
)


@line("D-735")
@pytest.mark.parametrize("qos", [Qos(), EVERY, Qos(lease_ns=INFINITE - 1)], ids=str)
def test_a_list_says_what_was_written(qos: Qos) -> None:
    data = write_parameters(Described("T", "demo::T", qos, b"1234"))
    found = read_parameters(data)
    assert (found.topic, found.type_name, found.type_information) == ("T", "demo::T", b"1234")
    assert found.qos == qos or qos.lease_ns == INFINITE - 1


@line("D-735")
def test_the_bytes_are_those_of_rtps() -> None:
    data = write_parameters(Described("T", "U", Qos(durability=Durability.TRANSIENT_LOCAL)))
    assert data.hex(" ", -4) == (
        "00030000 05000800 02000000 54000000 07000800 02000000 55000000 1d000400 01000000"
        " 1a000c00 01000000 00000000 9a999919 01000000"
    )


@line("D-736", "D-815")
def test_lists_that_are_none_are_refused() -> None:
    whole = write_parameters(Described("Topic", "demo::T", EVERY))
    for length in range(len(whole) - 3):
        with pytest.raises(ValueError, match=r"."):
            read_parameters(whole[:length])
    for wrong in (
        b"\0\2\0\0" + whole[4:],
        b"\0\3\0\0\1\0\0\0",  # neither topic nor type
        b"\0\3\0\0\5\0\4\0\xff\xff\xff\xff\1\0\0\0",  # a text that is longer than the list
        whole.replace(b"\x1d\0\4\0\3\0\0\0", b"\x1d\0\4\0\x63\0\0\0"),  # no durability
        whole[:-4] + b"\x2b\0\4\0\1\0\0\0",  # it does not end
    ):
        with pytest.raises(ValueError, match=r"."):
            read_parameters(wrong)
