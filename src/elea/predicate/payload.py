"""The fields of a sample: its payload, decoded when somebody asks, its key and its properties.

| root | what |
| --- | --- |
| `key` | the key of the sample |
| `property.NAME` | a property of its resource |
| `value` | the payload as a whole, unless the payload has a member of that name |
| any other name | that member of the payload |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from elea.decode.formats import value_of
from elea.decode.layout import Layout
from elea.decode.paths import Path, follow
from elea.encoding import Encoding

KEY_ROOT: Final = "key"
PROPERTY_ROOT: Final = "property"
VALUE_ROOT: Final = "value"

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
            self._value = value_of(self._payload, self._encoding, self._layout)
        except (ValueError, RecursionError) as error:
            self._value = None
            self.failure = str(error) or type(error).__name__
        return self._value
