"""Rewriting keys: `fleet/{x}=sim/{x}`, checked to be undone without loss.

Both sides are templates with the same fields. A key that the left side takes gets the right side's
form, and reading that back must give the key again: no two keys become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from elea.errors import InvalidValueError, KeyExprError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.template import KeyFormat

_CACHE_COUNT_MAX: Final = 65_536  # keys whose new form is kept; then all are forgotten


class Rewrite:
    """One rule.

    Args:
        source: The keys it takes.
        target: What becomes of them.

    Raises:
        InvalidValueError: the sides have not the same fields.
    """

    __slots__ = ("source", "target")

    def __init__(self, source: KeyFormat, target: KeyFormat) -> None:
        if sorted(source.fields) != sorted(target.fields):
            only = sorted(set(source.fields) ^ set(target.fields))
            reason = f"saw {', '.join(only)} on one side only; legal are the same fields on both"
            raise InvalidValueError("rewriting", f"{source}={target}: {reason}")
        self.source = source
        self.target = target

    @classmethod
    def parse(cls, text: str) -> Self:
        """The rule written as `SOURCE=TARGET`.

        Raises:
            InvalidValueError: it is not two sides with the same fields.
            KeyExprError: a side is no template.
        """
        sides = text.split("=")
        if len(sides) != 2:
            reason = f"saw {len(sides) - 1} `=`; legal is one, as in 'fleet/{{x}}=sim/{{x}}'"
            raise InvalidValueError("rewriting", f"{text!r}: {reason}")
        return cls(KeyFormat(sides[0]), KeyFormat(sides[1]))

    def apply(self, key: str) -> str | None:
        """The new key; None if this rule does not take it.

        Raises:
            KeyExprError: the new key would not be read back as this one.
        """
        try:
            fields = self.source.parse(key)
        except KeyExprError:
            return None
        changed = self.target.build(**fields)
        if self.target.parse(changed) != fields:
            reason = f"{self.target} would be read back from it as another key than {key}"
            raise KeyExprError(str(changed), 0, reason)
        return str(changed)

    def __str__(self) -> str:
        return f"{self.source}={self.target}"


class Rewriter:
    """Several rules: the first one that takes a key changes it; others stay as they are.

    Args:
        rules: As `SOURCE=TARGET`.

    Raises:
        InvalidValueError: a rule is wrong, or two of them may write the same key.

    Example:
        >>> Rewriter(["fleet/{robot}/{rest:**}=sim/{rest:**}/of/{robot}"])("fleet/r1/arm/pose")
        'sim/arm/pose/of/r1'
    """

    __slots__ = ("_cache", "_rules")

    def __init__(self, rules: Sequence[str] = ()) -> None:
        self._rules = [Rewrite.parse(text) for text in rules]
        self._cache: dict[str, str] = {}
        for number, rule in enumerate(self._rules):
            for other in self._rules[:number]:
                if rule.target.key_expr.intersects(other.target.key_expr):
                    reason = "both may write the same key; legal are targets that never meet"
                    raise InvalidValueError("rewriting", f"{other} and {rule}: {reason}")

    def __call__(self, key: str) -> str:
        """What becomes of a key.

        Raises:
            KeyExprError: the rule that takes it could not be undone.
        """
        if not self._rules:
            return key
        found = self._cache.get(key)
        if found is None:
            found = next((new for rule in self._rules if (new := rule.apply(key))), key)
            if len(self._cache) >= _CACHE_COUNT_MAX:
                self._cache.clear()
            self._cache[key] = found
        return found


def keys_of(key_exprs: Sequence[KeyExpr | str]) -> list[str]:
    """Key expressions as texts, all keys if there are none.

    Raises:
        KeyExprError: one is none.
    """
    return [str(KeyExpr.of(one)) for one in key_exprs] or ["**"]
