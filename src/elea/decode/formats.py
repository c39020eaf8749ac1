"""The registry of encodings: by what the payloads of each are read, for all who look into samples.

Predicates and projections, alerts, historians, series of numbers, devices, the page, the command,
exports, and the columns of tables find a format here. Adding one is a module with its `read`, and a
row (docs/howto/add-a-decoder.md).

Objects of Python and Java have no row, whatever an encoding says: loading one runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from elea.decode import cbor_text, json_text, number_text
from elea.decode.layout import Layout, parse_layout
from elea.decode.layout_reader import read_cdr, read_serialized
from elea.decode.plain import plain
from elea.encoding import CUSTOM_ID, NAMES, Encoding
from elea.errors import EleaError
from elea.json5 import Json
from elea.records import dataclass

_LAYOUTS_COUNT: Final = 256  # of encodings that are remembered

Read: TypeAlias = Callable[[bytes], object]
ReadLayout: TypeAlias = Callable[[Layout, bytes], object]


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write payloads.

    Attributes:
        name: What rules of tables call its decoder.
        encodings: The names of its encodings, the usual one first.
        suffix: The end of further ones, as `json` of `application/geo+json`.
        read: A payload as plain values, or ValueError; for formats that say what they hold.
        read_layout: The same by a layout, for formats that do not.
        undeclared: Encodings that say nothing: with a layout, their payloads are of this format.
        is_text: Whether payloads are text in UTF-8.
        is_bare: Whether a value is the whole text, or the number that it writes.
        show: A payload as text for people, or ValueError; None: its value as JSON.
        as_json: A payload as JSON for programs, or ValueError; None: its value.
        message_encoding: What it is called in MCAP.
    """

    name: str
    encodings: tuple[str, ...] = ()
    suffix: str = ""
    read: Read | None = None
    read_layout: ReadLayout | None = None
    undeclared: tuple[str, ...] = ()
    is_text: bool = False
    is_bare: bool = False
    show: Callable[[bytes], str] | None = None
    as_json: Callable[[bytes], Json] | None = None
    message_encoding: str = ""

    @property
    def describes_itself(self) -> bool:
        """Whether payloads have values with names, without a layout."""
        return self.read is not None and not self.is_bare

    def json_of(self, payload: bytes, encoding: Encoding) -> Json:
        """The value of a payload for programs, if the format or its encoding describes it.

        Raises:
            ValueError, RecursionError: it is not of this format, or JSON cannot say it.
        """
        if self.as_json is not None:
            return self.as_json(payload)
        if self.read is not None:
            found = self.read(payload)
        else:
            layout = layout_in(encoding)
            assert self.read_layout is not None
            assert layout is not None
            found = self.read_layout(layout, payload)
        value: Json = plain(found)  # type: ignore[assignment]  # it has no bytes
        json_text.check_depth(value)
        return value

    def text_of(self, payload: bytes, encoding: Encoding) -> str:
        """The value of a payload for people; raises as `json_of`."""
        if self.show is not None:
            return self.show(payload)
        return json_text.shown(self.json_of(payload, encoding))


FORMATS: Final = (
    Format(
        "json",
        ("application/json", "text/json"),
        "json",
        read=json_text.read,
        is_text=True,
        show=json_text.notation,
        as_json=json_text.printable_value,
        message_encoding="json",
    ),
    Format(
        "cbor",
        ("application/cbor",),
        "cbor",
        read=cbor_text.read,
        show=cbor_text.notation,
        as_json=cbor_text.json_value,
        message_encoding="cbor",
    ),
    Format(
        "text",
        ("zenoh/string", "text/plain"),
        read=number_text.read,
        is_text=True,
        is_bare=True,
    ),
    Format("serialized", ("zenoh/serialized",), read_layout=read_serialized),
    Format(
        "cdr",
        ("application/cdr",),
        read_layout=read_cdr,
        undeclared=("zenoh/bytes", "application/octet-stream"),  # a type that is known is DDS's
        message_encoding="cdr",
    ),
    # These are columns alone: definitions, or tables, are more than a layout says.
    Format("protobuf", ("application/protobuf",), "proto", message_encoding="protobuf"),
    Format("arrow", ("application/vnd.apache.arrow.stream",)),
    Format("ros2"),
    Format("dds"),
)

DECODERS: Final = {one.name: one for one in FORMATS}
_BY_ENCODING: Final = {name: one for one in FORMATS for name in one.encodings}
_BY_SUFFIX: Final = {one.suffix: one for one in FORMATS if one.suffix}


def format_named(name: str) -> Format | None:
    """The format of an encoding, by its name without a schema; None: its payloads are bytes.

    Example:
        >>> format_named("application/geo+json").name
        'json'
    """
    return _BY_ENCODING.get(name) or _BY_SUFFIX.get(name.rpartition("+")[2])


_BY_ID: Final = {number: format_named(name) for number, name in enumerate(NAMES)}
_READ: Final = {
    number: one.read for number, one in _BY_ID.items() if one is not None and one.read is not None
}
_UNDECLARED: Final = {Encoding(name).id: one for one in FORMATS for name in one.undeclared}


def format_of(encoding: Encoding) -> Format | None:
    """The format of an encoding."""
    if encoding.id == CUSTOM_ID:
        return format_named(str(encoding).partition(";")[0])
    return _BY_ID.get(encoding.id)


def value_of(payload: bytes, encoding: Encoding, layout: Layout | None = None) -> object:
    """The value of a payload; None if its encoding says nothing about it.

    Args:
        payload: Its octets.
        encoding: What they are; its schema may be a layout, as in `application/cdr;{x: f64}`.
        layout: The type of payloads that do not describe themselves.

    Raises:
        ValueError: the payload is not what its encoding or layout says.
        RecursionError: JSON that is too deep.

    Example:
        >>> value_of(b"\\x82\\x01\\xf5", Encoding("application/cbor"))
        [1, True]
    """
    read = _READ.get(encoding.id)  # most payloads say what they hold
    if read is not None:
        return read(payload)
    found = format_of(encoding)
    if found is None and layout is not None:
        found = _UNDECLARED.get(encoding.id)
    if found is None:
        return None
    if found.read is not None:
        return found.read(payload)
    if found.read_layout is None:
        return None
    layout = layout or layout_in(encoding)
    return None if layout is None else found.read_layout(layout, payload)


def layout_in(encoding: Encoding) -> Layout | None:
    """The layout that the schema of an encoding is; None: it is none.

    Raises:
        ValueError: it begins like one, and is none.
    """
    if encoding.schema is None:
        return None
    schema = str(encoding).partition(";")[2]
    return _parsed(schema) if is_layout(schema) else None


def is_layout(schema: str) -> bool:
    """Whether the schema of an encoding is meant to be a layout, and not the name of a type."""
    return schema[:1] in ("{", "[", "(")


@lru_cache(maxsize=_LAYOUTS_COUNT)
def _parsed(text: str) -> Layout:
    try:
        return parse_layout(text)
    except EleaError as error:
        raise ValueError(f"the layout in the encoding: {error}") from None


def is_text(name: str) -> bool:
    """Whether payloads of an encoding, named without a schema, are text as they stand."""
    if name.startswith("text/") or name.endswith("+xml") or name in _TEXTS:
        return True
    found = format_named(name)
    return found is not None and found.is_text


# Texts of which no value is made.
_TEXTS: Final = frozenset(
    {
        *("application/yaml", "application/xml", "application/openmetrics-text"),
        *("application/x-www-form-urlencoded", "application/sql", "application/jsonpath"),
        *("application/jwt", "application/yang"),
    }
)
