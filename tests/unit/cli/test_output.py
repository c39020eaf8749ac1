"""Nothing a peer says may reach the terminal unescaped; colour only where it is wanted."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.cli.output import Style, escape, is_full, json_line, painter, print_json_lines, printable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("robot/1/pose", "robot/1/pose"),
        ("käse/日本", "käse/日本"),
        ("a\x1b[2J", r"a\x1b[2J"),
        ("line\nbreak\r\t", r"line\nbreak\r\t"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("abc\u202egnp", r"abc\u202egnp"),
        ("a\u2066b\u2069\u200e\u061c", r"a\u2066b\u2069\u200e\u061c"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("back\\slash", r"back\\slash"),
    ],
)
def test_escape_shows_what_a_terminal_would_act_on(text: str, shown: str) -> None:
    assert escape(text) == shown


@given(st.text(alphabet=st.characters()))
def test_escaped_text_is_printable_and_says_exactly_what_was_there(text: str) -> None:
    shown = escape(text)
    assert shown.isprintable()
    ascii_only = shown.encode("ascii", "backslashreplace").decode("ascii")
    assert ascii_only.encode("ascii").decode("unicode_escape") == text


def test_printable_leaves_the_escapes_of_an_error_message_alone() -> None:
    assert printable(ascii("a\x1b") + "\n") == r"'a\x1b'\n"


@pytest.mark.parametrize(
    ("mode", "environ", "terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_is_decided_by_option_then_environment_then_terminal(
    mode: str, environ: dict[str, str], terminal: bool, expected: bool
) -> None:
    stream = Terminal() if terminal else io.StringIO()
    assert painter(mode, stream, environ).enabled is expected


def test_paint_wraps_only_when_enabled() -> None:
    assert painter("always", io.StringIO())("x", Style.BOLD, Style.RED) == "\x1b[1;31mx\x1b[0m"
    assert painter("never", io.StringIO())("x", Style.BOLD) == "x"


def test_json_lines_are_ascii_one_per_value_and_exact_for_64_bits() -> None:
    stream = io.StringIO()
    print_json_lines([{"key": "é\n", "n": 2**64 - 1}, []], stream)
    first, second = stream.getvalue().splitlines()
    assert first.isascii()
    assert json.loads(first) == {"key": "é\n", "n": 18446744073709551615}
    assert second == json_line([]) == "[]"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_standard_output_was_told_as_a_full_log(tmp_path: Path) -> None:
    """`elea log cat LOG > /dev/full` said that LOG has no space left."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert is_full(full)
    with open(tmp_path / "file", "w", encoding="utf-8") as file:
        assert not is_full(file)
