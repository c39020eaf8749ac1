"""An Open: what it says, and which one it is (7.3, 8.3)."""

from __future__ import annotations

from collections.abc import Callable

from elea.limits import Limits
from elea.xrce.closing import CloseReason, violation
from elea.xrce.encode import encode
from elea.xrce.message_records import Open
from elea.xrce.properties import AUTHENTICATION, SessionProperties, first_of_each
from elea.xrce.session.settings import PID_LEN_MAX, VERSION, lease_ns_of


def read_open(
    message: Open, authenticate: Callable[[Open, bytes | None], bool] | None, limits: Limits
) -> tuple[SessionProperties, int]:
    """The properties and the lease of an Open, by the order of 7.3.

    Args:
        message: What came.
        authenticate: Told the Open and its property 12, says whether that is good enough.
        limits: For its locators.

    Raises:
        RemoteProtocolError: With the reason of the Close that answers it.
    """
    if message.version != VERSION:
        text = f"version {message.version}; {VERSION} is supported"
        raise violation(CloseReason.VERSION, text)
    if not 1 <= len(message.pid) <= PID_LEN_MAX:
        text = f"a peer id of {len(message.pid)} octets; legal are 1 to {PID_LEN_MAX}"
        raise violation(CloseReason.PARAMETER, text)
    proof = first_of_each(message.properties).get(AUTHENTICATION)
    if authenticate is not None and not authenticate(message, proof):
        raise violation(CloseReason.AUTHENTICATION, "authentication failed")
    properties = SessionProperties.read(message.properties)
    lease_ns = lease_ns_of(message.lease)
    if len(message.locators) > limits.xrce_locators_count or any(
        len(locator) > limits.xrce_locator_len for locator in message.locators
    ):
        text = f"more than {limits.xrce_locators_count} locators, or a longer one than"
        raise violation(CloseReason.PARAMETER, f"{text} {limits.xrce_locator_len} octets")
    return properties, lease_ns


def fingerprint(message: Open) -> int:
    """An Open as a number, without its proof: that one has a time, and differs each time."""
    said = message.properties
    rest = None if said is None else tuple(one for one in said if one.id != AUTHENTICATION)
    return hash(
        encode(
            Open(
                version=message.version,
                pid=message.pid,
                lease=message.lease,
                locators=message.locators,
                properties=rest or None,
            )
        )
    )


def has_nonce(properties: SessionProperties) -> bool:
    """Whether a device says by its Open which incarnation it is: ours does, by property 14."""
    return properties.is_ours and properties.client_hash is not None
