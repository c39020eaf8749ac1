"""`dataclass` for classes that every program defines and few use: cheap to define.

The standard one compiles six functions for each class, 0.3 ms; two hundred classes are half of what
`elea put` takes to start. Here a class gets `__init__` when it has more than a few values, and
comparison, order, hash, text and `fields` when they are first asked for. The standard one makes all
of them but `__init__`, and to a type checker it is the standard one.

What this does not know (inheritance, rare options, a `__setattr__` or state of one's own) is left
to the standard one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

_CLASS_VARIABLE: Final = "ClassVar["
_NOT_PLAIN: Final = ("ClassVar", "InitVar", "KW_ONLY")  # annotations of these are no fields
_ORDER: Final = ("__lt__", "__le__", "__gt__", "__ge__")
# The fields come last: they tell other threads that the rest is there.
_MADE: Final = (
    *("__replace__", "__repr__", "__eq__", *_ORDER, "__hash__"),
    *("__dataclass_params__", "__dataclass_fields__"),
)
_LEFT: Final = frozenset(  # a class that has one of these itself is left to the standard one
    {*_ORDER, "__replace__", "__dataclass_params__", "__dataclass_fields__"}
    | {"__setattr__", "__delattr__", "__getstate__", "__setstate__"}
    | {"__slots__", "__match_args__", "__signature__"}
)
_OPTIONS: Final = frozenset({"slots", "frozen", "eq", "kw_only", "order", "init", "repr"})


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


def _make(cls: type, options: Mapping[str, bool]) -> type:
    frozen, kw_only = options.get("frozen", False), options.get("kw_only", False)
    names = tuple(_field_names(cls))
    before = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in ("__dict__", "__weakref__")
    }
    namespace = {name: value for name, value in before.items() if name not in names}
    namespace["__slots__"] = names
    namespace["__match_args__"] = tuple(_positional(cls, names, kw_only=kw_only))
    if frozen:
        namespace["__setattr__"], namespace["__delattr__"] = _refuse_setting, _refuse_deleting
        namespace["__getstate__"], namespace["__setstate__"] = _state_of(names)
    made: list[type] = []

    def standard(**others: bool) -> dict[str, Any]:
        """What the standard decorator makes of a twin of the class."""
        twin = type(cls)(cls.__name__, cls.__bases__, dict(before))
        twin.__qualname__ = cls.__qualname__
        twin.__doc__ = cls.__doc__ or cls.__name__  # else it would be the signature, which is slow
        decorate: Any = dataclasses.dataclass(**{**options, **others})
        return dict(decorate(twin).__dict__)

    def complete() -> type:
        """Give the class the rest."""
        new = made[0]
        if isinstance(new.__dict__["__dataclass_fields__"], _Late):
            found = standard()
            for name in _MADE:
                if name in found:
                    setattr(new, name, found[name])
        return new

    def late(name: str) -> Callable[..., Any]:
        """A method that has the class completed, and its own successor called."""
        return lambda self, *args: complete().__dict__[name](self, *args)

    setter = None
    if options.get("init", True) and "__init__" not in before:
        setter = _Setter.of(cls, names, frozen=frozen, kw_only=kw_only)
        namespace.update(_late_initialiser(made, setter, standard))
    namespace["__dataclass_fields__"] = _Late("__dataclass_fields__", complete)
    namespace["__dataclass_params__"] = _Late("__dataclass_params__", complete)
    if options.get("repr", True):
        namespace.setdefault("__repr__", late("__repr__"))
    if options.get("eq", True):
        namespace.setdefault("__eq__", late("__eq__"))
        # As the standard one: equal values that may change have no hash.
        if namespace.get("__hash__") is None:  # Python sets None beside an `__eq__`
            namespace["__hash__"] = late("__hash__") if frozen else None
    if options.get("order", False):
        namespace.update({name: late(name) for name in _ORDER})
    if hasattr(dataclasses, "_replace"):  # copy.replace, of newer Pythons
        namespace["__replace__"] = lambda self, /, **changes: dataclasses.replace(self, **changes)
    new = type(cls)(cls.__name__, cls.__bases__, namespace)
    new.__qualname__ = cls.__qualname__
    made.append(new)
    if setter is not None:
        _SETTERS[new] = setter
    return new


def _late_initialiser(
    made: Sequence[type], setter: _Setter | None, standard: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """Return `__init__` and `__signature__` of a class that is about to be made.

    Args:
        made: The class, once it is.
        setter: Of the class.
        standard: Tells what the standard decorator makes of the class, without some of it.
    """
    values_count = 0

    def initialiser() -> Callable[..., None]:
        """Give the class its `__init__`."""
        new = made[0]
        made_init: Callable[..., None] = (
            standard(eq=False, order=False, repr=False, slots=False)["__init__"]
            if setter is None
            else setter.compiled(new)
        )
        type.__setattr__(new, "__init__", made_init)
        return made_init

    def init(self: object, *args: object, **options: object) -> None:
        nonlocal values_count
        values_count += 1
        # What is wrong with arguments is told by the `__init__` that is compiled.
        if setter is None or values_count > _FEW or not setter.set(self, args, options):
            initialiser()(self, *args, **options)

    return {"__init__": init, "__signature__": _Signature(initialiser)}


class _Setter:
    """Gives values of a class their fields, the first ones without an `__init__` of their own.

    Args:
        positional: The fields that may be given by position.
        defaults: The fields in order, with their defaults; `MISSING`: there is none.
        is_frozen: Whether fields cannot be set.
        has_post: Whether the class has a `__post_init__`.
    """

    __slots__ = ("_defaults", "_has_post", "_is_frozen", "_positional")

    def __init__(
        self,
        positional: tuple[str, ...],
        defaults: dict[str, object],
        *,
        is_frozen: bool,
        has_post: bool,
    ) -> None:
        self._positional = positional
        self._defaults = defaults
        self._is_frozen = is_frozen
        self._has_post = has_post

    @classmethod
    def of(cls, kind: type, names: Sequence[str], *, frozen: bool, kw_only: bool) -> _Setter | None:
        """Return the setter of a class; None if its fields are more than names and defaults."""
        missing = dataclasses.MISSING
        defaults = {name: kind.__dict__.get(name, missing) for name in names}
        has_default = False
        for value in defaults.values():
            if isinstance(value, dataclasses.Field) or type(value).__hash__ is None:
                return None
            if has_default and value is missing and not kw_only:
                return None  # an error, which the standard one tells
            has_default = has_default or value is not missing
        positional = () if kw_only else tuple(defaults)
        has_post = "__post_init__" in kind.__dict__
        return cls(positional, defaults, is_frozen=frozen, has_post=has_post)

    def compiled(self, kind: type) -> Callable[..., None]:
        """Return the `__init__` that the standard decorator would make, in a third of its time."""
        parameters = [
            name if default is dataclasses.MISSING else f"{name}=_defaults[{name!r}]"
            for name, default in self._defaults.items()
        ]
        star = () if self._positional or not parameters else ("*",)
        form = " _elea_set(self, {0!r}, {0})\n" if self._is_frozen else " self.{0} = {0}\n"
        body = "".join(form.format(name) for name in self._defaults)
        post = " self.__post_init__()\n" if self._has_post else " return None\n"
        head = f"def __init__({', '.join(('self', *star, *parameters))}):\n"
        namespace: dict[str, Any] = {"_elea_set": object.__setattr__, "_defaults": self._defaults}
        exec(head + body + post, namespace)  # noqa: S102  # of names alone, as the standard one
        made: Callable[..., None] = namespace["__init__"]
        made.__qualname__ = f"{kind.__qualname__}.__init__"
        made.__module__ = kind.__module__
        types = {name: kind.__annotations__[name] for name in self._defaults}
        made.__annotations__ = {**types, "return": None}
        return made

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
        """Return a copy with other fields; None if there are no such fields."""
        if not self._defaults.keys() >= changes.keys():
            return None
        made: object = object.__new__(type(value))
        for name in self._defaults:
            one = changes[name] if name in changes else getattr(value, name)
            object.__setattr__(made, name, one)
        if self._has_post:
            made.__post_init__()  # type: ignore[attr-defined]  # it has one
        return made


_FEW: Final = 4  # values of a class by `_Setter`; then its `__init__` is compiled
_SETTERS: Final[dict[type, _Setter]] = {}


def _field_names(cls: type) -> Iterator[str]:
    for name, text in cls.__annotations__.items():
        if not text.startswith(_CLASS_VARIABLE):
            yield name


def _positional(cls: type, names: Sequence[str], *, kw_only: bool) -> Iterator[str]:
    """The fields that are positional arguments."""
    for name in names:
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
    if not _LEFT.isdisjoint(cls.__dict__):
        return False
    texts = cls.__annotations__.values()
    return all(isinstance(text, str) for text in texts) and not any(
        word in text
        for text in texts
        if not text.startswith(_CLASS_VARIABLE)
        for word in _NOT_PLAIN
    )


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`."""

        def made(cls):
            if not options.get("slots") or not options.keys() <= _OPTIONS or not _is_plain(cls):
                return dataclasses.dataclass(**options)(cls)
            return _make(cls, options)

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


def field_names(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of a class with slots; `dataclasses.fields` completes it."""
    names: tuple[str, ...] = cls.__dict__["__slots__"]
    return names
