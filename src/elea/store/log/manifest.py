"""Manifest: what a log says of itself, in a file that is there twice."""

from __future__ import annotations

import json
import uuid
import zlib
from dataclasses import dataclass
from typing import Final

from elea.errors import StoreError
from elea.store.log.disk import Disk
from elea.store.log.head import FIRST, HEAD, Head
from elea.store.log.recovery import replace

FORMAT: Final = 3
_READABLE: Final = range(1, FORMAT + 1)
_HEADS_FORMAT: Final = 3  # from which on each segment says which columns it has
_PACKED_FORMAT: Final = 2  # from which on segments may be packed
NAMES: Final = ("log.json", "log.copy.json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A log: its name, its shards, and how often it was opened to be written."""

    log_id: uuid.UUID
    shards_count: int
    epoch: int
    ends: tuple[int, ...] = ()  # of the shards, when it was closed last; () if it never was
    format: int = FORMAT

    @property
    def head(self) -> Head:
        """How segments begin that are written to it."""
        return HEAD if self.format >= _HEADS_FORMAT else FIRST

    @property
    def written_format(self) -> int:
        """The format that it has once this release wrote to it: the lowest that can hold that."""
        if FIRST.schema.equals(HEAD.schema):
            return max(self.format, _PACKED_FORMAT)
        return FORMAT

    def end_of(self, shard: int) -> int:
        """The number after the last row that a shard is known to have had."""
        return self.ends[shard] if shard < len(self.ends) else 0


def write_manifest(disk: Disk, manifest: Manifest) -> None:
    """Make both files durable, one after the other."""
    text: dict[str, str | int | list[int]] = {
        "format": manifest.format,
        "log": str(manifest.log_id),
        "shards": manifest.shards_count,
        "epoch": manifest.epoch,
        "ends": list(manifest.ends),
    }
    text["crc"] = _crc(text)
    for name in NAMES:
        replace(disk, name, (json.dumps(text) + "\n").encode())


def read_manifest(disk: Disk) -> Manifest:
    """What a log says of itself.

    Raises:
        FileNotFoundError: there is none.
        StoreError: it cannot be read.
    """
    found: list[Manifest] = []
    problems = []
    for name in NAMES:
        try:
            found.append(_parse(disk.read(name, 0)))
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError) as error:
            problems.append(f"{name} is not the manifest of a log ({error})")
    if found:
        return max(found, key=lambda one: (one.epoch, one.ends))
    if problems:
        raise StoreError("; ".join(problems))
    raise FileNotFoundError(f"no {NAMES[0]}: not the directory of a log")


def no_log(error: FileNotFoundError) -> StoreError:
    """The error for users, where `read_manifest` finds no manifest."""
    why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return StoreError(f"no log there: {why}")


def _parse(octets: bytes) -> Manifest:
    text = json.loads(octets)
    crc = text.pop("crc")
    if _crc(text) != crc:
        raise ValueError("its checksum does not hold")
    if text["format"] not in _READABLE:
        seen = text["format"]
        raise StoreError(f"saw format {seen} of a log; legal are 1 to {FORMAT}: use a newer Elea")
    ends = tuple(int(end) for end in text.get("ends", ()))
    return Manifest(
        *(uuid.UUID(text["log"]), int(text["shards"]), int(text["epoch"]), ends, text["format"])
    )


def _crc(text: dict[str, str | int | list[int]]) -> int:
    return zlib.crc32(json.dumps(text, sort_keys=True).encode())
