"""Who may connect: the file of `user:password` lines that `usrpwd/dictionary_file` names.

A file that other users of the machine may read is refused, as any other file with secrets.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from elea.config.config import Config
from elea.errors import ConfigError, LimitError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.secret import Secret

_PATH: Final = "transport/auth/usrpwd/dictionary_file"


def read_accounts(config: Config, limits: Limits = DEFAULT_LIMITS) -> dict[bytes, Secret] | None:
    """Passwords by user; None if the configuration names no file, or the file names nobody.

    Raises:
        ConfigError: if the file cannot be read, if other users may read it, or if a line is not
            `user:password`.
        LimitError: if it is larger than a configuration may be.
    """
    name = config.get(_PATH)
    if not isinstance(name, str):
        return None
    found: dict[bytes, Secret] = {}
    for number, line in enumerate(_text(Path(name), limits).splitlines(), 1):
        if not line.strip():
            continue
        user, colon, password = (part.strip() for part in line.partition(":"))
        if not (user and colon and password):
            raise ConfigError(_PATH, f"{name}, line {number}: not `user:password`")
        found[user.encode()] = Secret(password)
    return found or None


def _text(file: Path, limits: Limits) -> str:
    try:
        with file.open("rb") as stream:
            exposed = os.fstat(stream.fileno()).st_mode & stat.S_IROTH
            data = stream.read(limits.config_len + 1)
    except OSError as error:
        raise ConfigError(_PATH, f"{file}: {error.strerror}") from None
    if exposed:
        raise ConfigError(
            _PATH, f"{file} holds secrets and every user may read it; run: chmod o-rwx {file}"
        )
    if len(data) > limits.config_len:
        raise LimitError("config_len", len(data), limits.config_len)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(_PATH, f"{file}: not UTF-8 at byte {error.start}") from None
