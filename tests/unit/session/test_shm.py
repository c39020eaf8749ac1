from __future__ import annotations

import pytest
from tests.unit.session.fake_node import World

from elea.errors import ClosedError, LimitError, ZError
from elea.session.shm import (
    AllocAlignment,
    BlockOn,
    Deallocate,
    Defragment,
    GarbageCollect,
    JustAlloc,
    MemoryLayout,
    ShmProvider,
)
from elea.zbytes import ZBytes


def test_alignments_and_layouts() -> None:
    assert AllocAlignment(3) == AllocAlignment.ALIGN_8_BYTE
    assert AllocAlignment(3).get_alignment_value() == 8
    assert [AllocAlignment(3).align_size(size) for size in (0, 13, 16)] == [0, 16, 16]
    layout = MemoryLayout(16, AllocAlignment(3))
    assert (layout.size, layout.alignment) == (16, AllocAlignment.ALIGN_8_BYTE)
    assert MemoryLayout((16, AllocAlignment(3))).size == 16
    for wrong in ((13, AllocAlignment(3)), (0, AllocAlignment(0))):
        with pytest.raises(ZError, match="incorrect layout"):
            MemoryLayout(*wrong)
    with pytest.raises(ZError, match="incorrect layout"):
        AllocAlignment(64)
    with pytest.raises(OverflowError):
        AllocAlignment(-1)


def test_buffers_are_written_and_consumed() -> None:
    buffer = ShmProvider.default_backend(1_024).alloc(8)
    assert bytes(buffer) == bytes(8)
    buffer[:] = b"12345678"
    buffer[0] = 65
    buffer[1:3] = bytearray(b"bc")
    assert (bytes(buffer), str(buffer), len(buffer)) == (b"Abc45678", "Abc45678", 8)
    with pytest.raises(ValueError, match="lvalue"):
        buffer[0:3] = b"12"
    with pytest.raises(TypeError, match="bytes like"):
        buffer[0:3] = 1  # type: ignore[call-overload]
    payload = ZBytes(buffer)
    assert payload == b"Abc45678"
    shm = payload.as_shm()
    assert shm is not None
    assert shm.is_valid()
    assert (bytes(shm), str(shm)) == (b"Abc45678", "Abc45678")
    assert ZBytes(shm) == ZBytes(payload) == payload
    assert ZBytes(payload).as_shm() is shm
    with pytest.raises(ClosedError, match="consumed"):
        bytes(buffer)
    with pytest.raises(ClosedError, match="consumed"):
        buffer[0] = 1
    assert ZBytes(b"plain").as_shm() is None


def test_a_provider_has_a_budget() -> None:
    provider = ShmProvider.default_backend((1_024, AllocAlignment(3)))
    first = provider.alloc(1_000, GarbageCollect(Defragment(), JustAlloc(), safe=False))
    assert provider.available == 24
    with pytest.raises(LimitError, match="out of memory"):
        provider.alloc(100, BlockOn(Deallocate()))
    payload = ZBytes(first)
    del first
    assert provider.garbage_collect() == 0
    del payload
    assert provider.garbage_collect() == 1_000
    assert provider.garbage_collect_unsafe() == 0
    assert provider.available == 1_024
    provider.defragment()
    with pytest.raises(TypeError, match="layout"):
        provider.alloc("x")  # type: ignore[arg-type]


def test_a_buffer_is_published_like_any_payload() -> None:
    session = World().open()
    subscriber = session.declare_subscriber("a")
    buffer = ShmProvider.default_backend(64).alloc(4)
    buffer.view()[:] = b"abcd"
    session.put("a", buffer, attachment=ZBytes(b"x"))
    assert subscriber.recv().payload == b"abcd"
    with pytest.raises(ClosedError, match="consumed"):
        buffer.view()
