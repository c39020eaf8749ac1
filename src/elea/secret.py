"""Secret: a text that cannot be printed, logged, formatted or pickled by accident."""

from __future__ import annotations

from hmac import compare_digest
from typing import Final, NoReturn, Self, final

REDACTED: Final = "***"


@final
class Secret:
    """A password or a private key. Only `reveal` gives the text; everything else shows `***`.

    What must not leak is told apart by this type, not by the name of a field: a log line, an error
    or an admin-space answer may hold a Secret and stays harmless.

    Args:
        text: the text to keep.

    Example:
        >>> password = Secret("hunter2")
        >>> f"{password} {password!r}", password.reveal()
        ("*** Secret('***')", 'hunter2')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself. Call it where the text is used, and keep no copy."""
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        # surrogatepass: a text that is no UTF-8 is compared, not refused.
        mine = self._text.encode(errors="surrogatepass")
        return compare_digest(mine, other._text.encode(errors="surrogatepass"))

    def __hash__(self) -> int:
        return hash(Secret)  # equal for all: a hash of the text would tell of it

    def __str__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __repr__(self) -> str:
        return f"Secret('{REDACTED}')"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is never pickled; carry the name of a file or variable instead")
