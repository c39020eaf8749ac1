"""`elea.records.dataclass` beside the standard one: the same classes, later."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from dataclasses import field
from typing import ClassVar

import pytest

from elea import records
from elea.limits import DEFAULT_LIMITS


@records.dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    b: str = "x"
    c: tuple[int, ...] = field(default_factory=tuple)


@records.dataclass(slots=True, kw_only=True)
class Changing:
    a: int
    b: list[int] = field(default_factory=list)
    sum: int = field(init=False)

    def __post_init__(self) -> None:
        self.sum = self.a + len(self.b)


@records.dataclass(slots=True, eq=False)
class Unequal:
    a: int
    b: int = field(default=2, repr=False, kw_only=True)


@dataclasses.dataclass(frozen=True, slots=True)
class StandardFrozen:
    a: int
    b: str = "x"
    c: tuple[int, ...] = field(default_factory=tuple)


@records.dataclass(frozen=True, slots=True)
class Nothing:
    """No fields."""


@records.dataclass(frozen=True, slots=True)
class Lone:
    """One field."""

    a: float


def test_values_compare_hash_and_print_as_the_standard_ones() -> None:
    one, other = Frozen(1), Frozen(1, "x", ())
    assert one == other
    assert hash(one) == hash(other)
    assert one != Frozen(2)
    standard: object = StandardFrozen(1)
    assert one != standard
    assert repr(one) == "Frozen(a=1, b='x', c=())"
    assert Frozen.__match_args__ == StandardFrozen.__match_args__
    assert str(inspect.signature(Frozen)) == str(inspect.signature(StandardFrozen))
    assert [one.name for one in dataclasses.fields(Frozen)] == ["a", "b", "c"]
    assert dataclasses.is_dataclass(Frozen)
    assert dataclasses.asdict(one) == {"a": 1, "b": "x", "c": ()}


@pytest.mark.parametrize(
    "value", [Nothing(), Lone(1), Lone(float("nan")), Frozen(1)], ids=lambda one: type(one).__name__
)
def test_a_hash_changed_when_its_method_was_compiled(value: object) -> None:
    """A value with one field was lost in every dict and set after 300 hashes."""
    first = hash(value)
    assert first == hash(tuple(getattr(value, name) for name in records.field_names(type(value))))
    is_equal = value == value
    assert {hash(value) for _ in range(1_000)} == {first}
    assert {value == value for _ in range(1_000)} == {is_equal}


class Heir(Frozen):
    def __init__(self, text: str) -> None:
        super().__init__(len(text))


@records.dataclass(slots=True)
class Callable:
    a: int

    def __call__(self, x: int) -> int:
        return self.a + x


def test_inspect_told_an_heir_and_a_callable_value_the_wrong_signature() -> None:
    """Both have their own, but `inspect` was given that of the initialiser of the class."""
    for _ in range(2):  # the second time with an `__init__` that is compiled
        assert str(inspect.signature(Heir)) == "(text: 'str') -> 'None'"
        assert str(inspect.signature(Callable(1))) == "(x: 'int') -> 'int'"
        assert str(inspect.signature(Callable)) == "(a: 'int') -> None"


def test_equality_changed_when_its_method_was_compiled() -> None:
    """From Python 3.13 on a NaN is not equal to itself, as the standard decorator has it."""

    @records.dataclass(frozen=True, slots=True)
    class Late:
        a: float

    @dataclasses.dataclass(frozen=True, slots=True)
    class Standard:
        a: float

    nan = float("nan")
    assert {Late(nan) == Late(nan) for _ in range(records._FEW + 2)} == {
        Standard(nan) == Standard(nan)
    }


def test_frozen_values_stay_and_travel() -> None:
    value = Frozen(1, c=(2,))
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        value.a = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.a
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == copy.deepcopy(value) == value
    for changed in (records.replace(value, a=3), dataclasses.replace(value, a=3)):
        assert changed == Frozen(3, c=(2,))
    with pytest.raises(TypeError):
        records.replace(value, nothing=3)  # type: ignore[call-arg]


def test_values_that_change_have_no_hash() -> None:
    value = Changing(a=1)
    assert value.sum == 1
    value.a = 5
    assert value != Changing(a=1)
    with pytest.raises(TypeError):
        hash(value)
    with pytest.raises(TypeError):
        Changing(1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        value.nothing = 1  # type: ignore[attr-defined]
    assert Changing(a=1).b is not Changing(a=1).b
    assert pickle.loads(pickle.dumps(value)) == value
    assert records.replace(Changing(a=1), a=2) == Changing(a=2)


def test_values_without_comparison_are_themselves() -> None:
    one = Unequal(1)
    assert one != Unequal(1)
    assert len({one, Unequal(1)}) == 2
    assert repr(one).endswith("Unequal(a=1)")
    with pytest.raises(TypeError):
        Unequal(1, 3)  # type: ignore[call-arg]


def test_what_is_unusual_is_left_to_the_standard_one() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Child(StandardFrozen):
        d: int = 4

    assert Child(1).d == 4
    assert Child(1, "y", (), 5).b == "y"

    @records.dataclass(slots=True, unsafe_hash=True)
    class Hashed:
        a: int

    assert hash(Hashed(1)) == hash(Hashed(1))


@records.dataclass(frozen=True, slots=True, order=True, repr=False)
class Own:
    SOME: ClassVar[Own]
    a: int

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "a", int(text))

    def __repr__(self) -> str:
        return f"own {self.a}"


@records.dataclass(frozen=True, slots=True, eq=False, init=False)
class Compared:
    a: int

    def __init__(self, a: int) -> None:
        object.__setattr__(self, "a", a)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compared) and self.a % 10 == other.a % 10

    def __hash__(self) -> int:
        return self.a % 10


def test_methods_of_ones_own_stay() -> None:
    """Ids, locators, times and encodings were made by the standard one for every program."""
    assert isinstance(Own.__dict__["__dataclass_fields__"], records._Late)
    one, other = Own("1"), Own("2")
    assert repr(one) == "own 1"
    assert one < other <= Own("2")
    assert one != other == Own("2")
    assert {one: 3}[Own("1")] == 3
    assert sorted([other, one]) == [one, other]
    with pytest.raises(TypeError):
        assert one < 1  # type: ignore[operator]  # what is refused
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.a = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one
    assert [each.name for each in dataclasses.fields(Own)] == ["a"]
    assert Own.__match_args__ == ("a",)
    assert str(inspect.signature(Own)) == "(text: 'str') -> 'None'"
    assert isinstance(Compared.__dict__["__dataclass_fields__"], records._Late)
    assert Compared(1) == Compared(11)
    assert len({Compared(1), Compared(11)}) == 1
    assert repr(Compared(1)) == "Compared(a=1)"


@records.dataclass(slots=True)
class Made:
    a: int
    b: list[int] = records.field(default_factory=list)
    c: int | None = records.field(default=None, repr=False)


@records.dataclass(frozen=True, slots=True, order=True)
class Partly:
    a: int
    b: int = records.field(default=0, compare=False)


@records.dataclass
class Plainly:
    a: list[int] = records.field(default_factory=list)


def test_fields_left_out_of_comparisons_stay_left_out() -> None:
    assert Partly(1, 2) == Partly(1, 3)
    assert hash(Partly(1, 2)) == hash(Partly(1, 3))
    assert not Partly(1, 2) < Partly(1, 3)
    assert Plainly().a == []  # without slots it is the standard one's


def test_an_initialiser_is_as_the_standard_one_makes_it() -> None:
    @records.dataclass(slots=True)
    class Named:
        _elea: int
        text: str = "x"

        def __post_init__(self) -> None:
            self.text += "!"

    @records.dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    for number in range(records._FEW + 2):  # the first ones without
        assert Named(number).text == "x!"
        assert Named(number, text="y").text == "y!"
        assert Nothing() == Nothing()
    assert Named.__init__.__qualname__ == f"{Named.__qualname__}.__init__"
    assert Named.__init__.__annotations__ == {"_elea": "int", "text": "str", "return": None}
    for number in range(records._FEW + 2):
        one, other = Made(number), Made(number, b=[1])
        assert (one.b, one.c, other.b) == ([], None, [1])
        assert one.b is not Made(number).b
        assert (one == Made(number)) is (one != other) is True
        assert repr(one) == f"Made(a={number}, b=[])"
    assert [each.repr for each in dataclasses.fields(Made)] == [True, True, False]
    with pytest.raises(TypeError, match=r"Named.__init__\(\) missing 1 required positional"):
        Named()  # type: ignore[call-arg]
    assert records.field_names(Named) == ("_elea", "text")


def _classes() -> list[type]:
    found: dict[type, None] = {}
    for package in (
        "wire",
        "routing",
        "policy",
        "fast",
        "node",
        "config",
        "transport",
        "link",
        "session",
    ):
        root = importlib.import_module(f"elea.{package}")
        for module in pkgutil.walk_packages(root.__path__, f"elea.{package}."):
            names = vars(importlib.import_module(module.name))
            found |= {
                one: None
                for one in names.values()
                if isinstance(one, type) and one.__module__ == module.name
            }
    return [one for one in found if "__dataclass_fields__" in one.__dict__]


def test_every_class_of_the_core_is_as_the_standard_one_makes_it() -> None:
    classes = _classes()
    assert len(classes) > 150
    for cls in classes:
        fields = [one for one in dataclasses.fields(cls) if one.init]
        ordered = tuple(one.name for one in fields if not one.kw_only)
        named = tuple(one.name for one in fields if one.kw_only)
        parameters = inspect.signature(cls).parameters
        assert tuple(parameters) == ordered + named, cls
        assert cls.__dict__["__match_args__"] == ordered, cls
        for one in fields:
            has_default = parameters[one.name].default is not inspect.Parameter.empty
            missing = one.default is one.default_factory is dataclasses.MISSING
            assert has_default is not missing, (cls, one.name)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="argparse imports them, for its colours")
def test_most_classes_are_not_finished_by_a_start() -> None:
    """Half of what `elea put` took to start was the making of functions that it did not call.

    Not one is left to the standard decorator, which brings `inspect` and a parser of Python.
    """
    program = (
        "import sys\n"
        "from elea.cli.main import main\n"
        "main(['put', 'a', 'b', '-m', 'client', '-e', 'tcp/127.0.0.1:1',"
        " '--no-multicast-scouting'])\n"
        "print(*(name for name in ('ast', 'dataclasses', 'inspect') if name in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == []


@records.dataclass(frozen=True, slots=True)
class Plain:
    a: int
    b: str = "x"


@records.dataclass(slots=True, kw_only=True)
class Checked:
    a: int = 1

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a is negative")


def test_the_first_values_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a class with 230 fields, of which a program has one value, that took 5 ms."""

    @records.dataclass(frozen=True, slots=True)
    class Late:
        a: int
        b: str = "x"

    with monkeypatch.context() as patch:
        patch.setattr(dataclasses, "dataclass", None)  # the standard one is not asked
        values = [Late(1), Late(1, b="y"), Late(a=2)]
        changed = records.replace(values[0], a=3)
    assert [(one.a, one.b) for one in (*values, changed)] == [
        (1, "x"),
        (1, "y"),
        (2, "x"),
        (3, "x"),
    ]
    many = [Late(number, "z") for number in range(records._FEW + 2)]
    assert [one.a for one in many] == [*range(records._FEW + 2)]
    assert changed == Late(3)


@pytest.mark.parametrize(
    ("args", "options"),
    [((), {}), ((1, "x", 2), {}), ((1,), {"a": 2}), ((1,), {"c": 3}), ((), {"b": "y"})],
)
def test_wrong_arguments_are_told_as_by_the_standard_one(
    args: tuple[object, ...], options: dict[str, object]
) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        Plain(*args, **options)  # type: ignore[arg-type]  # what is refused


def test_a_copy_of_a_class_with_a_check_completes_nothing() -> None:
    """The limits, 266 of them, were copied for each node and each link: 10 ms each program."""
    limits = records.replace(DEFAULT_LIMITS, arrow_batch_len=DEFAULT_LIMITS.arrow_batch_len)
    assert limits == DEFAULT_LIMITS

    @records.dataclass(frozen=True, slots=True)
    class Late:
        a: int = 1

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("a is negative")

    assert records.replace(Late(), a=2).a == 2
    assert isinstance(Late.__dict__["__dataclass_fields__"], records._Late)


def test_a_check_of_the_class_is_done_for_every_value() -> None:
    assert Checked().a == 1
    for _ in range(6):
        with pytest.raises(ValueError, match="negative"):
            Checked(a=-1)
    with pytest.raises(ValueError, match="negative"):
        records.replace(Checked(a=1), a=-1)
