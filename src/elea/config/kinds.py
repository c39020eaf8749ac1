"""What a configuration value may be: small readers that check, normalise and describe.

A kind turns plain values (as JSON5, YAML or Python bring them) into the stored form: integers for
`1e3`, sorted endpoints, `Secret`s. What it refuses it explains: what was expected, what was got.
The schema combines kinds; the reference page prints their `legal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Final, NoReturn, Protocol, TypeAlias

from elea.errors import ConfigError, EleaError
from elea.ids import WhatAmI
from elea.json5 import Json
from elea.locator import Endpoint
from elea.records import dataclass
from elea.secret import REDACTED, Secret

Value: TypeAlias = (
    "bool | int | float | str | Secret | Endpoint | list[Value] | dict[str, Value] | None"
)

MODES: Final = tuple(str(mode) for mode in WhatAmI)
_SHOWN_LEN_MAX: Final = 40
_SHOWN_BITS_MAX: Final = 128
_SHOWN_NUMBER_MAX: Final = 0xFFFF_FFFF  # beyond it a bound is one of storage, not of meaning
_LIKE: Final = 0.7  # `stats` is no hint for who wrote `startup`, which is 0.67 of it
_MUCH_LIKE: Final = 0.8  # for short names, and for whole paths, which have much in common
_SHORT_LEN_MAX: Final = 4
# In subtrees that a plugin defines only names can tell what is secret; `private` is Zenoh's own
# convention for storage volumes.
_SECRET_WORDS: Final = ("password", "passwd", "secret", "token", "private_key", "credential")


class Kind(Protocol):
    """Reads one kind of value."""

    @property
    def legal(self) -> str:
        """What is legal, for errors and for the reference."""

    def accepts(self, value: Value) -> bool:
        """Whether the value has the JSON type of this kind, whatever it holds."""

    def read(self, value: Value, path: str) -> Any:
        """The stored form; a `ConfigError` naming `path` if the value is not legal."""


def refuse(path: str, legal: str, value: Value) -> NoReturn:
    """Raise the error that says what was expected and what was got."""
    raise ConfigError(path, f"expected {legal}, got {describe(value)}")


def describe(value: Value) -> str:
    """A value in a few words, without what could be secret."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS_MAX:
        return "a very large number"  # Python refuses to write out some of them
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        # What follows # in an endpoint may be an inline key.
        return f"the text {value.partition('#')[0][:_SHOWN_LEN_MAX]!a}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return (
            f"an object with {', '.join(ascii(key[:20]) for key in list(value)[:4]) or 'no keys'}"
        )
    return "a secret"


@dataclass(frozen=True, slots=True)
class Bool:
    """true or false."""

    legal: str = "true or false"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, bool)

    def read(self, value: Value, path: str) -> Value:
        return value if isinstance(value, bool) else refuse(path, self.legal, value)


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within bounds; 1e3 and 5.0 are whole."""

    least: int = 0
    most: int = 0xFFFF_FFFF_FFFF_FFFF

    @property
    def legal(self) -> str:
        if self.most > _SHOWN_NUMBER_MAX:
            return f"a whole number, {self.least} or more" if self.least > -2 else "a whole number"
        return f"a whole number from {self.least} to {self.most}"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def read(self, value: Value, path: str) -> Value:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            refuse(path, self.legal, value)
        return value if self.least <= value <= self.most else refuse(path, self.legal, value)


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number, not negative."""

    legal: str = "a number, 0 or more"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def read(self, value: Value, path: str) -> Value:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            refuse(path, self.legal, value)
        if not 0 <= value < float("inf"):
            refuse(path, self.legal, value)
        try:
            return float(value)
        except OverflowError:
            refuse(path, self.legal, value)


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `check` returns its canonical form or raises."""

    legal: str = "a text"
    check: Callable[[str], str] | None = None

    def accepts(self, value: Value) -> bool:
        return isinstance(value, str)

    def read(self, value: Value, path: str) -> Value:
        if not isinstance(value, str):
            refuse(path, self.legal, value)
        if self.check is None:
            return value
        try:
            return self.check(value)
        except EleaError as error:
            reason = getattr(error, "reason", str(error))
            raise ConfigError(
                path, f"expected {self.legal}, got {describe(value)}: {reason}"
            ) from None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few texts."""

    names: tuple[str, ...]

    @property
    def legal(self) -> str:
        return "one of " + ", ".join(f'"{name}"' for name in self.names)

    def accepts(self, value: Value) -> bool:
        return isinstance(value, str)

    def read(self, value: Value, path: str) -> Value:
        return value if value in self.names else refuse(path, self.legal, value)


@dataclass(frozen=True, slots=True)
class Hidden:
    """A text that never prints."""

    legal: str = "a text, which is kept secret"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, (str, Secret))

    def read(self, value: Value, path: str) -> Value:
        if isinstance(value, Secret):
            return value
        if not isinstance(value, str):
            raise ConfigError(path, f"expected {self.legal}, got a {type(value).__name__}")
        return _secret(value, path)


@dataclass(frozen=True, slots=True)
class EndpointText:
    """An endpoint; kept as text unless it holds a secret."""

    legal: str = "an endpoint, as tcp/host:7447"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, (str, Endpoint))

    def read(self, value: Value, path: str) -> Value:
        if isinstance(value, Endpoint):
            return value
        text = Text(self.legal, lambda text: Endpoint.parse(text).reveal()).read(value, path)
        assert isinstance(text, str)
        endpoint = Endpoint.parse(text)
        secrets = [value for _, value in endpoint.config if isinstance(value, Secret)]
        for secret in secrets:
            _secret(secret.reveal(), path)
        return endpoint if secrets else text


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one kind."""

    item: Kind
    least_count: int = 0

    @property
    def legal(self) -> str:
        return f"a list{' (not empty)' if self.least_count else ''} of: {self.item.legal}"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, list)

    def read(self, value: Value, path: str) -> Value:
        if not isinstance(value, list) or len(value) < self.least_count:
            refuse(path, self.legal, value)
        return [self.item.read(item, f"{path}/{index}") for index, item in enumerate(value)]


@dataclass(frozen=True, slots=True)
class Roles:
    """A list of roles, stored in the order router, peer, client."""

    @property
    def legal(self) -> str:
        return f"a list of roles: {Choice(MODES).legal}"

    def accepts(self, value: Value) -> bool:
        return isinstance(value, list)

    def read(self, value: Value, path: str) -> Value:
        if not isinstance(value, list):
            refuse(path, self.legal, value)
        read = [Choice(MODES).read(item, f"{path}/{index}") for index, item in enumerate(value)]
        return [mode for mode in MODES if mode in read]


@dataclass(frozen=True, slots=True)
class Record:
    """An object with known names; a null is the same as an absent name."""

    fields: Mapping[str, Kind]
    required: frozenset[str] = frozenset()
    shown: str = ""

    @property
    def legal(self) -> str:
        return self.shown or "an object with " + ", ".join(self.fields)

    def accepts(self, value: Value) -> bool:
        return isinstance(value, dict)

    def read(self, value: Value, path: str) -> Value:
        if not isinstance(value, dict):
            refuse(path, self.legal, value)
        for name in value:
            if name not in self.fields:
                raise unknown_key(f"{path}/{name}", [f"{path}/{known}" for known in self.fields])
        read: dict[str, Value] = {}
        for name, kind in self.fields.items():
            if value.get(name) is not None:
                read[name] = kind.read(value[name], f"{path}/{name}")
            elif name in self.required:
                raise ConfigError(path, f"{name} is missing; expected {kind.legal}")
        return read


@dataclass(frozen=True, slots=True)
class Either:
    """Whichever of some kinds has the JSON type of the value."""

    kinds: tuple[Kind, ...]

    @property
    def legal(self) -> str:
        return ", or ".join(kind.legal for kind in self.kinds)

    def accepts(self, value: Value) -> bool:
        return any(kind.accepts(value) for kind in self.kinds)

    def read(self, value: Value, path: str) -> Any:
        for kind in self.kinds:
            if kind.accepts(value):
                return kind.read(value, path)
        refuse(path, self.legal, value)


@dataclass(frozen=True, slots=True)
class PerMode:
    """One value for all roles, or an object with one per role."""

    kind: Kind

    @property
    def legal(self) -> str:
        return f"per mode: {self.kind.legal}"

    def accepts(self, value: Value) -> bool:
        return is_per_mode(value) or self.kind.accepts(value)

    def read(self, value: Value, path: str) -> Any:
        if is_per_mode(value):
            assert isinstance(value, dict)
            return {name: self.kind.read(value[name], f"{path}/{name}") for name in value}
        if isinstance(value, dict) and not self.kind.accepts(value):
            refuse(path, self.legal, value)
        return self.kind.read(value, path)


@dataclass(frozen=True, slots=True)
class Free:
    """Anything: what a plugin defines. Texts under names that sound secret are kept secret."""

    legal: str = "anything"
    object_only: bool = False

    def accepts(self, value: Value) -> bool:
        return isinstance(value, dict) or not self.object_only

    def read(self, value: Value, path: str) -> Value:
        if not self.accepts(value):
            refuse(path, self.legal, value)
        return _hide(value, path, hidden=False)


def is_per_mode(value: Value) -> bool:
    """Whether the value is an object with roles for names."""
    return isinstance(value, dict) and bool(value) and all(name in MODES for name in value)


def is_secret_name(name: str) -> bool:
    """Whether a name in a free subtree sounds secret."""
    lower = name.lower()
    return lower == "private" or any(word in lower for word in _SECRET_WORDS)


def _secret(text: str, path: str) -> Secret:
    # Whoever reads a printed configuration back must hear of it now, not when a login fails.
    if text == REDACTED:
        raise ConfigError(path, f"{REDACTED} is how a secret prints; the secret itself is missing")
    return Secret(text)


def _hide(value: Value, path: str, *, hidden: bool) -> Value:
    if isinstance(value, str) and hidden:
        return _secret(value, path)
    if isinstance(value, float) and not isfinite(value):
        refuse(path, "what JSON can hold", value)
    if isinstance(value, list):
        return [_hide(item, path, hidden=hidden) for item in value]
    if isinstance(value, dict):
        return {
            name: _hide(item, path, hidden=hidden or is_secret_name(name))
            for name, item in value.items()
        }
    return value


def public(value: Value) -> Json:
    """The value as JSON; what is secret shows as `***`."""
    if isinstance(value, (Secret, Endpoint)):
        return str(value)
    if isinstance(value, list):
        return [public(item) for item in value]
    if isinstance(value, dict):
        return {key: public(item) for key, item in value.items()}
    return value


def has_secret(value: Value) -> bool:
    """Whether something inside never prints."""
    if isinstance(value, list):
        return any(has_secret(item) for item in value)
    if isinstance(value, dict):
        return any(has_secret(item) for item in value.values())
    return isinstance(value, (Secret, Endpoint))


def unknown_key(path: str, siblings: Iterable[str], others: Iterable[str] = ()) -> ConfigError:
    """The error for a path that is not known: with one that is much like it, or all its siblings.

    Args:
        path: What was given.
        siblings: The paths there are where the path stops being known.
        others: All paths there are.
    """
    siblings, others = list(siblings), list(others)
    near = [one for one in others if one.endswith(f"/{path}")][:3]  # given without its section
    if not near:
        near = _near(path, {one: one for one in others}, _MUCH_LIKE)
    depth = siblings[0].count("/") if siblings else 0
    if not near:
        names = {one.rpartition("/")[2]: one for one in siblings}
        name = path.split("/")[depth]
        near = [names[one] for one in names if name and one.startswith(name)][:3]
        near = near or _near(name, names, _LIKE if len(name) > _SHORT_LEN_MAX else _MUCH_LIKE)
    shown = path if path.isascii() and path.isprintable() else ascii(path)[1:-1]
    if near:
        nearest = " or ".join(near)
        return ConfigError(shown[:200], f"unknown key; the nearest known one is {nearest}")
    where = siblings[0].rpartition("/")[0] if siblings else ""
    listed = ", ".join(sorted(one.rpartition("/")[2] for one in siblings))
    return ConfigError(shown[:200], f"unknown key; {where or 'the top'} has {listed}")


def _near(text: str, known: Mapping[str, str], likeness_min: float) -> list[str]:
    """What stands for the name that is most like a text, if it is much like it."""
    from difflib import SequenceMatcher  # only errors need it, and it is slow to load

    # Hostile names are long, and likeness is quadratic: the end must do.
    matcher = SequenceMatcher(None, "", text[-_SHOWN_LEN_MAX:], autojunk=False)
    best: list[str] = []
    for candidate, found in known.items():
        matcher.set_seq1(candidate)
        if matcher.quick_ratio() >= likeness_min:
            exact = matcher.ratio()
            if exact >= likeness_min and (not best or exact > likeness_min):
                best, likeness_min = [found], exact
    return best
