"""KeyFormat: build keys from named fields, and read the fields back out of keys.

{name}            exactly one chunk
{name:pattern}    whatever the key expression `pattern` includes; `{path:**}` is any number of
                  chunks, none included. A field fills whole chunks.
${name:pattern}   the same, in the spelling of Zenoh's Rust API
{{ and }}         the characters { and } themselves
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from elea.errors import KeyExprError
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import includes

_ANY_COUNT: Final = -1


class _Part:
    """A literal chunk, or a field with its pattern."""

    __slots__ = ("chunks_count", "name", "pattern")

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name  # empty for a literal
        self.pattern = pattern
        self.chunks_count = _ANY_COUNT if "**" in pattern else pattern.count("/") + 1

    def ends(self, start: int, chunks_count: int) -> range:
        """Where this part may end when it starts there, nearest first."""
        if self.chunks_count == _ANY_COUNT:
            return range(start, chunks_count + 1)
        end = start + self.chunks_count
        return range(end, end + 1) if end <= chunks_count else range(0)

    def takes(self, text: str) -> bool:
        if not text:
            return self.pattern == "**"
        return includes(self.pattern, text)


@final
class KeyFormat:
    """A pattern of keys with named fields.

    What `build` makes, `parse` reads back: the same fields with the same values. No value can
    break out of its field: it holds no wildcard and only the chunks that its pattern allows.

    Args:
        text: the format, as described in this module.

    Raises:
        KeyExprError: the format is malformed; the offset points into it.

    Example:
        >>> fmt = KeyFormat("fleet/{robot}/{sensor}")
        >>> fmt.build(robot="r1", sensor="imu")
        ke`fleet/r1/imu`
        >>> fmt.parse("fleet/r1/imu")
        {'robot': 'r1', 'sensor': 'imu'}
        >>> fmt.key_expr
        ke`fleet/*/*`
    """

    __slots__ = ("_fields", "_key_expr", "_parts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts = _parse_format(text)
        self._fields = {part.name: part for part in self._parts if part.name}
        self._key_expr = self.select()

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression to which all keys of this format belong."""
        return self._key_expr

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, in the order they are written."""
        return tuple(self._fields)

    def build(self, /, **values: str) -> KeyExpr:
        """The key with these values in its fields.

        Args:
            values: one text for each field; empty only for a field with the pattern `**`.

        Raises:
            KeyExprError: a value does not fit its field.
            TypeError: a field is missing, or there is none of that name.
        """
        missing = [name for name in self._fields if name not in values]
        if missing:
            raise TypeError(f"no value for {', '.join(missing)} of {self._text!r}")
        key = self.select(**values)
        open_fields = [part for part in self._fields.values() if part.chunks_count == _ANY_COUNT]
        if len(open_fields) > 1 and self.parse(key) != values:
            reason = f"the fields of {self._text!r} would be read back from it with other values"
            raise KeyExprError(str(key), 0, reason)
        return key

    def select(self, /, **values: str) -> KeyExpr:
        """The key expression for all keys that have these values, whatever the other fields hold.

        Raises:
            KeyExprError: a value does not fit its field.
            TypeError: there is no field of that name.

        Example:
            >>> KeyFormat("fleet/{robot}/{path:**}").select(robot="r1")
            ke`fleet/r1/**`
        """
        for name, value in values.items():
            part = self._fields.get(name)
            if part is None:
                known = ", ".join(self._fields) or "none"
                raise TypeError(f"{self._text!r} has no field {name!r}; its fields are: {known}")
            _check_value(part, value)
        texts = [values.get(part.name, part.pattern) for part in self._parts]
        return KeyExpr.autocanonize("/".join([text for text in texts if text]))

    def parse(self, key: str | KeyExpr) -> dict[str, str]:
        """The values of the fields in `key`.

        Where several readings exist, as with two `**` fields, earlier fields take as few chunks
        as they can.

        Raises:
            KeyExprError: `key` is no key of this format, or has wildcards.
        """
        text = str(KeyExpr.of(key))
        if "*" in text:
            reason = "a wildcard stands for many keys; fields are read out of one key"
            raise KeyExprError(text, text.index("*"), reason)
        chunks = text.split("/")
        ends = self._part_ends(chunks)
        if ends[0][0] < 0:
            raise KeyExprError(text, 0, f"it is no key of the format {self._text!r}")
        values: dict[str, str] = {}
        at = 0
        for part, ends_by_start in zip(self._parts, ends, strict=True):
            end = ends_by_start[at]
            if part.name:
                values[part.name] = "/".join(chunks[at:end])
            at = end
        return values

    def _part_ends(self, chunks: list[str]) -> list[list[int]]:
        """For each part, by the chunk it starts at: the nearest end that lets the rest fit, or -1.

        Filled from the last part back, so that no reading is tried twice.
        """
        chunks_count = len(chunks)
        rest_fits = [False] * chunks_count + [True]
        table: list[list[int]] = []
        for part in reversed(self._parts):
            ends_by_start = [-1] * (chunks_count + 1)
            for start in range(chunks_count + 1):
                for end in part.ends(start, chunks_count):
                    if rest_fits[end] and part.takes("/".join(chunks[start:end])):
                        ends_by_start[start] = end
                        break
            rest_fits = [end >= 0 for end in ends_by_start]
            table.append(ends_by_start)
        table.reverse()
        return table

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"KeyFormat({self._text!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyFormat):
            return NotImplemented
        return self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Callable[[str], KeyFormat], tuple[str]]:
        return KeyFormat, (self._text,)


def _check_value(part: _Part, value: str) -> None:
    field = f"field {part.name!r}"
    if value:
        KeyExpr(value)
        if "*" in value:
            reason = f"{field} takes a plain key; a wildcard is refused"
            raise KeyExprError(value, value.index("*"), reason)
    if not part.takes(value):
        raise KeyExprError(value, 0, f"{field} takes what {part.pattern!r} includes")


def _parse_format(text: str) -> list[_Part]:
    parts: list[_Part] = []
    at = 0
    while True:
        start = at + 1 if text.startswith("${", at) else at
        if text.startswith("{", start) and not text.startswith("{{", start):
            end = text.find("}", start)
            if end < 0:
                raise KeyExprError(text, start, "this `{` has no `}`; write `{{` for the character")
            part = _parse_field(text, start + 1, end)
            end += 1
        else:
            end = text.find("/", at)
            end = len(text) if end < 0 else end
            part = _parse_literal(text, at, end)
        _check_neighbours(text, at, parts, part)
        parts.append(part)
        if end == len(text):
            return parts
        if text[end] != "/":
            raise KeyExprError(text, end, "a field fills whole chunks; `/` or the end follows it")
        at = end + 1


def _parse_field(text: str, start: int, end: int) -> _Part:
    name, colon, pattern = text[start:end].partition(":")
    if not name.isidentifier():
        raise KeyExprError(text, start, "a field is named like a Python variable, as `{robot}`")
    if not colon:
        return _Part(name, "*")
    try:
        KeyExpr(pattern)
    except KeyExprError as error:
        pattern_start = start + len(name) + 1
        raise KeyExprError(text, pattern_start + error.offset, error.reason) from None
    return _Part(name, pattern)


def _parse_literal(text: str, start: int, end: int) -> _Part:
    at = start
    while at < end:
        if text[at] in "{}":
            if text[at : at + 2] != text[at] * 2:
                reason = f"a single `{text[at]}` inside a chunk; a field fills whole chunks"
                raise KeyExprError(text, at, reason)
            at += 1
        elif text[at] == "*":
            raise KeyExprError(text, at, "a format has no bare wildcard; name it, as `{name:*}`")
        at += 1
    literal = text[start:end].replace("{{", "{").replace("}}", "}")
    try:
        KeyExpr(literal)
    except KeyExprError as error:
        raise KeyExprError(text, min(start + error.offset, end), error.reason) from None
    return _Part("", literal)


def _check_neighbours(text: str, at: int, parts: list[_Part], part: _Part) -> None:
    if not part.name:
        return
    if any(part.name == earlier.name for earlier in parts):
        raise KeyExprError(text, at, f"the field {part.name!r} is there already; name each once")
    if parts and part.chunks_count == _ANY_COUNT and parts[-1].chunks_count == _ANY_COUNT:
        reason = "two fields of any length in a row; put a chunk between them to tell them apart"
        raise KeyExprError(text, at, reason)
