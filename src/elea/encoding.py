"""What the octets of a payload are: a number from a table and a free schema (wire.md 2.8)."""

from __future__ import annotations

from typing import ClassVar, Final, Self

from elea.errors import InvalidValueError
from elea.limits import SCHEMA_LEN_MAX
from elea.records import dataclass

CUSTOM_ID: Final = 0xFFFF  # the schema holds the complete text
SCHEMA_SEPARATOR: Final = ";"

# The position is the id on the wire.
NAMES: Final = (
    "zenoh/bytes",
    "zenoh/string",
    "zenoh/serialized",
    "application/octet-stream",
    "text/plain",
    "application/json",
    "text/json",
    "application/cdr",
    "application/cbor",
    "application/yaml",
    "text/yaml",
    "text/json5",
    "application/python-serialized-object",
    "application/protobuf",
    "application/java-serialized-object",
    "application/openmetrics-text",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/bmp",
    "image/webp",
    "application/xml",
    "application/x-www-form-urlencoded",
    "text/html",
    "text/xml",
    "text/css",
    "text/javascript",
    "text/markdown",
    "text/csv",
    "application/sql",
    "application/coap-payload",
    "application/json-patch+json",
    "application/json-seq",
    "application/jsonpath",
    "application/jwt",
    "application/mp4",
    "application/soap+xml",
    "application/yang",
    "audio/aac",
    "audio/flac",
    "audio/mp4",
    "audio/ogg",
    "audio/vorbis",
    "video/h261",
    "video/h263",
    "video/h264",
    "video/h265",
    "video/h266",
    "video/mp4",
    "video/ogg",
    "video/raw",
    "video/vp8",
    "video/vp9",
)
_IDS: Final = {name: number for number, name in enumerate(NAMES)}


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Encoding:
    """How a payload is to be read, like a content type: `name` or `name;schema`.

    Predefined names travel as one or two octets; any other text is legal and travels whole. An
    encoding equals the text that names it.

    Args:
        encoding: the text; none or empty is `zenoh/bytes`.

    Raises:
        InvalidValueError: if what has to travel as schema is longer than 255 octets.

    Example:
        >>> Encoding("text/plain;utf-8") == Encoding.TEXT_PLAIN.with_schema("utf-8")
        True
    """

    id: int
    schema: bytes | None  # octets; UTF-8 by convention only

    ZENOH_BYTES: ClassVar[Encoding]
    ZENOH_STRING: ClassVar[Encoding]
    ZENOH_SERIALIZED: ClassVar[Encoding]
    APPLICATION_OCTET_STREAM: ClassVar[Encoding]
    TEXT_PLAIN: ClassVar[Encoding]
    APPLICATION_JSON: ClassVar[Encoding]
    TEXT_JSON: ClassVar[Encoding]
    APPLICATION_CDR: ClassVar[Encoding]
    APPLICATION_CBOR: ClassVar[Encoding]
    APPLICATION_YAML: ClassVar[Encoding]
    TEXT_YAML: ClassVar[Encoding]
    TEXT_JSON5: ClassVar[Encoding]
    APPLICATION_PYTHON_SERIALIZED_OBJECT: ClassVar[Encoding]
    APPLICATION_PROTOBUF: ClassVar[Encoding]
    APPLICATION_JAVA_SERIALIZED_OBJECT: ClassVar[Encoding]
    APPLICATION_OPENMETRICS_TEXT: ClassVar[Encoding]
    IMAGE_PNG: ClassVar[Encoding]
    IMAGE_JPEG: ClassVar[Encoding]
    IMAGE_GIF: ClassVar[Encoding]
    IMAGE_BMP: ClassVar[Encoding]
    IMAGE_WEBP: ClassVar[Encoding]
    APPLICATION_XML: ClassVar[Encoding]
    APPLICATION_X_WWW_FORM_URLENCODED: ClassVar[Encoding]
    TEXT_HTML: ClassVar[Encoding]
    TEXT_XML: ClassVar[Encoding]
    TEXT_CSS: ClassVar[Encoding]
    TEXT_JAVASCRIPT: ClassVar[Encoding]
    TEXT_MARKDOWN: ClassVar[Encoding]
    TEXT_CSV: ClassVar[Encoding]
    APPLICATION_SQL: ClassVar[Encoding]
    APPLICATION_COAP_PAYLOAD: ClassVar[Encoding]
    APPLICATION_JSON_PATCH_JSON: ClassVar[Encoding]
    APPLICATION_JSON_SEQ: ClassVar[Encoding]
    APPLICATION_JSONPATH: ClassVar[Encoding]
    APPLICATION_JWT: ClassVar[Encoding]
    APPLICATION_MP4: ClassVar[Encoding]
    APPLICATION_SOAP_XML: ClassVar[Encoding]
    APPLICATION_YANG: ClassVar[Encoding]
    AUDIO_AAC: ClassVar[Encoding]
    AUDIO_FLAC: ClassVar[Encoding]
    AUDIO_MP4: ClassVar[Encoding]
    AUDIO_OGG: ClassVar[Encoding]
    AUDIO_VORBIS: ClassVar[Encoding]
    VIDEO_H261: ClassVar[Encoding]
    VIDEO_H263: ClassVar[Encoding]
    VIDEO_H264: ClassVar[Encoding]
    VIDEO_H265: ClassVar[Encoding]
    VIDEO_H266: ClassVar[Encoding]
    VIDEO_MP4: ClassVar[Encoding]
    VIDEO_OGG: ClassVar[Encoding]
    VIDEO_RAW: ClassVar[Encoding]
    VIDEO_VP8: ClassVar[Encoding]
    VIDEO_VP9: ClassVar[Encoding]

    def __init__(self, encoding: str | None = None) -> None:
        if encoding is not None and not isinstance(encoding, str):
            raise TypeError(f"an encoding is named by a text, got {type(encoding).__name__}")
        text = encoding or NAMES[0]
        name, _, schema = text.partition(SCHEMA_SEPARATOR)
        if name in _IDS:
            self._set(_IDS[name], _octets(schema) or None)
        else:
            self._set(CUSTOM_ID, _octets(text))

    @classmethod
    def from_parts(cls, id: int, schema: bytes | None = None) -> Self:
        """The encoding with this id and schema, as they travel; ids outside the table are legal."""
        if not 0 <= id <= 0xFFFF:
            raise InvalidValueError("Encoding", f"ids from 0 to 65535 are legal, got {id}")
        encoding = cls.__new__(cls)
        encoding._set(id, schema)
        return encoding

    def _set(self, id: int, schema: bytes | None) -> None:
        if schema is not None and len(schema) > SCHEMA_LEN_MAX:
            raise InvalidValueError(
                "Encoding",
                f"the schema has {len(schema)} octets, at most {SCHEMA_LEN_MAX} are legal",
            )
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "schema", schema)

    def with_schema(self, /, schema: str) -> Self:
        """The same encoding with this schema instead of any it had."""
        if self.id != CUSTOM_ID or self.schema is None:
            return self.from_parts(self.id, _octets(schema))
        # A name that is not in the table shares the schema field with the schema proper.
        name = self.schema.partition(SCHEMA_SEPARATOR.encode())[0]
        parts = (name, _octets(schema))
        return self.from_parts(CUSTOM_ID, SCHEMA_SEPARATOR.encode().join(filter(None, parts)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            try:
                other = Encoding(other)
            except InvalidValueError:
                return False
        if not isinstance(other, Encoding):
            return NotImplemented
        return self.id == other.id and self.schema == other.schema

    def __hash__(self) -> int:
        return hash(str(self))  # what equals a text hashes like it

    def __str__(self) -> str:
        schema = None if self.schema is None else self.schema.decode(errors="backslashreplace")
        if self.id == CUSTOM_ID and schema is not None:
            return schema
        name = NAMES[self.id] if self.id < len(NAMES) else f"unknown({self.id})"
        return name if schema is None else f"{name}{SCHEMA_SEPARATOR}{schema}"

    def __repr__(self) -> str:
        return f"Encoding({str(self)!a})"


def _octets(schema: str) -> bytes:
    if not isinstance(schema, str):
        raise TypeError(f"a schema is a text, got {type(schema).__name__}")
    try:
        return schema.encode()
    except UnicodeEncodeError as error:
        raise InvalidValueError("Encoding", f"the text is not UTF-8: {error.reason}") from None


for _id, _name in enumerate(NAMES):
    setattr(
        Encoding,
        _name.upper().translate(str.maketrans("/-+", "___")),
        Encoding.from_parts(_id),
    )
