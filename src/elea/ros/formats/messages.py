"""Messages as Python values: a dataclass per type (R2-602), and what callers pass (R2-606)."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Callable, Mapping
from dataclasses import field, fields, make_dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from elea.ros.formats.attachment import parse_attachment
from elea.ros.formats.cdr import CODES, misfit
from elea.ros.formats.definitions import Definition, Field, Repeat
from elea.ros.formats.numbers import as_list, is_numbers, zeros

if TYPE_CHECKING:
    from elea.ros.formats.library import MessageType

_TIME: Final = "builtin_interfaces/msg/Time"
_HEADER: Final = "std_msgs/msg/Header"


class MessageInfo(NamedTuple):
    """What came with a message.

    Attributes:
        topic: The fully qualified name.
        source_time: Nanoseconds since 1970, at the publisher; None: not told.
        sequence_number: Of the publisher, from 1; None: not told.
        gid: Of the publisher; None: not told.
        node: The publisher's fully qualified name; None: its token is not known.
        lost: Messages of this publisher between the one before and this one.
    """

    topic: str
    type: str
    hash: str
    source_time: int | None = None
    sequence_number: int | None = None
    gid: bytes | None = None
    node: str | None = None
    lost: int = 0


class Origin(Protocol):
    """What the key of a message says."""

    topic: str
    type: str
    hash: str


class _Read(tuple[Any, ...]):
    """What a message keeps of its arrival, once a member was read."""

    __slots__ = ()


class Message:
    """The base of all messages; members are attributes, constants are those of the class.

    A message that was received has `_received`: its payload, and its `MessageInfo` or what that is
    made of. Its members may be unset until they are read: the first alone, if it can be, and with
    the second all that are left. The payload is known to be legal; members that were assigned
    before stay as they are.
    """

    __slots__ = ("_received",)

    _type: Any = None
    _received: tuple[Any, ...]

    @property
    def info(self) -> MessageInfo | None:
        """What came with it; of a type with a member `info`, see `info_of`."""
        return info_of(self)

    def __getattr__(self, name: str) -> Any:
        """A member that is not set yet."""
        kind: MessageType = self._type
        if name not in kind.attributes:
            raise AttributeError(f"{kind.name} has no member {name!a}")
        try:
            received = object.__getattribute__(self, "_received")
        except AttributeError:
            raise AttributeError(f"{name} of {kind.name} is not set") from None
        if type(received) is tuple:  # the first member that is read: often the only one
            self._received = _Read(received)
            try:
                value = kind.member(received[0], name)
            except LookupError:
                pass
            else:
                setattr(self, name, value)
                return value
        decoded = kind.decode(received[0])
        for member in kind.attributes:
            try:
                object.__getattribute__(self, member)
            except AttributeError:
                setattr(self, member, object.__getattribute__(decoded, member))
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        if self._type.name != other._type.name or self._type.hash != other._type.hash:
            return False
        return all(
            _equal(getattr(self, one.name), getattr(other, one.name))
            for one in fields(self)  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]  # members may change

    def __reduce__(self) -> tuple[Any, ...]:
        kind: MessageType = self._type
        members = [_kept(getattr(self, one.name)) for one in fields(self)]  # type: ignore[arg-type]
        return _restored, (kind.name, kind.text, members)


def info_of(message: object) -> MessageInfo | None:
    """What came with a message that was received."""
    try:
        payload, told, *rest = object.__getattribute__(message, "_received")
    except AttributeError:
        return None
    if isinstance(told, MessageInfo):
        return told
    info = info_from(told, *rest)
    assert isinstance(message, Message)
    kind = type(object.__getattribute__(message, "_received"))
    message._received = kind((payload, info))
    return info


def info_from(key: Origin, attachment: bytes, node: str | None, lost: int) -> MessageInfo:
    """What came with a message.

    Args:
        attachment: One of rmw_zenoh's, or nothing.
    """
    attached = parse_attachment(attachment)
    if attached is None:
        return MessageInfo(key.topic, key.type, key.hash)
    return MessageInfo(
        key.topic,
        key.type,
        key.hash,
        attached.source_time_ns,
        attached.sequence_number,
        attached.gid,
        node,
        lost,
    )


def attribute(name: str) -> str:
    """The name of a member in Python: a keyword gets a `_` behind it."""
    return f"{name}_" if keyword.iskeyword(name) else name


def message_class(kind: MessageType, class_of: Callable[[str], type[Message]]) -> type[Message]:
    """The class of a type; `class_of` gives those of the types it uses."""
    definition = kind.definition
    namespace: dict[str, Any] = {one.name: one.value for one in definition.constants}
    namespace["_type"] = kind
    namespace["__doc__"] = f"{kind.name} {kind.hash}"
    members = [(attribute(one.name), Any, _default(one, class_of)) for one in definition.fields]
    made = make_dataclass(
        definition.name.rpartition("/")[2],
        members,
        bases=(Message,),
        namespace=namespace,
        eq=False,
        slots=True,
    )
    made.__module__ = f"elea.ros.types.{definition.name.replace('/', '.')}"
    return made


def _default(one: Field, class_of: Callable[[str], type[Message]]) -> Any:
    made = default_of(one, class_of)
    try:
        hash(made())
    except TypeError:
        return field(default_factory=made)
    return field(default=made())


def default_of(one: Field, class_of: Callable[[str], type[Message]]) -> Callable[[], Any]:
    """Makes the value of a member that nobody gave."""
    type = one.type
    code, _ = CODES.get(type.base, ("", 0))
    if one.default is not None:
        default = one.default
        if isinstance(default, list):
            if not code:
                return lambda: list(default)
            return lambda: _filled(code, default)
        return lambda: default
    if type.repeat in (Repeat.BOUNDED, Repeat.UNBOUNDED):
        return (lambda: zeros(0, code)) if code else list
    item: Callable[[], Any]
    if type.is_nested:
        item = class_of(type.base)
    elif code:
        if type.repeat is Repeat.ARRAY:
            return lambda: zeros(type.count, code)
        item = {"?": bool, "f": float, "d": float}.get(code, int)
    else:
        item = str
    if type.repeat is Repeat.ARRAY:
        return lambda: [item() for _ in range(type.count)]
    return item


def _filled(code: str, items: list[Any]) -> Any:
    made = zeros(len(items), code)
    for place, item in enumerate(items):
        made[place] = item
    return made


class Members:
    """The members of what callers pass as messages: objects of our classes, or mappings."""

    def __init__(
        self, definitions: Mapping[str, Definition], class_of: Callable[[str], type[Message]]
    ) -> None:
        self._definitions = definitions
        self._class_of = class_of

    def __call__(self, value: object, name: str, path: str) -> list[object]:
        """The values of the members of a type, in their order; those not given are defaults.

        Raises:
            ValueError: it is none, or has a member that the type has not.
        """
        definition = self._definitions[name]
        if isinstance(value, Message) or hasattr(value, "__dataclass_fields__"):
            return [self._attribute(value, one, path) for one in definition.fields]
        if not isinstance(value, Mapping):
            raise misfit(path, f"a mapping or a message of {name}", value)
        known = {one.name for one in definition.fields}
        for given in value:
            if given not in known and attribute(str(given)) not in known:
                near = difflib.get_close_matches(str(given), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(known))}"
                where = f"{path}." if path else ""
                raise ValueError(f"{where}{given}: {name} has no such member; {hint}")
        return [
            value[one.name] if one.name in value else default_of(one, self._class_of)()
            for one in definition.fields
        ]

    def _attribute(self, value: object, one: Field, path: str) -> object:
        try:
            return getattr(value, attribute(one.name))
        except AttributeError:
            raise misfit(f"{path}.{one.name}" if path else one.name, "a value", None) from None


def plain(message: object) -> Any:
    """A message as plain Python values: dicts, lists, numbers and texts."""
    if isinstance(message, Message):
        definition: Definition = message._type.definition
        return {one.name: plain(getattr(message, attribute(one.name))) for one in definition.fields}
    if is_numbers(message):
        return as_list(message)
    if isinstance(message, (list, tuple)):
        return [plain(item) for item in message]
    return message


def object_of(value: Any, kind: MessageType, class_of: Callable[[str], type[Message]]) -> Message:
    """A message of plain values, as another reader gives them."""
    made = class_of(kind.name)()
    _fill(made, value, kind.definition, class_of)
    return made


def _fill(
    made: Message,
    value: Any,
    definition: Definition,
    class_of: Callable[[str], type[Message]],
) -> None:
    for one in definition.fields:
        if one.name not in value:
            continue
        given = value[one.name]
        if one.type.is_nested:
            items = given if one.type.repeat is not Repeat.ONE else [given]
            objects = []
            for item in items:
                inner = class_of(one.type.base)()
                _fill(inner, item, inner._type.definition, class_of)
                objects.append(inner)
            given = objects if one.type.repeat is not Repeat.ONE else objects[0]
        elif one.type.repeat is not Repeat.ONE and one.type.base in CODES:
            given = _filled(CODES[one.type.base][0], list(given))
        setattr(made, attribute(one.name), given)


def _equal(a: Any, b: Any) -> bool:
    if is_numbers(a) or is_numbers(b):
        return bool(list(a) == list(b))
    return bool(a == b)


def _kept(value: Any) -> Any:
    if isinstance(value, memoryview):
        return value.tolist()
    return value


def _restored(name: str, text: str, members: list[Any]) -> Message:
    return _restorer(name, text).cls(*members)


@lru_cache(maxsize=256)
def _restorer(name: str, text: str) -> MessageType:
    from elea.ros.formats.library import Library  # late: it needs this module

    return Library.of_text(text, name).message(name)
