"""Parameters: the `name=value;...` lists of selectors, locators and endpoints (wire.md 10.7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from elea.errors import SelectorError

_LIST_SEPARATOR: Final = ";"
_VALUE_SEPARATOR: Final = "="
_ITEM_SEPARATOR: Final = "|"
_TRAILING: Final = _LIST_SEPARATOR + _VALUE_SEPARATOR + _ITEM_SEPARATOR

Pair = tuple[str, str]


def split_pairs(text: str) -> list[Pair]:
    """The pairs of a list; empty segments are skipped, a name without `=` has the empty value."""
    pairs = []
    for segment in text.split(_LIST_SEPARATOR):
        if segment:
            name, _, value = segment.partition(_VALUE_SEPARATOR)
            pairs.append((name, value))
    return pairs


def join_pairs(pairs: Iterable[Pair]) -> str:
    """The list of these pairs; a pair without name says nothing and is left out."""
    return _LIST_SEPARATOR.join(
        name + _VALUE_SEPARATOR + value if value else name for name, value in pairs if name
    )


class Parameters:
    """An ordered list of named texts. A name may occur again; the first occurrence counts.

    The text is kept as it was given, less `;`, `=` and `|` at its end; a change writes it anew.
    There is no escaping: a value that holds `;` reads as two parameters, as everywhere in Zenoh.

    Args:
        parameters: "name=value;..." or a mapping.

    Example:
        >>> parameters = Parameters("unit=m;tags=a|b")
        >>> parameters["unit"], parameters.values("tags")
        ('m', ['a', 'b'])
    """

    __slots__ = ("_text",)

    def __init__(self, parameters: Parameters | Mapping[str, str] | str | None = None) -> None:
        if isinstance(parameters, Mapping):
            parameters = join_pairs((_name(key), value) for key, value in parameters.items())
        elif not (parameters is None or isinstance(parameters, (str, Parameters))):
            raise TypeError(f"expected a text, a mapping or Parameters, got {type(parameters)}")
        self._text = str(parameters or "").rstrip(_TRAILING)

    def is_empty(self, /) -> bool:
        """Whether there is no text at all."""
        return not self._text

    def get(self, /, key: str, default: str | None = None) -> str | None:
        """The first value of this name, or the default."""
        return next((value for name, value in self if name == key), default)

    def values(self, /, key: str) -> list[str]:
        """The items of the first value of this name, split at `|`; none without it."""
        value = self.get(key)
        return [] if value is None else value.split(_ITEM_SEPARATOR)

    def insert(self, /, key: str, value: str) -> str | None:
        """Set a value in place of all of this name; it goes to the end.

        Returns:
            The first value this name had.

        Raises:
            SelectorError: if the name holds `;` or `=`.
        """
        old = self.get(key)
        self.extend([(_name(key), value)])
        return old

    def remove(self, /, key: str) -> str | None:
        """Remove every value of this name and return the first."""
        old = self.get(key)
        self._text = join_pairs(pair for pair in self if pair[0] != key)
        return old

    def extend(self, /, parameters: Parameters | Mapping[str, str] | str | Iterable[Pair]) -> None:
        """Add these; where a name is in both, the old values go."""
        if isinstance(parameters, (Mapping, str)):
            parameters = Parameters(parameters)
        added = list(parameters)
        names = {name for name, _ in added}
        kept = [pair for pair in self if pair[0] not in names]
        self._text = join_pairs(kept + added)

    def is_ordered(self, /) -> bool:
        """Whether the names are in ascending order."""
        names = [name for name, _ in self]
        return names == sorted(names)

    def __bool__(self) -> bool:
        return not self.is_empty()

    def __contains__(self, item: str) -> bool:
        return self.get(item) is not None

    def __getitem__(self, item: str) -> str | None:
        return self.get(item)

    def __iter__(self) -> Iterator[Pair]:
        return iter(split_pairs(self._text))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameters):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Parameters({self._text!a})"


def _name(text: str) -> str:
    for offset, character in enumerate(text):
        if character in (_LIST_SEPARATOR, _VALUE_SEPARATOR):
            raise SelectorError(text, offset, f"a parameter's name cannot hold {character!r}")
    return text
