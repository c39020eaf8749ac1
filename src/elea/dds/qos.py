"""QoS of DDS endpoints, and the tables by which mirrors are made (dds.md 8).

Pure values and functions. Durations are nanoseconds; `INFINITE` stands for no bound. The numbers of
kinds are those of DDS, and greater means stronger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from elea.errors import InvalidValueError

INFINITE: Final = (1 << 63) - 1
KEEP_ALL: Final = 0  # as a depth
WRITER_DEPTH_MIN: Final = 16
CLEANUP_NS: Final = 60_000_000_000
CDR1: Final = 0  # DDS's number of the data representation XCDR 1
CDR2: Final = 2


class Reliability(IntEnum):
    """Whether lost samples are sent again."""

    BEST_EFFORT = 0
    RELIABLE = 1


class Durability(IntEnum):
    """What a late reader gets."""

    VOLATILE = 0
    TRANSIENT_LOCAL = 1
    TRANSIENT = 2
    PERSISTENT = 3


class Liveliness(IntEnum):
    """Who asserts that a writer lives."""

    AUTOMATIC = 0
    MANUAL_BY_PARTICIPANT = 1
    MANUAL_BY_TOPIC = 2


class Ownership(IntEnum):
    """Whether all writers of an instance are heard, or the strongest alone."""

    SHARED = 0
    EXCLUSIVE = 1


class Scope(IntEnum):
    """How far the order and coherence of samples reach."""

    INSTANCE = 0
    TOPIC = 1
    GROUP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """The policies of one endpoint; the defaults are those of DDS."""

    reliability: Reliability = Reliability.BEST_EFFORT
    max_blocking_ns: int = 100_000_000
    durability: Durability = Durability.VOLATILE
    depth: int = 1  # KEEP_ALL: all
    samples_max: int = -1  # of the whole history; -1: no bound
    service_depth: int | None = None  # of the durability service; None: not said
    deadline_ns: int = INFINITE
    latency_ns: int = 0
    liveliness: Liveliness = Liveliness.AUTOMATIC
    lease_ns: int = INFINITE
    ownership: Ownership = Ownership.SHARED
    strength: int = 0
    by_source_time: bool = False
    scope: Scope = Scope.INSTANCE
    coherent: bool = False
    ordered: bool = False
    lifespan_ns: int = INFINITE
    partitions: tuple[str, ...] = ()
    representations: tuple[int, ...] = ()
    auto_dispose: bool = True
    batching: bool = False
    ignore_own: bool = False
    user_data: bytes = b""

    @property
    def is_durable(self) -> bool:
        """Whether late readers get what was written before."""
        return self.durability > Durability.VOLATILE

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The partitions, the default one as the empty name."""
        return tuple(dict.fromkeys(self.partitions)) or ("",)


@dataclass(frozen=True, slots=True, order=True)
class ReaderClass:
    """Writers that one mirror reader faces (D-303)."""

    reliability: Reliability
    durability: Durability
    ownership: Ownership

    @classmethod
    def of(cls, writer: Qos) -> ReaderClass:
        """The class of a writer."""
        return cls(writer.reliability, writer.durability, writer.ownership)


@dataclass(frozen=True, slots=True)
class MirrorLimits:
    """How much a mirror may keep in DDS."""

    reader_count: int = 8_192
    writer_count: int = 1_024
    cache_depth: int = 1_000


def mirror_reader(
    of: ReaderClass,
    partition: str,
    limits: MirrorLimits,
    *,
    user_data: bytes = b"",
    keep_last: bool = False,
) -> Qos:
    """Return the QoS of a mirror reader (D-351).

    Args:
        of: The class of the writers that it faces.
        partition: The route's; empty for the default one.
        limits: How much it may keep.
        user_data: What it announces.
        keep_last: Whether the newest sample of each instance is enough (D-406).
    """
    # One that keeps the last so many forgets the others without a count.
    depth = 1 if keep_last else KEEP_ALL
    return Qos(
        reliability=of.reliability,
        durability=of.durability,
        ownership=of.ownership,
        depth=depth,
        samples_max=limits.reader_count if depth == KEEP_ALL else -1,
        latency_ns=INFINITE,
        partitions=(partition,) if partition else (),
        representations=(CDR1, CDR2),
        ignore_own=True,
        user_data=user_data,
    )


def mirror_writer(
    readers: Iterable[Qos],
    partition: str,
    representation: int,
    limits: MirrorLimits,
    *,
    ownership: Ownership = Ownership.SHARED,
    strength: int = 0,
    user_data: bytes = b"",
) -> Qos:
    """Return the least QoS that satisfies all readers (D-352). It never blocks a write."""
    wanted = list(readers)
    durability = max((one.durability for one in wanted), default=Durability.VOLATILE)
    depth = _depth(wanted)
    keeps_all = any(
        one.depth == KEEP_ALL and one.reliability is Reliability.RELIABLE for one in wanted
    )
    durable = durability > Durability.VOLATILE
    return Qos(
        reliability=Reliability.RELIABLE,
        max_blocking_ns=0,
        durability=durability,
        depth=KEEP_ALL if keeps_all else max(depth, WRITER_DEPTH_MIN),
        samples_max=limits.writer_count if keeps_all else -1,
        service_depth=_service_depth(wanted, limits) if durable else None,
        deadline_ns=min((one.deadline_ns for one in wanted), default=INFINITE),
        liveliness=max((one.liveliness for one in wanted), default=Liveliness.AUTOMATIC),
        lease_ns=min((one.lease_ns for one in wanted), default=INFINITE),
        ownership=ownership,
        strength=strength,
        by_source_time=any(one.by_source_time for one in wanted),
        scope=max((one.scope for one in wanted), default=Scope.INSTANCE),
        coherent=any(one.coherent for one in wanted),
        ordered=any(one.ordered for one in wanted),
        partitions=(partition,) if partition else (),
        representations=(representation,),
        auto_dispose=False,
        batching=True,
        ignore_own=True,
        user_data=user_data,
    )


def matches(writer: Qos, reader: Qos) -> str | None:
    """Return the policy by which a writer and a reader do not match; None if they match.

    Partitions and types are not looked at here.

    Example:
        >>> matches(Qos(), Qos(reliability=Reliability.RELIABLE))
        'reliability'
    """
    offered = writer.representations or (CDR1,)
    stronger = {
        "reliability": reader.reliability > writer.reliability,
        "durability": reader.durability > writer.durability,
        "presentation": reader.scope > writer.scope
        or reader.coherent > writer.coherent
        or reader.ordered > writer.ordered,
        "liveliness": reader.liveliness > writer.liveliness or reader.lease_ns < writer.lease_ns,
        "destination order": reader.by_source_time > writer.by_source_time,
        "deadline": reader.deadline_ns < writer.deadline_ns,
        "latency budget": reader.latency_ns < writer.latency_ns,
        "ownership": reader.ownership is not writer.ownership,
        "data representation": offered[0] not in (reader.representations or (CDR1,)),
    }
    return next((policy for policy, is_stronger in stronger.items() if is_stronger), None)


def accepts_representation(reader: Qos, representation: int) -> bool:
    """Whether a reader takes samples of a data representation."""
    return representation in (reader.representations or (CDR1,))


_KINDS: Final[Mapping[str, type[IntEnum]]] = {
    "reliability": Reliability,
    "durability": Durability,
    "liveliness": Liveliness,
    "ownership": Ownership,
    "scope": Scope,
}
_DURATIONS: Final = ("deadline", "latency", "lease", "lifespan")
_NUMBERS: Final = ("depth", "samples_max", "service_depth", "strength")
_FLAGS: Final = ("by_source_time", "coherent", "ordered", "auto_dispose", "batching")
POLICIES: Final = (*_KINDS, *_DURATIONS, *_NUMBERS, *_FLAGS)


def override(qos: Qos, given: Mapping[str, object]) -> Qos:
    """Return QoS with some policies replaced (D-364).

    Kinds are named in lower case; durations are seconds; a depth of 0 keeps all.

    Raises:
        InvalidValueError: A policy or its value is unknown.

    Example:
        >>> override(Qos(), {"reliability": "reliable", "deadline": 0.5}).deadline_ns
        500000000
    """
    changed: dict[str, object] = {}
    for name, value in given.items():
        if name in _KINDS and isinstance(value, str):
            kinds = {kind.name.lower(): kind for kind in _KINDS[name]}
            if value not in kinds:
                raise InvalidValueError("QoS", f"{name}: expected one of {', '.join(kinds)}")
            changed[name] = kinds[value]
        elif name in _DURATIONS and isinstance(value, (int, float)) and value >= 0:
            changed[f"{name}_ns"] = round(value * 1e9)
        elif name in (_FLAGS if isinstance(value, bool) else _NUMBERS) and isinstance(value, int):
            changed[name] = value
        else:
            known = ", ".join(POLICIES)
            reason = f"invalid policy {name!a}: {value!a}; policies are {known}"
            raise InvalidValueError("QoS", reason)
    return replace(qos, **changed)  # type: ignore[arg-type]  # checked one by one above


def _depth(readers: list[Qos]) -> int:
    return max((one.depth for one in readers if one.depth != KEEP_ALL), default=1)


def _service_depth(readers: list[Qos], limits: MirrorLimits) -> int:
    durable = [one for one in readers if one.is_durable]
    if any(one.depth == KEEP_ALL for one in durable):
        return limits.cache_depth
    return max(1, _depth(durable))
