"""A list of locators, in HELLO and link state: z64 count, then <utf8;z8> each. wire.md 2.10."""

from __future__ import annotations

from elea.errors import DecodeError, LocatorError
from elea.limits import LOCATOR_LEN_MAX
from elea.locator import Locator
from elea.wire.buffer import Reader, Writer


def read_locators(reader: Reader) -> tuple[str, ...]:
    """A list of locators. The count is the peer's word: they are read one by one."""
    count = reader.z64("locator count")
    bound = reader.limits.locators_count
    if count > bound:
        raise reader.error(f"a node lists at most {bound} locators, got {count}")
    return tuple([_read_locator(reader) for _ in range(count)])


def write_locators(writer: Writer, locators: tuple[str, ...]) -> None:
    """A list of locators."""
    writer.z64(len(locators))
    for one in locators:
        raw = one.encode("utf-8")
        if len(raw) > LOCATOR_LEN_MAX:
            raise ValueError(f"a locator has at most {LOCATOR_LEN_MAX} octets, got {len(raw)}")
        writer.block(raw)


def _read_locator(reader: Reader) -> str:
    length = reader.z8("locator length")
    at = reader.pos
    text = reader.utf8(length, "locator")
    try:
        Locator(text)
    except LocatorError as error:
        raise DecodeError(str(error), at) from None
    return text
