"""QUERY, inside a REQUEST."""

from __future__ import annotations

import pytest
from tests.unit.wire.helpers import Examples, Refusals, check_cuts, check_example, check_refused
from tests.wire_kinds import decode, encode

from elea.wire.data.query import Query, QueryBody, consolidation_name
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import WireEncoding
from elea.wire.shared_extensions import SourceRef
from elea.wire.shm import ShmDescriptor

AA = b"\xaa"

EXAMPLES: Examples = {
    "plain": ("5c0101 03", Query()),
    "consolidation": ("5c0101 23 03", Query(3)),
    "consolidation nobody knows": ("5c0101 23 ac02", Query(300)),
    "parameters": ("5c0101 43 05 613d313b62", Query(parameters="a=1;b")),
    "value": ("5c0101 83 43 03 0a 5150", Query(body=QueryBody(WireEncoding(5), b"QP"))),
    "empty value": ("5c0101 83 43 01 00", Query(body=QueryBody(WireEncoding(0), b""))),
    "value in shared memory": (
        "5c0101 83 84 43 07 00 02 00 01 61 00 00",
        Query(body=QueryBody(WireEncoding(0), b"", (b"a", b""))),
    ),
    "attachment": ("5c0101 83 45 02 5141", Query(attachment=b"QA")),
    "source": ("5c0101 83 41 04 00 aa 06 07", Query(source=SourceRef(AA, 6, 7))),
    "the body before the source, as pico writes": (
        "5c0101 83 c3 01 00 41 04 00 aa 00 00",
        Query(
            body=QueryBody(WireEncoding(0), b""),
            source=SourceRef(AA, 0, 0),
            extras=Extras(b"\x43\x41"),
        ),
    ),
    "unknown extension": ("5c0101 83 22 07", Query(extras=Extras(unknown=(Extension(0x22, 7),)))),
}
REFUSED: Refusals = {
    "parameters that are no UTF-8": ("5c0101 43 01 ff", "parameters is not UTF-8"),
    "parameters longer than the message": ("5c0101 43" + "ff" * 9, "parameters needs"),
    "value without encoding": ("5c0101 83 43 00", "encoding needs 1"),
    "value longer than the message": ("5c0101 83 43 05 00", "extension body needs 5"),
    "marker alone": ("5c0101 83 04", "Shm must stand immediately before"),
    "marker apart from the body": ("5c0101 83 84 c5 00 43 01 00", "Shm must stand immediately"),
    "marker after the body": ("5c0101 83 c3 01 00 04", "Shm must stand immediately before"),
    "65 slices": ("5c0101 83 84 43 01 00 41" + "0000" * 65, "at most 64 slices"),
    "unknown mandatory extension": ("5c0101 83 14", "QUERY: unknown mandatory extension 0x14"),
    "33 extensions": ("5c0101 83" + "8e" * 33, "QUERY has more than 32 extensions"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    check_example(*EXAMPLES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_cut_at_every_byte(name: str) -> None:
    check_cuts(*EXAMPLES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    check_refused(*REFUSED[name])


def test_the_declared_length_of_slices_is_kept_but_not_believed() -> None:
    # wire.md 2.19: the slices delimit themselves.
    body = QueryBody(WireEncoding(0), b"", (b"a",), declared_len=0x7F)
    check_example("5c0101 83 84 43 7f 00 01 00 01 61", Query(body=body))


def test_descriptors_survive() -> None:
    query = Query(body=QueryBody(WireEncoding(0), b"", (ShmDescriptor(2**64 - 1, 1, 2, 3),)))
    assert decode(encode(query), query) == query


def test_an_unknown_consolidation_reads_as_auto() -> None:
    assert [consolidation_name(value) for value in (0, 1, 2, 3, 4)] == [
        "auto",
        "none",
        "monotonic",
        "latest",
        "auto",
    ]
