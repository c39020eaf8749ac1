"""`dataclass` for classes that every program defines and few use: cheap to define.

The standard one compiles six functions for each class, 0.3 ms; two hundred classes are half of what
`elea put` takes to start. Here a class gets `__init__` when it has more than a few values, and
comparison, order, hash, text and `fields` when they are first asked for. The standard one makes all
of them but `__init__`, and to a type checker it is the standard one.

What this does not know (inheritance, rare options, a `__setattr__` or state of one's own) is left
to the standard one, which is imported when it is first needed: it brings `inspect` and a parser.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_OPERATORS: Final[dict[str, Callable[[Any, Any], object]]] = {
    "__eq__": operator.eq,
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
}
_HAS_REPLACE: Final = sys.version_info[:2] >= (3, 13)  # copy.replace
_COMPARES_EACH: Final = sys.version_info[:2] >= (3, 13)  # `==` of dataclasses: not of tuples
_MISSING: Final = object()
_SET_BY: Final = frozenset({"default", "default_factory", "repr", "hash", "compare"})
_OPTIONS: Final = frozenset({"slots", "frozen", "eq", "kw_only", "order", "init", "repr"})


class _Field:
    """What `field` was called with."""

    __slots__ = ("options",)

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options


def _is_field(value: object) -> bool:
    kind = type(value)
    return kind is _Field or (kind.__module__ == "dataclasses" and kind.__name__ == "Field")


def _option(value: object, name: str) -> object:
    """What a field was given; None: nothing."""
    given = value.options.get(name) if isinstance(value, _Field) else getattr(value, name)
    return given if isinstance(given, bool) else None


def _standard_fields(values: Mapping[str, object]) -> dict[str, Any]:
    """Return values of a class with fields as the standard decorator knows them."""
    import dataclasses

    return {
        name: dataclasses.field(**value.options) if isinstance(value, _Field) else value
        for name, value in values.items()
    }


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
        # `inspect` asks values that can be called, and heirs with an `__init__` of their own, too.
        kind = next(one for one in owner.__mro__ if "__init__" in one.__dict__)
        if instance is not None or kind.__dict__.get("__signature__") is not self:
            raise AttributeError("__signature__")
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
        import dataclasses

        twin = type(cls)(cls.__name__, cls.__bases__, _standard_fields(before))
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

    setter = None
    if options.get("init", True) and "__init__" not in before:
        setter = _Setter.of(cls, names, kw_only=kw_only)
        namespace.update(_late_initialiser(made, setter, standard))
    namespace["__dataclass_fields__"] = _Late("__dataclass_fields__", complete)
    namespace["__dataclass_params__"] = _Late("__dataclass_params__", complete)
    compares_all = _compares_all(before.values())
    namespace.update(_late_methods(before, options, compares_all, names, complete))
    if _HAS_REPLACE:
        namespace["__replace__"] = lambda self, /, **changes: replace(self, **changes)
    new = type(cls)(cls.__name__, cls.__bases__, namespace)
    new.__qualname__ = cls.__qualname__
    made.append(new)
    if setter is not None:
        _SETTERS[new] = setter
    return new


def _compares_all(values: Iterable[object]) -> bool:
    """Whether no field of a class is left out of its comparisons."""
    fields = [value for value in values if _is_field(value)]
    return all(
        isinstance(one, _Field) and one.options.keys().isdisjoint(("compare", "hash"))
        for one in fields
    )


def _comparison(name: str, names: Sequence[str]) -> Callable[..., Any]:
    """Return a comparison, or the hash, as the standard decorator would make it."""
    values: Callable[[object], object]
    if len(names) > 1:
        values = operator.attrgetter(*names)
    else:  # a tuple too: what comes later has the same hash
        values = lambda value: tuple(getattr(value, name) for name in names)  # noqa: E731
    if name == "__hash__":
        return lambda self: hash(values(self))
    compare = _OPERATORS[name]
    is_each = _COMPARES_EACH and name == "__eq__"

    def method(self: object, other: object) -> object:
        if is_each and self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        if is_each:
            return _are_equal(self, other, names)
        return compare(values(self), values(other))

    return method


def _are_equal(value: object, other: object, names: Iterable[str]) -> bool:
    """Compare fields by `==` alone; tuples take the same object for equal, which NaN is not."""
    return all(getattr(value, name) == getattr(other, name) for name in names)


def _late_methods(
    own: Mapping[str, object],
    options: Mapping[str, bool],
    compares_all: bool,
    names: Sequence[str],
    complete: Callable[[], type],
) -> dict[str, object]:
    """Return the methods that the standard decorator would make, but for `__init__`.

    Args:
        own: What the class has itself.
        options: Of the decorator.
        compares_all: Whether all fields are compared.
        names: Of the fields.
        complete: Gives the class what the standard decorator would make, and returns it.
    """

    def late(name: str) -> Callable[..., Any]:
        quick = _comparison(name, names) if compares_all and name != "__repr__" else None
        calls_count = 0

        def method(self: object, *args: object) -> object:
            nonlocal calls_count
            calls_count += 1
            if quick is not None and calls_count <= _FEW:
                return quick(self, *args)
            return complete().__dict__[name](self, *args)

        return method

    made: dict[str, object] = {}
    if options.get("repr", True) and "__repr__" not in own:
        made["__repr__"] = late("__repr__")
    if options.get("eq", True):
        if "__eq__" not in own:
            made["__eq__"] = late("__eq__")
        # As the standard one: equal values that may change have no hash.
        if own.get("__hash__") is None:  # Python sets None beside an `__eq__`
            made["__hash__"] = late("__hash__") if options.get("frozen", False) else None
    if options.get("order", False):
        made.update({name: late(name) for name in _ORDER})
    return made


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
        made_init: Callable[..., None] = standard(eq=False, order=False, repr=False, slots=False)[
            "__init__"
        ]
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
        defaults: The fields in order, with their defaults; `_MISSING`: there is none.
        factories: What makes the defaults of some of them, for each value again.
        has_post: Whether the class has a `__post_init__`.
    """

    __slots__ = ("_defaults", "_factories", "_has_post", "_positional")

    def __init__(
        self,
        positional: tuple[str, ...],
        defaults: dict[str, object],
        factories: dict[str, Callable[[], object]],
        *,
        has_post: bool,
    ) -> None:
        self._positional = positional
        self._defaults = defaults
        self._factories = factories
        self._has_post = has_post

    @classmethod
    def of(cls, kind: type, names: Sequence[str], *, kw_only: bool) -> _Setter | None:
        """Return the setter of a class; None if its fields are more than names and defaults."""
        defaults = {name: kind.__dict__.get(name, _MISSING) for name in names}
        factories: dict[str, Callable[[], object]] = {}
        has_default = False
        for name in names:
            value = defaults[name]
            if isinstance(value, _Field) and value.options.keys() <= _SET_BY:
                if "default_factory" in value.options:
                    factories[name] = value.options["default_factory"]
                value = defaults[name] = value.options.get("default", _MISSING)
            if _is_field(value) or type(value).__hash__ is None:
                return None
            if value is not _MISSING or name in factories:
                has_default = True
            elif has_default and not kw_only:
                return None  # an error, which the standard one tells
        positional = () if kw_only else tuple(defaults)
        has_post = "__post_init__" in kind.__dict__
        return cls(positional, defaults, factories, has_post=has_post)

    def set(self, value: object, args: tuple[object, ...], options: dict[str, object]) -> bool:
        """Set the fields of a new value; False, and nothing is done, if arguments do not fit."""
        given = dict(zip(self._positional, args, strict=False))
        fields = {**self._defaults, **given, **options}
        if (
            len(given) < len(args)
            or not given.keys().isdisjoint(options)
            or len(fields) > len(self._defaults)
            or any(one is _MISSING and name not in self._factories for name, one in fields.items())
        ):
            return False
        for name, make in self._factories.items():
            if fields[name] is _MISSING:
                fields[name] = make()
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


# Values of a class by `_Setter`, and comparisons by `_comparison`; then what is faster is compiled,
# which takes 0.4 ms and more, and of which a start has no need: configurations have 250 keys.
_FEW: Final = 300
_SETTERS: Final[dict[type, _Setter]] = {}


def _field_names(cls: type) -> Iterator[str]:
    for name, text in cls.__annotations__.items():
        if not text.startswith(_CLASS_VARIABLE):
            yield name


def _positional(cls: type, names: Sequence[str], *, kw_only: bool) -> Iterator[str]:
    """The fields that are positional arguments."""
    for name in names:
        default = cls.__dict__.get(name)
        if _is_field(default):
            is_named = _option(default, "kw_only")
            if _option(default, "init") is False or (kw_only if is_named is None else is_named):
                continue
        elif kw_only:
            continue
        yield name


def _refuse_setting(self: object, name: str, value: object) -> None:
    import dataclasses

    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: object, name: str) -> None:
    import dataclasses

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
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    def field(**options):
        """As `dataclasses.field`."""
        return _Field(options)

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`."""

        def made(cls):
            if not options.get("slots") or not options.keys() <= _OPTIONS or not _is_plain(cls):
                import dataclasses

                for name, value in _standard_fields(cls.__dict__).items():
                    if value is not cls.__dict__[name]:
                        setattr(cls, name, value)
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
        import dataclasses

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
