"""Tiny: a device with frames of a few octets, over UDP, that speaks XRCE with the gateway."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from elea.demo.ledger import SENT, numbered_id
from elea.demo.member import Member
from elea.demo.plan import MOVES, SLEEPS, SOIL, Due, tiny_key, tiny_name
from elea.devices.device import Device, device_settings, encoding_property
from elea.encoding import Encoding

if TYPE_CHECKING:
    from elea.demo.fleet import Fleet

FRAME_LEN: Final = 64  # a reading takes several: they are sent as fragments
_TIMEOUT_S: Final = 30.0
_ENDLESS_S: Final = 0.0  # no lease: it may sleep for long
_POLL_S: Final = 0.2
_AWAY_S: Final = 0.5  # what is due later than that is slept for


class Tiny(Member):
    """One device: it opens a session, and writes what is due, each reliably.

    Args:
        fleet: That it belongs to.
        number: Which one it is.
    """

    def __init__(self, fleet: Fleet, number: int) -> None:
        super().__init__(fleet, tiny_name(number))
        self.number = number

    def live(self) -> None:
        """Write everything, and wait until the gateway has it."""
        settings = device_settings(lease_s=_ENDLESS_S, frame_len=FRAME_LEN)
        with Device(self._fleet.gateway, settings, timeout_s=_TIMEOUT_S) as device:
            self._live(device)

    def _live(self, device: Device) -> None:
        fleet, plan, key = self._fleet, self._fleet.plan, tiny_key(self.number)
        encoding = encoding_property(Encoding(SOIL.encoding))
        soil = device.publisher(f"/{key}", [encoding])
        device.wait_matched(soil)  # the recorder
        fleet.ready.wait()
        moves_s = plan.duration_s / 2 if self.number == MOVES else None
        for due in plan.readings(self.number):
            if not self._waited(device, due):
                break
            if moves_s is not None and due.at_s >= moves_s:
                device.move()
                moves_s = None
            device.write(soil, plan.reading(self.number, due))
            fleet.ledger.write(key, [numbered_id(key, due.number)], SENT)
        device.flush()

    def _waited(self, device: Device, due: Due) -> bool:
        """Whether it is to go on when that time has come. One that sleeps hears nothing."""
        fleet, at_s = self._fleet, self._fleet.start_s + due.at_s
        if self.number == SLEEPS and at_s - time.monotonic() > _AWAY_S:
            return not fleet.is_ending.wait(at_s - time.monotonic())
        while (left_s := at_s - time.monotonic()) > 0 and not fleet.is_ending.is_set():
            device.poll(min(left_s, _POLL_S))
        return not fleet.is_ending.is_set()
