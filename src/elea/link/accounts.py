"""Who may connect: the file of `user:password` lines that `usrpwd/dictionary_file` names.

A file that every user of the machine can read is refused, as any other file with secrets.
"""

from __future__ import annotations

from typing import Final

from elea.config.config import Config
from elea.config_file import read_secret
from elea.errors import ConfigError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.secret import Secret

_PATH: Final = "transport/auth/usrpwd/dictionary_file"


def read_accounts(config: Config, limits: Limits = DEFAULT_LIMITS) -> dict[bytes, Secret] | None:
    """Passwords by user; None if the configuration names no file.

    Raises:
        ConfigError: if the file cannot be read, if every user can read it, if a line is not
            `user:password`, if two are about one user, or if it names nobody: a file that was cut
            short must not open a node to everybody.
        LimitError: if it is larger than a configuration may be.
    """
    name = config.get(_PATH)
    if not isinstance(name, str):
        return None
    found: dict[bytes, Secret] = {}
    try:
        text = read_secret(name, limits).reveal()
    except ConfigError as error:
        raise ConfigError(_PATH, error.reason) from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        user, colon, password = (part.strip() for part in line.partition(":"))
        if not (user and colon and password):
            raise ConfigError(_PATH, f"{name}, line {number}: not `user:password`")
        if user.encode() in found:
            raise ConfigError(_PATH, f"{name}, line {number}: user {user!a} has a line before it")
        found[user.encode()] = Secret(password)
    if not found:
        raise ConfigError(
            _PATH,
            f"{name} names no user: write lines of user:password, or remove the key to ask nobody"
            " for a password",
        )
    return found
