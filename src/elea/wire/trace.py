"""Trace: what a Reader met, field by field, for the annotated dump.

A Reader without a trace pays one comparison per field; with one it records where each field lay,
its value and its meaning, so that the dump shows what the decoder did and not a second opinion.
"""

from __future__ import annotations

from elea.records import dataclass


@dataclass(slots=True)
class Note:
    """One line of a dump: octets `start:stop` hold `field`, at nesting `depth`."""

    start: int
    stop: int
    depth: int
    field: str
    value: int | bytes | str | None
    meaning: str = ""


class Trace:
    """Collects notes while one batch or datagram is decoded."""

    __slots__ = ("depth", "notes")

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.depth = 0

    def field(self, start: int, stop: int, field: str, value: int | bytes | str | None) -> None:
        """Record that `field` lay at `start:stop`."""
        self.notes.append(Note(start, stop, self.depth, field, value))

    def meaning(self, text: str) -> None:
        """Say what the last field means."""
        if self.notes:
            self.notes[-1].meaning = text

    def header(self, name: str, flags: str, header: int) -> None:
        """Name the message whose header octet was the last field, and indent what follows.

        Args:
            name: The message's name.
            flags: A letter for each of bits 7, 6 and 5, or `-` for a reserved one.
            header: The octet.
        """
        bits = " ".join(
            f"{letter}={header >> bit & 1}"
            for bit, letter in zip((7, 6, 5), flags, strict=True)
            if letter != "-"
        )
        self._rename(name, f"{bits} id=0x{header & 0x1F:02x}".strip())

    def extension(self, name: str, meaning: str) -> None:
        """Name the extension whose header octet was the last field, and indent what follows."""
        self._rename(f"extension {name}", meaning)

    def leave(self) -> None:
        """End the innermost message or extension."""
        self.depth -= 1

    def _rename(self, field: str, meaning: str) -> None:
        # The octet's value is in the dump; what it stands for says more.
        last = self.notes[-1]
        last.field, last.value, last.meaning = field, None, meaning
        self.depth += 1
