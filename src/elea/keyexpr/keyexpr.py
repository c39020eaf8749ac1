"""KeyExpr: a validated, canonical key expression, and how two of them relate."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Self, final

from elea.errors import KeyExprError
from elea.keyexpr.canon import canonize, validate
from elea.keyexpr.match import includes, intersects, relation
from elea.limits import DEFAULT_LIMITS, Limits


class SetIntersectionLevel(Enum):
    """How the sets of keys of two key expressions relate, seen from the first.

    The numbers are ordered: from `int(SetIntersectionLevel.INTERSECTS)` on there is a common key.
    """

    DISJOINT = 0
    INTERSECTS = 1
    INCLUDES = 2
    EQUALS = 3

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


@final
class KeyExpr:
    """A set of keys, written with chunks between slashes and the wildcards `*`, `**` and `$*`.

    A value: it never changes, equals the `str` of the same text, hashes like it and pickles.

    Args:
        key_expr: the text, in canonical form; use `autocanonize` for any other spelling.

    Raises:
        KeyExprError: the text is no key expression or not canonical; the error says where and why.
        LimitError: the text is longer or has more wildcards than `elea.limits` allows.

    Example:
        >>> fleet = KeyExpr("fleet/*/pose")
        >>> fleet.includes("fleet/r1/pose")
        True
        >>> KeyExpr("fleet") / "r1" / "imu"
        ke`fleet/r1/imu`
    """

    __slots__ = ("_text",)

    _text: str

    def __init__(self, key_expr: str | KeyExpr, *, limits: Limits = DEFAULT_LIMITS) -> None:
        text = _text_of(key_expr)
        validate(text, limits)
        object.__setattr__(self, "_text", text)

    @classmethod
    def autocanonize(cls, key_expr: str | KeyExpr, *, limits: Limits = DEFAULT_LIMITS) -> Self:
        """Bring the text to its canonical form first.

        Raises:
            KeyExprError: the text is no key expression in any spelling.
            LimitError: a bound of `elea.limits` was hit.

        Example:
            >>> KeyExpr.autocanonize("a/**/*/$*")
            ke`a/*/*/**`
        """
        return cls._trusted(canonize(_text_of(key_expr), limits))

    @classmethod
    def _trusted(cls, text: str) -> Self:
        """Wrap a text that was validated a moment ago."""
        self = object.__new__(cls)
        object.__setattr__(self, "_text", text)
        return self

    def intersects(self, /, other: str | KeyExpr) -> bool:
        """Whether at least one key belongs to both."""
        return intersects(self._text, KeyExpr.of(other)._text)

    def includes(self, /, other: str | KeyExpr) -> bool:
        """Whether every key of `other` belongs to this one."""
        return includes(self._text, KeyExpr.of(other)._text)

    def relation_to(self, /, other: str | KeyExpr) -> SetIntersectionLevel:
        """The strongest relation that holds, seen from this one.

        Example:
            >>> KeyExpr("a/**").relation_to("a/b")
            SetIntersectionLevel.INCLUDES
        """
        return SetIntersectionLevel(relation(self._text, KeyExpr.of(other)._text))

    def join(self, /, other: str | KeyExpr) -> KeyExpr:
        """Put `/` between the two and bring the result to canonical form.

        Example:
            >>> KeyExpr("a/**").join("*")
            ke`a/*/**`
        """
        return KeyExpr._trusted(canonize(f"{self._text}/{_text_of(other)}"))

    def __truediv__(self, other: str | KeyExpr) -> KeyExpr:
        if not isinstance(other, (str, KeyExpr)):
            return NotImplemented
        return self.join(other)

    def __rtruediv__(self, other: object) -> KeyExpr:
        return NotImplemented  # as in zenoh-python: what stands on the left is a key expression

    def concat(self, /, other: str | KeyExpr) -> KeyExpr:
        """Append the text as it is; the result must be canonical by itself.

        Prefer `join`: it keeps the chunks of both sides whole.

        Raises:
            KeyExprError: the result is no key expression, or `*` meets `*` at the seam.
        """
        suffix = _text_of(other)
        text = self._text + suffix
        # `a/*` and `*` would silently become `a/**`, another set than either side meant.
        if self._text[-1] == "*" and suffix[:1] == "*":
            seam = len(self._text)
            raise KeyExprError(text, seam, "`*` would meet `*` here; join the two with `/` instead")
        return KeyExpr(text)

    @staticmethod
    def of(value: str | KeyExpr) -> KeyExpr:
        """Take either form that a caller may give for a key; a `str` is validated."""
        return value if isinstance(value, KeyExpr) else KeyExpr(value)

    @property
    def chunks(self) -> tuple[str, ...]:
        """The parts between slashes."""
        return tuple(self._text.split("/"))

    @property
    def is_wild(self) -> bool:
        """Whether a wildcard is written in it; without one it names exactly one key."""
        return "*" in self._text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"ke`{self._text}`"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeyExpr):
            return self._text == other._text
        if isinstance(other, str):
            return self._text == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a KeyExpr never changes; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a KeyExpr never changes; cannot delete {name!r}")

    def __reduce__(self) -> tuple[Callable[[str], KeyExpr], tuple[str]]:
        # Not through __init__: it was accepted once, maybe under wider limits than the defaults.
        return KeyExpr._trusted, (self._text,)


def _text_of(value: str | KeyExpr) -> str:
    if isinstance(value, KeyExpr):
        return value._text
    if isinstance(value, str):
        return value
    # Reached from untyped programs only; the checker cannot know them.
    raise TypeError(f"a key expression is given as str or KeyExpr, not {type(value).__name__}")
