"""Sections of services, as `plugins/sql`: a table of keys, by which they are read and documented.

What is refused is said in one form, as everywhere in a configuration: what was expected, what was
got, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from elea.config.kinds import Kind, Value, describe, refuse, unknown_key
from elea.errors import ConfigError, EleaError
from elea.records import dataclass
from elea.secret import Secret

# Keys that Eclipse Zenoh gives every plugin; without effect here.
FOREIGN: Final = ("__config__", "__path__", "__required__")


class _Unset:
    """A key without a default: what is read does not have it unless it is given."""


UNSET: Final = _Unset()


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a section.

    Attributes:
        name: As a configuration has it.
        kind: What reads its value.
        meaning: With its default, for the reference.
        default: What it is while it is not given.
        legal: For the reference, where `kind` says it at another length.
        needed: Whether a section without it is refused.
        field: What it is called where it is used; its name.
    """

    name: str
    kind: Kind
    meaning: str
    default: object = UNSET
    legal: str = ""
    needed: bool = False
    field: str = ""

    def of(self, section: Mapping[str, Value], path: str) -> Any:
        """Its value in the section at a path, or its default, which is UNSET if it has none."""
        given = section.get(self.name)
        if given is not None:
            return self.kind.read(given, f"{path}/{self.name}")
        if self.needed:
            raise ConfigError(f"{path}/{self.name}", f"expected {self.kind.legal}, got nothing")
        return self.default


@dataclass(frozen=True, slots=True)
class Section:
    """An object with a table of keys; a null is the same as an absent key.

    Args:
        keys: The table.
        ignored: Further names that are legal, and without effect.
    """

    keys: tuple[Setting, ...]
    ignored: tuple[str, ...] = ()

    @property
    def legal(self) -> str:
        return "an object with " + ", ".join(key.name for key in self.keys)

    def accepts(self, value: Value) -> bool:
        return isinstance(value, dict)

    def read(self, value: object, path: str) -> dict[str, Any]:
        """The values of the keys that are given or have a default, by their fields.

        Raises:
            ConfigError: a key is unknown or missing, or its value is not legal.
        """
        if not isinstance(value, Mapping):
            refuse(path, "an object", value)  # type: ignore[arg-type]  # said as it is
        for name in value:
            if not any(name == key.name for key in self.keys) and name not in self.ignored:
                if not self.keys:
                    raise ConfigError(f"{path}/{name}", "unknown key; there are none here")
                raise unknown_key(f"{path}/{name}", [f"{path}/{key.name}" for key in self.keys])
        found: dict[str, Any] = {}
        for key in self.keys:
            read = key.of(value, path)
            if read is not UNSET:
                found[key.field or key.name] = read
        return found

    def rows(self, prefix: str = "") -> str:
        """The table as rows of the reference; an object has its own if `legal` shows its form."""
        rows = ""
        for key in self.keys:
            within = key.kind.rows(f"{prefix}{key.name}/") if isinstance(key.kind, Section) else ""
            if key.legal or not within:
                legal = key.legal or key.kind.legal
                rows += f"| `{prefix}{key.name}` | {key.meaning} | {legal} |\n"
            rows += within
        return rows


@dataclass(frozen=True, slots=True)
class Converted:
    """A kind whose values are made into something; what making raises is the reason."""

    kind: Kind
    make: Callable[[Any], object]

    @property
    def legal(self) -> str:
        return self.kind.legal

    def accepts(self, value: Value) -> bool:
        return self.kind.accepts(value)

    def read(self, value: Value, path: str) -> object:
        read = self.kind.read(value, path)
        try:
            return self.make(read)
        except ConfigError:
            raise
        except EleaError as error:
            reason = getattr(error, "reason", str(error))
            got = f"expected {self.legal}, got {describe(value)}: {reason}"
            raise ConfigError(path, got) from None


@dataclass(frozen=True, slots=True)
class Bounded:
    """A number between two others, both included; it need not be whole."""

    least: float
    most: float

    @property
    def legal(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def read(self, value: Value, path: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            refuse(path, self.legal, value)
        return value if self.least <= value <= self.most else refuse(path, self.legal, value)


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path, not empty; one under a name that sounds secret was kept so, and is none."""

    legal: str = "a path"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, (str, Secret))

    def read(self, value: Value, path: str) -> str:
        if isinstance(value, Secret):
            value = value.reveal()
        if not isinstance(value, str) or not value or "\0" in value:
            refuse(path, self.legal, value)
        return value


@dataclass(frozen=True, slots=True)
class Several:
    """One value, or a list of them: a tuple, with one at least unless none is legal."""

    item: Kind
    may_be_empty: bool = False

    @property
    def legal(self) -> str:
        return f"{self.item.legal}, or several"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, list) or self.item.accepts(value)

    def read(self, value: Value, path: str) -> tuple[Any, ...]:
        if self.item.accepts(value):
            return (self.item.read(value, path),)
        if not isinstance(value, list) or not (value or self.may_be_empty):
            refuse(path, self.legal, value)
        if not all(self.item.accepts(one) for one in value):
            refuse(path, self.legal, value)
        return tuple(self.item.read(one, f"{path}/{place}") for place, one in enumerate(value))


@dataclass(frozen=True, slots=True)
class ByName:
    """An object whose names are the user's, and whose values are of one kind.

    Args:
        item: The kind.
        shown: What is legal, in a few words.
        name: What checks and changes a name, by raising an `EleaError`.
    """

    item: Kind
    shown: str
    name: Callable[[str], str] = str

    @property
    def legal(self) -> str:
        return self.shown

    def accepts(self, value: Value) -> bool:
        return isinstance(value, dict)

    def read(self, value: Value, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            refuse(path, self.legal, value)
        found: dict[str, Any] = {}
        for given, one in value.items():
            try:
                name = self.name(given)
            except EleaError as error:
                reason = getattr(error, "reason", str(error))
                got = f"expected {self.legal}, got the name {given[:40]!a}: {reason}"
                raise ConfigError(path, got) from None
            found[name] = self.item.read(one, f"{path}/{given}")
        return found


@dataclass(frozen=True, slots=True)
class Own:
    """Values that one key alone has, read by a function; it raises as `Kind.read` does."""

    legal: str
    by: Callable[[Value, str], object]

    def accepts(self, value: Value) -> bool:
        return True

    def read(self, value: Value, path: str) -> object:
        return self.by(value, path)
