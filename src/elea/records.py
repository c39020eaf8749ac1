"""`dataclass` for classes that every program defines and few use: cheap to define.

The standard one compiles six functions for each class, 0.3 ms; two hundred classes are half of what
`elea put` takes to start. Here a class gets `__init__` when it has more than a few values, and
comparison, hash, text and `fields` when they are first asked for. The standard one makes all of
them, and to a type checker it is the standard one.

What this does not know (inheritance, class variables, methods of one's own that it would make) is
left to the standard one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

_NOT_PLAIN: Final = ("ClassVar", "InitVar", "KW_ONLY")  # annotations of these are no fields
# The fields come last: they tell other threads that the rest is there.
_MADE: Final = (
    *("__replace__", "__repr__", "__eq__", "__hash__"),
    *("__dataclass_params__", "__dataclass_fields__"),
)
_OWN: Final = frozenset(
    {*_MADE, "__init__", "__setattr__", "__delattr__", "__getstate__", "__setstate__"}
    | {"__slots__", "__match_args__", "__signature__"}
)


class _Late:
    """`__dataclass_fields__` and the like, until somebody asks for them."""

    __slots__ = ("_complete", "_name")

    def __init__(self, name: str, complete: Callable[[], type]) -> None:
        self._name = name
        self._complete = complete

    def __get__(self, instance: object, owner: type) -> object:
        return self._complete().__dict__[self._name]


class _Signature:
    """`__signature__`, for `inspect`: that of the `__init__` that the class gets."""

    __slots__ = ("_initialiser",)

    def __init__(self, initialiser: Callable[[], Callable[..., None]]) -> None:
        self._initialiser = initialiser

    def __get__(self, instance: object, owner: type) -> object:
        import inspect  # late: few ask

        found = inspect.signature(self._initialiser())
        return found.replace(parameters=list(found.parameters.values())[1:])


def _make(cls: type, *, frozen: bool, eq: bool, kw_only: bool) -> type:
    names = tuple(cls.__annotations__)
    before = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in ("__dict__", "__weakref__")
    }
    namespace = {name: value for name, value in before.items() if name not in names}
    namespace["__slots__"] = names
    namespace["__match_args__"] = tuple(_positional(cls, kw_only=kw_only))
    if frozen:
        namespace["__setattr__"], namespace["__delattr__"] = _refuse_setting, _refuse_deleting
        namespace["__getstate__"], namespace["__setstate__"] = _state_of(names)
    made: list[type] = []

    def standard(**options: bool) -> dict[str, Any]:
        """What the standard decorator makes of a twin of the class."""
        twin = type(cls)(cls.__name__, cls.__bases__, dict(before))
        twin.__qualname__ = cls.__qualname__
        twin.__doc__ = cls.__doc__ or cls.__name__  # else it would be the signature, which is slow
        decorate: Any = dataclasses.dataclass(frozen=frozen, kw_only=kw_only, **options)
        return dict(decorate(twin).__dict__)

    def initialiser() -> Callable[..., None]:
        """Give the class its `__init__`."""
        made_init: Callable[..., None] = standard(eq=False, repr=False)["__init__"]
        type.__setattr__(made[0], "__init__", made_init)
        return made_init

    def complete() -> type:
        """Give the class the rest."""
        new = made[0]
        if isinstance(new.__dict__["__dataclass_fields__"], _Late):
            found = standard(eq=eq, slots=True)
            for name in _MADE:
                if name in found:
                    setattr(new, name, found[name])
        return new

    setter = _Setter.of(cls, kw_only=kw_only)
    values_count = 0

    def init(self: object, *args: object, **options: object) -> None:
        nonlocal values_count
        values_count += 1
        # What is wrong with arguments is told by the `__init__` of the standard one.
        if setter is None or values_count > _FEW or not setter.set(self, args, options):
            initialiser()(self, *args, **options)

    namespace["__init__"] = init
    namespace["__signature__"] = _Signature(initialiser)
    namespace["__dataclass_fields__"] = _Late("__dataclass_fields__", complete)
    namespace["__dataclass_params__"] = _Late("__dataclass_params__", complete)
    namespace["__repr__"] = lambda self: complete().__dict__["__repr__"](self)
    if eq:
        namespace["__eq__"] = lambda self, other: complete().__dict__["__eq__"](self, other)
        # As the standard one: equal values that may change have no hash.
        namespace["__hash__"] = (
            (lambda self: complete().__dict__["__hash__"](self)) if frozen else None
        )
    if hasattr(dataclasses, "_replace"):  # copy.replace, of newer Pythons
        namespace["__replace__"] = lambda self, /, **changes: dataclasses.replace(self, **changes)
    new = type(cls)(cls.__name__, cls.__bases__, namespace)
    new.__qualname__ = cls.__qualname__
    made.append(new)
    if setter is not None:
        _SETTERS[new] = setter
    return new


class _Setter:
    """Gives the first values of a class their fields; compiling an `__init__` takes 0.3 ms.

    Args:
        positional: The fields that may be given by position.
        defaults: The fields in order, with their defaults; `MISSING`: there is none.
        has_post: Whether the class has a `__post_init__`.
    """

    __slots__ = ("_defaults", "_has_post", "_positional")

    def __init__(
        self, positional: tuple[str, ...], defaults: dict[str, object], *, has_post: bool
    ) -> None:
        self._positional = positional
        self._defaults = defaults
        self._has_post = has_post

    @classmethod
    def of(cls, kind: type, *, kw_only: bool) -> _Setter | None:
        """Return the setter of a class; None if its fields are more than names and defaults."""
        missing = dataclasses.MISSING
        defaults = {name: kind.__dict__.get(name, missing) for name in kind.__annotations__}
        for value in defaults.values():
            if isinstance(value, dataclasses.Field) or type(value).__hash__ is None:
                return None
        positional = () if kw_only else tuple(defaults)
        return cls(positional, defaults, has_post="__post_init__" in kind.__dict__)

    def set(self, value: object, args: tuple[object, ...], options: dict[str, object]) -> bool:
        """Set the fields of a new value; False, and nothing is done, if arguments do not fit."""
        given = dict(zip(self._positional, args, strict=False))
        fields = {**self._defaults, **given, **options}
        if (
            len(given) < len(args)
            or not given.keys().isdisjoint(options)
            or len(fields) > len(self._defaults)
            or any(one is dataclasses.MISSING for one in fields.values())
        ):
            return False
        for name, one in fields.items():
            object.__setattr__(value, name, one)
        if self._has_post:
            value.__post_init__()  # type: ignore[attr-defined]  # it has one
        return True

    def replaced(self, value: object, changes: dict[str, object]) -> object | None:
        """Return a copy with other fields; None if there are no such fields, or more to do."""
        if self._has_post or not self._defaults.keys() >= changes.keys():
            return None
        made: object = object.__new__(type(value))
        for name in self._defaults:
            one = changes[name] if name in changes else getattr(value, name)
            object.__setattr__(made, name, one)
        return made


_FEW: Final = 4  # values of a class by `_Setter`; then its `__init__` is compiled
_SETTERS: Final[dict[type, _Setter]] = {}


def _positional(cls: type, *, kw_only: bool) -> Iterator[str]:
    """The fields that are positional arguments."""
    for name in cls.__annotations__:
        default = cls.__dict__.get(name)
        is_given, is_named = True, kw_only
        if isinstance(default, dataclasses.Field):
            is_given = default.init
            is_named = kw_only if default.kw_only is dataclasses.MISSING else default.kw_only
        if is_given and not is_named:
            yield name


def _refuse_setting(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state_of(names: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[..., None]]:
    """How a value that cannot be set is pickled and copied."""

    def get(self: object) -> list[object]:
        return [getattr(self, name) for name in names]

    def put(self: object, state: list[object]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return get, put


def _is_plain(cls: type) -> bool:
    if any("__dataclass_fields__" in base.__dict__ for base in cls.__mro__):
        return False
    if not _OWN.isdisjoint(cls.__dict__):
        return False
    texts = cls.__annotations__.values()
    return all(
        isinstance(text, str) and not any(word in text for word in _NOT_PLAIN) for text in texts
    )


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def dataclass(cls=None, /, *, slots=False, frozen=False, eq=True, kw_only=False, **rest):
        """As `dataclasses.dataclass`."""

        def made(cls):
            if rest or not slots or not _is_plain(cls):
                options = {"slots": slots, "frozen": frozen, "eq": eq, "kw_only": kw_only, **rest}
                return dataclasses.dataclass(**options)(cls)
            return _make(cls, frozen=frozen, eq=eq, kw_only=kw_only)

        return made if cls is None else made(cls)

    def replace(obj, /, **changes):
        """As `dataclasses.replace`, which asks for all fields, of a class that has them late."""
        cls = type(obj)
        setter = _SETTERS.get(cls)
        copied = None if setter is None else setter.replaced(obj, changes)
        if copied is not None:
            return copied
        if not isinstance(cls.__dict__.get("__dataclass_fields__"), _Late):
            return dataclasses.replace(obj, **changes)
        names = [name for name in cls.__init__.__annotations__ if name != "return"]
        if not names or "args" in names:  # nobody has made one yet
            return dataclasses.replace(obj, **changes)
        return cls(**{**{name: getattr(obj, name) for name in names}, **changes})
