"""Who we are in a session, and how long things may take (8.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from elea.errors import InvalidValueError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.xrce.closing import CloseReason, violation
from elea.xrce.declaration_records import Property
from elea.xrce.encode import encode
from elea.xrce.message_records import Accept, Open
from elea.xrce.properties import SessionProperties, fitting, nat

SECOND_NS: Final = 1_000_000_000
LEASE_UNIT_NS: Final = SECOND_NS // 10
LEASE_MAX_NS: Final = 86_400 * SECOND_NS
PID_LEN_MAX: Final = 16
VERSION: Final = 1


@dataclass(slots=True, frozen=True, kw_only=True)
class SessionSettings:
    """One end. `lease_ns` is its own, 0 if it never ends; `properties` are what it says."""

    pid: bytes
    lease_ns: int = 10 * SECOND_NS
    frame_len: int = 1_472  # a datagram that fits an Ethernet
    properties: SessionProperties = field(default_factory=SessionProperties)
    limits: Limits = DEFAULT_LIMITS
    open_ns: int = SECOND_NS
    open_count: int = 10  # times an Open is repeated
    accept_count: int = 10  # Accepts for one session
    duplicate_ns: int = 2 * SECOND_NS  # for so long copies of a message may be under way
    close_ns: int = SECOND_NS
    drain_ns: int = 2 * SECOND_NS
    ping_ns: int = 5 * SECOND_NS
    idle_ns: int = 10 * SECOND_NS  # for the first message after an Accept
    drops_long: bool = False  # fragments of a longer message than is kept, instead of the session
    # Property 14 of each Open begins with it: another one is another incarnation.
    nonce: bytes | None = None
    # Property 12 of each Open: told the pid, the version and the lease as the message has them.
    prove: Callable[[bytes, int, int], bytes] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.pid) <= PID_LEN_MAX:
            reason = f"{len(self.pid)} octets; legal are 1 to {PID_LEN_MAX}"
            raise InvalidValueError("peer id", reason)
        if not 0 <= self.lease_ns <= LEASE_MAX_NS or 0 < self.lease_ns < LEASE_UNIT_NS:
            reason = f"{self.lease_ns} ns; legal are 0, for ever, and 100 ms to a day"
            raise InvalidValueError("lease", reason)

    @property
    def lease_units(self) -> int:
        """The lease as messages say it: in tenths of a second, rounded down to be safe."""
        return self.lease_ns // LEASE_UNIT_NS


def accept_of(settings: SessionSettings, open_pid: bytes, frame_len: int) -> Accept:
    """Our Accept, with what a frame has room for."""
    bare = Accept(open_pid=open_pid, accept_pid=settings.pid, lease=settings.lease_units)
    listed = fitting(_said_of(settings).listed(), frame_len - len(encode(bare)))
    return Accept(
        open_pid=open_pid,
        accept_pid=settings.pid,
        lease=settings.lease_units,
        properties=listed or None,
    )


def open_of(settings: SessionSettings, locators: tuple[bytes, ...], opens_count: int) -> Open:
    """Our Open, with what a frame has room for. Those of one session have the same nonce."""
    said = _said_of(settings)
    if settings.nonce is not None:
        said = dataclasses.replace(said, client_hash=settings.nonce + nat(opens_count))
    if settings.prove is not None:
        proof = settings.prove(settings.pid, VERSION, settings.lease_units)
        said = dataclasses.replace(said, authentication=proof)

    def made(listed: tuple[Property, ...]) -> Open:
        return Open(
            version=VERSION,
            pid=settings.pid,
            lease=settings.lease_units,
            locators=locators,
            properties=listed or None,
        )

    return made(fitting(said.listed(), settings.frame_len - len(encode(made(())))))


def _said_of(settings: SessionSettings) -> SessionProperties:
    """What we say of ourselves; how much we store is told to those who read it."""
    said, limits = settings.properties, settings.limits
    count, length = limits.xrce_store_count, limits.xrce_store_len
    if said.is_ours and count != DEFAULT_LIMITS.xrce_store_count:
        # Nothing is longer than a frame, so that the octets need not be said if they all have room.
        needed = length if count * settings.frame_len > length else None
        said = dataclasses.replace(said, store=(count, needed))
    if said.is_ours and limits.xrce_message_len != DEFAULT_LIMITS.xrce_message_len:
        said = dataclasses.replace(said, message_len=limits.xrce_message_len)
    return said


def lease_ns_of(units: int) -> int:
    """A peer's lease.

    Raises:
        RemoteProtocolError: It is finite and longer than a day (reason 5).
    """
    if units * LEASE_UNIT_NS > LEASE_MAX_NS:
        text = f"a lease of {units} tenths of a second; legal are 0 and up to a day"
        raise violation(CloseReason.PARAMETER, text)
    return units * LEASE_UNIT_NS
