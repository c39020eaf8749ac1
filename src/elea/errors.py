"""Every exception Elea raises, as one hierarchy.

    EleaError                          public alias ZError, the name zenoh-python users catch
    ├── KeyExprError (ValueError)      .text .offset .reason
    ├── ConfigError (ValueError)       .path .reason
    ├── SelectorError (ValueError)     .text .offset .reason   parameters and time ranges
    ├── LocatorError (ValueError)      .text .offset .reason
    ├── PredicateError (ValueError)    .text .offset .reason
    │   └── UnsupportedPredicateError  another language, or a function nobody registered
    ├── SchemaError (ValueError)       .line .column .reason   definitions of messages
    ├── InvalidValueError (ValueError) .kind .reason           an id, encoding, time or QoS octet
    ├── ZDeserializeError (ValueError) .reason .offset         octets that are no serialized value
    ├── ProtocolError                  never raised itself;    .close_reason
    │   ├── DecodeError                bytes are no message;   .offset .reason
    │   │   └── ShortError             bytes end inside one; more of them may complete it
    │   ├── RemoteProtocolError        legal bytes, illegal now
    │   └── LocalProtocolError         our caller asked for an illegal step
    ├── LimitError                     a bound of limits.py was hit; .limit .value .bound
    ├── MissingDependencyError         an optional extra is not installed; .extra
    ├── LinkError (ConnectionError)    connect, read or write failed
    ├── ClosedError                    used after close;       .reason
    ├── UnknownTypeError               no definition of a ROS type; .name .hash .reason
    ├── ServiceError                   a ROS service replied with an error
    │   ├── NoServerError              there is no server
    │   └── ServiceTimeoutError        (TimeoutError) there is one, and it did not reply in time
    └── StoreError
        ├── CorruptLogError            .segment .offset
        ├── OffsetError                .shard .offset .first .end
        ├── ConflictError              .shard .first .end .held   a table has other rows already
        ├── ExchangeError              .where .reason          a file that is exported or imported
        ├── NotStoredError             .key .recorder .reason .detail   an acknowledged put
        ├── NotRecordedError           .key                             was refused; nobody records
        └── AckTimeoutError            .key .timeout_s   (TimeoutError) it; nobody answered

A peer's fault is a ProtocolError and costs that peer its link; a caller's fault raises where the
call was made. A bound that hostile bytes run into while they are decoded is a DecodeError, so that
the codec has exactly one way to say no.
"""

from __future__ import annotations

CLOSE_GENERIC = 0x00
CLOSE_INVALID = 0x02


class EleaError(Exception):
    """Base of everything Elea raises on purpose."""


ZError = EleaError


class _TextError(EleaError, ValueError):
    """A text that does not follow its grammar: what it was, where it fails and why."""

    kind = "text"

    def __init__(self, text: str, offset: int, reason: str) -> None:
        super().__init__(text, offset, reason)
        self.text = text
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return f"{self.kind} {shown!a} is refused at offset {self.offset}: {self.reason}"


class KeyExprError(_TextError):
    """A string that is no key expression."""

    kind = "key expression"


class SelectorError(_TextError):
    """A selector, its parameters or its time range do not parse."""

    kind = "selector"


class LocatorError(_TextError):
    """A string that is no locator or endpoint."""

    kind = "locator"


class PredicateError(_TextError):
    """A predicate, projection or layout does not parse, or does not fit the type of the data."""

    kind = "predicate"


class UnsupportedPredicateError(PredicateError):
    """A predicate that asks for what is not here: another language, an unknown function."""


class SchemaError(EleaError, ValueError):
    """Definitions of messages that do not parse, or contradict themselves."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(line, column, reason)
        self.line = line
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.reason}"


class InvalidValueError(EleaError, ValueError):
    """A value outside its type: an identifier, an encoding, a timestamp, a QoS octet."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason

    def __str__(self) -> str:
        return f"no {self.kind}: {self.reason}"


class ZDeserializeError(EleaError, ValueError):
    """Octets that are no value of the type that was asked for."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason, offset)
        self.reason = reason
        self.offset = offset

    def __str__(self) -> str:
        return f"at byte {self.offset}: {self.reason}"


class ConfigError(EleaError, ValueError):
    """A configuration that cannot be used; `path` names the key, as `scouting/multicast/ttl`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class ProtocolError(EleaError):
    """The conversation with a peer broke its rules; `close_reason` is what CLOSE will say."""

    close_reason = CLOSE_GENERIC


class DecodeError(ProtocolError):
    """Bytes that are no message. `offset` is where the decoder stopped, from the batch's start."""

    close_reason = CLOSE_INVALID

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason, offset)
        self.reason = reason
        self.offset = offset

    def __str__(self) -> str:
        return f"at byte {self.offset}: {self.reason}"


class ShortError(DecodeError):
    """Bytes that end inside a message of XRCE. On a stream without frames more may follow."""


class RemoteProtocolError(ProtocolError):
    """The peer sent legal bytes at a moment when they are illegal."""

    close_reason = CLOSE_INVALID


class LocalProtocolError(ProtocolError):
    """Our own caller asked for a step the protocol forbids."""


class LimitError(EleaError):
    """A bound of `elea.limits` was hit."""

    def __init__(self, limit: str, value: int, bound: int) -> None:
        super().__init__(limit, value, bound)
        self.limit = limit
        self.value = value
        self.bound = bound

    def __str__(self) -> str:
        return f"{self.limit} allows {self.bound}, got {self.value}"


class MissingDependencyError(EleaError):
    """A feature needs an optional package; `extra` is what to install it with."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(feature, extra)
        self.feature = feature
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.feature} needs an optional package: pip install 'elea[{self.extra}]'"


class LinkError(EleaError, ConnectionError):
    """Connecting, reading or writing failed."""


class DeadlockError(EleaError):
    """A simulated program waits for what does not come: an hour of virtual time has passed."""


class ClosedError(EleaError):
    """Something was used after it was closed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownTypeError(EleaError):
    """No definition of a ROS type is known, or only one with another hash."""

    def __init__(self, name: str, hash: str, reason: str) -> None:
        super().__init__(name, hash, reason)
        self.name = name
        self.hash = hash
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class ServiceError(EleaError):
    """A call of a ROS service that failed: no server, no reply in time, or an error reply."""


class NoServerError(ServiceError):
    """There is no server of that ROS service."""


class ServiceTimeoutError(ServiceError, TimeoutError):
    """There is a server of that ROS service, and it did not reply in time."""


class StoreError(EleaError):
    """The durable log or a storage failed."""


class CorruptLogError(StoreError):
    """A log segment whose bytes do not match their checksum."""

    def __init__(self, segment: str, offset: int) -> None:
        super().__init__(segment, offset)
        self.segment = segment
        self.offset = offset

    def __str__(self) -> str:
        return f"log segment {self.segment} is corrupt at offset {self.offset}"


class OffsetError(StoreError):
    """Rows of a log were asked for that are not there: trimmed already, or not written yet."""

    def __init__(self, shard: int, offset: int, first: int, end: int) -> None:
        super().__init__(shard, offset, first, end)
        self.shard = shard
        self.offset = offset
        self.first = first
        self.end = end

    def __str__(self) -> str:
        why = "was trimmed" if self.offset < self.first else "is not written yet"
        return (
            f"row {self.offset} of shard {self.shard} {why}; the log has rows {self.first} to"
            f" {self.end - 1}" + (", which is none" if self.first == self.end else "")
        )


class ExchangeError(StoreError):
    """A file cannot be written or read as what it is said to be; `where` is the place in it."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class NotStoredError(StoreError):
    """An acknowledged put was refused. `recorder` says where the recorder is, or "spool".

    `reason` is what the recorder says: "full", "closed", "busy" or "invalid"; of a spool it is
    "full" or "broken". The sample is not stored by this recorder.
    """

    def __init__(self, key: str, recorder: str, reason: str, detail: str) -> None:
        super().__init__(key, recorder, reason, detail)
        self.key = key
        self.recorder = recorder
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        why = f": {self.detail}" if self.detail else ""
        return f"{self.recorder} does not store {self.key!a}, it is {self.reason}{why}"


class NotRecordedError(StoreError):
    """Nobody records the key of an acknowledged put. The sample was published all the same."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return (
            f"nobody records {self.key!a}; start a recorder for it, or declare a spool that keeps"
            " what is put until there is one"
        )


class AckTimeoutError(StoreError, TimeoutError):
    """No recorder said in time that a sample is stored. It may be stored, or not."""

    def __init__(self, key: str, timeout_s: float) -> None:
        super().__init__(key, timeout_s)
        self.key = key
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return (
            f"no recorder said within {self.timeout_s:g} s that {self.key!a} is stored; it may be"
            " or not: put it again with the same source_info and it is stored once"
        )


class ConflictError(StoreError):
    """Rows for a table that do not follow those it has: somebody else wrote, or some are lost."""

    def __init__(self, shard: int, first: int, end: int, held: int) -> None:
        super().__init__(shard, first, end, held)
        self.shard = shard
        self.first = first
        self.end = end
        self.held = held

    def __str__(self) -> str:
        return (
            f"rows {self.first} to {self.end - 1} of shard {self.shard} do not follow the table,"
            f" which has the rows before {self.held}: another one writes as this consumer, or the"
            " checkpoint is of another time; stop the other one, and go on with a new checkpoint"
        )
