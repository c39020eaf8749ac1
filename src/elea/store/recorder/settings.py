"""What is recorded, and where: one recording, and how its logs are named."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Final

from elea.errors import InvalidValueError, KeyExprError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.template import KeyFormat
from elea.store.log.settings import LogSettings

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_LEGAL: Final = "letters, digits, `-`, `_` and `.`, which is not the first"
_BARE: Final = re.compile(r"(\$?\{[^}]*\})|([^/{}]*\*[^/{}]*)")
_CACHED_COUNT_MAX: Final = 65_536  # keys whose log is remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSettings:
    """One recording.

    Args:
        key_exprs: What is recorded. No two of them may match one key. With named chunks, as
            `fleet/{robot}/**`, these can be used in the name.
        name: Of the log, under which it is asked for; or a template, as `{robot}`.
        directory: Of the log; with a template, below which each log has one.
        log: How it is written, and how much is kept.
        liveliness: Record too when liveliness tokens come and go.
        history: Ask the caches of publishers for what was published before.
        storages: Ask storages too, and whoever else answers for these keys.
        recovery: Ask caches for samples that are missing.

    Raises:
        InvalidValueError: a name that is none, or expressions that meet.
        KeyExprError: a key expression that is none.
    """

    key_exprs: tuple[str, ...]
    name: str
    directory: Path
    log: LogSettings = field(default_factory=LogSettings)
    liveliness: bool = False
    history: bool = False
    storages: bool = False
    recovery: bool = True

    def __post_init__(self) -> None:
        Names(self.key_exprs, self.name)


class Names:
    """Which log a key belongs to.

    Args:
        key_exprs: With or without named chunks.
        name: A name, or a template over the named chunks.

    Example:
        >>> Names(("fleet/{robot}/**",), "of-{robot}").of("fleet/r1/pose")
        'of-r1'
    """

    def __init__(self, key_exprs: tuple[str, ...], name: str) -> None:
        if not key_exprs:
            raise InvalidValueError("key expressions", "saw none; one or more are legal")
        formats = [_format(text) for text in key_exprs]
        self.key_exprs = tuple(str(one.key_expr) for one in formats)
        self._check_apart()
        try:
            fields = [one for _, one, _, _ in string.Formatter().parse(name) if one is not None]
        except ValueError as error:
            raise InvalidValueError("name of a log", f"saw {name!a}: {error}") from error
        for text, format in zip(key_exprs, formats, strict=True):
            for one in fields:
                if one not in format.fields:
                    known = [known for known in format.fields if not known.startswith("_")]
                    legal = ", ".join(known) or "none; name one as in fleet/{robot}/**"
                    raise InvalidValueError(
                        "name of a log", f"saw {{{one}}}; the named chunks of {text!a} are: {legal}"
                    )
        self.is_template = bool(fields)
        if not self.is_template and not _NAME.fullmatch(name):
            raise InvalidValueError("name of a log", f"saw {name!a}; legal are {_LEGAL}")
        self.name = name
        self._formats = formats
        self._known: dict[str, str] = {}

    def of(self, key: str) -> str:
        """The name of a key's log.

        Raises:
            KeyExprError: the key is not recorded.
        """
        if not self.is_template:
            return self.name
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _CACHED_COUNT_MAX:
                self._known.clear()
            found = self._known[key] = _escaped(self.name.format_map(self._fields(key)))
        return found

    def includes(self, key: str) -> bool:
        """Whether a key is recorded."""
        return any(KeyExpr(one).includes(KeyExpr(key)) for one in self.key_exprs)

    def _fields(self, key: str) -> dict[str, str]:
        for format in self._formats:
            try:
                return format.parse(key)
            except KeyExprError:
                continue
        raise KeyExprError(key, 0, "it belongs to no key expression of the recording")

    def _check_apart(self) -> None:
        for one, other in combinations(self.key_exprs, 2):
            if KeyExpr(one).intersects(KeyExpr(other)):
                raise InvalidValueError(
                    "key expressions",
                    f"saw {one!a} and {other!a}, which have keys in common; a sample would be"
                    " recorded twice. Keep the wider one, or make two recordings",
                )


def default_name(key_expr: str) -> str:
    """A name for the log of a key expression: its beginning."""
    chunks = []
    for chunk in _format(key_expr).key_expr.chunks:
        if "*" in chunk:
            break
        chunks.append(chunk)
    return _escaped("-".join(chunks) or "all")


def _format(text: str) -> KeyFormat:
    """A key expression with named chunks; wildcards without a name are given one."""
    if "{" not in text:
        text = str(KeyExpr(text))
    count = 0

    def named(found: re.Match[str]) -> str:
        nonlocal count
        if found[1]:
            return found[1]
        count += 1
        return f"{{_{count}:{found[2]}}}"

    return KeyFormat(_BARE.sub(named, text))


def _escaped(name: str) -> str:
    """A name of legal characters: others as `_` and their octets."""
    legal = "".join(
        one if _NAME.fullmatch(f"x{one}") else "".join(f"_{octet:02x}" for octet in one.encode())
        for one in name
    )
    return f"_2e{legal[1:]}" if legal.startswith(".") else legal or "_"
