"""Batches: samples of one id in one message, as many as a frame takes (12.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.xrce.channel.conduits import Numbered
from elea.xrce.channel.serial import Serial
from elea.xrce.encode import encode
from elea.xrce.message_records import BatchedData, BatchedDataPayloadPart, StreamData
from elea.xrce.properties import nat

_COUNT_LEN: Final = 2  # of how many there are, besides the octet that an empty payload has anyway


class Batch:
    """Samples that will leave together."""

    __slots__ = ("_frame_len", "_len", "_samples", "_serial")

    def __init__(self, frame_len: int, serial: Serial) -> None:
        self._frame_len = frame_len
        self._serial = serial
        self._samples: list[StreamData] = []
        self._len = 0

    def __bool__(self) -> bool:
        return bool(self._samples)

    @property
    def reliable(self) -> bool:
        """The channel of its samples."""
        return self._samples[0].reliable

    def takes(self, one: StreamData) -> bool:
        """Whether a sample may be added. One that is not taken by an empty batch is too long."""
        if self._samples and _kind(self._samples[0]) != _kind(one):
            return False
        last_sn = self._serial.modulus - 1
        bare = StreamData(reliable=True, sync=False, sn=last_sn, id=one.id, payload=b"")
        around_len = len(encode(bare)) + _COUNT_LEN
        return around_len + self._len + _length(one) <= self._frame_len

    def add(self, one: StreamData) -> None:
        """Add a sample that is taken."""
        self._samples.append(one)
        self._len += _length(one)

    def take(self) -> Callable[[int], Numbered]:
        """The message, told its number; the batch is empty then. One alone is a StreamData."""
        samples, self._samples, self._len = self._samples, [], 0
        first = samples[0]
        if len(samples) == 1:
            return lambda sn: StreamData(
                reliable=first.reliable,
                sync=False,
                sn=sn,
                id=first.id,
                prid=first.prid,
                payload=first.payload,
            )
        parts: tuple[bytes, ...] | tuple[BatchedDataPayloadPart, ...]
        if first.prid is None:
            parts = tuple(one.payload for one in samples)
        else:
            parts = tuple(
                BatchedDataPayloadPart(prid=one.prid or 0, payload=one.payload) for one in samples
            )
        return lambda sn: BatchedData(
            reliable=first.reliable,
            sync=False,
            sn=sn,
            id=first.id,
            has_prid=first.prid is not None,
            payload=parts,
        )


def _kind(sample: StreamData) -> tuple[int, bool, bool]:
    """What the samples of one batch have in common."""
    return sample.id, sample.reliable, sample.prid is None


def _length(sample: StreamData) -> int:
    named = len(nat(sample.prid)) if sample.prid is not None else 0
    return named + len(nat(len(sample.payload))) + len(sample.payload)
