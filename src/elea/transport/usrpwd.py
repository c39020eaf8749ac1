"""User and password: the second authentication method of INIT and OPEN. wire.md 5.4.4.

The opener says in InitSyn that it has credentials, the acceptor answers with a nonce, OpenSyn holds
the user's name and HMAC-SHA3-256 with the nonce as key and the password as message, and OpenAck
confirms. The password itself never travels.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from elea.errors import DecodeError
from elea.secret import Secret
from elea.wire.buffer import Reader
from elea.wire.extensions import ENC_UNIT, ENC_Z64, ENC_ZBUF, Extension
from elea.wire.transport.establishment import METHOD_USRPWD, read_usrpwd, usrpwd_body

ENTRY: Final = METHOD_USRPWD | ENC_UNIT  # InitSyn: I have credentials; OpenAck: they were right
NONCE: Final = METHOD_USRPWD | ENC_Z64
PROOF: Final = METHOD_USRPWD | ENC_ZBUF

# Whoever names an unknown user has a digest computed all the same: the answer takes as long.
_NOBODY: Final = Secret("nobody has this password")


def entry() -> tuple[Extension, ...]:
    """The unit entry of InitSyn and OpenAck."""
    return (Extension(ENTRY),)


def challenge(nonce: int) -> tuple[Extension, ...]:
    """The entry of InitAck."""
    return (Extension(NONCE, nonce),)


def answer(user: str, password: Secret, nonce: int) -> tuple[Extension, ...]:
    """The entry of OpenSyn."""
    return (Extension(PROOF, usrpwd_body(user.encode(), _digest(password, nonce))),)


def has_entry(auth: tuple[Extension, ...] | None) -> bool:
    """Whether the unit entry is among the methods of a step."""
    return any(one.header == ENTRY for one in auth or ())


def nonce_of(auth: tuple[Extension, ...] | None) -> int | None:
    """The nonce among the methods of an InitAck."""
    for one in auth or ():
        if one.header == NONCE and isinstance(one.value, int):
            return one.value
    return None


def proven_user(
    auth: tuple[Extension, ...] | None, accounts: Mapping[bytes, Secret], nonce: int
) -> bytes | None:
    """The user whose password an OpenSyn proves, or None if it proves nothing."""
    for one in auth or ():
        if one.header == PROOF and isinstance(one.value, bytes):
            try:
                user, proof = read_usrpwd(Reader(one.value))
            except DecodeError:
                return None
            password = accounts.get(user)
            expected = _digest(_NOBODY if password is None else password, nonce)
            right = hmac.compare_digest(expected, proof)
            return user if right and password is not None else None
    return None


def _digest(password: Secret, nonce: int) -> bytes:
    key = nonce.to_bytes(8, "little")
    return hmac.digest(key, password.reveal().encode(errors="surrogatepass"), "sha3_256")
