"""Selector: a key expression and the parameters of a query, `key?name=value;...` (wire.md 10.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from elea.errors import SelectorError
from elea.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS, Limits
from elea.parameters import Parameters
from elea.timerange import TimeRange

TIME_RANGE_KEY: Final = "_time"
ANY_KEY_EXPR_KEY: Final = "_anyke"  # replies on keys outside the query's are accepted


class Selector:
    """What a query asks for.

    `parameters` is a copy each time: changing it does not change the selector, setting it does.

    Args:
        arg: a key expression, or a whole "key?name=value" text if there are no `parameters`.
        parameters: the parameters, if `arg` is a key expression alone.

    Raises:
        KeyExprError: if the key is no key expression.
        SelectorError: if the text is longer than the limit.

    Example:
        >>> selector = Selector("robot/*/pose?_time=[now(-10s)..];unit=m")
        >>> str(selector.key_expr), selector.parameters["unit"], str(selector.time_range())
        ('robot/*/pose', 'm', '[now(-10s)..]')
    """

    __slots__ = ("_key_expr", "_parameters")

    def __init__(
        self,
        arg: KeyExpr | str,
        /,
        parameters: Parameters | Mapping[str, str] | str | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if not isinstance(arg, (str, KeyExpr)):
            raise TypeError(f"expected a text or a KeyExpr, got {type(arg).__name__}")
        text = str(arg)
        if len(text) > limits.selector_len:
            raise SelectorError(
                text, limits.selector_len, f"at most {limits.selector_len} characters are legal"
            )
        key = text
        if isinstance(arg, str) and parameters is None:
            key, _, parameters = text.partition("?")
        self._key_expr = arg if isinstance(arg, KeyExpr) else KeyExpr(key)
        self._parameters = str(Parameters(parameters))

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression."""
        return self._key_expr

    @key_expr.setter
    def key_expr(self, key_expr: KeyExpr | str) -> None:
        self._key_expr = key_expr if isinstance(key_expr, KeyExpr) else KeyExpr(key_expr)

    @property
    def parameters(self) -> Parameters:
        """The parameters."""
        return Parameters(self._parameters)

    @parameters.setter
    def parameters(self, parameters: Parameters | Mapping[str, str] | str) -> None:
        self._parameters = str(Parameters(parameters))

    def time_range(self) -> TimeRange | None:
        """The range of `_time`, if there is one.

        Raises:
            SelectorError: if its value is no time range.
        """
        return time_range_of(self.parameters)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[Selector], tuple[KeyExpr, str]]:
        return Selector, (self._key_expr, self._parameters)

    def __str__(self) -> str:
        return f"{self._key_expr}?{self._parameters}" if self._parameters else str(self._key_expr)

    def __repr__(self) -> str:
        return f"Selector({str(self)!a})"


def time_range_of(parameters: Parameters) -> TimeRange | None:
    """The range of `_time`, if there is one.

    `[start;duration]` holds the character that separates parameters; the two halves are joined.

    Raises:
        SelectorError: if the value is no time range.
    """
    segments = str(parameters).split(";")
    for index, segment in enumerate(segments):
        name, _, value = segment.partition("=")
        if name == TIME_RANGE_KEY:
            following = segments[index + 1 : index + 2]
            if value[-1:] not in ("[", "]") and following and following[0][-1:] in ("[", "]"):
                value = f"{value};{following[0]}"
            return TimeRange.parse(value)
    return None
