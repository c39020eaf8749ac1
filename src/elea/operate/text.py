"""Text from the network, made safe to show to people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """Make text safe to print: what a terminal would act on, or hide, is shown escaped.

    Control characters, bidirectional overrides, invisible characters and lone surrogates become
    backslash escapes. Printable characters of any script stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def escape(text: str) -> str:
    r"""Like `printable`, for text from the network; a backslash is doubled to stay unambiguous.

    Example:
        >>> escape("caf\u00e9 \x1b[31m C:\\")
        'café \\x1b[31m C:\\\\'
    """
    return printable(text.replace("\\", "\\\\"))


def _escaped(char: str) -> str:
    return _NAMED.get(char) or char.encode("unicode_escape").decode("ascii")
