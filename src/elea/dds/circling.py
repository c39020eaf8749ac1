"""Samples that come around through bridges of other networks (D-640).

Such bridges are in the domain and not in this Zenoh network: whether a ring is closed behind them
cannot be known. GUIDs change at each mirror writer, source times and bytes do not: by them a sample
is told that was here before. Owned by the DDS thread.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from elea.dds.overlap import Identity

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge


class Passed:
    """The samples of one key that passed lately.

    Args:
        count_max: So many each way are remembered.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._read: OrderedDict[Identity, None] = OrderedDict()
        self._written: OrderedDict[Identity, None] = OrderedDict()

    def reads(self, sample: Identity, *, is_stranger: bool) -> bool:
        """Whether a sample from DDS passes; one of a stranger's does not if it was here before."""
        if is_stranger and (sample in self._read or sample in self._written):
            return False
        self._remember(self._read, sample)
        return True

    def writes(self, sample: Identity) -> bool:
        """Whether a sample to DDS passes; one that came from there does not."""
        if sample in self._read:
            return False
        self._remember(self._written, sample)
        return True

    def _remember(self, samples: OrderedDict[Identity, None], sample: Identity) -> None:
        samples[sample] = None
        if len(samples) > self._count_max:
            samples.popitem(last=False)


class Circling:
    """What passed, by key, while bridges of other networks are in the domain."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._keys: dict[str, Passed] = {}

    def of(self, key: str) -> Passed | None:
        """Return what passed on a key; None: there is no bridge of another network."""
        if not self._bridge.presence.strangers:
            self._keys.clear()
            return None
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = Passed(self._bridge.limits.dds_passed_count)
            if len(self._keys) > self._bridge.limits.dds_routes_count:
                del self._keys[next(iter(self._keys))]
        return found
