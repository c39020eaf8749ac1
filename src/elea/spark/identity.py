"""Identity of the rows of a sink: made of what they are, so that every attempt gives the same."""

from __future__ import annotations

import hashlib
from typing import Final

_DIGEST_LEN: Final = 16


def digest_of(*parts: bytes | None) -> bytes:
    """A digest of parts, of which each may be missing.

    Example:
        >>> digest_of(b"ab", b"c") == digest_of(b"a", b"bc"), digest_of(b"") == digest_of(None)
        (False, False)
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_LEN)
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    return digest.digest()
