"""The formats there are, and which one a file has. Needs no package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from elea.errors import InvalidValueError

SUFFIXES: Final = {"parquet": ".parquet", "csv": ".csv", "jsonl": ".jsonl", "mcap": ".mcap"}
EXPORTED: Final = tuple(SUFFIXES)
IMPORTED: Final = ("parquet", "jsonl", "mcap")
TEXTS: Final = ("csv", "jsonl")  # that may go to a terminal


def format_of(path: Path | None, said: str | None, legal: Sequence[str]) -> str:
    """The format of a file: as it is said, or by its name.

    Raises:
        InvalidValueError: it is not known.

    Example:
        >>> format_of(Path("drive.mcap"), None, IMPORTED)
        'mcap'
    """
    if said is not None and said in legal:
        return said
    if said is None and path is not None:
        for name in legal:
            if path.suffix == SUFFIXES[name]:
                return name
    seen = said or (path.name if path is not None else "no name")
    raise InvalidValueError("format", f"saw {seen!a}; legal are {', '.join(legal)}")
