"""The fields of a sample: its payload, decoded when somebody asks, its key and its properties.

| root | what |
| --- | --- |
| `key` | the key of the sample |
| `property.NAME` | a property of its resource |
| `value` | the payload as a whole, unless the payload has a member of that name |
| any other name | that member of the payload |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from elea import cbor
from elea.decode.layout import Layout
from elea.decode.layout_reader import read_cdr, read_serialized
from elea.decode.paths import Path, follow
from elea.encoding import CUSTOM_ID, Encoding

KEY_ROOT: Final = "key"
PROPERTY_ROOT: Final = "property"
VALUE_ROOT: Final = "value"

_NUMBER: Final = re.compile(
    r"\s*(?:([+-]?[0-9]+)|[+-]?(?:[0-9]+|[0-9]*\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*"
)
_NUMBER_LEN_MAX: Final = 512  # a longer text is a text
_UNDECODED: Final = object()


class PayloadFields:
    """What a predicate sees of one sample.

    Args:
        payload: Its octets.
        encoding: What they are: JSON, CBOR, text, CDR, Zenoh's serialization format.
        key: Its key, if `key` is to be a root.
        properties: Those of its resource.
        layout: The type of the payload, which CDR and the serialization format need.

    Example:
        >>> fields = PayloadFields(b'{"temp": 21.5}', Encoding("application/json"), key="lab/t1")
        >>> fields.field(("temp",)), fields.field(("key",)), fields.failure
        (21.5, 'lab/t1', None)
    """

    __slots__ = ("_encoding", "_key", "_layout", "_payload", "_properties", "_value", "failure")

    def __init__(
        self,
        payload: bytes,
        encoding: Encoding,
        *,
        key: str | None = None,
        properties: Mapping[str, object] | None = None,
        layout: Layout | None = None,
    ) -> None:
        self._payload = payload
        self._encoding = encoding
        self._key = key
        self._properties = properties
        self._layout = layout
        self._value: object = _UNDECODED
        self.failure: str | None = None  # why the payload could not be decoded, once it was tried

    def field(self, path: Path) -> object:
        """The value there, or None."""
        root = path[0]
        if root == KEY_ROOT and self._key is not None:
            return self._key if len(path) == 1 else None
        if root == PROPERTY_ROOT and self._properties is not None:
            name = path[1] if len(path) > 1 else None
            return follow(self._properties.get(name), path[2:]) if isinstance(name, str) else None
        value = self._value
        if value is _UNDECODED:
            value = self._decode()
        if root == VALUE_ROOT and not (isinstance(value, dict) and VALUE_ROOT in value):
            return follow(value, path[1:])
        return follow(value, path)

    def _decode(self) -> object:
        try:
            self._value = decode(self._payload, self._encoding, self._layout)
        except (ValueError, RecursionError) as error:
            self._value = None
            self.failure = str(error) or type(error).__name__
        return self._value


def decode(payload: bytes, encoding: Encoding, layout: Layout | None = None) -> object:
    """The value of a payload; None if its encoding says nothing about it.

    Raises:
        ValueError: the payload is not what its encoding or layout says.
        RecursionError: JSON that is too deep.

    Example:
        >>> decode(b"\\x82\\x01\\xf5", Encoding("application/cbor"))
        [1, True]
    """
    if layout is not None and encoding.id in _BY_LAYOUT:
        return _BY_LAYOUT[encoding.id](layout, payload)
    reader = _READERS.get(encoding.id)
    if reader is None and encoding.id == CUSTOM_ID:
        suffix = str(encoding).partition(";")[0].rpartition("+")[2]
        reader = {"json": _json_value, "cbor": _cbor_value}.get(suffix)
    return None if reader is None else reader(payload)


def _text_value(payload: bytes) -> object:
    text = payload.decode()
    match = _NUMBER.fullmatch(text) if len(text) <= _NUMBER_LEN_MAX else None
    if match is None:
        return text
    return int(match[1]) if match[1] else float(text)


def _json_value(payload: bytes) -> object:
    value: object = _JSON.decode(payload.decode())
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _cbor_value(payload: bytes) -> object:
    return _plain(cbor.loads(payload))


def _plain(item: cbor.Item) -> object:
    """An item as plain values; tags are dropped, and what is not a number is missing."""
    match item:
        case cbor.Map():
            found = {
                name: _plain(value) for name, value in item.pairs if isinstance(name, (str, int))
            }
            if len(found) < sum(isinstance(name, (str, int)) for name, _ in item.pairs):
                raise ValueError("a name is in a map twice")
            return found
        case list():
            return [_plain(one) for one in item]
        case cbor.Tagged():
            return _plain(item.value)
        case cbor.Simple():
            return None
        case _:
            return item


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_BY_LAYOUT: Final = {
    Encoding.APPLICATION_CDR.id: read_cdr,
    # Nobody says what these are: a type is DDS's.
    Encoding.ZENOH_BYTES.id: read_cdr,
    Encoding.APPLICATION_OCTET_STREAM.id: read_cdr,
    Encoding.ZENOH_SERIALIZED.id: read_serialized,
}
_READERS: Final[dict[int, Callable[[bytes], object]]] = {
    Encoding.APPLICATION_JSON.id: _json_value,
    Encoding.TEXT_JSON.id: _json_value,
    Encoding.APPLICATION_JSON_PATCH_JSON.id: _json_value,
    Encoding.APPLICATION_CBOR.id: _cbor_value,
    Encoding.ZENOH_STRING.id: _text_value,
    Encoding.TEXT_PLAIN.id: _text_value,
}
