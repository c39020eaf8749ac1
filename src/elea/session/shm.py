"""Buffers with the interface of `zenoh.shm`.

They are ordinary memory of this process, accounted for like a shared segment: programs written for
shared memory run, and what they publish travels over the link like any payload. Neighbours are told
during the handshake that we do not map their memory, so they send payloads, too.
"""

from __future__ import annotations

import threading
import weakref
from typing import ClassVar, Final, final, overload

from elea.errors import ClosedError, InvalidValueError, LimitError

_POWER_MAX: Final = 63


@final
class AllocAlignment:
    """An alignment, as a power of two: 0 is one octet, 3 is eight."""

    __slots__ = ("_power",)

    ALIGN_1_BYTE: ClassVar[AllocAlignment]
    ALIGN_2_BYTE: ClassVar[AllocAlignment]
    ALIGN_4_BYTE: ClassVar[AllocAlignment]
    ALIGN_8_BYTE: ClassVar[AllocAlignment]

    def __init__(self, pow: int) -> None:
        if pow < 0:
            raise OverflowError("out of range integral type conversion attempted")
        if pow > _POWER_MAX:
            raise _layout_error(f"an alignment is 2^0 to 2^{_POWER_MAX}, got 2^{pow}")
        self._power = pow

    def get_alignment_value(self, /) -> int:
        """The alignment in octets."""
        return 1 << self._power

    def align_size(self, /, size: int) -> int:
        """The size, made larger until it is a multiple of the alignment."""
        unit = self.get_alignment_value()
        return -(-size // unit) * unit

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AllocAlignment):
            return NotImplemented
        return self._power == other._power

    def __hash__(self) -> int:
        return hash(self._power)

    def __repr__(self) -> str:
        return f"AllocAlignment({self._power})"


AllocAlignment.ALIGN_1_BYTE = AllocAlignment(0)
AllocAlignment.ALIGN_2_BYTE = AllocAlignment(1)
AllocAlignment.ALIGN_4_BYTE = AllocAlignment(2)
AllocAlignment.ALIGN_8_BYTE = AllocAlignment(3)


@final
class MemoryLayout:
    """A size and the alignment it is a multiple of.

    Args:
        size: Octets; or a pair of size and alignment, as the reference takes them.
        alignment: The alignment.
    """

    __slots__ = ("_alignment", "_size")

    def __init__(
        self, size: int | tuple[int, AllocAlignment], alignment: AllocAlignment | None = None
    ) -> None:
        if isinstance(size, tuple):
            size, alignment = size
        self._alignment = AllocAlignment.ALIGN_1_BYTE if alignment is None else alignment
        if size <= 0 or self._alignment.align_size(size) != size:
            raise _layout_error(
                f"a size is positive and a multiple of its alignment, got {size} "
                f"for {self._alignment.get_alignment_value()}"
            )
        self._size = size

    @property
    def size(self) -> int:
        """The size in octets."""
        return self._size

    @property
    def alignment(self) -> AllocAlignment:
        """The alignment."""
        return self._alignment


@final
class JustAlloc:
    """Allocate, or fail."""

    __slots__ = ()


class _Policy:
    __slots__ = ("alt_policy", "inner_policy")

    def __init__(
        self, inner_policy: AllocPolicy | None = None, alt_policy: AllocPolicy | None = None
    ) -> None:
        self.inner_policy = inner_policy or JustAlloc()
        self.alt_policy = alt_policy or JustAlloc()


@final
class BlockOn:
    """Wait until there is room. Buffers of this process are freed by themselves: it fails."""

    __slots__ = ("inner_policy",)

    def __init__(self, inner_policy: AllocPolicy | None = None) -> None:
        self.inner_policy = inner_policy or JustAlloc()


@final
class Defragment(_Policy):
    """Put free room together first. There is nothing to put together here."""


@final
class Deallocate(_Policy):
    """Free buffers by force. A buffer somebody refers to is never freed here."""


@final
class GarbageCollect(_Policy):
    """Free buffers nobody refers to first, which happens here in any case."""

    __slots__ = ("safe",)

    def __init__(
        self,
        inner_policy: AllocPolicy | None = None,
        alt_policy: AllocPolicy | None = None,
        *,
        safe: bool = True,
    ) -> None:
        super().__init__(inner_policy, alt_policy)
        self.safe = safe


AllocPolicy = JustAlloc | BlockOn | Defragment | Deallocate | GarbageCollect
IntoMemoryLayout = MemoryLayout | tuple[int, AllocAlignment] | int


@final
class ShmProvider:
    """A budget of memory that buffers are taken from; get one by `default_backend`."""

    __slots__ = ("__weakref__", "_free", "_garbage", "_lock")

    def __init__(self, size: int) -> None:
        self._free = size
        self._garbage: list[int] = []
        self._lock = threading.Lock()

    @classmethod
    def default_backend(cls, layout: IntoMemoryLayout) -> ShmProvider:
        """A provider of this size."""
        return cls(_layout(layout).size)

    def alloc(self, /, layout: IntoMemoryLayout, policy: AllocPolicy | None = None) -> ZShmMut:
        """A buffer filled with zeros.

        Raises:
            LimitError: there is no room for it.
        """
        size = _layout(layout).size
        self.garbage_collect()
        with self._lock:
            if size > self._free:
                raise LimitError("out of memory: the provider", size, self._free)
            self._free -= size
        memory = _Memory(size)
        weakref.finalize(memory, self._garbage.append, size)
        return ZShmMut(memory)

    def defragment(self, /) -> None:
        """Put free room together."""

    def garbage_collect(self, /) -> int:
        """Free buffers nobody refers to; the size of the largest of them."""
        largest = 0
        with self._lock:
            while self._garbage:
                size = self._garbage.pop()
                self._free += size
                largest = max(largest, size)
        return largest

    def garbage_collect_unsafe(self, /) -> int:
        """As `garbage_collect`: nothing here is unsafe."""
        return self.garbage_collect()

    @property
    def available(self) -> int:
        """Octets that are free."""
        return self._free


class _Memory:
    """The octets of a buffer; freed when nobody refers to it."""

    __slots__ = ("__weakref__", "octets")

    def __init__(self, size: int) -> None:
        self.octets = bytearray(size)


@final
class ZShm:
    """A buffer that cannot be changed any more."""

    __slots__ = ("_memory",)

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory

    def is_valid(self, /) -> bool:
        """Whether its octets are still there: always."""
        return True

    def view(self) -> memoryview:
        """Its octets, without a copy."""
        return memoryview(self._memory.octets).toreadonly()

    def __zbytes__(self) -> ZShm:
        """What a ZBytes made of it holds."""
        return self

    def __len__(self) -> int:
        return len(self._memory.octets)

    def __bytes__(self) -> bytes:
        return bytes(self._memory.octets)

    def __str__(self) -> str:
        return self._memory.octets.decode()


@final
class ZShmMut:
    """A buffer to write into. Publishing it, or a ZBytes made of it, consumes it."""

    __slots__ = ("_memory",)

    def __init__(self, memory: _Memory) -> None:
        self._memory: _Memory | None = memory

    def view(self) -> memoryview:
        """Its octets, to write into without a copy, as `numpy.frombuffer` does."""
        return memoryview(self._octets())

    def __zbytes__(self) -> ZShm:
        """What a ZBytes made of it holds; it cannot be written any more."""
        self._octets()
        assert self._memory is not None
        shm = ZShm(self._memory)
        self._memory = None
        return shm

    def __len__(self) -> int:
        return len(self._octets())

    def __bytes__(self) -> bytes:
        return bytes(self._octets())

    def __str__(self) -> str:
        return self._octets().decode()

    @overload
    def __setitem__(self, item: int, value: int) -> None: ...
    @overload
    def __setitem__(self, item: slice, value: bytes | bytearray) -> None: ...
    def __setitem__(self, item: int | slice, value: int | bytes | bytearray) -> None:
        view = memoryview(self._octets())
        if isinstance(item, int):
            if not isinstance(value, int):
                raise TypeError("expected an int for one octet")
            view[item] = value
            return
        if isinstance(value, int):
            raise TypeError("expected bytes like argument")
        view[item] = value

    def __delitem__(self, item: int | slice) -> None:
        raise TypeError("can't delete item")

    def _octets(self) -> bytearray:
        if self._memory is None:
            raise ClosedError("ZShmMut has been consumed by ZBytes conversion")
        return self._memory.octets


def _layout(layout: IntoMemoryLayout) -> MemoryLayout:
    if isinstance(layout, MemoryLayout):
        return layout
    if isinstance(layout, bool) or not isinstance(layout, (int, tuple)):
        raise TypeError("argument 'layout': expected int/tuple[int, AllocAlignment]")
    return MemoryLayout(layout)


def _layout_error(reason: str) -> InvalidValueError:
    return InvalidValueError("memory layout", f"incorrect layout arguments: {reason}")
