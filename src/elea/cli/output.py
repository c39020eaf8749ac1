"""What the command prints: text with or without colour, JSON lines, and never raw remote bytes."""

from __future__ import annotations

import argparse
import base64
import json
import os
import stat
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TextIO

from elea.operate.text import Json as Json
from elea.operate.text import escape as escape
from elea.operate.text import printable as printable


class Style(Enum):
    """How a piece of text looks on a terminal; the value is its SGR parameter."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    BLUE = "34"
    MAGENTA = "35"
    CYAN = "36"


class Painter:
    """Wraps text in colour, or returns it untouched when colour is off."""

    __slots__ = ("enabled",)

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled

    def __call__(self, text: str, *styles: Style) -> str:
        if not self.enabled or not styles or not text:
            return text
        return f"\x1b[{';'.join(style.value for style in styles)}m{text}\x1b[0m"


def add_color_option(parser: argparse.ArgumentParser) -> None:
    """Add `--color auto|always|never`; its value goes to `painter`."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour the output; auto means on a terminal, NO_COLOR and FORCE_COLOR are honoured",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--color`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_color_option(parser)


def painter(mode: str, stream: TextIO, environ: Mapping[str, str] = os.environ) -> Painter:
    """The painter for `stream`: the option decides, then the environment, then the terminal."""
    if mode != "auto":
        return Painter(enabled=mode == "always")
    if environ.get("NO_COLOR"):
        return Painter(enabled=False)
    if environ.get("FORCE_COLOR"):
        return Painter(enabled=True)
    return Painter(enabled=stream.isatty() and environ.get("TERM") != "dumb")


def counted(number: int, noun: str) -> str:
    """A number and what it counts, in singular or plural.

    Example:
        >>> counted(1, "session"), counted(2, "reply"), counted(0, "gateway")
        ('1 session', '2 replies', '0 gateways')
    """
    if number == 1:
        return f"1 {noun}"
    is_ies = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    return f"{number} {noun[:-1]}ies" if is_ies else f"{number} {noun}s"


def is_full(stream: TextIO) -> bool:
    """Whether nothing more can be written to a file, or to a device such as /dev/full."""
    import shutil  # late: only a failure needs it

    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # it has no descriptor
        return False
    if stat.S_ISREG(status.st_mode):
        return shutil.disk_usage(stream.fileno()).free == 0
    return stat.S_ISCHR(status.st_mode)


def json_line(value: Json) -> str:
    """One value as one line: ASCII only, keys in the order given."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def octets_json(name: str, octets: bytes) -> dict[str, Json]:
    """Bytes for programs, so that none is lost: as text if they are UTF-8, else in base64.

    Example:
        >>> octets_json("payload", b"on"), octets_json("payload", b"\\xff")
        ({'payload': 'on'}, {'payload_base64': '/w=='})
    """
    try:
        return {name: octets.decode()}
    except ValueError:
        return {f"{name}_base64": base64.b64encode(octets).decode("ascii")}


def print_json_lines(values: Iterable[Json], stream: TextIO) -> None:
    """Print one JSON value per line, each as soon as it is known."""
    for value in values:
        stream.write(json_line(value) + "\n")
        stream.flush()
