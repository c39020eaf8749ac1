"""QoS between `elea.dds.qos.Qos` and the C functions of Cyclone DDS.

Takes the library's handle; imports no DDS package itself.
"""

from __future__ import annotations

import ctypes as ct
from typing import Any, Final

from elea.dds.qos import (
    CLEANUP_NS,
    INFINITE,
    KEEP_ALL,
    Durability,
    Liveliness,
    Ownership,
    Qos,
    Reliability,
    Scope,
)

_KEEP_ALL_KIND: Final = 1
_IGNORE_PARTICIPANT: Final = 1
_UNLIMITED: Final = -1
_ALLOW_COERCION: Final = 1
_NAMES_COUNT_MAX: Final = 256  # partitions, properties and representations of one endpoint
_USER_DATA_LEN_MAX: Final = 65_536
_KNOWN_COUNT_MAX: Final = 8

_int, _i32, _i64, _bool, _ptr = ct.c_int, ct.c_int32, ct.c_int64, ct.c_bool, ct.c_void_p
_SETTERS: Final[dict[str, tuple[Any, ...]]] = {
    "reliability": (_int, _i64),
    "durability": (_int,),
    "history": (_int, _i32),
    "resource_limits": (_i32, _i32, _i32),
    "durability_service": (_i64, _int, _i32, _i32, _i32, _i32),
    "deadline": (_i64,),
    "latency_budget": (_i64,),
    "lifespan": (_i64,),
    "liveliness": (_int, _i64),
    "ownership": (_int,),
    "ownership_strength": (_i32,),
    "destination_order": (_int,),
    "presentation": (_int, _bool, _bool),
    "partition": (ct.c_uint32, ct.POINTER(ct.c_char_p)),
    "writer_data_lifecycle": (_bool,),
    "ignorelocal": (_int,),
    "userdata": (ct.c_char_p, ct.c_size_t),
    "type_consistency": (_int, _bool, _bool, _bool, _bool, _bool),
    "data_representation": (ct.c_uint32, ct.POINTER(ct.c_int16)),
    "writer_batching": (_bool,),
    "entity_name": (ct.c_char_p,),
}
_GETTERS: Final[dict[str, tuple[Any, ...]]] = {
    "reliability": (_int, _i64),
    "durability": (_int,),
    "history": (_int, _i32),
    "durability_service": (_i64, _int, _i32, _i32, _i32, _i32),
    "deadline": (_i64,),
    "latency_budget": (_i64,),
    "lifespan": (_i64,),
    "liveliness": (_int, _i64),
    "ownership": (_int,),
    "ownership_strength": (_i32,),
    "destination_order": (_int,),
    "presentation": (_int, _bool, _bool),
    "partition": (ct.c_uint32, _ptr),
    "userdata": (_ptr, ct.c_size_t),
    "data_representation": (ct.c_uint32, _ptr),
    "entity_name": (_ptr,),
    "propnames": (ct.c_uint32, _ptr),
}


def declare(library: ct.CDLL) -> None:
    """Tell ctypes the signatures of the functions used here."""
    library.dds_create_qos.restype = _ptr
    library.dds_delete_qos.argtypes = [_ptr]
    library.dds_delete_qos.restype = None
    library.dds_copy_qos.argtypes = [_ptr, _ptr]
    library.dds_qos_equal.argtypes = [_ptr, _ptr]
    library.dds_qos_equal.restype = _bool
    library.dds_free.argtypes = [_ptr]
    library.dds_free.restype = None
    for name, kinds in _SETTERS.items():
        function = getattr(library, f"dds_qset_{name}")
        function.argtypes = [_ptr, *kinds]
        function.restype = None
    for name, kinds in _GETTERS.items():
        function = getattr(library, f"dds_qget_{name}")
        function.argtypes = [_ptr, *(ct.POINTER(kind) for kind in kinds)]
        function.restype = _bool
    library.dds_qget_prop.argtypes = [_ptr, ct.c_char_p, ct.POINTER(_ptr)]
    library.dds_qget_prop.restype = _bool


def to_c(library: ct.CDLL, qos: Qos, *, is_writer: bool) -> int:
    """Return a C QoS object; the caller deletes it with `dds_delete_qos`."""
    found: int = library.dds_create_qos()

    def put(name: str, *values: object) -> None:
        getattr(library, f"dds_qset_{name}")(found, *values)

    put("reliability", int(qos.reliability), qos.max_blocking_ns)
    put("durability", int(qos.durability))
    keeps_all = qos.depth == KEEP_ALL
    put("history", int(keeps_all), 1 if keeps_all else qos.depth)
    put("resource_limits", qos.samples_max, _UNLIMITED, _UNLIMITED)
    put("deadline", qos.deadline_ns)
    put("latency_budget", qos.latency_ns)
    put("liveliness", int(qos.liveliness), qos.lease_ns)
    put("ownership", int(qos.ownership))
    put("destination_order", int(qos.by_source_time))
    put("presentation", int(qos.scope), qos.coherent, qos.ordered)
    if qos.partitions:
        names = [one.encode() for one in qos.partitions]
        put("partition", len(names), (ct.c_char_p * len(names))(*names))
    if qos.representations:
        numbers = qos.representations
        put("data_representation", len(numbers), (ct.c_int16 * len(numbers))(*numbers))
    if qos.ignore_own:
        put("ignorelocal", _IGNORE_PARTICIPANT)
    if qos.user_data:
        put("userdata", qos.user_data, len(qos.user_data))
    if is_writer:
        put("ownership_strength", qos.strength)
        put("writer_data_lifecycle", qos.auto_dispose)
        put("writer_batching", qos.batching)
        put("lifespan", qos.lifespan_ns)
        if qos.service_depth is not None:
            all_kept = qos.service_depth == KEEP_ALL
            depth = 1 if all_kept else qos.service_depth
            bounds = (_UNLIMITED, _UNLIMITED, _UNLIMITED)
            put("durability_service", CLEANUP_NS, int(all_kept), depth, *bounds)
    else:
        put("type_consistency", _ALLOW_COERCION, True, True, False, False, False)
    return found


def from_c(library: ct.CDLL, pointer: int) -> Qos:
    """Return the policies of a C QoS object; what it does not say has DDS's default."""
    get = _Getter(library, pointer)
    default = Qos()
    reliability = get("reliability") or (int(default.reliability), default.max_blocking_ns)
    history = get("history") or (0, 1)
    service = get("durability_service")
    liveliness = get("liveliness") or (0, INFINITE)
    presentation = get("presentation") or (0, False, False)
    return Qos(
        reliability=Reliability(reliability[0]),
        max_blocking_ns=reliability[1],
        durability=Durability((get("durability") or (0,))[0]),
        depth=KEEP_ALL if history[0] == _KEEP_ALL_KIND else history[1],
        service_depth=None
        if service is None
        else KEEP_ALL
        if service[1] == _KEEP_ALL_KIND
        else service[2],
        deadline_ns=(get("deadline") or (INFINITE,))[0],
        latency_ns=(get("latency_budget") or (0,))[0],
        liveliness=Liveliness(liveliness[0]),
        lease_ns=liveliness[1],
        ownership=Ownership((get("ownership") or (0,))[0]),
        strength=(get("ownership_strength") or (0,))[0],
        by_source_time=bool((get("destination_order") or (0,))[0]),
        scope=Scope(presentation[0]),
        coherent=bool(presentation[1]),
        ordered=bool(presentation[2]),
        lifespan_ns=(get("lifespan") or (INFINITE,))[0],
        partitions=tuple(one for one in get.texts("partition") if one),
        representations=get.representations(),
        user_data=get.user_data(),
    )


class QosReader:
    """Reads C QoS objects; endpoints with the same policies, which most are, share one value.

    To compare two objects costs a twentieth of reading one. The latest few are kept as copies.
    """

    def __init__(self, library: ct.CDLL) -> None:
        self._library = library
        self._known: list[tuple[int, Qos]] = []  # copies and values, the latest one last

    def read(self, pointer: int) -> Qos:
        """Return the policies of a C QoS object, as `from_c` does."""
        library = self._library
        for place in range(len(self._known) - 1, -1, -1):
            copy, value = self._known[place]
            if library.dds_qos_equal(copy, pointer):
                self._known.append(self._known.pop(place))
                return value
        value = from_c(library, pointer)
        copy = library.dds_create_qos()
        if library.dds_copy_qos(copy, pointer) != 0:
            library.dds_delete_qos(copy)
            return value
        self._known.append((copy, value))
        if len(self._known) > _KNOWN_COUNT_MAX:
            library.dds_delete_qos(self._known.pop(0)[0])
        return value

    def close(self) -> None:
        """Free the copies."""
        while self._known:
            self._library.dds_delete_qos(self._known.pop()[0])


def properties(library: ct.CDLL, pointer: int) -> dict[str, str]:
    """Return the properties that a participant announces."""
    get = _Getter(library, pointer)
    found = {}
    for name in get.texts("propnames"):
        value = _ptr()
        if library.dds_qget_prop(pointer, name.encode("utf-8", "surrogateescape"), ct.byref(value)):
            found[name] = text_at(value.value)
            library.dds_free(value)
    return found


def entity_name(library: ct.CDLL, pointer: int) -> str:
    """Return the name that a participant announces."""
    value = _ptr()
    if not library.dds_qget_entity_name(pointer, ct.byref(value)):
        return ""
    name = text_at(value.value)
    library.dds_free(value)
    return name


def text_at(address: int | None) -> str:
    """Return the text at an address; bytes that are no UTF-8 become lone surrogates."""
    return "" if not address else ct.string_at(address).decode("utf-8", "surrogateescape")


class _Getter:
    """Reads policies of one C QoS object."""

    def __init__(self, library: ct.CDLL, pointer: int) -> None:
        self._library = library
        self._pointer = pointer

    def __call__(self, name: str) -> tuple[int, ...] | None:
        values = [kind() for kind in _GETTERS[name]]
        references = [ct.byref(value) for value in values]
        if not getattr(self._library, f"dds_qget_{name}")(self._pointer, *references):
            return None
        return tuple(value.value for value in values)

    def texts(self, name: str) -> list[str]:
        count, names = ct.c_uint32(), _ptr()
        function = getattr(self._library, f"dds_qget_{name}")
        if not function(self._pointer, ct.byref(count), ct.byref(names)) or not names.value:
            return []
        addresses = ct.cast(names, ct.POINTER(_ptr))
        found = []
        for index in range(count.value):
            if index < _NAMES_COUNT_MAX:
                found.append(text_at(addresses[index]))
            self._library.dds_free(addresses[index])
        self._library.dds_free(names)
        return found

    def representations(self) -> tuple[int, ...]:
        count, values = ct.c_uint32(), _ptr()
        function = self._library.dds_qget_data_representation
        if not function(self._pointer, ct.byref(count), ct.byref(values)) or not values.value:
            return ()
        numbers = ct.cast(values, ct.POINTER(ct.c_int16))
        found = tuple(numbers[index] for index in range(min(count.value, _NAMES_COUNT_MAX)))
        self._library.dds_free(values)
        return found

    def user_data(self) -> bytes:
        value, length = _ptr(), ct.c_size_t()
        if not self._library.dds_qget_userdata(self._pointer, ct.byref(value), ct.byref(length)):
            return b""
        found = b""
        if value.value:
            found = ct.string_at(value.value, min(length.value, _USER_DATA_LEN_MAX))
            self._library.dds_free(value)
        return found
