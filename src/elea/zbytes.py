"""ZBytes: a payload, as octets or text, without copying what cannot change."""

from __future__ import annotations

from typing import Final, Protocol, Self, final

from elea.buffers import export
from elea.hints import mypyc_attr

_REPR_LEN_MAX: Final = 32


class SharedBuffer(Protocol):
    """A buffer of `elea.shm` that cannot change any more."""

    def is_valid(self) -> bool: ...
    def view(self) -> memoryview: ...
    def __bytes__(self) -> bytes: ...
    def __zbytes__(self) -> SharedBuffer: ...


class Shareable(Protocol):
    """A buffer of `elea.shm`, which payloads are made of without a copy."""

    def __zbytes__(self) -> SharedBuffer: ...


@mypyc_attr(acyclic=True)
@final
class ZBytes:
    """The octets of a payload or attachment.

    `bytes` and read-only views are kept as they are; what the caller could still change
    (`bytearray`, writable views) is copied once. Equal to the same octets in any form and to the
    text they spell; hashes like `bytes`.

    Args:
        bytes: the octets, or a text that becomes UTF-8; none means empty.

    Raises:
        TypeError: for anything else. Numbers and structures need a serialization of your choice.

    Example:
        >>> payload = ZBytes("21.5 °C")
        >>> len(payload), payload.to_string()
        (8, '21.5 °C')
    """

    __slots__ = ("_data", "_shm")

    def __init__(
        self, bytes: ZBytes | bytes | bytearray | memoryview | str | Shareable | None = None
    ) -> None:
        shm = _shared(bytes)
        self._data = _frozen(bytes) if shm is None else shm.view()
        self._shm = shm

    def to_bytes(self, /) -> bytes:
        """The octets as `bytes`; a copy only if they were a view into something larger."""
        return self._data if isinstance(self._data, bytes) else self._data.tobytes()

    def to_string(self, /) -> str:
        """The octets as UTF-8 text.

        Raises:
            ValueError: if they are no UTF-8.
        """
        return str(self._data, "utf-8")

    def view(self) -> memoryview:
        """A read-only view of the octets, never a copy."""
        return memoryview(self._data)

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol of Python 3.12; `elea.buffers` knows the others."""
        return memoryview(self._data)

    def as_shm(self, /) -> SharedBuffer | None:
        """The buffer of `elea.shm` it was made of; None if it was made of anything else."""
        return self._shm

    def __bool__(self) -> bool:
        return len(self._data) > 0

    def __len__(self) -> int:
        return len(self._data)

    def __bytes__(self) -> bytes:
        return self.to_bytes()

    def __str__(self) -> str:
        return self.to_string()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ZBytes):
            return self._data == other._data
        if isinstance(other, (bytes, bytearray, memoryview)):
            return self._data == other
        if isinstance(other, str):
            return self._data == other.encode(errors="surrogatepass")
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._data)

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self.to_bytes(),)

    def __repr__(self) -> str:
        shown = bytes(self._data[:_REPR_LEN_MAX])
        if len(self) > _REPR_LEN_MAX:
            return f"ZBytes({shown!r}... {len(self)} bytes)"
        return f"ZBytes({shown!r})"


export(ZBytes)


def _shared(data: object) -> SharedBuffer | None:
    if isinstance(data, bytes) or data is None or isinstance(data, str):
        return None  # first, because that is what payloads nearly always are
    if isinstance(data, ZBytes):
        return data._shm
    give = getattr(data, "__zbytes__", None)
    if give is None:
        return None
    shm: SharedBuffer = give()
    return shm


def _frozen(data: object) -> bytes | memoryview:
    if data is None:
        return b""
    if isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, ZBytes):
        return data._data
    if isinstance(data, bytearray):
        return bytes(data)
    if isinstance(data, memoryview):
        return data.cast("B") if data.readonly and data.c_contiguous else data.tobytes()
    raise TypeError(f"expected bytes/str type, found '{type(data).__name__}'")
