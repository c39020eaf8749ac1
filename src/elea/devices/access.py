"""Who may be a device and what it may do: `keys_file` and `access` of `plugins/xrce` (19.3)."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from elea.config.kinds import Value, refuse
from elea.config.section import Several
from elea.config.shapes import KEY_EXPR
from elea.config_file import read_secret
from elea.errors import ConfigError
from elea.keyexpr.keyexpr import KeyExpr
from elea.secret import Secret
from elea.xrce.declarations import Action
from elea.xrce.session.settings import PID_LEN_MAX

OTHERS: Final = "*"  # devices that no entry names
KEY_LEN_MIN: Final = 16
_DECIDED_COUNT: Final = 4_096  # decisions that are remembered, so that a sample costs a look
_ACTIONS: Final = ("read", "write")


def pid_of(text: str) -> bytes | None:
    """A pid in hexadecimal digits; None if it is none.

    Example:
        >>> pid_of("c0ffee"), pid_of("tea")
        (b'\\xc0\\xff\\xee', None)
    """
    try:
        pid = binascii.unhexlify(text)
    except ValueError:
        return None
    return pid if 1 <= len(pid) <= PID_LEN_MAX else None


def read_key(path: Path | str) -> bytes:
    """The key of one device, from a file that holds it in hexadecimal digits.

    Raises:
        ConfigError: It cannot be read, every user can read it, or it holds no key.
    """
    return _key(read_secret(path).reveal().strip(), str(path), str(path))


def read_keys(path: Path, config_path: str) -> dict[bytes, Secret]:
    """Keys by pid, from a file of `pid:key` lines, both in hexadecimal digits.

    Raises:
        ConfigError: It cannot be read, every user can read it, or a line is none of those.
    """
    try:
        text = read_secret(path).reveal()
    except ConfigError as error:
        raise ConfigError(config_path, error.reason) from None
    found: dict[bytes, Secret] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"{path}, line {number}"
        name, _, key = (part.strip() for part in line.partition(":"))
        pid = pid_of(name)
        if pid is None:
            reason = f"{where}: not `pid:key`, a pid of 1 to {PID_LEN_MAX} octets in hexadecimal"
            raise ConfigError(config_path, reason)
        if pid in found:
            raise ConfigError(config_path, f"{where}: {name} has a key already")
        _key(key, config_path, where)
        found[pid] = Secret(key)
    if not found:
        raise ConfigError(config_path, f"{path} names no device; none could be served")
    return found


def _key(text: str, config_path: str, where: str) -> bytes:
    """What it says is not told: it is secret."""
    try:
        key = binascii.unhexlify(text)
    except ValueError:
        key = b""
    if len(key) < KEY_LEN_MIN:
        reason = f"{where}: a key of {KEY_LEN_MIN} octets or more in hexadecimal is legal"
        raise ConfigError(config_path, reason)
    return key


_KEY_EXPRS: Final = Several(KEY_EXPR, may_be_empty=True)


@dataclass(frozen=True, slots=True)
class _Rights:
    read: tuple[KeyExpr, ...] = ()
    write: tuple[KeyExpr, ...] = ()

    def include(self, action: Action, wanted: KeyExpr) -> bool:
        """Whether all keys of a key expression may be read, written, or at least be named."""
        match action:
            case Action.READ | Action.ASK:
                allowed = self.read
            case Action.WRITE | Action.DELETE:
                allowed = self.write
            case Action.DECLARE:
                allowed = (*self.read, *self.write)
        return any(one.includes(wanted) for one in allowed)


class Access:
    """What each device may read and write; what no entry allows is forbidden.

    Args:
        rights: By pid, and by None for all others.
    """

    def __init__(self, rights: Mapping[bytes | None, _Rights]) -> None:
        self._rights = dict(rights)
        self._decided = lru_cache(maxsize=_DECIDED_COUNT)(self._decide)

    def allows(self, pid: bytes, action: Action, key_exprs: tuple[str, ...]) -> bool:
        """Whether a device may do something with all keys of these key expressions."""
        return self._decided(pid if pid in self._rights else None, action, key_exprs)

    def _decide(self, pid: bytes | None, action: Action, key_exprs: tuple[str, ...]) -> bool:
        rights = self._rights.get(pid, _Rights())
        return bool(key_exprs) and all(rights.include(action, KeyExpr(one)) for one in key_exprs)

    @classmethod
    def read(cls, section: Value, path: str) -> Access:
        """The section `access`.

        Raises:
            ConfigError: naming the key that is not legal.
        """
        if not isinstance(section, dict):
            refuse(path, "pids with what they may read and write", section)
        rights: dict[bytes | None, _Rights] = {}
        for name, allowed in section.items():
            pid = None if name == OTHERS else pid_of(name)
            if pid is None and name != OTHERS:
                legal = f"expected a pid of 1 to {PID_LEN_MAX} bytes in hexadecimal, or {OTHERS}"
                raise ConfigError(f"{path}/{name}", f"{legal}, got {name!a}")
            if not isinstance(allowed, dict) or not set(allowed) <= set(_ACTIONS):
                refuse(f"{path}/{name}", "an object with `read` and `write`", allowed)
            read, write = (
                _key_exprs(allowed.get(action), f"{path}/{name}/{action}") for action in _ACTIONS
            )
            rights[pid] = _Rights(read, write)
        return cls(rights)


def _key_exprs(value: Value, path: str) -> tuple[KeyExpr, ...]:
    return () if value is None else tuple(map(KeyExpr, _KEY_EXPRS.read(value, path)))
