"""A block of one row is the one that Arrow makes, whichever way it was made."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import InvalidValueError
from elea.store.log import block
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import SCHEMA, times
from elea.store.log.single import LEN_MAX, Single, Stencils

NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.sampled_from(["a", "fleet/7/pose", "x" * 70, "ä/ö"])
ROW = Single(
    key="fleet/7/pose",
    kind=0,
    payload=b"{}",
    attachment=None,
    encoding="application/json",
    time_us=1_700_000_000_000_000,
    hlc=1_700_000_000 << 32,
    hlc_id="ab",
    zid="cd",
    eid=7,
    sn=9,
    qos=5,
    received_us=1_700_000_000_000_001,
)


def encoded(batch: pa.RecordBatch) -> tuple[bytes, int]:
    data, record, _ = block.encode(batch, 0, 1, 0, 7, "none")
    octets = bytearray(data)
    octets[record.marker : record.marker + 128] = b"0" * 128
    return bytes(octets), record.marker


def rows() -> st.SearchStrategy[Single]:
    stamped = st.tuples(NUMBERS, NUMBERS, TEXTS) | st.just((None, None, None))
    sourced = st.tuples(TEXTS, NUMBERS, NUMBERS) | st.just((None, None, None))
    return st.builds(
        lambda key, kind, payload, attachment, encoding, stamp, source, qos, received: Single(
            *(key, kind, payload, attachment, encoding, *stamp, *source, qos, received)
        ),
        *(TEXTS, st.integers(0, 5), st.binary(max_size=70), st.none() | st.binary(max_size=20)),
        *(TEXTS, stamped, sourced, st.integers(-128, 127), st.integers(0, 2**63 - 1)),
    )


@given(rows())
def test_a_stencil_makes_what_arrow_makes(row: Single) -> None:
    stencils = Stencils(encoded)
    assert stencils.of(row) is None  # the first of its kind
    stencil = stencils.of(row)
    assert stencil is not None
    assert (bytes(stencil.filled(row)), stencil.marker) == encoded(row.batch)


def test_the_time_of_a_row_is_that_of_its_batch() -> None:
    for row in (ROW, ROW._replace(hlc=-5), ROW._replace(hlc=None, time_us=None, hlc_id=None)):
        assert row.bits == times(row.batch)[0].as_py()


@pytest.mark.parametrize("is_single", [True, False])
def test_a_row_without_a_time_that_can_be_is_refused(tmp_path: Path, is_single: bool) -> None:
    row = ROW._replace(hlc=None, time_us=None, hlc_id=None, received_us=-1)
    with Log(tmp_path) as log:
        with pytest.raises(InvalidValueError, match="recv_ts is -1 us; legal is 0"):
            log.append(row if is_single else row.batch)
        before = ROW._replace(received_us=-1)  # its timestamp is its time
        assert log.store(before if is_single else before.batch).ranges == {0: (0, 1)}


def test_long_rows_are_made_by_arrow() -> None:
    stencils = Stencils(encoded)
    row = ROW._replace(payload=bytes(LEN_MAX + 1))
    assert [stencils.of(row), stencils.of(row)] == [None, None]


def test_shapes_are_forgotten_when_there_are_many() -> None:
    stencils = Stencils(encoded)
    for number in range(300):
        stencils.of(ROW._replace(key=f"k/{number}"))
    assert stencils.of(ROW._replace(key="k/0")) is None
    assert stencils.of(ROW._replace(key="k/0")) is not None


def test_single_rows_and_batches_are_one_log(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        told = [log.store(ROW._replace(sn=number, payload=b"%d" % number)) for number in range(9)]
        futures = [
            log.append(ROW._replace(sn=9), wake=False),
            log.append(ROW._replace(sn=10).batch, wake=False),
        ]
        log.finish(futures[1])
        told += [future.result() for future in futures]
        assert [one.ranges for one in told] == [{0: (at, at + 1)} for at in range(11)]
    found = pa.Table.from_batches(LogReader(tmp_path).read(0, 0, 11), SCHEMA)
    assert found.column("sn").to_pylist() == list(range(11))
    assert found.column("payload").to_pylist()[:9] == [b"%d" % number for number in range(9)]
    assert found.slice(9, 1).to_pylist() == [
        {**ROW.batch.to_pylist()[0], "sn": 9},
    ]
