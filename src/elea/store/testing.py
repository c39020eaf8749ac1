"""The laws that a backend keeps, for those who write one. Each is a function that may fail.

    import pytest
    from elea.store import testing

    @pytest.mark.parametrize("law", testing.LAWS, ids=lambda law: law.__name__)
    def test_my_backend(law, tmp_path):
        law(lambda: MyBackend(tmp_path / "values"))

The function that is given opens the backend: empty the first time, and later with what it had when
it was closed, unless the backend is `volatile`. It is never opened twice at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from elea.encoding import Encoding
from elea.ids import ZenohId
from elea.store.backend import Backend, KeepsHistory, KeepsMarks, Mark, Stored
from elea.timestamp import NTP64, Timestamp

Open: TypeAlias = Callable[[], Backend]
Law: TypeAlias = Callable[[Open], None]

# Keys that are legal in Zenoh and a trap elsewhere: paths, quotes, controls, wildcards of others.
NASTY_KEYS: Final = (
    *("..", "../..", "../../etc/passwd", "a/../b", "a/..", ".", "./a", "a/.", "...", ".hidden"),
    *("con", "NUL", "a.value", "a=", "a=/b", "=", "a/=", "%2E%2E", "%", "%marks/x", "%hashed/x"),
    *(".new", ".lock", "a/.new", "~", "~root", "-rf", "a b", " a", "a ", "a\tb", "a\nb", "a\rb"),
    *("a\x00b", "\x7f", "\x1b[31mred", "'; DROP TABLE samples; --", '"', "`id`", "$(id)", "a\\b"),
    *(
        "C:",
        "C:\\x",
        "\\\\host\\share",
        "A",
        "a",
        "é",
        "e\u0301",
        "\u202egnp",
        "日本",
        "😀",
        "\ufeff",
    ),
    *("@", "@a/b", "a:b", "a;b", "a|b", "a&b", "<a>", "[a]", "{a}", "(a)", "a,b", "a!b", "a~"),
    *(
        "x" * 255,
        "x" * 1_000,
        "é" * 500,
        "/".join("d" * 60),
        "/".join(["long" * 15] * 16),
        "0",
        "00",
    ),
)


def at(seconds: int, source: int = 0x33) -> Timestamp:
    """A timestamp to try things with."""
    return Timestamp(NTP64(1_700_000_000 + seconds, 0), ZenohId(bytes([source])))


def value(text: str, seconds: int) -> Stored:
    """A value to try things with."""
    return Stored(text.encode(), at(seconds))


def nothing_is_there_at_first(open: Open) -> None:
    """An empty backend has no keys and no values."""
    backend = open()
    assert list(backend.entries()) == []
    assert backend.get("a") is None
    backend.delete("a", at(1))
    backend.flush()
    backend.close()


def a_value_comes_back_whole(open: Open) -> None:
    """Payload, encoding, timestamp and attachment; none, empty and binary ones too."""
    backend = open()
    values = {
        "empty": Stored(b"", at(1)),
        "octets": Stored(bytes(range(256)) * 5, at(2, 0x44), Encoding.from_parts(777, b"\xff\x00")),
        "json": Stored(b'{"a": 1}\n', at(3), Encoding("application/json;v=1"), b""),
        "own": Stored(b"x", at(4), Encoding("my/own;schema"), b"line\nline\x00"),
        "large": Stored(bytes(300_000), at(5), attachment=bytes(100_000)),
        "exact": Stored(b"", Timestamp(NTP64.from_value((1 << 64) - 1), ZenohId(b"\x01" * 16))),
    }
    for key, one in values.items():
        backend.put(key, one)
    for _ in range(2):
        for key, one in values.items():
            assert backend.get(key) == one, key
        assert dict(backend.entries()) == {key: one.timestamp for key, one in values.items()}
        backend.flush()
    backend.close()


def the_newest_is_what_is_got(open: Open) -> None:
    """A second put replaces the value, before and after a flush."""
    backend = open()
    for turn in range(4):
        backend.put("a", value(str(turn), turn))
        assert backend.get("a") == value(str(turn), turn)
        if turn % 2:
            backend.flush()
    assert list(backend.entries()) == [("a", at(3))]
    backend.close()


def what_is_deleted_is_gone(open: Open) -> None:
    """And only that; a key can come back."""
    backend = open()
    for key in ("a", "a/b", "a/b/c", "b"):
        backend.put(key, value(key, 1))
    backend.flush()
    backend.delete("a/b", at(2))
    assert backend.get("a/b") is None
    backend.flush()
    assert sorted(key for key, _ in backend.entries()) == ["a", "a/b/c", "b"]
    backend.put("a/b", value("again", 3))
    backend.delete("b", at(3))
    backend.flush()
    assert sorted(key for key, _ in backend.entries()) == ["a", "a/b", "a/b/c"]
    assert backend.get("a/b") == value("again", 3)
    backend.close()


def the_prefix_itself_is_a_key(open: Open) -> None:
    """The empty key is what a storage calls its `strip_prefix`."""
    backend = open()
    backend.put("", value("root", 1))
    backend.put("a", value("a", 1))
    backend.flush()
    assert backend.get("") == value("root", 1)
    assert sorted(key for key, _ in backend.entries()) == ["", "a"]
    backend.delete("", at(2))
    backend.flush()
    assert backend.get("") is None
    backend.close()


def any_key_is_just_a_key(open: Open) -> None:
    """Whatever it looks like to a shell, a file system or a database."""
    backend = open()
    for number, key in enumerate(NASTY_KEYS):
        backend.put(key, value(key[:9], number))
    backend.flush()
    for number, key in enumerate(NASTY_KEYS):
        assert backend.get(key) == value(key[:9], number), ascii(key)
    assert sorted(key for key, _ in backend.entries()) == sorted(NASTY_KEYS)
    for key in NASTY_KEYS[::2]:
        backend.delete(key, at(1_000))
    backend.flush()
    assert sorted(key for key, _ in backend.entries()) == sorted(NASTY_KEYS[1::2])
    backend.close()


def history_is_kept_in_order(open: Open) -> None:
    """Where a backend keeps history: all values, by time, until they are deleted."""
    backend = open()
    if isinstance(backend, KeepsHistory):
        for seconds in (2, 5, 1, 4, 3, 4):
            backend.put("a", value(str(seconds), seconds))
        backend.put("b", value("b", 9))
        backend.flush()
        assert backend.get("a") == value("5", 5)
        assert _between(backend, "a", 0, 9) == ["1", "2", "3", "4", "5"]
        assert _between(backend, "a", 2, 4) == ["2", "3", "4"]
        backend.delete("a", at(3))
        backend.flush()
        assert _between(backend, "a", 0, 9) == ["4", "5"]
        assert dict(backend.entries()) == {"a": at(5), "b": at(9)}
        backend.delete("a", at(6))
        assert backend.get("a") is None
    backend.close()


def marks_are_kept(open: Open) -> None:
    """Where a backend keeps marks: one per key and kind."""
    backend = open()
    if isinstance(backend, KeepsMarks):
        update = Mark("a/**", at(3), Stored(b"v", at(3), Encoding("text/plain"), b"x"))
        for mark in (Mark("a/**", at(1)), Mark("a/**", at(2)), Mark("b", at(4)), update):
            backend.mark(mark)
        backend.flush()
        assert list(backend.marks()) == [Mark("a/**", at(2)), update, Mark("b", at(4))]
        backend.unmark(update)
        backend.unmark(Mark("c", at(1)))
        backend.flush()
        assert list(backend.marks()) == [Mark("a/**", at(2)), Mark("b", at(4))]
        assert list(backend.entries()) == []
    backend.close()


def what_was_flushed_is_there_again(open: Open) -> None:
    """Unless the backend is `volatile`: it says so by an attribute of that name."""
    backend = open()
    backend.put("a", value("1", 1))
    backend.put("gone", value("2", 1))
    backend.flush()
    backend.put("a", value("3", 3))
    backend.delete("gone", at(2))
    if isinstance(backend, KeepsMarks):
        backend.mark(Mark("gone", at(2)))
    backend.flush()
    backend.close()
    if getattr(backend, "volatile", False):
        return
    again = open()
    assert list(again.entries()) == [("a", at(3))]
    assert again.get("a") == value("3", 3)
    if isinstance(again, KeepsMarks):
        assert list(again.marks()) == [Mark("gone", at(2))]
    again.close()


def _between(backend: KeepsHistory, key: str, first: int, last: int) -> list[str]:
    found = backend.history(key, at(first).time.value, at(last).time.value)
    return [one.payload.decode() for one in found]


LAWS: Final[tuple[Law, ...]] = (
    nothing_is_there_at_first,
    a_value_comes_back_whole,
    the_newest_is_what_is_got,
    what_is_deleted_is_gone,
    the_prefix_itself_is_a_key,
    any_key_is_just_a_key,
    history_is_kept_in_order,
    marks_are_kept,
    what_was_flushed_is_there_again,
)
