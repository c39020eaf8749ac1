"""The log of a router: one line per event, in the form that was asked for."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest

import elea
from elea.daemon.logs import LogSettings, start_logging
from elea.errors import ConfigError, InvalidValueError
from elea.session.logs import AREAS

NAMES = ("elea", "elea.link", "elea.store")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("RUST_LOG", "JOURNAL_STREAM"):
        monkeypatch.delenv(name, raising=False)
    before = [
        (one, logging.getLogger(one).level, logging.getLogger(one).handlers[:]) for one in NAMES
    ]
    yield
    for name, level, handlers in before:
        for added in set(logging.getLogger(name).handlers) - set(handlers):
            added.close()
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).handlers[:] = handlers


def fail() -> None:
    try:
        raise ValueError("told\nin two lines")
    except ValueError:
        logging.getLogger("elea.link").exception("it failed: %s", "\x1b[2J\nbye")


def test_an_event_is_one_line() -> None:
    stream = StringIO()
    start_logging(LogSettings(), stream)
    logging.getLogger("elea.link").info("it runs")
    logging.getLogger("elea.link").debug("in detail")
    fail()
    first, second = stream.getvalue().splitlines()
    assert first.endswith("Z INFO  elea.link: it runs")
    assert "ERROR elea.link: it failed: \\x1b[2J\\nbye\\nTraceback" in second
    assert second.endswith("ValueError: told\\nin two lines")


def test_as_json_with_fields_and_traceback() -> None:
    stream = StringIO()
    start_logging(LogSettings(format="json"), stream)
    logging.getLogger("elea.audit").warning("login", extra={"fields": {"user": "anna"}})
    fail()
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time").endswith("+00:00")
    fields = {"user": "anna"}
    assert first == {"level": "warn", "area": "elea.audit", "message": "login", "fields": fields}
    assert second["message"] == "it failed: \x1b[2J\nbye"
    assert second["exception"].endswith("ValueError: told\nin two lines")


def test_the_journal_reads_the_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "journal").open("w+", encoding="utf-8") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        start_logging(LogSettings(), stream)
        logging.getLogger("elea.link").warning("careful")
        stream.flush()
        stream.seek(0)
        assert stream.read() == "<4>elea.link: careful\n"


def test_areas_have_levels_of_their_own() -> None:
    stream = StringIO()
    start_logging(LogSettings(directives="warn,elea.store=debug"), stream)
    logging.getLogger("elea.link").info("left out")
    logging.getLogger("elea.store").debug("in detail")
    [line] = stream.getvalue().splitlines()
    assert line.endswith("elea.store: in detail")


def test_a_level_of_one_area_leaves_the_others_at_info() -> None:
    stream = StringIO()
    start_logging(LogSettings(directives="elea.store=debug"), stream)
    logging.getLogger("elea.link").info("it runs")
    assert stream.getvalue().endswith("elea.link: it runs\n")


def test_nonsense_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`RUST_LOG=nonsense` silenced a router without a word."""
    with pytest.raises(InvalidValueError, match=r"'loud'; expected a level \(trace, debug, info"):
        start_logging(LogSettings(directives="info,loud"), StringIO())
    monkeypatch.setenv("RUST_LOG", "nonsense,elea.store=debug")
    stream = StringIO()
    start_logging(LogSettings(), stream)
    logging.getLogger("elea.link").info("it runs")
    logging.getLogger("elea.store").debug("in detail")
    told, *rest = stream.getvalue().splitlines()
    assert "RUST_LOG: 'nonsense' is ignored; expected a level" in told
    assert len(rest) == 2


def test_unknown_areas_were_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The help itself named `elea.routing`, which logs nothing."""
    with pytest.raises(InvalidValueError, match=r"'elea.routing'; known areas are elea, elea.aud"):
        start_logging(LogSettings(directives="info,elea.routing=debug"), StringIO())
    monkeypatch.setenv("RUST_LOG", "info,zenoh::net=debug,hyper=warn")
    stream = StringIO()
    start_logging(LogSettings(), stream)
    [told] = stream.getvalue().splitlines()
    assert "RUST_LOG: area 'elea.net' has no effect; known areas are elea, " in told


def test_every_logger_is_a_known_area() -> None:
    source = Path(elea.__file__).parent
    named = re.compile(r"getLogger\((?:\"([\w.]+)\"|__name__)\)")
    found = {"elea"}
    for file in source.rglob("*.py"):
        for match in named.finditer(file.read_text(encoding="utf-8")):
            module = ".".join(("elea", *file.relative_to(source).with_suffix("").parts))
            found.add(match[1] or module)
    assert {one for one in found if one.startswith("elea")} == set(AREAS)


def test_files_are_kept_small_and_few(tmp_path: Path) -> None:
    file = tmp_path / "log"
    start_logging(LogSettings(file=str(file), file_len=200, files_count=2), StringIO())
    for number in range(50):
        logging.getLogger("elea.link").info("line %d", number)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert max(one.stat().st_size for one in tmp_path.iterdir()) <= 200
    assert "line 49" in file.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--log-file: .*No such file or directory"):
        start_logging(LogSettings(file=str(tmp_path / "no" / "log")), StringIO())


def test_a_full_disk_was_a_traceback_for_each_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").symlink_to("/dev/full")
    start_logging(LogSettings(file=str(tmp_path / "log")))
    for _ in range(3):
        logging.getLogger("elea.link").warning("it runs")
    assert capsys.readouterr().err == (
        f"elea: log lines cannot be written to {tmp_path / 'log'}: No space left on device\n"
    )
    for handler in logging.getLogger("elea").handlers:
        if isinstance(handler, logging.FileHandler):
            with suppress(OSError):  # what it could not write it tries to write again
                handler.close()
